//! Sends and receives.

use std::io::{IoSlice, IoSliceMut};

use rustix::io::Errno;

use super::link::{Course, Link};
use super::socket::{CoreGuard, Socket};
use super::state::Core;

/// The flags of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) may_wait: bool,
    /// Receiving: the octets stay unread.
    pub(crate) peek: bool,
    /// Receiving: waits for all octets as long as more can come.
    pub(crate) all: bool,
}

impl Flags {
    /// Translates the flags of recv(2) and send(2) that have an effect here.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for data out of band.
    pub(crate) const fn of(flags: i32) -> Result<Self, Errno> {
        if flags & libc::MSG_OOB != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        Ok(Self {
            may_wait: flags & libc::MSG_DONTWAIT == 0,
            peek: flags & libc::MSG_PEEK != 0,
            all: flags & libc::MSG_WAITALL != 0,
        })
    }
}

impl Socket {
    /// Takes as many octets as there is room for; a call that may wait takes all. Returns how many.
    ///
    /// # Errors
    /// `ENOTCONN`, `EPIPE` after `rshutdown`, `ECONNRESET` if the peer is gone, `EAGAIN`, `EINTR`. No error once octets
    /// were taken.
    pub(crate) fn send(&self, parts: &[IoSlice<'_>], flags: Flags) -> Result<usize, Errno> {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        self.repeat(flags, total, |link, done| {
            let len = usable(link.room(), total - done);
            link.send(len, |to| gather(parts, done, len as usize, to));
            len as usize
        })
    }

    /// Writes octets where the peer has mapped `offset`, without a message to the peer. Returns how many; the end of
    /// the mapping cuts them off.
    ///
    /// # Errors
    /// Those of [`Self::send`].
    pub(crate) fn write_mapped(&self, octets: &[u8], offset: u64, flags: Flags) -> Result<usize, Errno> {
        let parts = [IoSlice::new(octets)];
        self.repeat(flags, octets.len(), |link, done| {
            let Some(mut target) = link.mapped(offset.wrapping_add(done as u64)) else { return 0 };
            target.len = usable(link.direct_room().min(target.len), octets.len() - done);
            link.write_direct(target, |to| gather(&parts, done, target.len as usize, to));
            target.len as usize
        })
    }

    /// Copies octets that have come. Returns how many: 0 if the peer sends no more.
    ///
    /// # Errors
    /// `ENOTCONN`, `ECONNRESET` or another reason why the connection broke, once; `EAGAIN`, `EINTR`. No error once
    /// octets were copied.
    pub(crate) fn receive(&self, parts: &mut [IoSliceMut<'_>], flags: Flags) -> Result<usize, Errno> {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        let patience = self.patience(flags.may_wait);
        let mut core = self.settle(self.lock(), patience)?;
        let mut done = 0;
        loop {
            if done < total && !core.link()?.is_readable() {
                let has_any = |core: &mut Core| {
                    core.link().is_ok_and(|link| link.is_readable() || !link.can_read) || core.link.is_none()
                };
                core = match self.wait(core, patience, has_any) {
                    Ok(core) => core,
                    Err(_) if done > 0 => return Ok(done),
                    Err(errno) => return Err(errno),
                };
            }
            let copied = scatter(core.link()?, parts, done);
            if !flags.peek {
                core.link()?.consume(copied);
            }
            done += copied;
            if done == 0 && total > 0 {
                return core.take_error().map_or(Ok(0), Err);
            }
            let goes_on = flags.all && !flags.peek && copied > 0 && done < total && core.link()?.can_read;
            if !goes_on {
                return Ok(done);
            }
        }
    }

    /// Repeats `act` while the link has room. It gets the number of octets that are done, and returns how many more it
    /// did.
    fn repeat(
        &self,
        flags: Flags,
        total: usize,
        mut act: impl FnMut(&mut Link, usize) -> usize,
    ) -> Result<usize, Errno> {
        let patience = self.patience(flags.may_wait);
        let mut core = self.settle(self.lock(), patience)?;
        let mut done = 0;
        while done < total {
            let outcome = self.await_room(core, flags);
            core = match outcome {
                Ok(core) => core,
                Err(_) if done > 0 => return Ok(done),
                Err(errno) => return Err(errno),
            };
            let more = act(core.link()?, done);
            if more == 0 {
                break;
            }
            done += more;
        }
        Ok(done)
    }

    /// Blocks until octets can be sent. Tells the peer of new mappings first.
    fn await_room<'a>(&'a self, mut core: CoreGuard<'a>, flags: Flags) -> Result<CoreGuard<'a>, Errno> {
        loop {
            let Core { link, mappings, .. } = &mut *core;
            if let Some(link) = link {
                mappings.tell(link);
            }
            let is_told = core.mappings.is_told();
            let link = core.link()?;
            if link.can_write && link.room() > 0 && is_told {
                return Ok(core);
            }
            let has_room = |core: &mut Core| {
                let is_told = core.mappings.is_told();
                core.link()
                    .map_or(true, |link| !link.can_write || link.room() > 0 && (is_told || link.can_tell()))
            };
            core = self.wait(core, self.patience(flags.may_wait), has_room)?;
            let link = core.link()?;
            if !link.can_write {
                let is_own = link.course == Course::Open;
                let gone = if is_own { Errno::PIPE } else { Errno::CONNRESET };
                return Err(core.take_error().unwrap_or(gone));
            }
        }
    }
}

/// Returns how many octets go in one message.
fn usable(room: u32, wanted: usize) -> u32 {
    u32::try_from(wanted).unwrap_or(u32::MAX).min(room).min(MAX_TRANSFER)
}

/// Hands over `len` octets behind the first `skip`.
fn gather(parts: &[IoSlice<'_>], mut skip: usize, mut len: usize, to: &mut dyn FnMut(&[u8])) {
    for part in parts {
        let from = skip.min(part.len());
        let taken = &part[from..from + len.min(part.len() - from)];
        (skip, len) = (skip - from, len - taken.len());
        if !taken.is_empty() {
            to(taken);
        }
    }
}

/// Copies unread octets behind the first `skip`.
fn scatter(link: &Link, parts: &mut [IoSliceMut<'_>], mut skip: usize) -> usize {
    let mut copied = 0;
    for part in parts {
        let from = skip.min(part.len());
        skip -= from;
        let wanted = &mut part[from..];
        let got = link.copy_unread(copied, wanted);
        copied += got;
        if got < wanted.len() {
            break;
        }
    }
    copied
}

/// The most octets of a message: the peer can use the first ones while the next are copied.
const MAX_TRANSFER: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_gathered_across_parts() {
        let parts = [&b"abc"[..], b"", b"defg"].map(IoSlice::new);
        for (skip, len, wanted) in [(0, 7, "abcdefg"), (2, 3, "cde"), (3, 4, "defg"), (7, 0, ""), (1, 1, "b")]
        {
            let mut all = Vec::new();
            gather(&parts, skip, len, &mut |octets| all.extend_from_slice(octets));
            assert_eq!(all, wanted.as_bytes());
        }
    }
}
