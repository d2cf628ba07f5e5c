//! Falsified results of the engines, by which a test proves that the model notices them.

use weft_rnic::{CmEvent, Completion, CompletionOpcode, DisconnectReason, Status};

use super::lane::Lane;
use super::layout::Place;
use super::model::Name;
use super::request::Op;

/// One kind of fault that an engine could have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// A placed octet differs in the end.
    FlipTarget,
    /// An octet behind a target was overwritten.
    FlipGuard,
    /// Memory of a foreign protection domain was written.
    FlipForeign,
    /// An octet is wrong at the moment at which a receive completes.
    FlipOnArrival,
    /// An Atomic was carried out twice.
    RepeatAtomic,
    /// A completion is missing.
    Swallow,
    /// A completion comes twice.
    Duplicate,
    /// Two completions of a queue come in the wrong order.
    Swap,
    /// A flushed request has no completion.
    DropFlush,
    /// A flushed receive claims to be done.
    FalseSuccess,
    /// A finished request claims to be flushed.
    FalseFlush,
    /// byte_len is too large by one.
    WrongLength,
    /// The opcode is that of another operation.
    WrongOpcode,
    /// The number is that of another queue pair.
    WrongQueuePair,
    /// The invalidated STag is missing.
    HideInvalidation,
    /// Immediate Data with another octet.
    WrongImmediate,
    /// The solicited event has the opposite value.
    WrongSolicited,
    /// A failure has the status of another one.
    WrongBlame,
    /// The event for the end of a connection is missing.
    SwallowEvent,
    /// The event for the end of a connection comes twice.
    DuplicateEvent,
    /// The event for the end of a connection has a wrong reason.
    WrongReason,
}

impl Sabotage {
    /// All kinds.
    pub const ALL: [Self; 21] = [
        Self::FlipTarget,
        Self::FlipGuard,
        Self::FlipForeign,
        Self::FlipOnArrival,
        Self::RepeatAtomic,
        Self::Swallow,
        Self::Duplicate,
        Self::Swap,
        Self::DropFlush,
        Self::FalseSuccess,
        Self::FalseFlush,
        Self::WrongLength,
        Self::WrongOpcode,
        Self::WrongQueuePair,
        Self::HideInvalidation,
        Self::WrongImmediate,
        Self::WrongSolicited,
        Self::WrongBlame,
        Self::SwallowEvent,
        Self::DuplicateEvent,
        Self::WrongReason,
    ];
}

/// Commits one act of sabotage in a run, at the first opportunity.
#[derive(Debug)]
pub(crate) struct Saboteur {
    kind: Option<Sabotage>,
    pub(crate) is_done: bool,
    held: Option<Completion>,
}

impl Saboteur {
    pub(crate) const fn new(kind: Option<Sabotage>) -> Self {
        Self { kind, is_done: false, held: None }
    }

    /// Returns the completions that the application gets instead of one.
    pub(crate) fn completion(&mut self, completion: Completion, lanes: &[Lane]) -> Vec<Completion> {
        let Some(kind) = self.kind.filter(|_| !self.is_done) else { return vec![completion] };
        if let Some(held) = self.held.take() {
            return self.swap(held, completion);
        }
        let is_good = completion.status == Status::Success;
        let is_flushed = completion.status == Status::WorkRequestFlushed;
        let name = Name::of(completion.wr_id);
        let changed = match kind {
            Sabotage::Swallow if is_good => vec![],
            Sabotage::Duplicate if is_good => vec![completion; 2],
            Sabotage::Swap if is_good => {
                self.held = Some(completion);
                return vec![];
            }
            // A request without a signal may have succeeded without a completion.
            Sabotage::DropFlush if is_flushed && is_announced(lanes, name) => vec![],
            // The model cannot know whether a flushed Send or Write has arrived.
            Sabotage::FalseSuccess if is_flushed && name.is_recv && !is_empty(lanes, name) => {
                vec![Completion { status: Status::Success, ..completion }]
            }
            Sabotage::FalseFlush if is_good => {
                vec![Completion { status: Status::WorkRequestFlushed, ..completion }]
            }
            Sabotage::WrongLength if is_good => {
                vec![Completion { byte_len: completion.byte_len + 1, ..completion }]
            }
            Sabotage::WrongOpcode if is_good => {
                let opcode = match completion.opcode {
                    CompletionOpcode::Write => CompletionOpcode::Send,
                    _ => CompletionOpcode::Write,
                };
                vec![Completion { opcode, ..completion }]
            }
            Sabotage::WrongQueuePair => vec![Completion { qp_num: completion.qp_num + 1, ..completion }],
            Sabotage::HideInvalidation if completion.invalidated.is_some() => {
                vec![Completion { invalidated: None, ..completion }]
            }
            Sabotage::WrongImmediate if completion.immediate.is_some() => {
                let immediate = completion.immediate.map(|octets| octets.map(|octet| octet ^ 1));
                vec![Completion { immediate, ..completion }]
            }
            Sabotage::WrongSolicited if is_good && name.is_recv => {
                vec![Completion { solicited: !completion.solicited, ..completion }]
            }
            Sabotage::WrongBlame if !is_good && !is_flushed => {
                vec![Completion { status: Status::General, ..completion }]
            }
            Sabotage::FlipOnArrival if is_good && name.is_recv && completion.byte_len > 0 => {
                let end = &lanes[name.lane].ends[name.side];
                let place = end.plan.receives[name.index].places.iter().find(|place| place.len > 0);
                if !place.is_some_and(|place| flip(&lanes[name.lane], name.side, place)) {
                    return vec![completion];
                }
                vec![completion]
            }
            _ => return vec![completion],
        };
        self.is_done = true;
        changed
    }

