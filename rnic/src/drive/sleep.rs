//! Threads that sleep until something happens, and drive engines meanwhile.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::config::Progress;
use crate::drive::leader::Stay;
use crate::drive::locked::Motor;
use crate::drive::sleeps::Woken;
use crate::objects::device::Device;

/// What a thread sleeps by: poll(2), or what answers as it does.
pub type Poll<'a> = dyn Fn(&mut [PollFd<'_>], Option<&Timespec>) -> Result<usize, Errno> + 'a;

/// How long a thread waits for an event.
#[derive(Clone, Copy)]
pub enum Until<'a> {
    /// Until it is there.
    Event,
    /// At most so long, in real time.
    Time(Duration),
    /// Until this sleep is interrupted (`EINTR`). Who wants to hear of each signal lets it come in there only, as with ppoll(2):
    /// the thread may also be at work for the engine.
    Interrupted(&'a Poll<'a>),
}

impl Device {
    /// Takes an event as soon as there is one, sleeping on `fd` and, where nobody else does it, driving the engine. From that on
    /// until it has looked for an event it has a `hold` on what makes `fd` readable.
    pub(crate) fn wait_for<T, H>(
        &self,
        fd: BorrowedFd<'_>,
        until: Until<'_>,
        hold: impl Fn() -> H,
        mut take: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        if let Some(event) = take() {
            return Some(event);
        }
        let (progress, lead) = (self.progress_by(), self.lead());
        let stay = lead.filter(|_| progress == Progress::Thread).map(|lead| lead.stay());
        let drives = progress == Progress::Manual || stay.as_ref().is_some_and(Stay::leads);
        if stay.is_some() && drives && !lead.is_some_and(|lead| lead.is_standing_by()) {
            // The driver thread sleeps on the wire, or is about to: it steps aside.
            self.kick();
        }
        let driven = if drives { std::slice::from_ref(self) } else { &[] };
        let event = sleep_until(driven, fd, until, hold, take);
        drop(stay);
        // Another sleeper may have counted on this thread to go on driving, as may a driver thread that was to step aside and
        // still sleeps, since this thread has taken its wake-up: it knows nothing of the work and the deadlines since.
        if drives && !lead.is_some_and(|lead| lead.is_standing_by()) {
            self.kick();
        }
        event
    }

    /// As [`Device::wait_for`] with several devices. Their driver threads, where they have some, go on driving.
    pub(crate) fn wait_on<T, H>(
        devices: &[Self],
        fd: BorrowedFd<'_>,
        until: Until<'_>,
        hold: impl Fn() -> H,
        mut take: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        if let [only] = devices {
            return only.wait_for(fd, until, hold, take);
        }
        if let Some(event) = take() {
            return Some(event);
        }
        let is_manual = |device: &&Self| device.progress_by() == Progress::Manual;
        let driven: Vec<Self> = devices.iter().filter(is_manual).cloned().collect();
        let event = sleep_until(&driven, fd, until, hold, take);
        driven.iter().for_each(Self::kick);
        event
    }
}

/// Drives `devices` until `take` answers something, and sleeps in between.
fn sleep_until<T, H>(
    devices: &[Device],
    fd: BorrowedFd<'_>,
    until: Until<'_>,
    hold: impl Fn() -> H,
    mut take: impl FnMut() -> Option<T>,
) -> Option<T> {
    let (deadline, poll): (_, &Poll<'_>) = match until {
        Until::Event => (None, &poll),
        Until::Time(timeout) => (Deadline::after(timeout), &poll),
        Until::Interrupted(poll) => (None, poll),
    };
    let motors: Vec<&Motor> = devices.iter().flat_map(Device::motors).collect();
    loop {
        let left = deadline.as_ref().map(Deadline::left);
        // What has come already ends the sleep at once, so that nothing is asked for twice.
        let outcome =
            if left == Some(Duration::ZERO) { Ok(()) } else { sleep_by(poll, &motors, Some(fd), left) };
        let held = hold();
        for motor in &motors {
            motor.engine().move_on(motor.now());
        }
        let event = take();
        drop(held);
        let is_over = match outcome {
            // The application has closed what it waits on.
            Err(Errno::BADF) => true,
            Err(Errno::INTR) if matches!(until, Until::Interrupted(_)) => true,
            _ => left == Some(Duration::ZERO),
        };
        if event.is_some() || is_over {
            return event;
        }
    }
}

