//! What serves the sockets of a context: any thread that has something to do with them takes a turn.

use core::task::Waker;
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weft_exs_core::Stats;
use weft_rnic::{
    CompChannel, CqId, Device, EventChannel, EventQueue, News, Patience, StreamingConnection, Until,
};

use crate::agenda::Agenda;
use crate::alarm::Alarm;
use crate::endpoint::{Endpoint, Wanted};
use crate::error::Error;
use crate::link::{Link, Status};
use crate::listening::Listening;
use crate::memory::Domain;
use crate::objects::Objects;
use crate::options::Options;
use crate::waiting::{Manner, Waiting};

mod closing;
mod connecting;
mod streaming;

/// What handles, operations and the thread of a context share.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) device: Device,
    /// Nobody else's queue pairs are in it.
    pub(crate) domain: Domain,
    pub(crate) completions: CompChannel,
    queue: EventQueue,
    /// The thread that has it handles notices. The events of a connection have an order.
    notices: Mutex<()>,
    pub(crate) events: EventChannel,
    agenda: Arc<Agenda>,
    /// Sockets so far, the connecting ones included.
    made: AtomicUsize,
    table: Mutex<Table>,
    /// Alarms that no thread uses.
    alarms: Mutex<Vec<Arc<Alarm>>>,
    /// How threads wait for operations.
    pub(crate) manner: Manner,
}

/// What each number in notices and announcements stands for.
#[derive(Debug, Default)]
struct Table {
    last_id: u64,
    sockets: HashMap<u64, Arc<Endpoint>>,
    /// Connections that this side opens.
    connecting: HashMap<u64, Connecting>,
    /// Connections that this side has accepted and that are not established, with their listeners.
    accepting: HashMap<u64, Arc<Listening>>,
    /// Connections of plain TCP that this side opens.
    opening: HashMap<u64, Opening>,
    /// Connections of which it is not known what their peers speak, or whose Request has not come as a whole.
    asking: HashMap<u64, Asking>,
    listeners: HashMap<u64, Arc<Listening>>,
    announced: HashMap<CqId, u64>,
    /// What sockets have counted that are gone.
    gone: Stats,
}

/// A connection that this side opens.
struct Connecting {
    objects: Objects,
    wanted: Box<dyn Wanted>,
}

/// A connection of plain TCP that this side opens.
struct Opening {
    tcp: StreamingConnection,
    options: Options,
    wanted: Box<dyn Wanted>,
}

/// A connection that has come to a listener for plain peers. It has a place there.
#[derive(Debug)]
struct Asking {
    tcp: StreamingConnection,
    listening: Arc<Listening>,
    /// MPA has been started.
    is_started: bool,
}

impl Service {
    /// # Errors
    /// [`Error::System`].
    pub(crate) fn new(device: &Device, agenda: Arc<Agenda>) -> Result<Self, Error> {
        let queue = EventQueue::new()?;
        Ok(Self {
            events: device.events_on(&queue),
            completions: device.create_comp_channel()?,
            domain: Domain::new(device.alloc_pd()),
            device: device.clone(),
            queue,
            notices: Mutex::default(),
            agenda,
            made: AtomicUsize::new(0),
            table: Mutex::default(),
            alarms: Mutex::default(),
            manner: Manner::new(),
        })
    }

    pub(crate) const fn agenda(&self) -> &Arc<Agenda> {
        &self.agenda
    }

    /// Returns how many sockets there are.
    pub(crate) fn sockets(&self) -> usize {
        self.table().sockets.len()
    }

    /// Returns what `weft stat` shows of each socket, by their numbers, and what those that are gone have counted.
    pub(crate) fn statuses(&self) -> (Vec<(u64, Status)>, Stats) {
        let table = self.table();
        let (mut sockets, gone): (Vec<_>, _) = (table.sockets.values().map(Arc::clone).collect(), table.gone);
        drop(table);
        sockets.sort_unstable_by_key(|socket| socket.id);
        (sockets.iter().map(|socket| (socket.id, socket.ask(Link::status))).collect(), gone)
    }

    /// Blocks until `take` returns something, at most so long. `take` is called again when its waker is woken.
    pub(crate) fn wait<T>(
        self: &Arc<Self>,
        waiting: Waiting,
        until: Until<'_>,
        mut take: impl FnMut(&Waker) -> Option<T>,
    ) -> Option<T> {
        let spare = self.alarms.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let alarm = match spare.map_or_else(|| Alarm::new().map(Arc::new), Ok) {
            Ok(alarm) => alarm,
            Err(_no_descriptor) => {
                // Without a descriptor to sleep on, it looks now and then.
                self.turn();
                std::thread::sleep(LOOK);
                return take(Waker::noop());
            }
        };
        let waker = Waker::from(Arc::clone(&alarm));
        let hold = || self.completions.hold();
        let patience = Patience { spin: waiting.spin(), until };
        let outcome = take(&waker).or_else(|| {
            self.device.wait_until(alarm.as_fd(), patience, hold, || {
                loop {
                    alarm.begin_look();
                    self.turn();
                    if let Some(outcome) = take(&waker) {
                        return Some(outcome);
                    }
                    if alarm.begin_sleep() {
                        return None;
                    }
                }
            })
        });
        self.alarms.lock().unwrap_or_else(PoisonError::into_inner).push(alarm);
        outcome
    }

