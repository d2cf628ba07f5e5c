//! The device: the handle by which applications make objects and drive the engine.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use weft_netif::{Ground, Instant, Transport, Wire};
use weft_verbs::{Region, RegisterError};

use crate::config::Config;
use crate::counters::Counters;
use crate::drive::Engines;
use crate::drive::locked::Motor;
use crate::drive::threads::Threads;

/// A software RNIC. Clones are handles to the same one; it is closed when the last of them, and of the objects made
/// with it, is dropped.
#[derive(Clone, Debug)]
pub struct Device {
    pub(crate) engines: Arc<Engines>,
    /// Stops the threads when the last handle goes. They themselves hold only `engines`.
    threads: Arc<Threads>,
}

impl Device {
    /// Opens a device on a wire, on several queues of one device ([`Wire::open_queues`]), one for each engine, or on
    /// the sockets of the kernel ([`Ground::Host`]).
    ///
    /// # Errors
    /// When the settings make no sense or there are neither one queue nor as many as engines
    /// ([`io::ErrorKind::InvalidInput`]), the address on a wire is the host's own ([`io::ErrorKind::AddrInUse`]), or
    /// the system has no file descriptor or thread left.
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
        let engines = Arc::new(Engines::new(stacks, config)?);
        let threads = Arc::new(Threads::start(&engines)?);
        Ok(Self { engines, threads })
    }

    /// A handle that does not keep the driver threads.
    pub(crate) fn without_drivers(engines: Arc<Engines>) -> Self {
        Self { engines, threads: Arc::default() }
    }

    /// Makes sure that SYNCs of `region` can be carried out.
    ///
    /// # Errors
    /// [`RegisterError::OutOfMemory`] when the system has no thread left.
    pub(crate) fn prepare_syncs(&self, region: &Region) -> Result<(), RegisterError> {
        if !region.is_stored() {
            return Ok(());
        }
        self.threads.need_flusher(&self.engines).map_err(|_no_thread| RegisterError::OutOfMemory)
    }

    /// The names and ids (of gettid(2)) of the threads that the device has: `weft-engine-N` for each engine with
    /// [`crate::Progress::Thread`], and `weft-flush` as soon as memory with a copy in a file was registered.
    pub fn threads(&self) -> Vec<(String, u32)> {
        let mut threads = self.engines.threads().clone();
        threads.sort_unstable();
        threads
    }

    /// Drives the engines by hand at `now`, and answers when to call again at the latest. For [`crate::Progress::External`].
    pub fn poll(&self, now: Instant) -> Option<Instant> {
        let next = self.engines.each(|engine| engine.poll(now)).flatten().min();
        // One engine may have received for another one that had its turn before.
        if self.engines.len() > 1 { self.poll_at(now) } else { next }
    }

    /// Drives each engine once, after waiting for another thread that drives it. Requests that were posted before are
    /// in TCP then, as far as there is room.
    pub fn advance(&self) {
        // The posts before have woken a thread that sleeps for the engine.
        let _next = self.poll(self.engines.now());
    }

    /// When an engine wants to be polled again, seen from `now`; `None` when only a frame or a doorbell brings news.
    pub fn poll_at(&self, now: Instant) -> Option<Instant> {
        self.engines.each(|engine| engine.poll_at(now)).flatten().min()
    }

    /// How many engines there are.
    pub fn num_comp_vectors(&self) -> usize {
        self.engines.len()
    }

    /// The device's address, with `port`. It is the unspecified one for a device on all addresses of the host.
    pub fn address(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.engines.config().stack.ip.address, port)
    }

    /// The own address for connections to `remote`, if there is a way.
    pub fn source_to(&self, remote: SocketAddr) -> Option<IpAddr> {
        self.engines.at(0).source_to(remote)
    }

    /// How near `remote` is: the bits of the own net, or of the net of a route, that it lies in, 0 for a gateway.
    /// None if no route leads there.
    pub fn route_to(&self, remote: IpAddr) -> Option<u8> {
        self.engines.at(0).route_to(remote)
    }

    /// The largest IRD and ORD.
    pub fn max_reads(&self) -> u16 {
        self.engines.config().max_reads
    }

    /// Drives the engines if the calls of the application have to.
    pub fn assist(&self) {
        if self.engines.is_manual() {
            self.engines.progress();
        }
    }

    /// What the device has counted so far, in all its layers and engines.
    pub fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        for motor in self.engines.motors() {
            counters.add(&motor.counters());
        }
        counters.verbs.add_cqs(&self.engines.registry().cq_counters());
        counters
    }

    /// What one engine has counted so far, without the completion queues; none if there is no such engine.
    pub fn engine_counters(&self, comp_vector: usize) -> Option<Counters> {
        self.engines.motors().get(comp_vector).map(Motor::counters)
    }

    /// What the TCP/IP stacks below have counted so far.
    pub fn stack_counters(&self) -> weft_netif::Counters {
        let mut counters = weft_netif::Counters::default();
        self.engines.each(|engine| engine.stack_counters()).for_each(|engine| counters.add(&engine));
        counters
    }

    /// Lets `act` use the wire of the first engine, if there is one: to read its counters, or take its capture. The
    /// engine stands still meanwhile. So `act` must not use the device or drop an object made with it.
    pub fn with_wire<R>(&self, act: impl FnOnce(&mut Wire) -> R) -> Option<R> {
        self.engines.at(0).wire().map(act)
    }

    /// Drives each engine unless another thread does so at this moment.
    pub fn progress(&self) {
        self.engines.progress();
    }

    /// Whether `other` is a handle to the same device.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.engines, &other.engines)
    }
}

/// Engines of one device: more than any machine has cores for.
const MAX_ENGINES: usize = 256;
