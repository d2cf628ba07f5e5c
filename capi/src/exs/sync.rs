//! The calls of POSIX on sockets: each waits until it is done.
//!
//! Short sends are copied and go on in the background. Long ones, and receives, are operations on the memory of the
//! caller or on a copy, for which the call waits. So no receive is under way between calls.

use core::ops::Range;
use core::task::Waker;
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::sync::{Arc, MutexGuard, PoisonError};

use rustix::io::Errno;
use weft_exs::{Context, Error, Octets, Op, Outcome};

use super::ahead::{CHUNK, Inbox, Outbox};
use super::memory::Memory;
use super::peer::{Coming, Peer};
use super::socket::Socket;
use super::wait::finish;

/// How a receive goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receiving {
    pub(crate) may_wait: bool,
    pub(crate) waits_for_all: bool,
    pub(crate) peeks: bool,
}

impl Socket {
    /// Returns whether a call with these flags may wait.
    ///
    /// # Errors
    /// `EBADF` if the program has closed the descriptor.
    pub(crate) fn may_wait(&self, flags: i32) -> Result<bool, Errno> {
        Ok(flags & libc::MSG_DONTWAIT == 0 && !self.descriptor().is_nonblocking()?)
    }

    /// Connects.
    ///
    /// # Errors
    /// Those of connect(2). After `EINPROGRESS` and `EINTR` it goes on, and [`Self::settle`] takes the outcome.
    pub(crate) fn connect_now(
        &self,
        context: &Context,
        peer: SocketAddr,
        may_wait: bool,
    ) -> Result<(), Errno> {
        let coming = self.begin_to_connect(context, peer)?;
        let (errno, coming) = if may_wait {
            match coming.wait() {
                Ok(outcome) => return self.connected(outcome),
                Err(left) => left,
            }
        } else {
            (Errno::INPROGRESS, coming)
        };
        self.coming().push_back(coming);
        Err(errno)
    }

    /// Takes the outcome of a connect that no call waits for. Returns whether it is still to come: the waker is woken
    /// then.
    pub(crate) fn settle(&self, waker: &Waker) -> bool {
        if !self.is_connecting() {
            return false;
        }
        let mut all = self.coming();
        match all.pop_front().map(|coming| coming.look(waker)) {
            Some(Coming::Here(outcome)) => {
                // `SO_ERROR` tells.
                let _told = self.connected(outcome);
                false
            }
            later => {
                all.extend(later);
                true
            }
        }
    }

    /// Takes the next connection.
    ///
    /// # Errors
    /// `EAGAIN`, `EINTR`; `EINVAL` if the socket does not listen.
    pub(crate) fn accept_now(&self, may_wait: bool) -> Result<Peer, Errno> {
        let acceptor = self.acceptor()?;
        let begun = self.coming().pop_front();
        let coming = begun.unwrap_or_else(|| acceptor.accept());
        let (outcome, later) = if may_wait {
            match coming.wait() {
                Ok(outcome) => (outcome.map_err(|error| error.errno()), None),
                Err((errno, coming)) => (Err(errno), Some(coming)),
            }
        } else {
            match coming.look(Waker::noop()) {
                Coming::Here(outcome) => (outcome.map_err(|error| error.errno()), None),
                coming => (Err(Errno::AGAIN), Some(coming)),
            }
        };
        // A connection that comes later is the next call's.
        self.coming().extend(later);
        outcome
    }

