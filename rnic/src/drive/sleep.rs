//! Sleeping until an engine has something to do.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::drive::locked::Motor;
use crate::drive::ready::{Poll, poll_for};
use crate::drive::sleeps::Woken;

/// Sleeps until a frame comes, a doorbell rings, the next deadline of one of the engines or `timeout` is over, or
/// `fd` is readable.
pub(crate) fn sleep(motors: &[&Motor], fd: Option<BorrowedFd<'_>>, timeout: Option<Duration>) {
    // After an interruption, too, the thread looks again at what it waits for.
    let _woken = sleep_by(&poll, motors, fd, timeout);
}

/// As [`sleep`], by `poll`, whose error it returns; [`Errno::BADF`] if `fd` is closed.
pub(crate) fn sleep_by(
    poll: &Poll<'_>,
    motors: &[&Motor],
    fd: Option<BorrowedFd<'_>>,
    timeout: Option<Duration>,
) -> Result<(), Errno> {
    let begun: Vec<_> = motors.iter().map(|motor| motor.begin_sleep()).collect();
    let timeout = begun.iter().map(|(_, next)| *next).chain([timeout]).flatten().min();
    if timeout == Some(Duration::ZERO) {
        motors.iter().for_each(|motor| motor.lead.end_sleep(true));
        return Ok(());
    }
    let mut fds = Vec::with_capacity(4);
    for (motor, (wires, _)) in motors.iter().zip(&begun) {
        motor.sleeps.begin();
        let Some(wires) = wires else { continue };
        fds.push(PollFd::new(&motor.lead.wakeup, PollFlags::IN));
        for (wire, wants_write) in wires {
            let out = if *wants_write { PollFlags::OUT } else { PollFlags::empty() };
            fds.push(PollFd::new(wire, PollFlags::IN | out));
        }
    }
    fds.extend(fd.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)));
    let outcome = poll_for(poll, &mut fds, timeout);
    let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
    let woken = if ready.clone().any(|ready| ready) { Woken::Event } else { Woken::Time };
    let mut closed = fds.iter().map(|fd| fd.revents().contains(PollFlags::NVAL));
    for (motor, (wires, _)) in motors.iter().zip(&begun) {
        let count = wires.as_ref().map_or(0, |wires| 1 + wires.len());
        let is_lost = closed.by_ref().take(count).filter(|closed| *closed).count() > 0;
        let doorbell = wires.is_some() && ready.next() == Some(true);
        let frame = wires.iter().flatten().filter(|_| ready.next() == Some(true)).count() > 0;
        motor.sleeps.end(match (doorbell, frame) {
            (true, _) => Woken::Doorbell,
            (false, true) => Woken::Wire,
            // The application's descriptor or another engine has ended the sleep.
            (false, false) => woken,
        });
        motor.lead.end_sleep(doorbell);
        if is_lost {
            motor.lose();
        }
    }
    if closed.next() == Some(true) { Err(Errno::BADF) } else { outcome }
}

/// A moment of real time at which a wait ends.
pub(crate) struct Deadline(std::time::Instant);

impl Deadline {
    #[expect(clippy::disallowed_methods, reason = "an application waits in real time")]
    /// The moment after `timeout`; none if no clock will ever show it.
    pub(crate) fn after(timeout: Duration) -> Option<Self> {
        std::time::Instant::now().checked_add(timeout).map(Self)
    }

    #[expect(clippy::disallowed_methods, reason = "an application waits in real time")]
    /// How long it is until then.
    pub(crate) fn left(&self) -> Duration {
        self.0.saturating_duration_since(std::time::Instant::now())
    }
}
