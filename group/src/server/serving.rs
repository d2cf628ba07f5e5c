//! The thread of a server.

use std::io;
use std::net::SocketAddr;
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use weft_rnic::EventQueue;

use crate::control::Member;

use super::{STOP, Server};

/// A server with a thread of its own, which sleeps in poll(2) unless the control plane has something to do. Dropping it ends
/// all sessions.
#[derive(Debug)]
pub struct Serving {
    member: Member,
    queue: EventQueue,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(self) -> io::Result<Serving> {
        let (member, queue) = (self.member(), self.queue.clone());
        let thread = std::thread::Builder::new().name(THREAD.into()).spawn(move || self.run())?;
        Ok(Serving { member, queue, thread: Some(thread) })
    }

    fn run(mut self) {
        while !self.is_stopped {
            let [notices, announcements] = self.descriptors();
            let readable = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
            // A signal, or a lack of memory that may pass: looking around does no harm.
            let _looked = poll(&mut [readable(notices), readable(announcements)], None);
            self.handle();
        }
    }
}

impl Serving {
    /// Returns where the server listens.
    pub const fn address(&self) -> SocketAddr {
        self.member.address
    }

    /// Returns what a list of members says of the server.
    pub const fn member(&self) -> Member {
        self.member
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.queue.post(0, STOP);
        if let Some(thread) = self.thread.take() {
            // A panic has been printed by the thread itself; there is nobody to hand it to in a destructor.
            let _printed = thread.join();
        }
    }
}

/// The name of the thread.
const THREAD: &str = "weft-group";
