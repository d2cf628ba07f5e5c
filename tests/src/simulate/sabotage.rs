//! Lies about what the engines did, by which a test proves that the model sees through them.

use weft_rnic::{CmEvent, Completion, CompletionOpcode, DisconnectReason, Status};

use super::lane::Lane;
use super::layout::Place;
use super::model::Name;
use super::request::Op;

/// One kind of fault that an engine could have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// An octet that was placed is another one in the end.
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
    /// byte_len is one too much.
    WrongLength,
    /// Another operation than the one that was asked for.
    WrongOpcode,
    /// The number of another queue pair.
    WrongQueuePair,
    /// The STag that was invalidated is not told.
    HideInvalidation,
    /// Immediate Data with another octet.
    WrongImmediate,
    /// The solicited event is told where there is none, and not where there is one.
    WrongSolicited,
    /// A reason for a failure is told as another one.
    WrongBlame,
    /// Nobody hears that a connection has ended.
    SwallowEvent,
    /// The end of a connection is told twice.
    DuplicateEvent,
    /// The end of a connection is told with a wrong reason.
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

    /// What the application gets instead of a completion.
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
            // A request without a signal may as well have succeeded in silence.
            Sabotage::DropFlush if is_flushed && is_announced(lanes, name) => vec![],
            // Whether a Send or Write that was flushed has arrived or not, nobody can know.
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

    /// What the application hears instead of an event.
    pub(crate) fn event(&mut self, event: CmEvent) -> Vec<CmEvent> {
        let CmEvent::Disconnected { qp_num, reason } = &event else { return vec![event] };
        let Some(kind) = self.kind.filter(|_| !self.is_done) else { return vec![event] };
        let changed = match kind {
            Sabotage::SwallowEvent => vec![],
            Sabotage::DuplicateEvent => vec![event.clone(), event],
            Sabotage::WrongReason => {
                let wrong = match reason {
                    DisconnectReason::Lost => DisconnectReason::Local,
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

    /// The other way round, if both are of one work queue.
    fn swap(&mut self, first: Completion, second: Completion) -> Vec<Completion> {
        let (left, right) = (Name::of(first.wr_id), Name::of(second.wr_id));
        if (left.lane, left.side, left.is_recv) == (right.lane, right.side, right.is_recv) {
            self.is_done = true;
            return vec![second, first];
        }
        vec![first, second]
    }
}

/// Whether a receive is for a message without octets.
fn is_empty(lanes: &[Lane], name: Name) -> bool {
    let peer = &lanes[name.lane].ends[1 - name.side];
    peer.senders.get(name.index).is_some_and(|sender| peer.plan.requests[*sender].data.is_empty())
}

/// Whether this completes in any case, or with success in silence.
fn is_announced(lanes: &[Lane], name: Name) -> bool {
    name.is_recv || lanes[name.lane].ends[name.side].is_signaled(name.index)
}

/// Changes the first octet of a place; false where there is none.
fn flip(lane: &Lane, side: usize, place: &Place) -> bool {
    let Some(mr) = lane.ends[side].memory.region(place.region) else { return false };
    let mut octet = [0];
    mr.read(place.offset, &mut octet).is_ok() && mr.write(place.offset, &[octet[0] ^ 0x10]).is_ok()
}
