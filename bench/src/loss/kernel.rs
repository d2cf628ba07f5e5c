//! The kernel's TCP by plain sockets that sleep in the kernel, `TCP_NODELAY`.

use core::net::Ipv4Addr;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::Sender;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_linger;

use super::conversation::{End, Guard, Offer, SLICE, Stack};
use super::scene::KERNEL;
use crate::case::Trouble;
use crate::net::{Source, Work, set_congestion};
use crate::process::{Outcome, say};

/// The kernel's TCP with this congestion control.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernel {
    pub(super) congestion: &'static str,
}

/// A socket and its messages.
pub(super) struct Socket<'a> {
    stream: TcpStream,
    guard: &'a Guard<'a>,
    source: Source,
    work: Work,
    came: Vec<u8>,
}

impl Stack for Kernel {
    type End<'a> = Socket<'a>;

    fn accept<'a>(&self, work: Work, tell: &Sender<Offer>, guard: &'a Guard<'_>) -> Outcome<Socket<'a>> {
        let listener = TcpListener::bind((KERNEL[1], 0)).map_err(say("listening"))?;
        set_congestion(&listener, self.congestion)?;
        let address = listener.local_addr().map_err(say("listening"))?;
        tell.send(Offer { address, memory: None }).map_err(say("telling the client"))?;
        let slice = Timespec { tv_sec: 0, tv_nsec: SLICE.subsec_nanos().into() };
        loop {
            let mut fds = [PollFd::new(&listener, PollFlags::IN)];
            if poll(&mut fds, Some(&slice)).map_err(say("accepting"))? == 1 {
                let (stream, _) = listener.accept().map_err(say("accepting"))?;
                return Socket::new(stream, work, guard);
            }
            guard.may_connect()?;
        }
    }

    fn connect<'a>(&self, work: Work, offer: &Offer, guard: &'a Guard<'_>) -> Outcome<Socket<'a>> {
        let stream = TcpStream::connect_timeout(&offer.address, LONG).map_err(say("connecting"))?;
        set_congestion(&stream, self.congestion)?;
        Socket::new(stream, work, guard)
    }

    fn name(&self) -> &'static str {
        self.congestion
    }

    fn source(&self) -> Ipv4Addr {
        KERNEL[0]
    }
}

impl<'a> Socket<'a> {
    fn new(stream: TcpStream, work: Work, guard: &'a Guard<'_>) -> Outcome<Self> {
        let set_up = || {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(SLICE))?;
            stream.set_write_timeout(Some(SLICE))?;
            // What is unsent at the end of a turn is not for the path of the next one.
            set_socket_linger(&stream, Some(Duration::ZERO)).map_err(io::Error::from)
        };
        set_up().map_err(say("setting up a socket"))?;
        Ok(Self { stream, guard, source: Source::of(work), work, came: vec![0; work.size] })
    }
}

impl End for Socket<'_> {
    fn send(&mut self, index: usize) -> Outcome<bool> {
        let message = self.source.messages(index % self.work.round, 1);
        let mut sent = 0;
        while sent < message.len() {
            match (&self.stream).write(&message[sent..]) {
                Ok(len) => sent += len,
                Err(error) if is_early(&error) => {}
                // The receiver has seen enough and is gone.
                Err(_) if !self.guard.goes_on()? => return Ok(false),
                Err(error) => return Err(say("sending")(error)),
            }
            // A sender whose socket always has room would never ask otherwise.
            if !self.guard.goes_on()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn receive(&mut self, index: usize) -> Outcome<bool> {
        let mut at = 0;
        while at < self.came.len() {
            match (&self.stream).read(&mut self.came[at..]) {
                Ok(0) if self.guard.goes_on()? => {
                    return Err(Trouble::failed("the peer has closed the connection"));
                }
                Ok(0) => return Ok(false),
                Ok(len) => at += len,
                Err(error) if is_early(&error) => {
                    if !self.guard.goes_on()? {
                        return Ok(false);
                    }
                }
                Err(_) if !self.guard.goes_on()? => return Ok(false),
                Err(error) => return Err(say("receiving")(error)),
            }
        }
        self.source.check_one(index % self.work.round, &self.came)?;
        Ok(true)
    }
}

/// Returns true if a call has ended because its slice of time was over.
fn is_early(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

const LONG: Duration = Duration::from_secs(30);