    /// Does `act`, which may post. If that has driven the engine, this thread takes what has come of it: no other one
    /// wakes.
    pub(crate) fn assisting<T>(self: &Arc<Self>, act: impl FnOnce() -> T) -> T {
        let _hold = self.completions.hold();
        let outcome = act();
        self.turn();
        outcome
    }

    /// Does what there is to do, without waiting. Returns whether there was something.
    pub(crate) fn turn(self: &Arc<Self>) -> bool {
        let mut has_done = false;
        while let Some(cq) = self.completions.next() {
            has_done = true;
            let mut table = self.table();
            let id = table.announced.get(&cq).copied();
            let socket = id.and_then(|id| table.sockets.get(&id)).map(Arc::clone);
            if id.is_none() {
                table.announced.remove(&cq);
            }
            drop(table);
            if let Some(socket) = socket {
                socket.with(|link, now| link.collect(now));
            }
        }
        has_done |= self.handle_notices();
        // Those that have more to do at once come in the next turn.
        for id in self.agenda.take_due() {
            has_done = true;
            match self.socket(id) {
                // Each turn of a socket begins with the time.
                Some(socket) => socket.with(|_, _| ()),
                None => self.look(id, true),
            }
        }
        for id in self.agenda.take_over() {
            has_done = true;
            self.forget(id);
        }
        has_done
    }

    /// Handles the notices that are there, unless another thread does so. What that one leaves keeps the descriptor of
    /// the queue readable. Returns whether there were some.
    fn handle_notices(&self) -> bool {
        let _turn = match self.notices.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let mut has_done = false;
        while let Some(notice) = self.queue.pop() {
            has_done = true;
            if let News::Event(event) = notice.news {
                self.handle_event(notice.id, event);
            }
        }
        has_done
    }

    /// Forgets a socket for which nothing is left to be done.
    fn forget(&self, id: u64) {
        // A link's lock is never taken inside of the table's.
        let counted = self.socket(id).map(|socket| socket.ask(Link::stats));
        let mut table = self.table();
        let socket = table.sockets.remove(&id);
        if let (Some(_), Some(counted)) = (&socket, counted) {
            table.gone += counted;
        }
        table.announced.retain(|_, other| *other != id);
        drop(table);
        // Its queue pair goes without the lock.
        drop(socket);
        self.agenda.wake_thread();
    }

    pub(crate) fn unlisten(&self, id: u64) {
        let mut table = self.table();
        let listening = table.listeners.remove(&id);
        let asking = table.asking.extract_if(|_, asking| asking.listening.id == id);
        let asking: Vec<_> = asking.map(|(_, asking)| asking).collect();
        drop(table);
        asking.iter().for_each(|asking| asking.tcp.abort());
        drop((listening, asking));
        self.agenda.wake_thread();
    }

    fn socket(&self, id: u64) -> Option<Arc<Endpoint>> {
        self.table().sockets.get(&id).map(Arc::clone)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves the sockets as long as there are some, or the context is wanted.
    pub(crate) fn run(self: &Arc<Self>, is_wanted: impl Fn() -> bool) {
        let readable = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        while is_wanted() || !self.table().is_idle() {
            let left = self.agenda.first().map(|at| at.saturating_sub(self.agenda.now()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let fds = [self.queue.as_fd(), self.completions.as_fd(), self.agenda.thread().as_fd()];
            if self.agenda.thread().begin_sleep() {
                // A signal, or a lack of memory that may pass: looking around does no harm.
                let _looked = poll(&mut fds.map(readable), left.as_ref());
            }
            self.agenda.thread().begin_look();
            self.turn();
        }
    }
}

impl Table {
    /// Returns a number that nothing has had.
    const fn number(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn is_idle(&self) -> bool {
        let Self { sockets, connecting, opening, listeners, .. } = self;
        sockets.is_empty() && connecting.is_empty() && opening.is_empty() && listeners.is_empty()
    }
}

impl core::fmt::Debug for Connecting {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Connecting").field("qp", &self.objects.qp.number()).finish_non_exhaustive()
    }
}

impl core::fmt::Debug for Opening {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Opening").field("tcp", &self.tcp).finish_non_exhaustive()
    }
}

/// How often a thread looks that cannot sleep.
const LOOK: Duration = Duration::from_millis(1);
