//! Who calls an engine: its lock, the driver thread, the leader, sleeping and waking.
//!
//! [`Engines`] is the only door: an object of the application locks an engine through it, and calls one method.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use weft_netif::{Instant, Transport};
use weft_verbs::MemoryTable;

use crate::config::Config;
use crate::drive::leader::Lead;
use crate::drive::locked::Motor;
use crate::drive::memory::MemoryMut;
use crate::engine::memory::{Memory, SharedMemory};
use crate::engine::registry::Registry;
use crate::engine::sync_queue::SyncQueue;
use crate::engine::tables::Engine;
use crate::error::CreateError;
use crate::events::asynchronous::AsyncQueue;

pub(crate) mod flusher;
pub(crate) mod leader;
pub(crate) mod locked;
pub(crate) mod memory;
#[cfg(all(loom, test))]
pub(crate) mod model;
pub(crate) mod moving;
pub(crate) mod ready;
#[cfg(not(all(loom, test)))]
pub(crate) mod signal;
pub(crate) mod sleep;
pub(crate) mod sleeps;
#[cfg(all(loom, test))]
pub(crate) mod stand_ins;
pub(crate) mod state;
pub(crate) mod thread;
pub(crate) mod threads;

/// All engines of a device, and what they share.
#[derive(Debug)]
pub(crate) struct Engines {
    motors: Box<[Motor]>,
    /// The memory table, where several engines share one.
    memory: Option<SharedMemory>,
    config: Config,
    registry: Arc<Registry>,
    async_events: Arc<AsyncQueue>,
    /// The SYNCs for the flusher thread.
    sync_queue: Arc<SyncQueue>,
    /// The names and ids of the threads of the device.
    threads: Mutex<Vec<(String, u32)>>,
    /// Connections that were shared out among the engines.
    shared_out: AtomicUsize,
    /// The device makes and connects nothing new any more.
    is_shut_down: AtomicBool,
}

impl Engines {
    /// An engine for each of `stacks`.
    ///
    /// # Errors
    /// When the system has no file descriptor left.
    pub(crate) fn new(stacks: Vec<Transport>, config: Config) -> io::Result<Self> {
        let seed = config.stack.seed;
        let memory =
            (stacks.len() > 1).then(|| Arc::new(RwLock::new(MemoryTable::for_several_engines(seed))));
        let (async_events, sync_queue) = (AsyncQueue::new()?, Arc::<SyncQueue>::default());
        let motor = |(index, stack)| {
            let (memory, events) = (Memory::new(seed, memory.clone()), Arc::clone(&async_events));
            let mut engine = Engine::new(index, stack, config.clone(), memory, events);
            if config.progress.has_flusher() {
                engine.leave_syncs_to(Arc::clone(&sync_queue));
            }
            Motor::new(engine, config.clock.clone())
        };
        Ok(Self {
            motors: stacks.into_iter().enumerate().map(motor).collect::<io::Result<_>>()?,
            memory,
            registry: Arc::default(),
            async_events,
            sync_queue,
            threads: Mutex::default(),
            config,
            shared_out: AtomicUsize::new(0),
            is_shut_down: AtomicBool::new(false),
        })
    }

    /// Locks an engine, for a change of the objects in it.
    pub(crate) fn at(&self, index: usize) -> MutexGuard<'_, Engine> {
        self.motors[index].engine()
    }

    /// Returns the numbers of all engines. Each time another one is the first.
    pub(crate) fn in_turn(&self) -> impl Iterator<Item = usize> {
        let (first, count) = (self.shared_out.fetch_add(1, Ordering::Relaxed), self.len());
        (0..count).map(move |index| first.wrapping_add(index) % count)
    }

    /// Locks all engines, in their order, for what has to be the same in all of them.
    pub(crate) fn all(&self) -> Vec<MutexGuard<'_, Engine>> {
        self.motors.iter().map(Motor::engine).collect()
    }

    /// Locks the engines one after the other, each as long as `act` works with it.
    pub(crate) fn each<T>(&self, mut act: impl FnMut(&mut Engine) -> T) -> impl Iterator<Item = T> {
        self.motors.iter().map(move |motor| act(&mut motor.engine()))
    }

    /// The memory table. No engine copies from or to memory as long as this is held, and no engine is to be locked.
    pub(crate) fn memory(&self) -> MemoryMut<'_> {
        match &self.memory {
            None => MemoryMut::Own(self.at(0)),
            Some(table) => MemoryMut::shared(table),
        }
    }

    /// Rings the doorbell of a queue pair.
    #[inline]
    pub(crate) fn ring(&self, index: usize, slot: usize) {
        self.motors[index].ring(slot);
    }

    /// Wakes the drivers after a change that they should look at.
    pub(crate) fn kick(&self) {
        self.motors.iter().for_each(Motor::kick);
    }

    /// Drives each engine unless another thread does so at this moment.
    pub(crate) fn progress(&self) {
        self.motors.iter().for_each(Motor::progress);
    }

    /// The engines behind their locks.
    pub(crate) fn motors(&self) -> &[Motor] {
        &self.motors
    }

    /// How many engines there are.
    pub(crate) fn len(&self) -> usize {
        self.motors.len()
    }

    pub(crate) const fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) const fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    pub(crate) const fn async_events(&self) -> &Arc<AsyncQueue> {
        &self.async_events
    }

    pub(crate) const fn sync_queue(&self) -> &Arc<SyncQueue> {
        &self.sync_queue
    }

    /// The names and ids of the threads that the device has at the moment.
    pub(crate) fn threads(&self) -> MutexGuard<'_, Vec<(String, u32)>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The memory table that several engines share.
    #[cfg(test)]
    pub(crate) const fn shared_memory(&self) -> Option<&SharedMemory> {
        self.memory.as_ref()
    }

    /// The engines' time.
    pub(crate) fn now(&self) -> Instant {
        self.config.clock.now()
    }

    /// The leadership of the only engine. A device with several engines has none: a thread that waits would lead only
    /// one of them.
    pub(crate) fn lead(&self) -> Option<&Lead> {
        if let [motor] = self.motors() { Some(&motor.lead) } else { None }
    }

    /// Whether the calls of the application have to drive the engines, since no driver thread does so at the moment.
    pub(crate) fn is_manual(&self) -> bool {
        self.config.progress.calls_drive() || self.motors.iter().any(|motor| motor.lead.is_standing_by())
    }

    /// Takes nothing new from now on.
    pub(crate) fn close(&self) {
        self.is_shut_down.store(true, Ordering::SeqCst);
    }

    /// Checks that the device was not shut down.
    ///
    /// # Errors
    /// [`CreateError::ShutDown`].
    pub(crate) fn check_open(&self) -> Result<(), CreateError> {
        if self.is_shut_down.load(Ordering::SeqCst) { Err(CreateError::ShutDown) } else { Ok(()) }
    }
}
