//! The device: the handle by which applications make objects and drive the engine.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, RwLock};

use weft_netif::{Ground, Instant, Transport, Wire};
use weft_verbs::MemoryTable;

use crate::config::{Config, Progress};
use crate::counters::Counters;
use crate::drive::leader::Lead;
use crate::drive::locked::Motor;
use crate::drive::thread::Driver;
use crate::engine::Engine;
use crate::engine::memory::{Memory, MemoryMut, SharedMemory};
use crate::engine::registry::Registry;
use crate::error::CreateError;
use crate::events::asynchronous::AsyncQueue;
use crate::events::channel::Channel;
use crate::objects::cq::CompChannel;
use crate::objects::event_channel::{EventChannel, EventQueue};
use crate::objects::mr::Pd;
use crate::stat::StatServer;

/// A software RNIC. Clones are handles to the same one; it is closed when the last of them, and of the objects made
/// with it, is dropped.
#[derive(Clone, Debug)]
pub struct Device {
    pub(crate) inner: Arc<Inner>,
    /// Stops the driver threads when the last handle goes. The threads themselves hold only `inner`.
    _drivers: Arc<Vec<Driver>>,
    /// Stops telling the device's state when the last handle goes.
    _stat: Option<Arc<StatServer>>,
}

/// What all handles and the driver threads share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) motors: Box<[Motor]>,
    /// The memory table, where several engines share one.
    pub(crate) memory: Option<SharedMemory>,
    pub(crate) config: Config,
    pub(crate) registry: Arc<Registry>,
    pub(crate) async_events: Arc<AsyncQueue>,
    /// Nothing new is made or connected any more.
    pub(crate) is_shut_down: AtomicBool,
}

impl Device {
    /// Opens a device on a wire, on several queues of one device ([`Wire::open_queues`]), one for each engine, or on the
    /// sockets of the kernel ([`Ground::Host`]).
    ///
    /// # Errors
    /// When the settings make no sense or there are neither one queue nor as many as engines
    /// ([`io::ErrorKind::InvalidInput`]), the address on a wire is the host's own ([`io::ErrorKind::AddrInUse`]), or the
    /// system has no file descriptor or thread left.
    pub fn open(ground: impl Into<Ground>, mut config: Config) -> io::Result<Self> {
        let Config { engines, clock, .. } = &config;
        if !(1..=MAX_ENGINES).contains(engines) {
            let text = format!("{engines} engines: there are 1 to {MAX_ENGINES}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let stacks = Transport::open_several(ground.into(), &config.stack, *engines, clock.now())?;
        if let Some(first) = stacks.first() {
            config.stack = first.config().clone();
        }
        let seed = config.stack.seed;
        let memory =
            (config.engines > 1).then(|| Arc::new(RwLock::new(MemoryTable::for_several_engines(seed))));
        let async_events = AsyncQueue::new()?;
        let motor = |(index, stack)| {
            let (memory, events) = (Memory::new(seed, memory.clone()), Arc::clone(&async_events));
            Motor::new(Engine::new(index, stack, config.clone(), memory, events), config.clock.clone())
        };
        let motors = stacks.into_iter().enumerate().map(motor).collect::<io::Result<_>>()?;
        let inner = Arc::new(Inner {
            motors,
            memory,
            registry: Arc::default(),
            async_events,
            config,
            is_shut_down: AtomicBool::new(false),
        });
        let mut drivers = Vec::new();
        if inner.config.progress == Progress::Thread {
            for index in 0..inner.motors.len() {
                drivers.push(Driver::start(Arc::clone(&inner), index)?);
            }
        }
        let device = Self { inner, _drivers: Arc::new(drivers), _stat: None };
        let Some(folder) = &device.inner.config.stat else { return Ok(device) };
        // The server's own handle keeps neither the driver threads nor the server itself.
        let told = Self { inner: Arc::clone(&device.inner), _drivers: Arc::default(), _stat: None };
        let stat = Some(Arc::new(StatServer::start(folder, told)?));
        Ok(Self { _stat: stat, ..device })
    }

    /// Drives the engines by hand at `now`, and answers when to call again at the latest. For [`Progress::External`].
    pub fn poll(&self, now: Instant) -> Option<Instant> {
        let next = self.motors().iter().filter_map(|motor| motor.engine().poll(now)).min();
        // One engine may have received for another one that had its turn before.
        if self.motors().len() > 1 { self.poll_at(now) } else { next }
    }

    /// Drives each engine once, behind whoever drives it at this moment: what was called for before is with TCP then, as far as
    /// there is room.
    pub fn advance(&self) {
        // A thread that sleeps for an engine has been woken by those calls.
        let _next = self.poll(self.now());
    }

    /// When an engine wants to be polled again, seen from `now`; `None` when only a frame or a doorbell brings news.
    pub fn poll_at(&self, now: Instant) -> Option<Instant> {
        self.motors().iter().filter_map(|motor| motor.engine().poll_at(now)).min()
    }

    /// Makes a protection domain.
    pub fn alloc_pd(&self) -> Pd {
        let entry = Arc::new(self.inner.registry.add_pd());
        Pd { id: entry.id, device: self.clone(), entry }
    }

    /// How many engines there are.
    pub fn num_comp_vectors(&self) -> usize {
        self.inner.motors.len()
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
        Ok(self.events_on(&EventQueue::new()?))
    }

    /// The channel whose events go to `queue`, which may serve other devices too.
    pub fn events_on(&self, queue: &EventQueue) -> EventChannel {
        EventChannel { channel: Arc::clone(&queue.channel), device: self.clone() }
    }

    /// The device's address, with `port`. It is the unspecified one for a device on all addresses of the host.
    pub fn address(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.inner.config.stack.ip.address, port)
    }

    /// The own address for connections to `remote`, if there is a way.
    pub fn source_to(&self, remote: SocketAddr) -> Option<IpAddr> {
        self.engine_at(0).stack.source_to(remote)
    }

    /// How near `remote` is: the bits of the own net, or of the net of a route, that it lies in, 0 for a gateway. None if no way
    /// leads there.
    pub fn route_to(&self, remote: IpAddr) -> Option<u8> {
        self.engine_at(0).stack.route_to(remote)
    }

    /// The largest IRD and ORD.
    pub fn max_reads(&self) -> u16 {
        self.inner.config.max_reads
    }

    /// Drives the engines if the calls of the application have to.
    pub fn assist(&self) {
        if self.is_manual() {
            self.progress();
        }
    }

    /// What the device has counted so far, in all its layers and engines.
    pub fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        for motor in self.motors() {
            counters.add(&motor.counters());
        }
        counters.verbs.add_cqs(&self.inner.registry.cq_counters());
        counters
    }

