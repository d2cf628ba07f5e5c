//! A socket, and how its calls wait.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::Errno;
use weft_cm::{Cm, Event, EventChannel};
use weft_rnic::{CompChannel, Device, Until};

use super::link::Course;
use super::mappings::Mappings;
use super::message::Message;
use super::options::Name;
use super::state::{Core, Phase};
use crate::descriptor::Descriptor;
use crate::errno::cm_errno;
use crate::raw::interruptible;

/// The object behind `rsocket`. Its descriptor is readable while there are events that the socket has not taken in.
#[derive(Debug)]
pub(crate) struct Socket {
    descriptor: Descriptor,
    is_v6: bool,
    /// The flags that `rfcntl` has set.
    status: AtomicI32,
    events: EventChannel,
    pub(super) channel: CompChannel,
    core: Mutex<Core>,
    /// Signalled when the thread that sleeps for all others has come back.
    turned: Condvar,
}

/// The directions that `rshutdown` ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Read,
    Write,
    Both,
}

/// How long a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// Does not wait: `EAGAIN`.
    None,
    /// Waits until a signal comes: `EINTR`.
    Signal,
    /// Waits as long as something happens now and then: `ETIMEDOUT`.
    Progress,
}

pub(super) type CoreGuard<'a> = MutexGuard<'a, Core>;

impl Socket {
    /// # Errors
    /// If the system has no file descriptor left.
    pub(crate) fn new(device: &Device, cm: &Cm, is_v6: bool) -> Result<Arc<Self>, Errno> {
        let events = cm.create_event_channel().map_err(cm_errno)?;
        let id = cm.create_id(Some(&events)).map_err(cm_errno)?;
        Self::around(device, (events, id), is_v6)
    }

    /// Makes a socket around an id whose events come out of the channel.
    pub(super) fn around(
        device: &Device,
        (events, id): (EventChannel, weft_cm::Id),
        is_v6: bool,
    ) -> Result<Arc<Self>, Errno> {
        let channel = device.create_comp_channel().map_err(|_| Errno::MFILE)?;
        let descriptor = Descriptor::over(&[events.as_fd(), channel.as_fd()])?;
        Ok(Arc::new(Self {
            descriptor,
            is_v6,
            status: AtomicI32::new(libc::O_RDWR),
            events,
            channel,
            core: Mutex::new(Core::new(id)),
            turned: Condvar::new(),
        }))
    }

    /// Disconnects from the peer, if that is possible in bounded time.
    pub(crate) fn close(&self) {
        // Without a connection there is no peer. A connection that does not end is reset.
        let _may_be_over = self.shutdown(How::Both);
        let mut core = self.lock();
        core.phase = Phase::Over;
        core.requests.clear();
        core.link = None;
        core.mappings = Mappings::default();
        core.id.end();
    }

    /// Ends one direction or both. Blocks until the peer's TCP has everything that was sent, as long as that goes on.
    ///
    /// # Errors
    /// `ENOTCONN`, `ETIMEDOUT`.
    pub(crate) fn shutdown(&self, how: How) -> Result<(), Errno> {
        let mut core = self.lock();
        self.advance(&mut core);
        if core.phase != Phase::Connected {
            return Err(Errno::NOTCONN);
        }
        let link = core.link()?;
        let message = match how {
            _ if link.course != Course::Open => None,
            How::Read if link.can_write => None,
            How::Write if link.can_read && !link.can_write => None,
            How::Write if link.can_read => Some(Message::Shutdown),
            How::Read | How::Write | How::Both => Some(Message::Disconnect),
        };
        link.can_read &= how == How::Write;
        link.can_write &= how == How::Read;
        let is_open = |core: &mut Core| core.link().is_ok_and(|link| link.course == Course::Open);
        let mut outcome = Ok(());
        if let Some(message) = message {
            let patience = Patience::Progress;
            core = self.wait(core, patience, |core| {
                !is_open(core) || core.link().is_ok_and(|link| link.can_control())
            })?;
            if is_open(&mut core) {
                core.link()?.control(message);
            }
            let sent = |core: &mut Core| !is_open(core) || core.link().is_ok_and(|link| link.is_sent());
            (core, outcome) = match self.wait(core, patience, sent) {
                Ok(core) => (core, Ok(())),
                Err(errno) => (self.lock(), Err(errno)),
            };
        }
        if message == Some(Message::Disconnect) || !is_open(&mut core) {
            core.link()?.disconnect();
            // The peer may have disconnected first.
            let _may_have_ended = core.id.disconnect();
        }
        outcome
    }

    /// Returns those of `events` that hold, and those that are always reported.
    pub(crate) fn ready(&self, events: PollFlags) -> PollFlags {
        let mut core = self.lock();
        self.advance(&mut core);
        core.ready() & (events | PollFlags::ERR | PollFlags::HUP)
    }

    /// Makes the descriptor readable on the next event. Returns the events that have come already.
    pub(crate) fn watch(&self, events: PollFlags) -> PollFlags {
        let mut core = self.lock();
        core.pollers += 1;
        if let Some(link) = &mut core.link {
            link.arm();
        }
        drop(core);
        self.ready(events)
    }