    /// Sends copies of octets: of a stream as many as there is room for, else all as one message.
    ///
    /// # Errors
    /// `EAGAIN`, `EINTR`, `EMSGSIZE`, or why the connection sends nothing more.
    pub(crate) fn send_now(
        &self,
        context: &Context,
        parts: &[IoSlice<'_>],
        may_wait: bool,
    ) -> Result<usize, Errno> {
        let peer = self.peer_now()?;
        let all: usize = parts.iter().map(|part| part.len()).sum();
        let chunk = if peer.is_stream() { CHUNK } else { all };
        let mut octets = parts.iter().flat_map(|part| part.chunks(CHUNK));
        let mut rest: &[u8] = &[];
        let mut outbox = self.outbox();
        let mut sent = 0;
        while sent < all || all == 0 && !peer.is_stream() {
            let made = outbox
                .make_room((!may_wait).then_some(Waker::noop()))
                .and_then(|()| outbox.buffer(context, chunk));
            let mut buf = match made {
                Ok(buf) => buf,
                Err(_) if sent > 0 => break,
                Err(errno) => return Err(errno),
            };
            let mut filled = 0;
            while filled < chunk.min(all - sent) {
                if rest.is_empty() {
                    let Some(next) = octets.next() else { break };
                    rest = next;
                }
                let (now, later) = rest.split_at(rest.len().min(chunk - filled));
                buf.get_mut(filled..filled + now.len()).ok_or(Errno::MSGSIZE)?.copy_from_slice(now);
                filled += now.len();
                rest = later;
            }
            match outbox.send(peer.send(buf, 0..filled)) {
                Ok(()) => sent += filled,
                Err(_) if sent > 0 => break,
                Err(errno) => return Err(errno),
            }
            if all == 0 {
                break;
            }
        }
        Ok(sent)
    }

    /// Sends octets of registered memory, without a copy.
    ///
    /// # Errors
    /// `EINTR` if nothing is sent; `EAGAIN`, or why the connection sends nothing more.
    pub(crate) fn send_memory(&self, memory: &Arc<Memory>, range: Range<usize>) -> Result<usize, Errno> {
        let outbox = self.outbox();
        let (result, _) = complete(self.peer_now()?.send(memory.shared(), range))?;
        drop(outbox);
        Ok(result.map_err(|error| error.errno())?.octets as usize)
    }

    /// Receives octets into parts, by a copy. Returns how many, and whether some of the message were lost.
    ///
    /// # Errors
    /// `EAGAIN`, `EINTR`, or why nothing more comes.
    pub(crate) fn receive_now(
        &self,
        context: &Context,
        parts: &mut [IoSliceMut<'_>],
        how: Receiving,
    ) -> Result<(usize, bool), Errno> {
        let peer = self.peer_now()?;
        let all: usize = parts.iter().map(|part| part.len()).sum();
        if how.peeks && !peer.is_stream() {
            return Err(Errno::OPNOTSUPP);
        }
        let mut inbox = self.inbox();
        let mut done = 0;
        loop {
            done += inbox.copy(parts, done, how.peeks);
            let is_done = done == all || done > 0 && !how.waits_for_all || how.peeks && done > 0;
            if is_done && (peer.is_stream() || done > 0) {
                return Ok((done, false));
            }
            if !how.may_wait && !peer.ready().readable {
                return if done > 0 { Ok((done, false)) } else { Err(Errno::AGAIN) };
            }
            let wanted = if peer.is_stream() { (all - done).min(CHUNK) } else { all };
            let buf = inbox.buffer(context, wanted)?;
            let ended = complete(peer.receive(buf, 0..wanted, false))
                .and_then(|(result, buf)| Ok((result.map_err(|error| error.errno())?, buf)));
            let (outcome, buf) = match ended {
                Ok(ended) => ended,
                Err(_) if done > 0 => return Ok((done, false)),
                Err(errno) => return Err(errno),
            };
            let octets = outcome.octets as usize;
            inbox.peeked = Some((buf, 0..octets));
            if octets == 0 || !peer.is_stream() {
                done += inbox.copy(parts, done, false);
                return Ok((done, outcome.is_truncated()));
            }
        }
    }

    /// Receives into registered memory, without a copy unless octets are there already.
    ///
    /// # Errors
    /// `EINTR` if nothing has come; or why nothing more comes.
    pub(crate) fn receive_memory(
        &self,
        memory: &Arc<Memory>,
        range: Range<usize>,
        waits_for_all: bool,
    ) -> Result<(usize, bool), Errno> {
        let mut inbox = self.inbox();
        let mut done = 0;
        if let Some((buf, left)) = inbox.peeked.take() {
            done = left.len().min(range.len());
            let octets = buf.get(left.start..left.start + done).unwrap_or_default();
            memory.shared().write(range.start, octets).map_err(|error| error.errno())?;
            if done < left.len() {
                inbox.peeked = Some((buf, left.start + done..left.end));
            }
            if done == range.len() || !waits_for_all {
                return Ok((done, false));
            }
        }
        let rest = range.start + done..range.end;
        let ended = complete(self.peer_now()?.receive(memory.shared(), rest, waits_for_all));
        let ended = ended.and_then(|(result, _)| result.map_err(|error| error.errno()));
        match ended {
            Ok(outcome) => Ok((done + outcome.octets as usize, outcome.is_truncated())),
            Err(_) if done > 0 => Ok((done, false)),
            Err(errno) => Err(errno),
        }
    }

    /// Returns the peer, also if no call has taken the outcome of the connect yet.
    ///
    /// # Errors
    /// `ENOTCONN`.
    fn peer_now(&self) -> Result<Peer, Errno> {
        self.settle(Waker::noop());
        self.peer()
    }

    /// Waits until the sends are done, at most as long as the socket lingers.
    pub(crate) fn drain(&self) {
        let linger = self.options().linger;
        self.outbox().drain(linger);
    }

    pub(super) fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn coming(&self) -> MutexGuard<'_, VecDeque<Coming>> {
        self.coming.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for an operation. A signal cancels it; its outcome is the truth.
///
/// # Errors
/// `EINTR`.
fn complete<M: Octets>(op: Op<(Result<Outcome, Error>, M)>) -> Result<(Result<Outcome, Error>, M), Errno> {
    let mut under_way = Some(op);
    match (finish(&mut under_way, None), under_way) {
        (Ok(ended), _) => Ok(ended),
        (Err(errno), None) => Err(errno),
        (Err(errno), Some(op)) => {
            op.cancel();
            match op.wait() {
                (Err(Error::Canceled), _) => Err(errno),
                ended => Ok(ended),
            }
        }
    }
}
