//! Frames over a Unix stream socket.

use core::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use smoltcp::time::{Duration, Instant};

use crate::ethernet::MAX_FRAME;
use crate::frame::Frame;
use crate::held::Mark;

/// Ethernet frames over a Unix stream socket. Each is behind its length in 4 octets, big-endian, as in QEMU's
/// `-netdev stream`. A peer that hangs up or breaks the framing is dropped. Then the listening side takes the next
/// one, and the connecting side looks for its peer again once a second.
#[derive(Debug)]
pub(crate) struct UnixLink {
    role: Role,
    peer: Option<Peer>,
    /// The number of peers that were there and are gone.
    losses: u64,
    retry_at: Instant,
}

#[derive(Debug)]
enum Role {
    Listen { _mark: Mark, listener: UnixListener, path: PathBuf },
    Connect { path: PathBuf },
}

impl UnixLink {
    pub(crate) fn connect(path: &Path) -> io::Result<Self> {
        let peer = Peer::new(UnixStream::connect(path)?)?;
        Ok(Self::new(Role::Connect { path: path.into() }, Some(peer)))
    }

    pub(crate) fn listen(path: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind(path).or_else(|error| {
            if !is_left_behind(path) {
                return Err(error);
            }
            fs::remove_file(path)?;
            UnixListener::bind(path)
        })?;
        listener.set_nonblocking(true)?;
        let role = Role::Listen { _mark: Mark::new(&listener), listener, path: path.into() };
        Ok(Self::new(role, None))
    }

    const fn new(role: Role, peer: Option<Peer>) -> Self {
        Self { role, peer, losses: 0, retry_at: Instant::ZERO }
    }

    /// Sends a frame. Returns false if it is lost, because there is no peer or its queue is full.
    pub(crate) fn send(&mut self, now: Instant, frame: &[u8]) -> bool {
        self.find_peer(now);
        self.peer.as_mut().is_some_and(|peer| peer.send(frame))
    }

    pub(crate) fn receive(&mut self, now: Instant, frame: &mut Frame) -> bool {
        self.find_peer(now);
        match self.peer.as_mut().map(|peer| peer.receive(frame)) {
            None => false,
            Some(Ok(received)) => received,
            Some(Err(_)) => {
                self.peer = None;
                self.losses += 1;
                self.retry_at = now + RETRY;
                false
            }
        }
    }

    /// Returns the number of peers that were lost so far.
    pub(crate) const fn losses(&self) -> u64 {
        self.losses
    }

    pub(crate) const fn has_peer(&self) -> bool {
        self.peer.is_some()
    }

    pub(crate) fn poll_at(&self) -> Option<Instant> {
        match self.role {
            Role::Connect { .. } if self.peer.is_none() => Some(self.retry_at),
            _ => None,
        }
    }

    pub(crate) fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        match (&self.peer, &self.role) {
            (Some(peer), _) => Some(peer.stream.as_fd()),
            (None, Role::Listen { listener, .. }) => Some(listener.as_fd()),
            (None, Role::Connect { .. }) => None,
        }
    }

    pub(crate) fn is_readable(&self) -> bool {
        // If the peer is deaf, receiving finds its last frames and the loss. The descriptor may not become readable
        // for that.
        self.peer.as_ref().is_some_and(|peer| peer.is_deaf || !matches!(peer.staged_frame(), Ok(None)))
    }

    pub(crate) fn wants_write(&self) -> bool {
        self.peer.as_ref().is_some_and(|peer| !peer.outgoing.is_empty())
    }

    fn find_peer(&mut self, now: Instant) {
        if self.peer.is_some() {
            return;
        }
        let stream = match &self.role {
            Role::Listen { listener, .. } => listener.accept().map(|(stream, _)| stream),
            Role::Connect { .. } if now < self.retry_at => return,
            Role::Connect { path } => UnixStream::connect(path),
        };
        self.retry_at = now + RETRY;
        // If no peer is there, the next call asks again. The connecting side waits for the next second.
        self.peer = stream.and_then(Peer::new).ok();
    }
}

impl Drop for UnixLink {
    fn drop(&mut self) {
        if let Role::Listen { path, .. } = &self.role {
            // The file may be gone already.
            let _gone = fs::remove_file(path);
        }
    }
}

