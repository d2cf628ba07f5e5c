//! The device: the handle by which applications make objects and drive the engine.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weft_netif::{Instant, Wire};
use weft_verbs::{CompletionQueue, MAX_INLINE, MAX_SGE, PdId, QpQueues, QueuePair};

use crate::channel::{Channel, Wakeup};
use crate::config::{Config, Progress};
use crate::counters::Counters;
use crate::cq::{CompChannel, Cq, CqId, CqShared};
use crate::doorbell::Doorbells;
use crate::driver::Driver;
use crate::engine::{Engine, QpSlot};
use crate::error::CreateError;
use crate::listener::EventChannel;
use crate::mr::Pd;
use crate::qp::{Qp, QpInit};

/// A software RNIC. Clones are handles to the same one; it is closed when the last of them, and of the objects made
/// with it, is dropped.
#[derive(Clone, Debug)]
pub struct Device {
    pub(crate) inner: Arc<Inner>,
    /// Stops the driver thread when the last handle goes. The thread itself holds only `inner`.
    _driver: Option<Arc<Driver>>,
}

/// What all handles and the driver thread share.
#[derive(Debug)]
pub(crate) struct Inner {
    engine: Mutex<Engine>,
    /// Threads that wait for the engine to change something; whoever drives it lets them in first.
    waiting: AtomicUsize,
    doorbells: Arc<Doorbells>,
    config: Config,
    wakeup: Wakeup,
    sleepers: AtomicUsize,
    /// When the sleepers' engine wants to be polled again, as far as they know, in microseconds.
    slept_until: AtomicI64,
    next_pd: AtomicU64,
    next_cq: AtomicU64,
    cqs: Arc<AtomicUsize>,
}

impl Device {
    /// Opens a device on `wire`.
    ///
    /// # Errors
    /// When the settings make no sense ([`io::ErrorKind::InvalidInput`]), or the system has no file descriptor or thread
    /// left.
    pub fn open(wire: Wire, mut config: Config) -> io::Result<Self> {
        config.stack.mtu = config.stack.mtu.min(wire.mtu());
        config.stack.validate().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let doorbells = Arc::new(Doorbells::new(config.max_qps));
        let inner = Arc::new(Inner {
            engine: Mutex::new(Engine::new(wire, config.clone(), Arc::clone(&doorbells))),
            waiting: AtomicUsize::new(0),
            doorbells,
            wakeup: Wakeup::new()?,
            sleepers: AtomicUsize::new(0),
            slept_until: AtomicI64::new(i64::MAX),
            next_pd: AtomicU64::new(1),
            next_cq: AtomicU64::new(1),
            cqs: Arc::new(AtomicUsize::new(0)),
            config,
        });
        let driver = match inner.config.progress {
            Progress::Thread => Some(Arc::new(Driver::start(Arc::clone(&inner))?)),
            Progress::Manual | Progress::External => None,
        };
        Ok(Self { inner, _driver: driver })
    }

    /// Drives the engine by hand at `now`, and answers when to call again at the latest. For [`Progress::External`].
    pub fn poll(&self, now: Instant) -> Option<Instant> {
        self.engine().poll(now)
    }

    /// When the engine wants to be polled again, seen from `now`; `None` when only a frame or a doorbell brings news.
    pub fn poll_at(&self, now: Instant) -> Option<Instant> {
        self.engine().poll_at(now)
    }

    /// Makes a protection domain.
    pub fn alloc_pd(&self) -> Pd {
        Pd { id: PdId(self.inner.next_pd.fetch_add(1, Ordering::Relaxed)), device: self.clone() }
    }

