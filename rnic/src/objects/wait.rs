//! Threads of the application that sleep until something happens, and drive engines meanwhile.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::poll;
use rustix::io::Errno;

use crate::drive::leader::Stay;
use crate::drive::locked::Motor;
use crate::drive::ready::Poll;
use crate::drive::sleep::{Deadline, sleep_by};
use crate::objects::device::Device;

/// How long a thread waits for an event.
#[derive(Clone, Copy)]
pub enum Until<'a> {
    /// Until it is there.
    Event,
    /// At most so long, in real time.
    Time(Duration),
    /// Until this sleep is interrupted (`EINTR`). To hear of each signal, unblock it in the sleep only, as with
    /// ppoll(2): at other times the thread may be at work for the engine.
    Interrupted(&'a Poll<'a>),
}

/// How a thread waits for an event.
#[derive(Clone, Copy, Debug)]
pub struct Patience<'a> {
    /// For this time it drives the engine without a sleep at first. An answer of a peer nearby comes so soon that a
    /// sleep would take longer. It lets other threads have its core meanwhile.
    pub spin: Duration,
    /// How long it waits.
    pub until: Until<'a>,
}

impl Device {
    /// Blocks until `take` returns a value, and returns that; `None` when `patience` is over, or `fd` is closed. Meanwhile
    /// the thread sleeps on `fd`, a descriptor of the caller's, and drives the engine unless another thread does. So a
    /// message wakes one thread only, also where the threads of a program share what it brings.
    ///
    /// `take` is called at first and after each sleep: the engine may have moved, or `fd` is readable. It may use the
    /// device. While `fd` is readable no sleep lasts, so that `take` has to read it.
    ///
    /// Another thread may have driven the engine at the last moment, and a device with several engines is driven by its
    /// own threads only. So `fd` has to become readable by what they bring: it is an epoll instance with the
    /// descriptors of channels, or a thread sleeps on these and makes `fd` readable.
    ///
    /// From each drive until `take` has returned, and in the first `take`, the thread keeps what `hold` returns. That
    /// is [`crate::CompChannel::hold`] if `take` looks for the channel's events, or nothing (`|| ()`).
    ///
    /// Of several threads that wait for events of a device, the first one drives. A thread that waits all the time
    /// would keep the others from it: better it sleeps by poll(2) on the descriptors of its channels.
    pub fn wait_until<'a, T, H>(
        &self,
        fd: BorrowedFd<'_>,
        patience: impl Into<Patience<'a>>,
        hold: impl Fn() -> H,
        mut take: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let held = hold();
        if let Some(event) = take() {
            return Some(event);
        }
        drop(held);
        let (progress, lead) = (self.engines.config().progress, self.engines.lead());
        let stay = lead.filter(|_| progress.has_threads()).map(|lead| lead.stay());
        let drives = progress.calls_drive() || stay.as_ref().is_some_and(Stay::leads);
        let driven = if drives { std::slice::from_ref(self) } else { &[] };
        let event = sleep_until(driven, fd, patience.into(), hold, take);
        drop(stay);
        if progress.calls_drive() {
            // Another sleeper may have counted on this thread to go on driving.
            self.engines.kick();
        }
        event
    }

    /// As [`Device::wait_until`] with several devices. Their driver threads go on driving.
    pub(crate) fn wait_on<T, H>(
        devices: &[Self],
        fd: BorrowedFd<'_>,
        until: Until<'_>,
        hold: impl Fn() -> H,
        mut take: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        if let [only] = devices {
            return only.wait_until(fd, until, hold, take);
        }
        if let Some(event) = take() {
            return Some(event);
        }
        let is_manual = |device: &&Self| device.engines.config().progress.calls_drive();
        let driven: Vec<Self> = devices.iter().filter(is_manual).cloned().collect();
        let event = sleep_until(&driven, fd, until.into(), hold, take);
        driven.iter().for_each(|device| device.engines.kick());
        event
    }
}

/// Drives `devices` until `take` answers something, and sleeps in between.
fn sleep_until<T, H>(
    devices: &[Device],
    fd: BorrowedFd<'_>,
    Patience { spin, until }: Patience<'_>,
    hold: impl Fn() -> H,
    mut take: impl FnMut() -> Option<T>,
) -> Option<T> {
    let (deadline, poll): (_, &Poll<'_>) = match until {
        Until::Event => (None, &poll),
        Until::Time(timeout) => (Deadline::after(timeout), &poll),
        Until::Interrupted(poll) => (None, poll),
    };
    let motors: Vec<&Motor> = devices.iter().flat_map(|device| device.engines.motors()).collect();
    let mut spinning = (!spin.is_zero() && !motors.is_empty()).then(|| Deadline::after(spin));
    loop {
        let left = deadline.as_ref().map(Deadline::left);
        let outcome = if left == Some(Duration::ZERO) {
            Ok(())
        } else if spinning.is_some() {
            std::thread::yield_now();
            // A time that no clock will ever show does not pass.
            spinning = spinning.filter(|end| end.as_ref().is_none_or(|end| !end.left().is_zero()));
            Ok(())
        } else {
            // A descriptor that is ready already ends the sleep at once.
            sleep_by(poll, &motors, Some(fd), left)
        };
        let held = hold();
        for motor in &motors {
            motor.engine().move_on(motor.now());
        }
        let event = take();
        drop(held);
        let is_over = match outcome {
            // The application has closed the descriptor that it waits on.
            Err(Errno::BADF) => true,
            Err(Errno::INTR) if matches!(until, Until::Interrupted(_)) => true,
            _ => left == Some(Duration::ZERO),
        };
        if event.is_some() || is_over {
            return event;
        }
    }
}

impl Until<'_> {
    /// Until the event is there, or at most for `timeout` if there is one.
    pub fn timeout(timeout: Option<Duration>) -> Self {
        timeout.map_or(Self::Event, Self::Time)
    }
}

impl<'a> From<Until<'a>> for Patience<'a> {
    /// The thread sleeps at once.
    fn from(until: Until<'a>) -> Self {
        Self { spin: Duration::ZERO, until }
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
