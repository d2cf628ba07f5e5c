//! Files as octets of a stream.

use core::ops::{Bound, RangeBounds};
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll};
use std::collections::VecDeque;
use std::future::Future;
use std::os::fd::OwnedFd;

use rustix::io::{Errno, pread};
use weft_exs_core::Outcome;

use crate::buf::Buf;
use crate::error::Error;
use crate::kind::Stream;
use crate::op::Op;
use crate::socket::Socket;

/// A file under way: a future, or a value to wait for. Its outcome says how many octets have been sent.
///
/// It reads the file as buffers become free, when it is polled or waited for. Dropping it sends no more than was read.
#[must_use = "a dropped transfer sends only what was read"]
#[derive(Debug)]
pub struct SendFile {
    socket: Socket<Stream>,
    file: OwnedFd,
    /// The octet that is read next.
    at: u64,
    end: u64,
    /// Oldest first.
    under_way: VecDeque<Op<Ended>>,
    spare: Vec<Buf>,
    sent: u64,
    failed: Option<Error>,
}

type Ended = (Result<Outcome, Error>, Buf);

impl Socket<Stream> {
    /// Sends these octets of a file. Of a file that is shorter it sends what is there. A few buffers of 256 KiB are under
    /// way at a time. Octets of a send that is started meanwhile may come between those of the file.
    ///
    /// The file is read by pread(2), which may wait for a disk.
    pub fn send_file(&self, file: impl Into<OwnedFd>, range: impl RangeBounds<u64>) -> SendFile {
        let at = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => u64::MAX,
        };
        let (socket, file) = (self.clone(), file.into());
        let (under_way, spare) = (VecDeque::new(), Vec::new());
        let mut sending = SendFile { socket, file, at, end, under_way, spare, sent: 0, failed: None };
        sending.go_on();
        sending
    }
}

impl SendFile {
    /// Blocks until all has been sent. Returns how many octets.
    ///
    /// # Errors
    /// Those of reading, as [`Error::System`], and of [`Socket::send`]. Octets in front of it may have been sent.
    pub fn wait(mut self) -> Result<u64, Error> {
        while let Some(oldest) = self.under_way.pop_front() {
            self.take(oldest.wait());
        }
        self.outcome()
    }

    /// Starts sends as long as there are buffers and octets.
    fn go_on(&mut self) {
        while self.failed.is_none() && self.at < self.end && self.under_way.len() < BUFFERS {
            match self.read() {
                // The file is shorter.
                Ok((_, 0)) => self.end = self.at,
                Ok((buf, len)) => {
                    self.at += len as u64;
                    self.under_way.push_back(self.socket.send(buf, ..len));
                }
                Err(error) => self.failed = Some(error),
            }
        }
    }

    /// Reads the next octets into a buffer.
    fn read(&mut self) -> Result<(Buf, usize), Error> {
        let mut buf = self.spare.pop().map_or_else(|| self.socket.buffer(BUFFER), Ok)?;
        let wanted = usize::try_from(self.end - self.at).unwrap_or(BUFFER).min(BUFFER);
        loop {
            match pread(&self.file, &mut buf[..wanted], self.at) {
                Err(Errno::INTR) => {}
                read => return Ok((buf, read?)),
            }
        }
    }

    fn take(&mut self, (result, buf): Ended) {
        match result {
            Ok(outcome) => {
                self.sent += u64::from(outcome.octets);
                self.spare.push(buf);
                self.go_on();
            }
            Err(error) => _ = self.failed.get_or_insert(error),
        }
    }

    fn outcome(&self) -> Result<u64, Error> {
        self.failed.map_or(Ok(self.sent), Err)
    }
}

impl Future for SendFile {
    type Output = Result<u64, Error>;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        while let Some(oldest) = self.under_way.front_mut() {
            let Poll::Ready(ended) = Pin::new(oldest).poll(task) else { return Poll::Pending };
            self.under_way.pop_front();
            self.take(ended);
        }
        Poll::Ready(self.outcome())
    }
}

/// Sends at a time.
const BUFFERS: usize = 4;
/// Octets of one.
const BUFFER: usize = 256 << 10;