    /// Makes a completion queue for at least `entries` completions, announced on `channel` if there is one.
    ///
    /// It cannot overrun, whatever the peers do, if it holds the sum of the sizes of all send and receive queues that use it
    /// (RFC 5042 section 6.4.3.2).
    ///
    /// # Errors
    /// [`CreateError`] when the device holds as many completion queues as its settings allow, the queue is too large, or the
    /// channel is another device's.
    pub fn create_cq(&self, entries: u32, channel: Option<&CompChannel>) -> Result<Cq, CreateError> {
        check_size("completions", entries as usize, MAX_CQ_ENTRIES)?;
        if channel.is_some_and(|channel| !self.is_same(&channel.device)) {
            return Err(CreateError::ForeignObject);
        }
        let count = Arc::clone(&self.inner.cqs);
        let max = self.inner.config.max_cqs;
        let one_more = |count: usize| (count < max).then_some(count + 1);
        count
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more)
            .map_err(|_| CreateError::TooManyCqs)?;
        let shared = Arc::new(CqShared {
            id: CqId(self.inner.next_cq.fetch_add(1, Ordering::Relaxed)),
            queue: Arc::new(CompletionQueue::new(entries)),
            channel: channel.map(|channel| Arc::clone(&channel.channel)),
            overrun_seen: AtomicBool::new(false),
            count,
        });
        Ok(Cq { shared, device: self.clone() })
    }

    /// Makes a channel for completion events.
    ///
    /// # Errors
    /// When the system has no file descriptor left.
    pub fn create_comp_channel(&self) -> io::Result<CompChannel> {
        Ok(CompChannel { channel: Arc::new(Channel::new()?), device: self.clone() })
    }

    /// Makes a channel for connection events.
    ///
    /// # Errors
    /// When the system has no file descriptor left.
    pub fn create_event_channel(&self) -> io::Result<EventChannel> {
        Ok(EventChannel { channel: Arc::new(Channel::new()?), device: self.clone() })
    }

    /// Makes a queue pair in `pd`, in the state Idle.
    ///
    /// # Errors
    /// [`CreateError`] when the device holds as many queue pairs as its settings allow, a queue or request is too large, or
    /// an object is another device's.
    pub fn create_qp(&self, pd: &Pd, init: &QpInit<'_>) -> Result<Qp, CreateError> {
        let devices = [&pd.device, &init.send_cq.device, &init.recv_cq.device];
        if !devices.iter().all(|device| self.is_same(device)) {
            return Err(CreateError::ForeignObject);
        }
        let capacity = &init.capacity;
        check_size("send requests", capacity.send_wr as usize, MAX_WR)?;
        check_size("receive requests", capacity.recv_wr as usize, MAX_WR)?;
        check_size("scatter-gather elements", capacity.send_sge.max(capacity.recv_sge), MAX_SGE)?;
        check_size("inline octets", capacity.inline, MAX_INLINE)?;
        let mut engine = self.engine();
        let slot = engine.reserve_qp().ok_or(CreateError::TooManyQps)?;
        let number = u32::try_from(slot).map_err(|_| CreateError::TooManyQps)? + FIRST_QP_NUMBER;
        let mut queues = QpQueues::new(number, &init.capacity);
        queues.extensions = engine.config.extensions;
        let queues = Arc::new(queues);
        let qp = QueuePair::new(weft_verbs::QpInit {
            queues: Arc::clone(&queues),
            pd: pd.id,
            send_cq: Arc::clone(&init.send_cq.shared.queue),
            recv_cq: Arc::clone(&init.recv_cq.shared.queue),
            signal_all: init.signal_all,
        });
        let cqs = [Arc::clone(&init.send_cq.shared), Arc::clone(&init.recv_cq.shared)];
        engine.qps[slot] = Some(QpSlot { qp, cqs, connection: None });
        Ok(Qp { queues, slot, device: self.clone() })
    }

    /// The device's address, with `port`.
    pub fn address(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.inner.config.stack.ip.address, port)
    }

    /// What the engine has counted so far.
    pub fn counters(&self) -> Counters {
        self.engine().counters
    }

    /// What the TCP/IP stack below has counted so far.
    pub fn stack_counters(&self) -> weft_netif::Counters {
        self.engine().stack.counters()
    }

    /// Does something with the wire below: reads its counters, or takes its capture. The engine stands still meanwhile, so
    /// that `act` must not use the device or drop an object made with it.
    pub fn with_wire<R>(&self, act: impl FnOnce(&mut Wire) -> R) -> R {
        act(self.engine().stack.wire_mut())
    }

    /// Drives the engine unless another thread does so at this moment.
    pub fn progress(&self) {
        if self.inner.waiting.load(Ordering::Acquire) > 0 {
            std::thread::yield_now();
        }
        let mut engine = match self.inner.engine.try_lock() {
            Ok(engine) => engine,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let next = engine.poll(self.now());
        drop(engine);
        self.inner.hasten(next);
    }

    /// Whether `other` is a handle to the same device.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    pub(crate) fn is_manual(&self) -> bool {
        self.inner.config.progress == Progress::Manual
    }

    pub(crate) fn now(&self) -> Instant {
        self.inner.now()
    }

    /// The engine, for a change of the objects in it.
    pub(crate) fn engine(&self) -> MutexGuard<'_, Engine> {
        self.inner.waiting.fetch_add(1, Ordering::AcqRel);
        let engine = self.inner.engine.lock().unwrap_or_else(PoisonError::into_inner);
        self.inner.waiting.fetch_sub(1, Ordering::AcqRel);
        engine
    }

    pub(crate) fn ring(&self, slot: usize) {
        self.inner.doorbells.ring(slot);
        self.inner.kick();
    }

    /// Wakes the driver after a change that it should look at.
    pub(crate) fn kick(&self) {
        self.inner.kick();
    }

    pub(crate) fn destroy_qp(&self, slot: usize) {
        self.engine().destroy_qp(slot);
        self.kick();
    }

    /// Takes an event as soon as there is one, sleeping on `fd` and, where nobody else does it, driving the engine.
    pub(crate) fn wait_for<T>(
        &self,
        fd: BorrowedFd<'_>,
        timeout: Option<Duration>,
        take: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let event = self.sleep_until(fd, timeout, take);
        if self.is_manual() {
            // Another sleeper may have counted on this thread to go on driving. A driver thread counts on nobody.
            self.kick();
        }
        event
    }

    fn sleep_until<T>(
        &self,
        fd: BorrowedFd<'_>,
        timeout: Option<Duration>,
        mut take: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let deadline = timeout.and_then(Deadline::after);
        loop {
            if let Some(event) = take() {
                return Some(event);
            }
            let left = deadline.as_ref().map(Deadline::left);
            if left == Some(Duration::ZERO) {
                return None;
            }
            if self.is_manual() {
                self.engine().poll(self.now());
                if let Some(event) = take() {
                    return Some(event);
                }
                self.inner.sleep(Some(fd), left);
            } else {
                wait_ready(&mut [PollFd::new(&fd, PollFlags::IN)], left);
            }
        }
    }
}

