//! Two devices on the kernel's loopback interface, in real time.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use weft_rnic::Device;

/// Returns two addresses of the loopback network for one pair. No other pair of this process has them, and hardly one
/// of another process, so that all pairs can use the same ports.
pub(crate) fn addresses() -> [String; 2] {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let place = (std::process::id() & 0x3FF) << 12 | NEXT.fetch_add(1, Ordering::Relaxed) & 0xFFF;
    [0, 1].map(|side| {
        let [_, high, middle, low] = (place << 1 | side).to_be_bytes();
        format!("127.{}.{middle}.{low}", high | 0x80)
    })
}

/// Drives both until `done` returns a value. The time limit only makes a failure out of a hang.
pub(crate) fn wait<T>(devices: [&Device; 2], mut done: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = deadline(PATIENCE);
    loop {
        if let Some(result) = done() {
            return Some(result);
        }
        if is_over(deadline) {
            return None;
        }
        devices.into_iter().for_each(poll);
    }
}

/// Drives both until neither has moved an octet or ended a connection in many rounds. Between two ends of one machine
/// this is a better sign than any time. It lasts at least as long as a connection may delay an acknowledgement.
pub(crate) fn settle(devices: [&Device; 2]) {
    let moved = || {
        devices.map(|device| {
            let counters = device.counters();
            let (host, stack) = (counters.host, counters.stack);
            [host.octets_sent, host.octets_received, stack.connections, stack.lingering]
        })
    };
    let (mut last, mut rounds, at_least) = (moved(), 0, deadline(QUIET));
    while rounds < ROUNDS || !is_over(at_least) {
        devices.into_iter().for_each(poll);
        let now = moved();
        rounds = if now == last { rounds + 1 } else { 0 };
        last = now;
    }
}

fn poll(device: &Device) {
    device.progress();
    std::thread::yield_now();
}

#[expect(clippy::disallowed_methods, reason = "the kernel's TCP works in real time")]
fn deadline(patience: Duration) -> Instant {
    Instant::now() + patience
}

#[expect(clippy::disallowed_methods, reason = "the kernel's TCP works in real time")]
fn is_over(deadline: Instant) -> bool {
    Instant::now() >= deadline
}

const PATIENCE: Duration = Duration::from_secs(60);
const QUIET: Duration = Duration::from_millis(5);
const ROUNDS: u32 = 300;