    /// Returns the events that the application gets instead of one.
    pub(crate) fn event(&mut self, event: CmEvent) -> Vec<CmEvent> {
        let CmEvent::Disconnected { qp_num, reason } = &event else { return vec![event] };
        let Some(kind) = self.kind.filter(|_| !self.is_done) else { return vec![event] };
        let changed = match kind {
            Sabotage::SwallowEvent => vec![],
            Sabotage::DuplicateEvent => vec![event.clone(), event],
            Sabotage::WrongReason => {
                let wrong = match reason {
                    DisconnectReason::Lost | DisconnectReason::TimedOut => DisconnectReason::Local,
                    _ => DisconnectReason::Lost,
                };
                vec![CmEvent::Disconnected { qp_num: *qp_num, reason: wrong }]
            }
            _ => return vec![event],
        };
        self.is_done = true;
        changed
    }

    /// Changes memory before the run is judged.
    pub(crate) fn spoil_memory(&mut self, lanes: &[Lane]) {
        let Some(kind) = self.kind.filter(|_| !self.is_done) else { return };
        let targets = lanes.iter().flat_map(|lane| [(lane, 0), (lane, 1)]).flat_map(|(lane, side)| {
            let delivered = lane.ends[side].plan.requests.iter().take(lane.ends[side].delivered);
            delivered.filter_map(move |request| match request.op {
                Op::Write { to } => Some((lane, 1 - side, to)),
                _ => None,
            })
        });
        let target = targets.into_iter().find(|(_, _, to)| to.len > 0);
        self.is_done |= match (kind, target) {
            (Sabotage::FlipTarget, Some((lane, side, to))) => flip(lane, side, &to),
            (Sabotage::FlipGuard, Some((lane, side, to))) => {
                flip(lane, side, &Place { offset: to.offset + to.len, len: 1, ..to })
            }
            (Sabotage::FlipForeign, _) => lanes.first().is_some_and(|lane| {
                flip(lane, 0, &Place { region: super::layout::Role::Foreign as usize, offset: 0, len: 1 })
            }),
            (Sabotage::RepeatAtomic, _) => lanes.iter().any(|lane| {
                (0..2).any(|side| {
                    let word = lane.ends[side].plan.words.first();
                    word.is_some_and(|(place, _)| flip(lane, side, place))
                })
            }),
            _ => false,
        };
    }

    /// Exchanges this completion and the kept one, if both are of one work queue.
    fn swap(&mut self, first: Completion, second: Completion) -> Vec<Completion> {
        let (left, right) = (Name::of(first.wr_id), Name::of(second.wr_id));
        if (left.lane, left.side, left.is_recv) == (right.lane, right.side, right.is_recv) {
            self.is_done = true;
            return vec![second, first];
        }
        vec![first, second]
    }
}

/// Returns true if a receive is for a message without octets.
fn is_empty(lanes: &[Lane], name: Name) -> bool {
    let peer = &lanes[name.lane].ends[1 - name.side];
    peer.senders.get(name.index).is_some_and(|sender| peer.plan.requests[*sender].data.is_empty())
}

/// Returns true if the request has a completion in any case, unless it succeeds unsignaled.
fn is_announced(lanes: &[Lane], name: Name) -> bool {
    name.is_recv || lanes[name.lane].ends[name.side].is_signaled(name.index)
}

/// Changes the first octet of a place. Returns false if the place is empty.
fn flip(lane: &Lane, side: usize, place: &Place) -> bool {
    let Some(mr) = lane.ends[side].memory.region(place.region) else { return false };
    let mut octet = [0];
    mr.read(place.offset, &mut octet).is_ok() && mr.write(place.offset, &[octet[0] ^ 0x10]).is_ok()
}