impl Inner {
    /// One round of the engine, for the driver thread.
    pub(crate) fn drive(&self) -> (Instant, Option<Instant>) {
        while self.waiting.load(Ordering::Acquire) > 0 {
            std::thread::yield_now();
        }
        let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.config.clock.now();
        (now, engine.poll(now))
    }

    /// Sleeps until a frame comes, a doorbell rings, the engine's next deadline or `timeout` is over, or `fd` is readable.
    pub(crate) fn sleep(&self, fd: Option<BorrowedFd<'_>>, timeout: Option<Duration>) {
        // First of all, so that whoever changes something from now on wakes this thread; what was changed before shows.
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let (wire, next) = {
            let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
            (engine.wire_fd(), engine.poll_at(self.now()))
        };
        self.slept_until.store(next.map_or(i64::MAX, |next| next.total_micros()), Ordering::SeqCst);
        let until_next = next.and_then(|next| self.config.clock.real_delay(next));
        // A wire without a descriptor has to be looked at now and then.
        let blind = wire.is_none().then_some(BLIND_SLEEP);
        let timeout = [until_next, timeout, blind].into_iter().flatten().min();
        if timeout != Some(Duration::ZERO) {
            let mut fds = vec![PollFd::new(&self.wakeup, PollFlags::IN)];
            if let Some((wire, wants_write)) = &wire {
                let out = if *wants_write { PollFlags::OUT } else { PollFlags::empty() };
                fds.push(PollFd::new(wire, PollFlags::IN | out));
            }
            fds.extend(fd.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)));
            wait_ready(&mut fds, timeout);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        self.wakeup.clear();
    }

    pub(crate) fn now(&self) -> Instant {
        self.config.clock.now()
    }

    pub(crate) fn wake(&self) {
        self.wakeup.wake();
    }

    /// Wakes the sleepers when the engine wants to be polled earlier than they know, since nobody else may do it.
    fn hasten(&self, next: Option<Instant>) {
        let Some(next) = next.map(|next| next.total_micros()) else { return };
        let sleepers = self.sleepers.load(Ordering::SeqCst) > 0;
        if sleepers && self.slept_until.fetch_min(next, Ordering::SeqCst) > next {
            self.wakeup.wake();
        }
    }

    fn kick(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.wakeup.wake();
        }
    }
}

/// A moment of real time at which a wait ends; one that no clock will ever show is none.
struct Deadline(std::time::Instant);

impl Deadline {
    #[expect(clippy::disallowed_methods, reason = "an application waits in real time")]
    fn after(timeout: Duration) -> Option<Self> {
        std::time::Instant::now().checked_add(timeout).map(Self)
    }

    #[expect(clippy::disallowed_methods, reason = "an application waits in real time")]
    fn left(&self) -> Duration {
        self.0.saturating_duration_since(std::time::Instant::now())
    }
}

fn wait_ready(fds: &mut [PollFd<'_>], timeout: Option<Duration>) {
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    // Interrupted or not, whoever sleeps looks again at what it waits for.
    let _woken = poll(fds, timeout.as_ref());
}

const fn check_size(what: &'static str, wanted: usize, max: usize) -> Result<(), CreateError> {
    if wanted > max { Err(CreateError::TooLarge { what, wanted, max }) } else { Ok(()) }
}

/// Completions of the largest queue.
const MAX_CQ_ENTRIES: usize = 1 << 22;
/// Requests of the largest work queue.
const MAX_WR: usize = 1 << 16;
/// Queue pairs 0 and 1 mean something else to programs that know InfiniBand.
const FIRST_QP_NUMBER: u32 = 2;
const BLIND_SLEEP: Duration = Duration::from_millis(1);
