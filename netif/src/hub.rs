//! Several stacks on one device.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use rustix::event::{EventfdFlags, eventfd};
use smoltcp::time::Instant;

use crate::capture::Capture;
use crate::config::StackConfig;
use crate::counters::WireCounters;
use crate::demux::{Demux, Peek, Tuple, answers_for_neighbor};
use crate::frame::Frame;
use crate::steering::queue_of;
use crate::wire::{Below, Wire};

/// Several stacks with the same addresses on one device. Each has a [`Port`].
///
/// A connection belongs to the port that its TCP ports choose ([`queue_of`]), unless it was moved. A port that takes
/// another port's frame from the device puts it into that port's inbox. Answers about neighbors go to all ports. So
/// does the loss of the device's other end, behind the frames that came before. All other frames stay with the port
/// that took them.
#[derive(Debug)]
struct Hub {
    demux: Demux,
    /// One queue for each port, or one that all ports use.
    queues: Vec<Mutex<Wire>>,
    /// Every queue cuts long frames into segments.
    segments: bool,
    is_memory: bool,
    key: [u8; 16],
    inboxes: Vec<Inbox>,
    /// Connections that are not at the port that their TCP ports choose.
    moved: RwLock<HashMap<Tuple, usize>>,
    moved_count: AtomicUsize,
}

/// One stack's side of a [`Hub`].
#[derive(Debug)]
pub(crate) struct Port {
    hub: Arc<Hub>,
    index: usize,
    /// The losses of the device's other end that this port has handled.
    losses: u64,
}

/// The arrivals that other ports have put in, and a descriptor that is readable while there are any.
#[derive(Debug)]
struct Inbox {
    lanes: Mutex<Lanes>,
    /// The number of entries in both lanes.
    waiting: AtomicUsize,
    bell: OwnedFd,
}

#[derive(Debug, Default)]
struct Lanes {
    /// From the device.
    arrived: VecDeque<Arrival>,
    /// From this station to itself.
    turned: VecDeque<Frame>,
}

/// An arrival from the device.
#[derive(Debug)]
enum Arrival {
    Frame(Frame),
    /// The device has lost its other end. Later frames are from another one.
    Loss,
}

impl Wire {
    /// Makes wires for `ports` stacks with the addresses of `config`, out of one wire or of one queue for each
    /// ([`Wire::open_queues`]).
    ///
    /// A connection that a peer opens belongs to the stack that the TCP ports choose. A connection that a stack opens
    /// belongs to that stack. [`Stack::take_out`](crate::Stack::take_out) moves a connection to another stack. All
    /// stacks have to listen on the same ports. All have to be polled, as each may receive for the others.
    ///
    /// # Errors
    /// `InvalidInput` if there is neither one wire nor one for each port. The system's error if it has no file
    /// descriptor left.
    pub fn share(wires: Vec<Self>, ports: usize, config: &StackConfig) -> io::Result<Vec<Self>> {
        let Some(mtu) = wires.iter().map(Self::mtu).min().filter(|_| [1, ports].contains(&wires.len()))
        else {
            let text = format!(
                "{} queues for {ports} stacks: there must be one queue, or one for each stack",
                wires.len()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        };
        let inboxes = (0..ports).map(|_| Inbox::new()).collect::<io::Result<Vec<_>>>()?;
        let hub = Arc::new(Hub {
            demux: Demux::new(config.mac, config.ip.address),
            segments: wires.iter().all(Self::segments),
            is_memory: wires.iter().all(Self::is_memory),
            key: wires.first().map_or([0; 16], |wire| wire.key(config.seed)),
            queues: wires.into_iter().map(Mutex::new).collect(),
            inboxes,
            moved: RwLock::default(),
            moved_count: AtomicUsize::new(0),
        });
        let port = |index| Self::new(Below::Port(Port { hub: Arc::clone(&hub), index, losses: 0 }), mtu);
        Ok((0..ports).map(port).collect())
    }
}

impl Port {
    pub(crate) fn send(&self, now: Instant, frame: &mut Frame) -> bool {
        self.queue().transmit(now, frame)
    }

