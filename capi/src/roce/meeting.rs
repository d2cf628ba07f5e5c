//! Connects two queue pairs that name each other, without a third party that knows both.
//!
//! From ready-to-receive on, both sides know both ends. The end with the lower number calls; if the numbers are equal,
//! the one with the lower GID. It connects to the port in the other end's number. Its Request says which queue pair
//! calls and which one is called. The other end answers when its program has named the caller; until then it holds the
//! Request. A call that fails or is refused is repeated as long as the queue pair wants the connection.
//!
//! A queue pair may also name itself. Then a second queue pair, which only sends, calls the first one, which only
//! receives.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weft_netif::Instant;
use weft_rnic::{
    Clock, CmEvent, ConnParam, ConnectRequest, Device, EventChannel, EventQueue, News, Notice, QpState,
    RequestId,
};

use super::hello::{End, Hello};
use super::numbers::Numbers;

/// The meetings of this process.
#[derive(Debug)]
pub(crate) struct Meetings {
    device: Device,
    queue: EventQueue,
    events: EventChannel,
    clock: Clock,
    numbers: Arc<Numbers>,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// By the own number.
    meetings: HashMap<u32, Meeting>,
    /// Calls for queue pairs that have not named their peer yet.
    waiting: HashMap<u32, (RequestId, Hello, SocketAddr)>,
}

/// A queue pair and the peer that its program has named.
#[derive(Debug)]
pub(crate) struct Meeting {
    own: End,
    peer: End,
    /// The address on which the peer listens.
    address: SocketAddr,
    /// The queue pair that sends.
    sender: Arc<weft_rnic::Qp>,
    /// The queue pair that receives, if that is another one.
    receiver: Option<Arc<weft_rnic::Qp>>,
    /// How long a request waits for the peer. None is endless.
    patience: Option<Duration>,
    /// When to call next. None while a call is under way, and on the called side.
    again: Option<Instant>,
    pause: Duration,
    /// When the oldest waiting request fails, once there is one.
    ends: Option<Instant>,
}

impl Meetings {
    pub(crate) fn new(device: &Device, queue: EventQueue, numbers: Arc<Numbers>) -> Self {
        let events = device.events_on(&queue);
        let clock = Clock::real_time(1);
        Self { device: device.clone(), queue, events, clock, numbers, table: Mutex::default() }
    }

    /// Begins a meeting with the peer that the program has named. Does not block.
    pub(crate) fn begin(&self, mut meeting: Meeting) {
        let mut table = self.table();
        let number = meeting.own.number;
        if meeting.calls() {
            self.call(&mut meeting);
        }
        if let Some((request, hello, from)) = table.waiting.remove(&number)
            && !(meeting.is_with(&hello, from) && self.accept(&meeting, request))
        {
            self.refuse(request);
        }
        table.meetings.insert(number, meeting);
        drop(table);
        // Wakes the thread in `attend`, so that it computes its deadline again.
        self.queue.post(0, 0);
    }

    /// Sets how long requests of a queue pair wait for its peer.
    pub(crate) fn set_patience(&self, number: u32, patience: Option<Duration>) {
        if let Some(meeting) = self.table().meetings.get_mut(&number) {
            meeting.patience = patience;
        }
    }

    /// Ends the meeting of a queue pair. Its connection, if there is one, is not touched.
    pub(crate) fn forget(&self, number: u32) {
        let mut table = self.table();
        table.meetings.remove(&number);
        if let Some((request, ..)) = table.waiting.remove(&number) {
            self.refuse(request);
        }
    }