/// A connected stream, octets that were received and not yet read (`incoming[start..end]`), and octets that wait to be
/// sent.
struct Peer {
    _mark: Mark,
    stream: UnixStream,
    incoming: Box<[u8]>,
    start: usize,
    end: usize,
    outgoing: Vec<u8>,
    /// Octets can no longer be sent to the peer, and none wait to be sent. The peer is lost when all octets that it
    /// has sent are received.
    is_deaf: bool,
}

impl Peer {
    fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let incoming = vec![0; 2 * MAX_RECORD].into();
        let outgoing = Vec::new();
        Ok(Self { _mark: Mark::new(&stream), stream, incoming, start: 0, end: 0, outgoing, is_deaf: false })
    }

    fn send(&mut self, frame: &[u8]) -> bool {
        self.flush();
        if self.is_deaf || self.outgoing.len() + frame.len() > MAX_OUTGOING {
            return false;
        }
        let Ok(len) = u32::try_from(frame.len()) else { return false };
        self.outgoing.extend_from_slice(&len.to_be_bytes());
        self.outgoing.extend_from_slice(frame);
        self.flush();
        !self.is_deaf
    }

    /// Takes the next frame. An error means that the peer is gone, or has sent octets that are no frame.
    fn receive(&mut self, frame: &mut Frame) -> io::Result<bool> {
        self.flush();
        if self.staged_frame()?.is_none() {
            self.fill()?;
        }
        let Some(len) = self.staged_frame()? else { return Ok(false) };
        frame.copy_from(&self.incoming[self.start + LENGTH_LEN..][..len]);
        self.start += LENGTH_LEN + len;
        Ok(true)
    }

    /// Returns the length of the first frame if it is whole. Returns an error if it is longer than any frame.
    fn staged_frame(&self) -> io::Result<Option<usize>> {
        let staged = &self.incoming[self.start..self.end];
        let Some((length, rest)) = staged.split_first_chunk() else { return Ok(None) };
        let len = u32::from_be_bytes(*length) as usize;
        if len > MAX_FRAME {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok((rest.len() >= len).then_some(len))
    }

    fn fill(&mut self) -> io::Result<()> {
        self.incoming.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        match recv(&self.stream, &mut self.incoming[self.end..], RecvFlags::empty()) {
            Ok((0, _)) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((len, _)) => {
                self.end += len;
                Ok(())
            }
            Err(Errno::AGAIN) if self.is_deaf => Err(Errno::PIPE.into()),
            Err(error) if is_passing(error) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn flush(&mut self) {
        while !self.outgoing.is_empty() {
            // Without NOSIGNAL, a peer that is gone would kill a process that is not Rust's own.
            match send(&self.stream, &self.outgoing, SendFlags::NOSIGNAL) {
                Ok(len) => drop(self.outgoing.drain(..len)),
                Err(error) if is_passing(error) => return,
                Err(_) => {
                    self.is_deaf = true;
                    self.outgoing.clear();
                }
            }
        }
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (staged, waiting) = (self.end - self.start, self.outgoing.len());
        f.debug_struct("Peer").field("staged", &staged).field("waiting", &waiting).finish_non_exhaustive()
    }
}

/// Returns true if the same call may succeed later: the socket is full or empty, or the kernel is short of memory.
const fn is_passing(error: Errno) -> bool {
    matches!(error, Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM)
}

/// Returns true if `path` is a socket whose owner has ended without removing it.
fn is_left_behind(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    is_socket
        && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

const LENGTH_LEN: usize = 4;
const MAX_RECORD: usize = LENGTH_LEN + MAX_FRAME;
/// The most octets that may wait for a peer that does not read. Further frames are lost.
const MAX_OUTGOING: usize = 1 << 20;
const RETRY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_given_up_for_lasting_errors() {
        for error in [Errno::AGAIN, Errno::INTR, Errno::NOBUFS, Errno::NOMEM] {
            assert!(is_passing(error), "{error}");
        }
        for error in [Errno::PIPE, Errno::CONNRESET, Errno::NOTCONN, Errno::PERM] {
            assert!(!is_passing(error), "{error}");
        }
    }
}