    /// What one engine has counted so far, without the completion queues; none when there is no such engine.
    pub fn engine_counters(&self, comp_vector: usize) -> Option<Counters> {
        self.motors().get(comp_vector).map(Motor::counters)
    }

    /// What the TCP/IP stacks below have counted so far.
    pub fn stack_counters(&self) -> weft_netif::Counters {
        let mut counters = weft_netif::Counters::default();
        for motor in self.motors() {
            counters.add(&motor.engine().stack.counters());
        }
        counters
    }

    /// Does something with the wire below (of the first engine), if there is one: reads its counters, or takes its capture. The
    /// engine stands still meanwhile, so that `act` must not use the device or drop an object made with it.
    pub fn with_wire<R>(&self, act: impl FnOnce(&mut Wire) -> R) -> Option<R> {
        self.engine_at(0).stack.tcp_mut().map(|stack| act(stack.wire_mut()))
    }

    /// Drives each engine unless another thread does so at this moment.
    pub fn progress(&self) {
        self.motors().iter().for_each(Motor::progress);
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.inner.registry
    }

    /// Whether `other` is a handle to the same device.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Whether the calls of the application have to drive the engines, as no thread of theirs does at the moment.
    pub(crate) fn is_manual(&self) -> bool {
        self.inner.config.progress == Progress::Manual
            || self.motors().iter().any(|motor| motor.lead.is_standing_by())
    }

    /// Refuses when the device was shut down.
    pub(crate) fn check_open(&self) -> Result<(), CreateError> {
        if self.inner.is_shut_down.load(Ordering::SeqCst) { Err(CreateError::ShutDown) } else { Ok(()) }
    }

    pub(crate) fn progress_by(&self) -> Progress {
        self.inner.config.progress
    }

    /// Who drives the only engine. With several of them, their threads do: who waits would lead one of them only.
    pub(crate) fn lead(&self) -> Option<&Lead> {
        if let [motor] = self.motors() { Some(&motor.lead) } else { None }
    }

    pub(crate) fn now(&self) -> Instant {
        self.inner.config.clock.now()
    }

    pub(crate) fn config(&self) -> &Config {
        &self.inner.config
    }

    pub(crate) fn motors(&self) -> &[Motor] {
        &self.inner.motors
    }

    /// An engine, for a change of the objects in it.
    pub(crate) fn engine_at(&self, index: usize) -> MutexGuard<'_, Engine> {
        self.inner.motors[index].engine()
    }

    /// All engines, for what has to be the same in all of them.
    pub(crate) fn engines(&self) -> Vec<MutexGuard<'_, Engine>> {
        self.motors().iter().map(Motor::engine).collect()
    }

    /// The memory table. No engine copies from or to memory as long as this is held, and no engine is to be locked.
    pub(crate) fn memory(&self) -> MemoryMut<'_> {
        match &self.inner.memory {
            None => MemoryMut::Own(self.engine_at(0)),
            Some(table) => MemoryMut::shared(table),
        }
    }

    /// Wakes the drivers after a change that they should look at.
    pub(crate) fn kick(&self) {
        self.motors().iter().for_each(Motor::kick);
    }
}

/// Engines of one device: more than any machine has cores for.
const MAX_ENGINES: usize = 256;