    /// Takes the next frame for this port from the inbox or the device.
    pub(crate) fn receive(&mut self, now: Instant, frame: &mut Frame) -> bool {
        if let Some(arrival) = self.inbox().pop(|lanes| &mut lanes.arrived) {
            return self.take_in(arrival, frame);
        }
        for _ in 0..BURST {
            // The queue stays locked until the frame is in an inbox, so that no loss overtakes it.
            let mut queue = self.queue();
            let losses = queue.losses();
            let is_taken = queue.take(now, frame);
            if queue.losses() != losses {
                self.hub.inboxes.iter().for_each(Inbox::push_loss);
            }
            if !is_taken {
                break;
            }
            match self.hub.demux.peek(frame, false) {
                Peek::Tcp(segment) if self.hub.owner(&segment.tuple) != self.index => {
                    let owner = self.hub.owner(&segment.tuple);
                    self.hub.inboxes[owner].push_arrived(frame.clone());
                }
                Peek::Neighbor(_) if answers_for_neighbor(frame) => {
                    let others =
                        self.hub.inboxes.iter().enumerate().filter(|&(index, _)| index != self.index);
                    others.for_each(|(_, inbox)| inbox.push_arrived(frame.clone()));
                    return true;
                }
                _ => return true,
            }
        }
        // Frames for this port may have come in meanwhile, or the loss that was just found.
        let arrival = self.inbox().pop(|lanes| &mut lanes.arrived);
        arrival.is_some_and(|arrival| self.take_in(arrival, frame))
    }

    /// Puts an arrived frame into `frame`. Returns false if a loss has arrived, which is counted.
    fn take_in(&mut self, arrival: Arrival, frame: &mut Frame) -> bool {
        match arrival {
            Arrival::Frame(next) => {
                *frame = next;
                true
            }
            Arrival::Loss => {
                self.losses += 1;
                false
            }
        }
    }

    /// Returns the next frame that another stack of this station has sent to the station itself.
    pub(crate) fn take_turned(&self) -> Option<Frame> {
        self.inbox().pop(|lanes| &mut lanes.turned)
    }

    /// Gives a frame to the port of its connection if that is another one. `turned` is true if this station has sent
    /// it.
    pub(crate) fn hand_over(&self, frame: &Frame, turned: bool) -> bool {
        let Peek::Tcp(segment) = self.hub.demux.peek(frame, turned) else { return false };
        let owner = self.hub.owner(&segment.tuple);
        if owner == self.index {
            return false;
        }
        let inbox = &self.hub.inboxes[owner];
        if turned {
            inbox.push(frame.clone(), |lanes| &mut lanes.turned);
        } else {
            inbox.push_arrived(frame.clone());
        }
        true
    }

    pub(crate) fn segments(&self) -> bool {
        self.hub.segments
    }

    pub(crate) fn is_memory(&self) -> bool {
        self.hub.is_memory
    }

    pub(crate) fn key(&self) -> [u8; 16] {
        self.hub.key
    }

    /// Returns true if the frames of a connection come to this port.
    pub(crate) fn owns(&self, tuple: &Tuple) -> bool {
        self.hub.owner(tuple) == self.index
    }

    /// Makes the frames of a connection come to this port from now on. Returns true if [`Self::forget`] is needed at
    /// its end.
    pub(crate) fn claim(&self, tuple: Tuple) -> bool {
        let is_home = self.hub.home(&tuple) == self.index;
        self.hub.change(|moved| if is_home { moved.remove(&tuple) } else { moved.insert(tuple, self.index) });
        !is_home
    }

    /// Takes [`Self::claim`] back when the connection is over.
    pub(crate) fn forget(&self, tuple: &Tuple) {
        self.hub.change(|moved| moved.remove(tuple));
    }

    pub(crate) fn is_readable(&self) -> bool {
        self.inbox().waiting.load(Ordering::Acquire) > 0 || self.queue().is_readable()
    }

    pub(crate) fn poll_at(&self) -> Option<Instant> {
        self.queue().poll_at()
    }