    /// Ends [`Self::watch`] for one thread.
    pub(crate) fn unwatch(&self) {
        self.lock().pollers -= 1;
    }

    /// # Errors
    /// Those of [`Options::set`].
    pub(crate) fn set_option(&self, name: Name, value: i32) -> Result<(), Errno> {
        let mut core = self.lock();
        let is_open = core.link.is_some();
        core.options.set(name, value, is_open)
    }

    /// # Errors
    /// Those of [`Options::value`].
    pub(crate) fn option(&self, name: Name) -> Result<i32, Errno> {
        let mut core = self.lock();
        if (name.level, name.name) == (libc::SOL_SOCKET, libc::SO_ERROR) {
            self.advance(&mut core);
            return Ok(core.take_error().map_or(0, Errno::raw_os_error));
        }
        core.options.value(name)
    }

    /// Returns O_NONBLOCK, and other flags that `rfcntl` has set.
    pub(crate) fn status(&self) -> i32 {
        self.status.load(Ordering::Relaxed)
    }

    pub(crate) fn set_status(&self, status: i32) {
        self.status.store(status, Ordering::Relaxed);
    }

    pub(super) fn patience(&self, may_wait: bool) -> Patience {
        if may_wait && self.status() & libc::O_NONBLOCK == 0 { Patience::Signal } else { Patience::None }
    }

    /// Returns the own address, the unspecified one if there is none yet.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        let unspecified =
            if self.is_v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        self.lock().id.local_addr().unwrap_or_else(|| SocketAddr::new(unspecified, 0))
    }

    /// # Errors
    /// `ENOTCONN`.
    pub(crate) fn peer_addr(&self) -> Result<SocketAddr, Errno> {
        self.lock().id.peer_addr().ok_or(Errno::NOTCONN)
    }

    pub(crate) const fn is_v6(&self) -> bool {
        self.is_v6
    }

    /// Returns the descriptor, for C.
    pub(crate) fn number(&self) -> i32 {
        self.descriptor.number()
    }

    pub(super) const fn events(&self) -> &EventChannel {
        &self.events
    }

    /// Takes in all events.
    pub(super) fn advance(&self, core: &mut Core) {
        while core.phase.has_news()
            && let Some(event) = self.events.next()
        {
            core.handle(event);
        }
        let is_alone = core.pollers == 0 && !core.is_awaited;
        if core.phase != Phase::Connected {
            return;
        }
        let Some(link) = &mut core.link else { return };
        // A sleeping thread has to find the event that woke it.
        if is_alone && link.is_armed() {
            while self.channel.next().is_some() {
                link.disarm();
            }
        }
        link.poll();
    }

    /// Blocks until `test` holds.
    ///
    /// # Errors
    /// Those of [`Patience`].
    pub(super) fn wait<'a>(
        &'a self,
        mut core: CoreGuard<'a>,
        patience: Patience,
        mut test: impl FnMut(&mut Core) -> bool,
    ) -> Result<CoreGuard<'a>, Errno> {
        let mut rounds = 0;
        loop {
            self.advance(&mut core);
            if test(&mut core) {
                return Ok(core);
            }
            match patience {
                Patience::None => return Err(Errno::AGAIN),
                Patience::Progress if rounds == ROUNDS => return Err(Errno::TIMEDOUT),
                _ => {}
            }
            if core.is_awaited {
                core = self.turned.wait(core).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            if let (Phase::Connected, Some(link)) = (core.phase, &mut core.link)
                && !link.is_armed()
            {
                link.arm();
                continue;
            }
            core.is_awaited = true;
            let is_connected = core.phase == Phase::Connected;
            drop(core);
            let slept = self.sleep(is_connected, patience);
            core = self.lock();
            core.is_awaited = false;
            self.turned.notify_all();
            match slept? {
                Slept::Completion => {
                    rounds = 0;
                    if let Some(link) = &mut core.link {
                        link.disarm();
                    }
                }
                Slept::Event(event) => core.handle(*event),
                Slept::Nothing => rounds += 1,
            }
        }
    }

    fn sleep(&self, is_connected: bool, patience: Patience) -> Result<Slept, Errno> {
        let bounded = patience == Patience::Progress;
        Ok(if is_connected {
            let woken = if bounded {
                self.channel.wait(Some(ROUND))
            } else {
                interruptible(|poll| self.channel.wait_until(Until::Interrupted(poll)))?
            };
            if woken.is_some() { Slept::Completion } else { Slept::Nothing }
        } else {
            let woken = if bounded {
                self.events.wait(Some(ROUND))
            } else {
                interruptible(|poll| self.events.wait_until(Until::Interrupted(poll)))?
            };
            woken.map_or(Slept::Nothing, |event| Slept::Event(Box::new(event)))
        })
    }

    pub(super) fn lock(&self) -> CoreGuard<'_> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reason why a sleep ended.
enum Slept {
    Completion,
    Event(Box<Event>),
    Nothing,
}

/// A wait for progress ends after so many rounds of this length without any.
const ROUNDS: u32 = 30;
const ROUND: Duration = Duration::from_secs(1);
