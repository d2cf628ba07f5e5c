//! The child that shares a connection with a worker.
//!
//! It has one thread. Another thread of its parent may have had a lock of the standard library at the fork, which then
//! is never free again in the child: those of new threads and of standard output are such locks. So one loop waits for
//! the connection and for the parent.

use std::cell::Cell;
use std::io::{self, ErrorKind, PipeReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;

use crate::fork;
use crate::talk::{Share, Talk};

/// The connection and the parent, as the child sees them.
struct Guard<'a> {
    stream: &'a TcpStream,
    parent: PipeReader,
    is_sender: bool,
    /// The parent wants the child to finish.
    is_last: Cell<bool>,
    /// The parent uses the connection no more. It may be dead.
    is_alone: Cell<bool>,
    /// The child has received the end of what the parent was to receive.
    has_ended: Cell<bool>,
}

/// Uses one direction of the connection, and ends this process. The parent's other connections go on.
pub(crate) fn run(
    talk: &Talk,
    stream: &TcpStream,
    share: &mut Share,
    parent: PipeReader,
    is_sender: bool,
) -> ! {
    // Some children close all that they see, and with it what the library has opened for itself.
    let last = if talk.id % 4 < 2 { u32::MAX } else { 1023 };
    fork::close_others([stream.as_fd(), parent.as_fd()], last);
    let [is_last, is_alone, has_ended] = [const { Cell::new(false) }; 3];
    let guard = Guard { stream, parent, is_sender, is_last, is_alone, has_ended };
    let result = if is_sender {
        Talk::pour(&guard, share, || guard.is_last.get(), || fork::peek(stream))
            .and_then(|()| stream.shutdown(Shutdown::Write))
    } else {
        talk.drain(&guard, share, || fork::look_for_room(stream))
    };
    if let Err(error) = result {
        // The text of a system's error comes from the C library, under a lock.
        let (kind, code) = (error.kind(), error.raw_os_error().unwrap_or(0));
        let word = if kind == ErrorKind::InvalidData { "wrong" } else { "broken" };
        fork::say(&format!("{word} {} {kind:?} {code}", talk.id));
    }
    fork::say(&format!("left {}", std::process::id()));
    fork::exit()
}

impl Guard<'_> {
    /// Waits until the stream is ready for `wanted`, and does meanwhile what the parent does no more.
    fn wait(&self, wanted: i16) -> io::Result<()> {
        loop {
            let is_receiver = self.is_sender && self.is_alone.get() && !self.has_ended.get();
            let events = wanted | if is_receiver { libc::POLLIN } else { 0 };
            let parent = (!self.is_alone.get()).then(|| self.parent.as_fd());
            let [stream, parent] = match fork::wait_for(self.stream, events, parent) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                ready => ready?,
            };
            if parent != 0 {
                self.hear()?;
            }
            if is_receiver && stream & !libc::POLLOUT != 0 {
                let got = { self.stream }.read(&mut [0; 4096]);
                self.has_ended.set(!got.is_ok_and(|got| got > 0));
            }
            if stream & (wanted | libc::POLLERR | libc::POLLHUP) != 0 {
                return Ok(());
            }
        }
    }

    /// Hears an octet if the child is to finish, and the end of the pipe if the parent does no more.
    fn hear(&self) -> io::Result<()> {
        let got = { &self.parent }.read(&mut [0])?;
        self.is_last.set(true);
        if got == 0 {
            self.is_alone.set(true);
            if !self.is_sender {
                // It may have been done, or the other end may be gone.
                let _as_before = self.stream.shutdown(Shutdown::Write);
            }
        }
        Ok(())
    }
}

impl Read for &Guard<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.wait(libc::POLLIN)?;
        // Nobody else receives, so that this does not wait.
        { self.stream }.read(buffer)
    }
}

impl Write for &Guard<'_> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        loop {
            self.wait(libc::POLLOUT)?;
            match fork::send(self.stream, octets) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                sent => return sent,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
