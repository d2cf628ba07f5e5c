//! A connection while it runs: the state of its two ends.

use weft_netif::Instant;
use weft_rnic::{Cause, DisconnectReason, Mr, Qp, Status};

use super::memory::{InFlight, Memory};
use super::plan::{EndPlan, Terms};
use super::request::{Code, Op, Request};

/// Two ends and their planned fate.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) index: usize,
    pub(crate) ends: [End; 2],
    pub(crate) terms: Terms,
    /// The number of the initiator's attempts.
    pub(crate) attempts: usize,
    pub(crate) connect_at: Option<Instant>,
    /// The time at which each end carries out its fate. `None` if it is not known yet, or done.
    pub(crate) due: [Option<Instant>; 2],
    pub(crate) fired: [bool; 2],
    /// Memory was deregistered, as planned.
    pub(crate) deregistered: bool,
    /// The time of the last event.
    pub(crate) moved: Instant,
    /// The link between the two hosts is cut for ever at some time.
    pub(crate) is_doomed: bool,
    pub(crate) has_crc: bool,
}

/// One end: its objects, and the progress of its queues.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) plan: EndPlan,
    pub(crate) qp: Option<Qp>,
    pub(crate) number: u32,
    pub(crate) memory: Memory,
    pub(crate) state: State,
    pub(crate) sends: Progress,
    pub(crate) recvs: Progress,
    /// The number of planned requests. Later ones were posted after the end.
    pub(crate) planned: usize,
    /// The peer's requests that take each receive.
    pub(crate) senders: Vec<usize>,
    /// Requests before this one are known to be placed at the peer.
    pub(crate) delivered: usize,
    /// The application has asked for the end.
    pub(crate) disconnected: bool,
    pub(crate) next_at: Instant,
    pub(crate) posted_after_end: bool,
}

/// The progress of a work queue, in requests.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) posted: usize,
    /// The number that is known to be completed, with or without success.
    pub(crate) done: usize,
    /// The index of the first one without success.
    pub(crate) failed: Option<usize>,
    /// The requests that completed with a status other than success or flushed.
    pub(crate) blamed: Vec<(usize, Status, u32)>,
    pub(crate) stamp: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Idle,
    Connecting,
    Established,
    Over(Reason),
    /// The application has destroyed the queue pair.
    Destroyed,
    /// The connection was not established.
    Unconnected,
}

/// The end of a connection, as one side was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Local,
    Peer,
    Lost,
    /// This end sent a Terminate.
    Sent(Code),
    /// The peer sent one.
    Got(Code),
    Overrun,
}

impl Lane {
    pub(crate) fn new(index: usize, terms: Terms, ends: [End; 2]) -> Self {
        Self {
            index,
            ends,
            attempts: 0,
            connect_at: Some(terms.connect_at),
            due: [None; 2],
            fired: [false; 2],
            deregistered: false,
            moved: Instant::ZERO,
            is_doomed: false,
            has_crc: false,
            terms,
        }
    }

    /// Returns true if there is nothing to wait for.
    pub(crate) fn is_over(&self) -> bool {
        let [initiator, responder] = &self.ends;
        let waits = |end: &End| matches!(end.state, State::Connecting | State::Established);
        let never = initiator.state == State::Unconnected;
        self.connect_at.is_none()
            && !waits(initiator)
            && (!waits(responder) && (never || responder.is_ended()))
    }

    /// Returns true if all planned work has been done on both ends.
    pub(crate) fn is_done(&self) -> bool {
        let [a, b] = &self.ends;
        let done = |own: &End, peer: &End| {
            own.state == State::Established
                && own.sends.done == own.planned
                && own.sends.failed.is_none()
                && own.recvs.done == peer.senders.len()
        };
        done(a, b) && done(b, a)
    }