/// Sleeps until a frame comes, a doorbell rings, the next deadline of one of the engines or `timeout` is over, or `fd` is readable.
pub(crate) fn sleep(motors: &[&Motor], fd: Option<BorrowedFd<'_>>, timeout: Option<Duration>) {
    // Interrupted or not, whoever sleeps looks again at what it waits for.
    let _woken = sleep_by(&poll, motors, fd, timeout);
}

fn sleep_by(
    poll: &Poll<'_>,
    motors: &[&Motor],
    fd: Option<BorrowedFd<'_>>,
    timeout: Option<Duration>,
) -> Result<(), Errno> {
    let mut outcome = Ok(());
    let begun: Vec<_> = motors.iter().map(|motor| motor.begin_sleep()).collect();
    let (mut rung, mut is_lost) = (Vec::with_capacity(motors.len()), Vec::new());
    let timeout = begun.iter().map(|(_, next)| *next).chain([timeout]).flatten().min();
    if timeout != Some(Duration::ZERO) {
        let mut fds = Vec::with_capacity(4);
        for (motor, (wires, _)) in motors.iter().zip(&begun) {
            motor.sleeps.begin();
            let Some(wires) = wires else { continue };
            fds.push(PollFd::new(&motor.wakeup, PollFlags::IN));
            for (wire, wants_write) in wires {
                let out = if *wants_write { PollFlags::OUT } else { PollFlags::empty() };
                fds.push(PollFd::new(wire, PollFlags::IN | out));
            }
        }
        fds.extend(fd.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)));
        outcome = poll_for(poll, &mut fds, timeout);
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
        let woken = if ready.clone().any(|ready| ready) { Woken::Event } else { Woken::Time };
        let mut closed = fds.iter().map(|fd| fd.revents().contains(PollFlags::NVAL));
        for (motor, (wires, _)) in motors.iter().zip(&begun) {
            let count = wires.as_ref().map_or(0, |wires| 1 + wires.len());
            is_lost.push(closed.by_ref().take(count).filter(|closed| *closed).count() > 0);
            let doorbell = wires.is_some() && ready.next() == Some(true);
            rung.push(doorbell);
            let frame = wires.iter().flatten().filter(|_| ready.next() == Some(true)).count() > 0;
            motor.sleeps.end(match (doorbell, frame) {
                (true, _) => Woken::Doorbell,
                (false, true) => Woken::Wire,
                // The application's descriptor, or another engine.
                (false, false) => woken,
            });
        }
        if closed.next() == Some(true) {
            outcome = Err(Errno::BADF);
        }
    }
    for (index, motor) in motors.iter().enumerate() {
        motor.end_sleep(rung.get(index).copied().unwrap_or(true));
        if is_lost.get(index).copied().unwrap_or(false) {
            motor.lose();
        }
    }
    outcome
}

/// A moment of real time at which a wait ends; one that no clock will ever show is none.
pub(crate) struct Deadline(std::time::Instant);

impl Deadline {
    #[expect(clippy::disallowed_methods, reason = "an application waits in real time")]
    pub(crate) fn after(timeout: Duration) -> Option<Self> {
        std::time::Instant::now().checked_add(timeout).map(Self)
    }

    #[expect(clippy::disallowed_methods, reason = "an application waits in real time")]
    pub(crate) fn left(&self) -> Duration {
        self.0.saturating_duration_since(std::time::Instant::now())
    }
}

/// Interrupted or not, whoever sleeps looks again at what it waits for.
pub(crate) fn wait_ready(fds: &mut [PollFd<'_>], timeout: Option<Duration>) {
    let _woken = poll_for(&poll, fds, timeout);
}

fn poll_for(poll: &Poll<'_>, fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<(), Errno> {
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    poll(fds, timeout.as_ref()).map(|_| ())
}

impl Until<'_> {
    /// The event, or the end of this time if there is one.
    pub fn timeout(timeout: Option<Duration>) -> Self {
        timeout.map_or(Self::Event, Self::Time)
    }
}

impl core::fmt::Debug for Until<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Event => f.write_str("Event"),
            Self::Time(timeout) => f.debug_tuple("Time").field(timeout).finish(),
            Self::Interrupted(_) => f.write_str("Interrupted"),
        }
    }
}
