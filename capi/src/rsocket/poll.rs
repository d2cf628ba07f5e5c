//! Waits for several sockets and other descriptors at a time.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll as system_poll};
use rustix::io::Errno;
use weft_rnic::Clock;

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

/// Blocks until an event of one of them. Returns how many have events; 0 when the time is over.
///
/// # Errors
/// `EINTR`, and other errors of poll(2).
pub(crate) fn poll(all: &mut [Polled<'_>], timeout: Option<Duration>) -> Result<usize, Errno> {
    let clock = Clock::real_time(1);
    let deadline = timeout.map(|timeout| clock.now() + timeout.into());
    loop {
        for one in all.iter_mut() {
            one.ready = match &one.socket {
                Some(socket) => socket.ready(one.events),
                None => PollFlags::empty(),
            };
        }
        poll_others(all, Some(&NOW))?;
        let count = count(all);
        if count > 0 || timeout == Some(Duration::ZERO) {
            return Ok(count);
        }
        let mut found = false;
        for one in all.iter() {
            if let Some(socket) = &one.socket {
                found |= !socket.watch(one.events).is_empty();
            }
        }
        let left = deadline.map(|deadline| clock.real_delay(deadline).unwrap_or(Duration::ZERO));
        let left = left.map(|left| Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        let woken = if found { Ok(1) } else { sleep(all, left.as_ref()) };
        for socket in all.iter().filter_map(|one| one.socket.as_ref()) {
            socket.unwatch();
        }
        if woken? == 0 {
            return Ok(0);
        }
    }
}

fn count(all: &[Polled<'_>]) -> usize {
    all.iter().filter(|one| !one.ready.is_empty()).count()
}

/// Asks the system about the descriptors that are no sockets.
fn poll_others(all: &mut [Polled<'_>], timeout: Option<&Timespec>) -> Result<(), Errno> {
    let (fds, owners): (Vec<_>, Vec<_>) = all
        .iter()
        .enumerate()
        .filter(|(_, one)| one.socket.is_none())
        .filter_map(|(index, one)| Some((PollFd::from_borrowed_fd(one.fd?, one.events), index)))
        .unzip();
    if fds.is_empty() {
        return Ok(());
    }
    let mut fds = fds;
    system_poll(&mut fds, timeout)?;
    for (fd, index) in fds.iter().zip(owners) {
        all[index].ready = fd.revents();
    }
    Ok(())
}

/// Blocks until something happens to one of them. Returns 0 when the time is over.
fn sleep(all: &[Polled<'_>], timeout: Option<&Timespec>) -> Result<usize, Errno> {
    let events = |one: &Polled<'_>| if one.socket.is_some() { PollFlags::IN } else { one.events };
    let mut fds: Vec<_> =
        all.iter().filter_map(|one| Some(PollFd::from_borrowed_fd(one.fd?, events(one)))).collect();
    system_poll(&mut fds, timeout)
}

const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
