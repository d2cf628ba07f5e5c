//! Many connections between two programs, of which the server has all in one epoll set.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use super::end::{Door, End};
use super::terms::{TalkArgs, Wait};

/// The client's ends.
pub(super) struct Ends {
    ends: Vec<End>,
    message: Vec<u8>,
    next: usize,
}

impl Ends {
    /// Connects as often as is wanted, and has each connection leave TCP.
    pub(super) fn connect(args: &TalkArgs, message: Vec<u8>) -> io::Result<Self> {
        let mut ends = Vec::with_capacity(args.count);
        for _ in 0..args.count {
            let mut end = End::connect(args)?;
            // The server's backlog is short.
            end.read_all(&mut [0])?;
            ends.push(end);
        }
        let mut all = Self { ends, message, next: 0 };
        for _ in 0..WARM * args.count {
            all.round_trip()?;
        }
        Ok(all)
    }

    /// Sends a message and takes the answer, each time on the next connection.
    pub(super) fn round_trip(&mut self) -> io::Result<()> {
        let index = self.next;
        self.next = (index + 1) % self.ends.len();
        self.ends[index].round_trip(&self.message)
    }
}

/// Takes connections, and sends back each message, until the first connection ends.
pub(super) fn serve(door: &mut Door, args: &TalkArgs) -> io::Result<()> {
    let mut poll = Poll::new()?;
    let mut ends = Vec::with_capacity(args.count);
    let spinning = TalkArgs { wait: Wait::Spinning, ..args.clone() };
    for index in 0..args.count {
        let mut end = door.accept(&spinning)?;
        end.write_all(&[0])?;
        let descriptor = end.as_fd().as_raw_fd();
        poll.registry().register(&mut SourceFd(&descriptor), Token(index), Interest::READABLE)?;
        ends.push(end);
    }
    let mut events = Events::with_capacity(64);
    let mut message = vec![0; args.size];
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            let end = &mut ends[event.token().0];
            loop {
                match end.read(&mut message) {
                    Ok(0) => return Ok(()),
                    Ok(len) => end.write_all(&message[..len])?,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
        }
    }
}

/// Messages on each connection before the first turn.
const WARM: usize = 4;
