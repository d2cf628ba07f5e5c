//! The thread that drives an engine.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::thread::gettid;
use weft_netif::{Duration, Instant};

use crate::drive::locked::Motor;
use crate::drive::sleep::sleep;
use crate::drive::{Engines, leader};
use crate::events::asynchronous::AsyncEvent;

/// Drives one engine of a device until it is dropped: spins while that brings news, then sleeps.
#[derive(Debug)]
pub(crate) struct Driver {
    engines: Arc<Engines>,
    index: usize,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Driver {
    pub(crate) fn start(engines: Arc<Engines>, index: usize) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let (engines, stop) = (Arc::clone(&engines), Arc::clone(&stop));
            let name = format!("weft-engine-{index}");
            std::thread::Builder::new().name(name.clone()).spawn(move || {
                let _alarm = Alarm::set(&engines, &name);
                run(engines.motors(), index, &stop);
            })?
        };
        Ok(Self { engines, index, stop, thread: Some(thread) })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.engines.motors()[self.index].lead.call();
        if let Some(thread) = self.thread.take() {
            // A panic has been printed by the thread itself; there is nobody to hand it to in a destructor.
            let _printed = thread.join();
        }
    }
}

/// Has a thread be listed among those of the device, and tells the application if the thread ends by a panic.
pub(super) struct Alarm<'a> {
    engines: &'a Engines,
    id: u32,
}

impl<'a> Alarm<'a> {
    /// Lists the calling thread by this name.
    pub(super) fn set(engines: &'a Engines, name: &str) -> Self {
        let id = gettid().as_raw_nonzero().get().unsigned_abs();
        engines.threads().push((name.to_owned(), id));
        Self { engines, id }
    }
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        self.engines.threads().retain(|&(_, id)| id != self.id);
        if std::thread::panicking() {
            self.engines.async_events().push(AsyncEvent::DeviceFatal);
        }
    }
}

fn run(motors: &[Motor], index: usize, stop: &AtomicBool) {
    let motor = &motors[index];
    let (mut spin, mut polls) = (Spin::default(), Polls::default());
    let mut is_polled = false;
    while !stop.load(Ordering::Acquire) {
        if motor.lead.is_led() || is_polled {
            motor.lead.stand_by(is_polled);
            spin.stop();
            is_polled = false;
            continue;
        }
        let (now, next) = motor.drive();
        is_polled = polls.are_dense(motor.lead.drives(), now, motor.clock_scale());
        for (_, other) in motors.iter().enumerate().filter(|&(other, _)| other != index) {
            other.kick_if_rung();
        }
        if next.is_some_and(|next| next <= now) {
            spin.begin(now);
        } else if spin.goes_on(now) {
            std::hint::spin_loop();
        } else {
            sleep(&[motor], None, None);
            spin.wake(now, motor.now());
        }
    }
}

/// How long the thread looks for news before it sleeps. A wake-up costs several microseconds, and the next frame
/// often follows at once. If the program spins on the same core, this thread's spinning keeps the next frame from
/// coming: then the span goes to 0.
#[derive(Debug)]
struct Spin {
    /// As long as spinning has paid lately.
    span: Duration,
    until: Option<Instant>,
}

impl Default for Spin {
    fn default() -> Self {
        Self { span: LONGEST, until: None }
    }
}

impl Spin {
    /// Begins a spin after news. A longer span follows if the thread was spinning: the news is what it has spun for.
    fn begin(&mut self, now: Instant) {
        if self.until.is_some() {
            self.span = LONGEST.min(self.span * 2);
        }
        self.until = Some(now + self.span);
    }

    /// Whether to look again at once.
    fn goes_on(&mut self, now: Instant) -> bool {
        let goes_on = self.until.is_some_and(|until| now < until);
        if !goes_on && self.until.is_some() {
            self.span = if self.span > SHORTEST { self.span / 2 } else { Duration::ZERO };
        }
        goes_on
    }

