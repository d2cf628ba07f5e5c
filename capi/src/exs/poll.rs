//! Waits for several sockets and other descriptors at a time.

use core::pin::Pin;
use core::task::Context as Task;
use std::future::Future;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};
use rustix::io::Errno;
use weft_exs::{Op, Ready};
use weft_rnic::Clock;

use super::peer::Coming;
use super::socket::Socket;

/// A descriptor to wait for.
#[derive(Clone, Debug)]
pub(crate) struct Polled<'a> {
    /// None for an entry that is ignored.
    pub(crate) fd: Option<BorrowedFd<'a>>,
    pub(crate) socket: Option<Arc<Socket>>,
    pub(crate) events: PollFlags,
    /// The events that were found.
    pub(crate) ready: PollFlags,
}

/// Ends the sleep of a thread that waits for sockets.
#[derive(Debug)]
struct Alarm(OwnedFd);

/// Blocks until an event of one of them. Returns how many have events; 0 when the time is over. The thread of the
/// context brings the events of sockets.
///
/// # Errors
/// `EINTR`, and other errors of poll(2).
pub(crate) fn poll(all: &mut [Polled<'_>], timeout: Option<Duration>) -> Result<usize, Errno> {
    let clock = Clock::real_time(1);
    let deadline = timeout.map(|timeout| clock.now() + timeout.into());
    let alarm = Arc::new(Alarm(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?));
    let waker = Waker::from(Arc::clone(&alarm));
    loop {
        let mut waits = Vec::new();
        for one in all.iter_mut() {
            one.ready = match &one.socket {
                Some(socket) => socket.events(one.events, &waker, &mut waits),
                None => PollFlags::empty(),
            };
        }
        let is_found = all.iter().any(|one| !one.ready.is_empty());
        let left = deadline.map(|deadline| clock.real_delay(deadline).unwrap_or(Duration::ZERO));
        let left = if is_found { Some(Duration::ZERO) } else { left };
        let slept = sleep(all, &alarm, left);
        for wait in waits {
            wait.cancel();
        }
        slept?;
        let found = all.iter().filter(|one| !one.ready.is_empty()).count();
        if found > 0 || left == Some(Duration::ZERO) {
            return Ok(found);
        }
        // It fails only if it is not readable.
        let _cleared = rustix::io::read(&alarm.0, &mut [0; 8]);
    }
}

impl Socket {
    /// Returns those of `events` that hold, and those that are always reported. If there is none, the waker is woken by
    /// the next one, as long as the caller keeps what it adds to `waits`.
    fn events(&self, events: PollFlags, waker: &Waker, waits: &mut Vec<Op<Ready>>) -> PollFlags {
        if let Ok(acceptor) = self.acceptor() {
            let begun = self.coming().pop_front();
            let coming = begun.unwrap_or_else(|| acceptor.accept()).look(waker);
            let is_here = matches!(coming, Coming::Here(_));
            self.coming().push_front(coming);
            return if is_here { events & PollFlags::IN } else { PollFlags::empty() };
        }
        if self.settle(waker) {
            return PollFlags::empty();
        }
        let Ok(peer) = self.peer() else { return PollFlags::HUP | (events & PollFlags::OUT) };
        // Another thread may be waiting in a send, or in a receive: that keeps nobody from the other direction.
        let has_octets = events.contains(PollFlags::IN) && self.inbox().peeked.is_some();
        let has_room = events.contains(PollFlags::OUT) && self.outbox().has_room(waker);
        let ready = peer.ready();
        let mut found = PollFlags::empty();
        found.set(PollFlags::IN, has_octets || ready.readable);
        found.set(PollFlags::OUT, has_room && ready.writable);
        found.set(PollFlags::HUP, ready.ended);
        let found = found & (events | PollFlags::HUP);
        if found.is_empty() {
            let wanted = Ready {
                readable: events.contains(PollFlags::IN),
                writable: events.contains(PollFlags::OUT) && has_room,
                ended: false,
            };
            let mut wait = peer.poll_ready(wanted);
            if Pin::new(&mut wait).poll(&mut Task::from_waker(waker)).is_ready() {
                waker.wake_by_ref();
            }
            waits.push(wait);
        }
        found
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // It refuses only when its counter is at the top. Then it is readable already.
        let _readable = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

/// Sleeps until something happens, and asks the system about the descriptors that are no sockets.
fn sleep(all: &mut [Polled<'_>], alarm: &Alarm, left: Option<Duration>) -> Result<(), Errno> {
    let mut fds = vec![PollFd::from_borrowed_fd(alarm.0.as_fd(), PollFlags::IN)];
    let others = all.iter().filter(|one| one.socket.is_none());
    fds.extend(others.filter_map(|one| Some(PollFd::from_borrowed_fd(one.fd?, one.events))));
    let left = left.and_then(|left| Timespec::try_from(left).ok());
    rustix::event::poll(&mut fds, left.as_ref())?;
    let found: Vec<PollFlags> = fds.iter().skip(1).map(|fd| fd.revents()).collect();
    let others = all.iter_mut().filter(|one| one.socket.is_none() && one.fd.is_some());
    for (one, ready) in others.zip(found) {
        one.ready = ready;
    }
    Ok(())
}
