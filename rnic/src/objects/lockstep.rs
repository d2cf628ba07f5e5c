//! Several devices on one virtual clock.

use weft_netif::Instant;

use crate::clock::Clock;
use crate::objects::device::Device;

/// Drives devices whose progress is [`crate::Progress::External`] and whose clock is the same virtual one.
///
/// If no device has work at the present time, the clock jumps to the next moment at which one has. Waiting costs
/// nothing, and a run with the same seeds goes the same way each time.
#[derive(Debug)]
pub struct Lockstep {
    clock: Clock,
    devices: Vec<Device>,
}

impl Lockstep {
    /// A group of devices that show `clock`.
    pub fn new(clock: Clock, devices: &[&Device]) -> Self {
        Self { clock, devices: devices.iter().map(|&device| device.clone()).collect() }
    }

    /// Jumps to the next moment at which a device has work, which may be the present one, and polls all of them.
    /// Returns false if nothing will ever happen again by itself.
    pub fn step(&mut self) -> bool {
        let Some(next) = self.next() else { return false };
        self.poll(next);
        true
    }

    /// Steps until `done` returns a value, or nothing more happens up to `deadline`. The clock shows `deadline` then.
    pub fn run_until<T>(&mut self, deadline: Instant, mut done: impl FnMut() -> Option<T>) -> Option<T> {
        loop {
            if let Some(result) = done() {
                return Some(result);
            }
            match self.next() {
                Some(next) if next <= deadline => self.poll(next),
                _ => {
                    self.clock.set(deadline.max(self.clock.now()));
                    return None;
                }
            }
        }
    }

    /// The present time.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    fn next(&self) -> Option<Instant> {
        let now = self.clock.now();
        self.devices.iter().filter_map(|device| device.poll_at(now)).min().map(|next| next.max(now))
    }

    fn poll(&self, now: Instant) {
        self.clock.set(now);
        for device in &self.devices {
            device.poll(now);
        }
    }
}