    /// Compares all memory of one end with its allowed content.
    pub(crate) fn audit(&self, side: usize) -> Result<(), String> {
        let (own, peer) = (&self.ends[side], &self.ends[1 - side]);
        let placed = peer.plan.requests[peer.delivered..peer.sends.posted].iter().map(|request| {
            let places = match &request.op {
                Op::Write { to } if request.bad.is_none() => std::slice::from_ref(to),
                Op::Send { receive, .. } if !request.is_local_fault() => {
                    own.plan.receives.get(*receive).map_or(&[][..], |receive| &receive.places)
                }
                _ => &[],
            };
            InFlight { places, data: &request.data, is_last: request.bad.is_some() }
        });
        // A Read may be done, with its octets in place, before its completion is polled.
        let done = own.sends.failed.unwrap_or(own.sends.done);
        let fetched = own.plan.requests[done..own.sends.posted].iter().filter(|request| request.fetches());
        let fetched = fetched.map(|request| {
            let places = if request.bad.is_none() { &request.local[..] } else { &[] };
            InFlight { places, data: &request.data, is_last: request.bad.is_some() }
        });
        // The peer has closed. Its earlier requests are still answered, and Atomics are carried out when they are
        // answered.
        let may_change = !own.memory.is_frozen() || own.state == State::Over(Reason::Peer);
        let words =
            own.plan.words.iter().enumerate().filter(|_| may_change).map(|(index, (place, values))| {
                let steps = |requests: &[Request]| {
                    let is_this =
                        |request: &&Request| matches!(request.op, Op::Atomic { word, .. } if word == index);
                    requests.iter().filter(is_this).count()
                };
                let least = steps(&peer.plan.requests[..peer.sends.failed.unwrap_or(peer.sends.done)]);
                (*place, &values[least..=steps(&peer.plan.requests[..peer.sends.posted])])
            });
        let words: Vec<_> = words.collect();
        own.memory
            .audit(&[placed.collect(), fetched.collect()], &words)
            .map_err(|error| format!("memory of {}: {error}", self.name(side)))
    }

    /// Notes that the stream of one end has ended: its memory may not change any more.
    pub(crate) fn freeze(&mut self, side: usize) -> Result<(), String> {
        if self.ends[side].memory.is_frozen() {
            return Ok(());
        }
        self.audit(side)?;
        self.ends[side].memory.freeze()
    }

    pub(crate) fn name(&self, side: usize) -> String {
        let role = if side == 0 { "initiator" } else { "responder" };
        format!("lane {}, {role} (host {})", self.index, self.ends[side].plan.host)
    }
}

impl End {
    pub(crate) fn new(plan: EndPlan, qp: Qp, memory: Memory) -> Self {
        let senders = plan.requests.iter().enumerate().filter(|(_, request)| request.receive().is_some());
        Self {
            number: qp.number(),
            qp: Some(qp),
            memory,
            state: State::Idle,
            sends: Progress::default(),
            recvs: Progress::default(),
            planned: plan.requests.len(),
            senders: senders.map(|(index, _)| index).collect(),
            delivered: 0,
            disconnected: false,
            next_at: Instant::ZERO,
            posted_after_end: false,
            plan,
        }
    }

    pub(crate) const fn is_ended(&self) -> bool {
        matches!(self.state, State::Over(_) | State::Destroyed | State::Unconnected)
    }

    /// Returns true if requests may be flushed.
    pub(crate) const fn may_flush(&self) -> bool {
        matches!(self.state, State::Over(_)) || self.disconnected
    }

    pub(crate) fn is_signaled(&self, index: usize) -> bool {
        self.plan.signal_all || self.plan.requests[index].signaled
    }

    /// Returns the window that a Send of the peer invalidates.
    pub(crate) fn window(&self, region: usize) -> Option<&Mr> {
        self.memory.region(region)
    }
}

impl Request {
    /// Returns true if no octet of the bad request leaves its own side.
    pub(crate) fn is_local_fault(&self) -> bool {
        self.bad.is_some_and(super::request::Bad::is_local)
    }
}

impl Reason {
    pub(crate) fn of(reason: &DisconnectReason) -> Self {
        match reason {
            DisconnectReason::Local => Self::Local,
            DisconnectReason::Peer => Self::Peer,
            DisconnectReason::PeerTerminate { code, .. } => Self::Got(*code),
            DisconnectReason::LocalTerminate(cause) => match cause {
                Cause::Mpa(error) => Self::Sent((2, 0, error.code())),
                Cause::Peer(error) => Self::Sent(error.code()),
                Cause::Local(_) | Cause::Requested => Self::Sent((0, 0, 0)),
                Cause::CompletionQueueOverrun => Self::Overrun,
            },
            DisconnectReason::Lost | DisconnectReason::TimedOut => Self::Lost,
        }
    }

    /// Returns the name in the report.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Local => "disconnected".into(),
            Self::Peer => "peer disconnected".into(),
            Self::Lost => "lost".into(),
            Self::Overrun => "completion queue overrun".into(),
            Self::Sent((layer, etype, code)) => format!("sent Terminate {layer:x}/{etype:x}/{code:02x}"),
            Self::Got((layer, etype, code)) => format!("got Terminate {layer:x}/{etype:x}/{code:02x}"),
        }
    }
}