    /// Handles calls as long as the process lives.
    pub(crate) fn attend(&self) {
        loop {
            let pause = self.look_at_the_time().map(|pause| Timespec {
                tv_sec: i64::try_from(pause.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: pause.subsec_nanos().into(),
            });
            // The loop itself finds its work after any wake-up.
            let _woken = poll(&mut [PollFd::new(&self.queue.as_fd(), PollFlags::IN)], pause.as_ref());
            while let Some(notice) = self.queue.pop() {
                self.handle(notice);
            }
        }
    }

    fn handle(&self, Notice { id, news }: Notice) {
        match news {
            News::Event(CmEvent::ConnectRequest(request)) => self.handle_call(&request),
            News::Event(CmEvent::Rejected { .. } | CmEvent::ConnectError { .. }) => {
                let called = u32::try_from(id).ok();
                let mut table = self.table();
                if let Some(meeting) = called.and_then(|number| table.meetings.get_mut(&number)) {
                    meeting.call_later(self.clock.now());
                }
            }
            News::Event(_) | News::Posted(_) => {}
        }
    }

    fn handle_call(&self, request: &ConnectRequest) {
        let Some(hello) = Hello::parse(&request.private_data) else { return self.refuse(request.id) };
        let mut table = self.table();
        match table.meetings.get(&hello.to) {
            Some(meeting) if meeting.is_with(&hello, request.peer) && self.accept(meeting, request.id) => {}
            None if self.numbers.is_taken(hello.to) => {
                let former = table.waiting.insert(hello.to, (request.id, hello, request.peer));
                if let Some((former, ..)) = former {
                    self.refuse(former);
                }
            }
            _ => self.refuse(request.id),
        }
    }

    /// Repeats calls that are due, and fails requests that have waited for too long. Returns the pause until the next
    /// look.
    fn look_at_the_time(&self) -> Option<Duration> {
        let now = self.clock.now();
        let mut table = self.table();
        let mut next = None;
        for meeting in table.meetings.values_mut().filter(|meeting| meeting.is_awaited()) {
            if meeting.again.is_some_and(|again| again <= now) {
                self.call(meeting);
            }
            if let Some(patience) = meeting.patience.filter(|_| meeting.sender.has_sends()) {
                let ends = *meeting.ends.get_or_insert_with(|| now + patience.into());
                if ends <= now {
                    meeting.give_up();
                }
            }
            if meeting.is_awaited() {
                let is_urgent = meeting.again.is_some() || meeting.ends.is_some();
                let pause = if is_urgent { TICK } else { LONG_TICK };
                next = Some(next.map_or(pause, |next: Duration| next.min(pause)));
            }
        }
        next
    }

    fn call(&self, meeting: &mut Meeting) {
        let hello = Hello { from: meeting.own, to: meeting.peer.number };
        let param =
            ConnParam { private_data: &hello.emit(), id: meeting.own.number.into(), ..self.all_reads() };
        meeting.again = None;
        if self.device.connect(&self.events, &meeting.sender, meeting.address, param).is_err() {
            meeting.call_later(self.clock.now());
        }
    }

    fn accept(&self, meeting: &Meeting, request: RequestId) -> bool {
        let receiver = meeting.receiver.as_ref().unwrap_or(&meeting.sender);
        let param = ConnParam { id: meeting.own.number.into(), ..self.all_reads() };
        self.device.accept(request, receiver, param).is_ok()
    }

    /// A caller that has gone meanwhile is ignored.
    fn refuse(&self, request: RequestId) {
        let _gone = self.device.reject(request, &[]);
    }

    /// Returns parameters with as many Reads as the device has. Programs name the depths of one side only, and often
    /// too late.
    fn all_reads(&self) -> ConnParam<'static> {
        let reads = Some(self.device.max_reads());
        ConnParam { ird: reads, ord: reads, ..ConnParam::NONE }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Meeting {
    pub(crate) fn new(
        [own, peer]: [End; 2],
        address: SocketAddr,
        sender: Arc<weft_rnic::Qp>,
        receiver: Option<Arc<weft_rnic::Qp>>,
    ) -> Self {
        Self {
            own,
            peer,
            address,
            sender,
            receiver,
            patience: None,
            again: None,
            pause: FIRST_PAUSE,
            ends: None,
        }
    }

    fn calls(&self) -> bool {
        self.own <= self.peer
    }

    /// Returns true if the caller is the peer that the program has named.
    fn is_with(&self, hello: &Hello, from: SocketAddr) -> bool {
        let is_there = from.ip().to_canonical() == self.address.ip() || hello.from.gid == self.peer.gid;
        let is_called = !self.calls() || self.receiver.is_some();
        is_called && is_there && hello.from.number == self.peer.number && hello.to == self.own.number
    }

    /// Returns true if the peer has not come yet.
    fn is_awaited(&self) -> bool {
        self.sender.state() == QpState::Idle
    }

    fn call_later(&mut self, now: Instant) {
        self.again = Some(now + self.pause.into());
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    fn give_up(&self) {
        self.sender.give_up();
        if let Some(receiver) = &self.receiver {
            receiver.give_up();
        }
    }
}

/// The pause between looks for a request, while the peer is missing.
const LONG_TICK: Duration = Duration::from_millis(100);
/// The pause while a request waits, or a call has to be repeated.
const TICK: Duration = Duration::from_millis(20);
/// The pause before the second call. It doubles with each further call.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
