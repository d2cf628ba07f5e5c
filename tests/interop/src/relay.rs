//! A wire that loses frames. It stands between a guest and a process, which sees another Unix socket.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weft_netif::{Impairment, ImpairmentConfig, Spec, Wire};
use weft_rnic::Clock;

/// Passes frames on in both directions, in its own thread, until it is dropped or finished.
#[derive(Debug)]
pub(crate) struct Relay {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<[u64; 2]>>,
}

impl Relay {
    /// A relay at `path` to `guest`. In each direction it loses each frame with the probability `loss`.
    pub(crate) fn start(path: &Path, guest: &Path, loss: f64) -> Result<Self, String> {
        let open = |spec: Spec, seed| {
            let config = ImpairmentConfig { seed, loss, ..ImpairmentConfig::default() };
            let wire = Wire::open(&spec, MTU).map_err(|error| error.to_string())?;
            Ok::<_, String>(wire.with_impairment(Impairment::new(config)))
        };
        let [near, far] =
            [open(Spec::UnixListen(path.into()), SEEDS[0])?, open(Spec::Unix(guest.into()), SEEDS[1])?];
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || hand_on([near, far], &stopped));
        Ok(Self { path: path.into(), stop, thread: Some(thread) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Ends the relay. Returns how many frames it has lost on the way to the process, and on the way to the guest.
    pub(crate) fn finish(mut self) -> Result<[u64; 2], String> {
        self.end().ok_or_else(|| "the relay has panicked".into())
    }

    fn end(&mut self) -> Option<[u64; 2]> {
        self.stop.store(true, Ordering::Release);
        self.thread.take().and_then(|thread| thread.join().ok())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.end();
    }
}

fn hand_on(mut wires: [Wire; 2], stopped: &AtomicBool) -> [u64; 2] {
    let clock = Clock::real_time(1);
    let mut frame = Vec::new();
    while !stopped.load(Ordering::Acquire) {
        let mut is_idle = true;
        for from in [0, 1] {
            while wires[from].receive(clock.now(), &mut frame) {
                wires[1 - from].send(clock.now(), &frame);
                is_idle = false;
            }
        }
        if is_idle {
            sleep(&wires);
        }
    }
    wires.map(|wire| wire.impairment().map_or(0, |impairment| impairment.counts()[0]))
}

/// Sleeps until a frame comes or can go, or it is time to check for the end.
fn sleep(wires: &[Wire; 2]) {
    let mut fds = Vec::new();
    for wire in wires {
        let out = if wire.wants_write() { PollFlags::OUT } else { PollFlags::empty() };
        fds.extend(wire.poll_fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN | out)));
    }
    // After an interruption the loop checks, too.
    let _woken = poll(&mut fds, Some(&LOOK_AGAIN));
}

const MTU: usize = 1500;
/// With these and a loss of 1 % each direction loses two of its first 70 frames.
const SEEDS: [u64; 2] = [10, 8];
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