    /// Returns whether a peer is at the device's other end. The first port answers for all.
    pub(crate) fn has_carrier(&self) -> Option<bool> {
        if self.index == 0 { self.queue().has_carrier() } else { None }
    }

    pub(crate) const fn losses(&self) -> u64 {
        self.losses
    }

    /// Returns copies of the descriptors to sleep on, as [`Wire::wait_fds`].
    pub(crate) fn wait_fds(&self) -> Option<Vec<(Arc<OwnedFd>, bool)>> {
        let mut fds = self.queue().wait_fds()?;
        fds.push((Arc::new(self.inbox().bell.try_clone().ok()?), false));
        Some(fds)
    }

    /// Returns the descriptor that becomes readable when a frame was handed over. A sleeper needs more: see
    /// [`Wire::wait_fds`].
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.inbox().bell.as_fd()
    }

    pub(crate) fn take_capture(&self) -> Option<Capture> {
        self.queue().take_capture()
    }

    /// Returns the counts of the own queue. A queue of all ports counts for the first port.
    pub(crate) fn counters(&self) -> WireCounters {
        let is_own = self.index < self.hub.queues.len();
        if is_own { self.queue().counters() } else { WireCounters::default() }
    }

    fn queue(&self) -> MutexGuard<'_, Wire> {
        let queue = &self.hub.queues[self.index % self.hub.queues.len()];
        queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn inbox(&self) -> &Inbox {
        &self.hub.inboxes[self.index]
    }
}

impl Hub {
    /// Returns the port that a connection belongs to.
    fn owner(&self, tuple: &Tuple) -> usize {
        if self.moved_count.load(Ordering::Acquire) > 0 {
            let moved = self.moved.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(&index) = moved.get(tuple) {
                return index;
            }
        }
        self.home(tuple)
    }

    fn home(&self, tuple: &Tuple) -> usize {
        queue_of([tuple.local.port(), tuple.remote.port()], self.inboxes.len())
    }

    fn change(&self, change: impl FnOnce(&mut HashMap<Tuple, usize>) -> Option<usize>) {
        let mut moved = self.moved.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut moved);
        self.moved_count.store(moved.len(), Ordering::Release);
    }
}

impl Inbox {
    fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { lanes: Mutex::default(), waiting: AtomicUsize::new(0), bell })
    }

    /// Puts a frame from the device in.
    fn push_arrived(&self, frame: Frame) {
        self.push(Arrival::Frame(frame), |lanes| &mut lanes.arrived);
    }

    /// Puts a frame in. A full inbox loses it, like any queue on the way.
    fn push<T>(&self, frame: T, lane: impl FnOnce(&mut Lanes) -> &mut VecDeque<T>) {
        let mut lanes = self.lanes();
        let lane = lane(&mut lanes);
        if lane.len() < CAPACITY {
            lane.push_back(frame);
            self.count_in();
        }
    }

    /// Puts a loss in, also into a full inbox. Several losses in a row count as one.
    fn push_loss(&self) {
        let mut lanes = self.lanes();
        let lane = &mut lanes.arrived;
        if !matches!(lane.back(), Some(Arrival::Loss)) {
            lane.push_back(Arrival::Loss);
            self.count_in();
        }
    }

    /// Counts an entry that the caller has put in while it holds the lanes. Rings the bell if it is the first entry.
    fn count_in(&self) {
        if self.waiting.fetch_add(1, Ordering::AcqRel) == 0 {
            // The only error is a full counter, which is readable as well.
            let _full = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }

    fn pop<T>(&self, lane: impl FnOnce(&mut Lanes) -> &mut VecDeque<T>) -> Option<T> {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut lanes = self.lanes();
        let next = lane(&mut lanes).pop_front()?;
        if self.waiting.fetch_sub(1, Ordering::AcqRel) == 1 {
            // The only error is a counter that is zero already.
            let _empty = rustix::io::read(&self.bell, &mut [0; 8]);
        }
        Some(next)
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Frames in a lane at most.
const CAPACITY: usize = 1024;
/// The most frames for other ports that one call takes from the device. Without this bound the port's own work could
/// wait for long.
const BURST: usize = 64;