    /// Ends a sleep. A short one shows that a spin would have seen the same news.
    fn wake(&mut self, slept: Instant, now: Instant) {
        if now - slept < SHORTEST {
            self.span = self.span.max(SHORTEST);
        }
        self.until = None;
    }

    const fn stop(&mut self) {
        self.until = None;
    }
}

/// How much the program has polled since this thread looked last.
#[derive(Debug, Default)]
struct Polls {
    drives: u32,
    since: Option<Instant>,
}

impl Polls {
    /// Whether the program polls so much that the engine can be left to it. `drives` is the number of polls in all by
    /// `now`, of a clock that runs `scale` times as fast as real time. Looks no more often than each [`LOOK`].
    fn are_dense(&mut self, drives: u32, now: Instant, scale: u32) -> bool {
        let micros = self.since.map_or(0, |since| (now - since).total_micros() / u64::from(scale));
        if self.since.is_some() && micros < LOOK {
            return false;
        }
        self.since = Some(now);
        let before = core::mem::replace(&mut self.drives, drives);
        leader::are_dense(drives.wrapping_sub(before), std::time::Duration::from_micros(micros))
    }
}

/// In microseconds of real time. A shorter look would take a burst for dense polls.
const LOOK: u64 = 100;
/// In the engine's time.
const LONGEST: Duration = Duration::from_micros(200);
const SHORTEST: Duration = Duration::from_micros(25);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Device};

    /// Vain spins become shorter until there is none; spins that pay, and sleeps that a spin would have spared, bring
    /// them back.
    #[test]
    fn spins_last_as_long_as_they_pay() {
        let mut now = Instant::from_micros(1_000_000);
        let mut spin = Spin::default();
        let mut spans = Vec::new();
        for _ in 0..6 {
            spin.begin(now);
            let mut span = Duration::ZERO;
            while spin.goes_on(now + span) {
                span += Duration::from_micros(1);
            }
            spans.push(span.total_micros());
            now += Duration::from_secs(1);
            spin.wake(now - Duration::from_millis(1), now);
        }
        assert_eq!(spans, [200, 100, 50, 25, 0, 0]);
        spin.wake(now, now + Duration::from_micros(5));
        for span in [25, 50, 100, 200, 200] {
            spin.begin(now);
            assert!(spin.goes_on(now + Duration::from_micros(span - 1)), "{span}");
        }
    }

    /// Whatever the clock's scale, polls count by real time, and those before the last look do not.
    #[test]
    fn polls_are_counted_over_a_hundred_microseconds_and_more() {
        for scale in [1, 4] {
            let at = |micros: i64| Instant::from_micros(1_000_000 + micros * i64::from(scale));
            let mut polls = Polls::default();
            let looks =
                [(50, 0, false), (99, 99, false), (70, 100, true), (80, 150, false), (88, 200, false)];
            for (drives, micros, dense) in looks {
                assert_eq!(polls.are_dense(drives, at(micros), scale), dense, "at {micros} us");
            }
            assert!(!polls.are_dense(288, at(10_000), scale), "a burst in a long time");
            assert!(polls.are_dense(2288, at(20_000), scale));
        }
    }

    #[test]
    fn a_thread_that_panics_is_told() {
        let (wire, _other) = weft_netif::pair(1500);
        let device = Device::open(wire, Config::new("10.0.0.1/24".parse().unwrap(), 1)).unwrap();
        let engines = Arc::clone(&device.engines);
        drop(Alarm::set(&engines, "weft-test"));
        assert_eq!(device.async_channel().next(), None, "an end in order");
        let panicked = std::thread::spawn(move || {
            let _alarm = Alarm::set(&engines, "weft-test");
            panic!("as the test wants it");
        });
        assert!(panicked.join().is_err());
        assert_eq!(device.async_channel().next(), Some(AsyncEvent::DeviceFatal));
    }
}
