//! A context: one device, and all sockets on it.

use std::sync::Arc;
use std::time::Duration;

use weft_netif::Instant;
use weft_rnic::{Access, Config, Device, Ground, Progress, Region, RegisterError};

use crate::agenda::Agenda;
use crate::alarm::Alarm;
use crate::buf::Buf;
use crate::clock::Clock;
use crate::error::Error;
use crate::memory::{Memory, Registered};
use crate::service::Service;
use crate::waiting::Waiting;

/// A device, and all sockets on it. Clones are handles to the same context.
///
/// A context has a thread, `weft-exs`, which sleeps until something happens on its sockets, does what follows, and
/// wakes the tasks of operations that have ended. It ends when the last handle is dropped and all sockets are closed.
#[derive(Clone, Debug)]
pub struct Context {
    service: Arc<Service>,
    alive: Arc<Alive>,
}

/// Lives as long as a handle to the context. Its end wakes the thread.
#[derive(Debug)]
struct Alive(Arc<Agenda>);

impl Context {
    /// Opens a device and a context on it. [`Progress::Manual`] becomes [`Progress::Thread`]: a peer's Reads are
    /// answered whatever the program does. With [`Progress::External`] the context has no thread, and [`Self::drive`]
    /// drives it.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn open(ground: impl Into<Ground>, config: Config) -> Result<Self, Error> {
        let progress = match config.progress {
            Progress::Manual => Progress::Thread,
            progress => progress,
        };
        let device = Device::open(ground, Config { progress, ..config })?;
        match progress {
            Progress::External => Self::stepped(&device),
            _ => Self::on(&device),
        }
    }

    /// Makes a context on a device that has driver threads ([`Progress::Thread`]).
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn on(device: &Device) -> Result<Self, Error> {
        let context = Self::with_clock(device, Clock::real())?;
        let (service, alive) = (Arc::clone(&context.service), Arc::downgrade(&context.alive));
        let thread = std::thread::Builder::new().name(THREAD.into());
        // It ends by itself.
        let _thread = thread.spawn(move || service.run(|| alive.strong_count() > 0))?;
        Ok(context)
    }

    /// Makes a context without a thread on a device of a simulation ([`Progress::External`]), which [`Self::drive`]
    /// drives.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn stepped(device: &Device) -> Result<Self, Error> {
        Self::with_clock(device, Clock::told())
    }

    /// Drives a context without a thread, and its device, at this time. Returns when to call again at the latest;
    /// `None` when only a frame or a call brings news.
    pub fn drive(&self, now: Instant) -> Option<Instant> {
        let micros = u64::try_from(now.total_micros()).unwrap_or(0);
        self.service.agenda().clock.tell(Duration::from_micros(micros));
        loop {
            let device = self.service.device.poll(now);
            if !self.service.turn() {
                let time = |at: Duration| i64::try_from(at.as_micros()).unwrap_or(i64::MAX);
                let socket = self.service.agenda().first().map(|at| Instant::from_micros(time(at)));
                return device.into_iter().chain(socket).min();
            }
        }
    }

    /// Allocates and registers a buffer of zeroed octets.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn buffer(&self, len: usize) -> Result<Buf, Error> {
        Ok(Buf::new(&self.service.domain, len)?)
    }

    /// Allocates and registers zeroed octets that several operations may share.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn memory(&self, len: usize) -> Result<Memory, Error> {
        let region = Region::owned(len).ok_or(RegisterError::OutOfMemory)?;
        let access = Access::LOCAL_WRITE | Access::MW_BIND;
        Ok(Memory::new(Registered::new(&self.service.domain, region, access)?))
    }

    /// Changes how threads wait for operations. At first it is [`Waiting::Adaptive`].
    pub fn set_waiting(&self, waiting: Waiting) {
        self.service.manner.set(waiting);
    }

    /// Closes all sockets, and blocks until all that was started is sent and the peers have closed, at most for this
    /// time. Returns how many sockets were late. Their connections end: the peers hear of a reset.
    ///
    /// The end of a process ends its connections, whatever they have still to send. So a program calls this before it
    /// ends, unless it has waited for each [`close`](crate::Socket::close). It is for contexts with a thread.
    #[expect(clippy::must_use_candidate, reason = "a program that ends may not care")]
    pub fn close_all(&self, patience: Duration) -> usize {
        self.service.close_all(patience)
    }

    /// Returns the device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.service.device
    }

    /// Returns how many sockets there are, the closing ones included.
    #[must_use]
    pub fn sockets(&self) -> usize {
        self.service.sockets()
    }

    pub(crate) const fn service(&self) -> &Arc<Service> {
        &self.service
    }

    fn with_clock(device: &Device, clock: Clock) -> Result<Self, Error> {
        let agenda = Arc::new(Agenda::new(clock, Arc::new(Alarm::new()?)));
        let service = Arc::new(Service::new(device, Arc::clone(&agenda))?);
        Ok(Self { service, alive: Arc::new(Alive(agenda)) })
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.wake_thread();
    }
}

const THREAD: &str = "weft-exs";
