//! The relay: all that lies between the two hosts.
//!
//! It holds the plain TAP device of each host, so that each of its frames is one segment. No frame gets lost but by the
//! path: the queues of the devices have room for more than any window.

use core::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::set_current_timer_slack;
use weft_netif::{Impairment, Instant, Wire};
use weft_rnic::Clock;

use super::path::Path;
use super::seen::Seen;
use crate::process::{Outcome, say};

/// The thread that carries frames, as others see it.
#[derive(Debug)]
pub(super) struct Relay {
    orders: Sender<Order>,
    progress: Arc<AtomicI64>,
    clock: Clock,
}

/// What the thread is asked for.
#[derive(Debug)]
enum Order {
    /// To lay a path. What is on the old one gets lost.
    Lay(Box<Path>, Sender<()>),
    /// To tell what it has seen on this path.
    Look(Sender<Seen>),
}

/// The thread's own.
struct Carrier {
    /// To the host that sends data, and to the one that receives it.
    wires: [Wire; 2],
    /// From each of them to the other.
    ways: [Impairment; 2],
    seen: Seen,
    frame: Vec<u8>,
    orders: Receiver<Order>,
    progress: Arc<AtomicI64>,
    clock: Clock,
}

impl Relay {
    /// Starts a relay between the host that sends data and the one that receives it. It ends with this value.
    pub(super) fn start(wires: [Wire; 2]) -> Outcome<Self> {
        let (orders, taken) = channel();
        let (progress, clock) = (Arc::new(AtomicI64::new(0)), Clock::real_time(1));
        let carrier = Carrier {
            wires,
            ways: Path::default().laid(Instant::ZERO).map(Impairment::new),
            seen: Seen::since(clock.now()),
            frame: Vec::new(),
            orders: taken,
            progress: Arc::clone(&progress),
            clock: clock.clone(),
        };
        let thread = std::thread::Builder::new().name("relay".to_owned());
        thread.spawn(move || carrier.run()).map_err(say("a thread"))?;
        Ok(Self { orders, progress, clock })
    }

    /// Lays a path. Frames that are still on the old one get lost.
    pub(super) fn lay(&self, path: &Path) -> Outcome<()> {
        let (tell, told) = channel();
        self.orders.send(Order::Lay(Box::new(path.clone()), tell)).map_err(say("the relay"))?;
        told.recv().map_err(say("the relay"))
    }

    /// Returns what the relay has seen since the path was laid.
    pub(super) fn look(&self) -> Outcome<Seen> {
        let (tell, told) = channel();
        self.orders.send(Order::Look(tell)).map_err(say("the relay"))?;
        told.recv().map_err(say("the relay"))
    }

    /// Returns how long no further data was acknowledged.
    pub(super) fn idle(&self) -> Duration {
        let micros = self.clock.now().total_micros() - self.progress.load(Ordering::Relaxed);
        Duration::from_micros(micros.max(0).unsigned_abs())
    }
}

impl Carrier {
    fn run(mut self) {
        // The kernel may wake a thread 50 us late by default. If it refuses, delays are that much longer.
        let _coarse = set_current_timer_slack(NonZeroU64::new(1));
        loop {
            match self.orders.try_recv() {
                Ok(Order::Lay(path, taken)) => {
                    self.lay(&path);
                    let _gone = taken.send(());
                }
                Ok(Order::Look(tell)) => {
                    let _gone = tell.send(self.seen.clone());
                }
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return,
            }
            let moved = [0, 1].map(|from| self.carry(from));
            self.progress.store(self.seen.progress.total_micros(), Ordering::Relaxed);
            if moved == [false; 2] {
                self.sleep();
            }
        }
    }

    fn lay(&mut self, path: &Path) {
        let now = self.clock.now();
        for wire in &mut self.wires {
            while wire.receive(now, &mut self.frame) {}
        }
        self.ways = path.laid(now).map(Impairment::new);
        self.seen = Seen::since(now);
    }

    /// Carries frames from one side to the other. Returns false if there was none.
    fn carry(&mut self, from: usize) -> bool {
        let Self { wires, ways, seen, frame, .. } = self;
        let way = &mut ways[from];
        let mut moved = false;
        for _ in 0..BURST {
            let now = self.clock.now();
            if !wires[from].receive(now, frame) {
                break;
            }
            moved = true;
            match from {
                0 => seen.sent(now, frame),
                _ => seen.answered(now, frame),
            }
            way.push(now, frame);
        }
        let now = self.clock.now();
        while let Some(mut frame) = way.pop(now) {
            moved = true;
            if from == 0 {
                seen.delivered(now, &frame);
            }
            wires[1 - from].send_buffer(now, &mut frame);
        }
        if from == 0 {
            [seen.lost, ..] = way.counts();
        }
        moved
    }

    /// Sleeps until a frame arrives or is due, and not so long that an order would wait.
    fn sleep(&self) {
        let due = self.ways.iter().filter_map(Impairment::poll_at).min();
        let left = due.and_then(|due| self.clock.real_delay(due)).map_or(PATIENCE, |left| left.min(PATIENCE));
        let mut fds: Vec<PollFd<'_>> = self
            .wires
            .iter()
            .filter_map(Wire::poll_fd)
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let timeout = Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() };
        // An interrupted sleep ends early, which does no harm.
        let _interrupted = poll(&mut fds, Some(&timeout));
    }
}

/// Frames of one direction that go before those of the other.
const BURST: usize = 64;
/// The longest sleep.
const PATIENCE: Duration = Duration::from_millis(10);
