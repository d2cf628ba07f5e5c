//! The planned requests of the applications, and the deliberate faults in some of them.

use std::fmt;

use weft_rnic::{CompletionOpcode, Status};

use super::layout::{Place, Role};

/// A request for a send queue.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) op: Op,
    /// The pieces of local memory: the source, or the sink of fetched octets. Empty with inline data.
    pub(crate) local: Vec<Place>,
    pub(crate) inline: bool,
    /// The octets that are sent, or that will be fetched.
    pub(crate) data: Vec<u8>,
    pub(crate) signaled: bool,
    pub(crate) fence: bool,
    pub(crate) solicited: bool,
    /// The application overwrites the source as soon as the request is known to be done.
    pub(crate) scribble: bool,
    pub(crate) bad: Option<Bad>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// `receive` is the index of the peer's receive that takes it. `invalidate` is a window of the peer.
    Send {
        receive: usize,
        invalidate: Option<usize>,
    },
    Immediate {
        receive: usize,
    },
    Write {
        to: Place,
    },
    Read {
        from: Place,
    },
    /// `step` counts the Atomics on this word before this one.
    Atomic {
        word: usize,
        step: usize,
        change: Change,
    },
}

/// The effect of an Atomic, stated bit by bit (RFC 7306 section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    FetchAdd { add: u64, mask: u64 },
    CompareSwap { swap: u64, swap_mask: u64, compare: u64, compare_mask: u64 },
}

impl Change {
    pub(crate) fn apply(&self, value: u64) -> u64 {
        match *self {
            Self::FetchAdd { add, mask } => {
                let (mut sum, mut carry) = (0, 0);
                for bit in 0..64 {
                    let digit = (value >> bit & 1) + (add >> bit & 1) + carry;
                    sum |= (digit & 1) << bit;
                    // A set bit of the mask is the top of a field, and no carry leaves a field.
                    carry = if mask >> bit & 1 == 1 { 0 } else { digit >> 1 };
                }
                sum
            }
            Self::CompareSwap { swap, swap_mask, compare, compare_mask } => {
                let differs =
                    (0..64).any(|bit| compare_mask >> bit & 1 == 1 && value >> bit & 1 != compare >> bit & 1);
                if differs { value } else { value & !swap_mask | swap & swap_mask }
            }
        }
    }
}

impl Request {
    pub(crate) const fn opcode(&self) -> CompletionOpcode {
        match self.op {
            Op::Send { .. } => CompletionOpcode::Send,
            Op::Immediate { .. } => CompletionOpcode::Immediate,
            Op::Write { .. } => CompletionOpcode::Write,
            Op::Read { .. } => CompletionOpcode::Read,
            Op::Atomic { change: Change::FetchAdd { .. }, .. } => CompletionOpcode::FetchAdd,
            Op::Atomic { change: Change::CompareSwap { .. }, .. } => CompletionOpcode::CompareSwap,
        }
    }

    /// An empty Send.
    pub(crate) const fn empty() -> Self {
        Self {
            op: Op::Send { receive: usize::MAX, invalidate: None },
            local: Vec::new(),
            inline: false,
            data: Vec::new(),
            signaled: false,
            fence: false,
            solicited: false,
            scribble: false,
            bad: None,
        }
    }

    /// Returns the name in the report.
    pub(crate) const fn name(&self) -> &'static str {
        match self.op {
            Op::Send { invalidate: Some(_), .. } if self.solicited => "send-se-inv",
            Op::Send { invalidate: Some(_), .. } => "send-inv",
            Op::Send { .. } if self.solicited => "send-se",
            Op::Send { .. } => "send",
            Op::Immediate { .. } if self.solicited => "immediate-se",
            Op::Immediate { .. } => "immediate",
            Op::Write { .. } => "write",
            Op::Read { .. } => "read",
            Op::Atomic { change: Change::FetchAdd { .. }, .. } => "fetch-add",
            Op::Atomic { change: Change::CompareSwap { .. }, .. } => "compare-swap",
        }
    }

    /// Returns true if the request fetches octets.
    pub(crate) const fn fetches(&self) -> bool {
        matches!(self.op, Op::Read { .. } | Op::Atomic { .. })
    }

    /// Returns the receive of the peer that it takes.
    pub(crate) const fn receive(&self) -> Option<usize> {
        match self.op {
            Op::Send { receive, .. } | Op::Immediate { receive } => Some(receive),
            _ => None,
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} octets", self.name(), self.data.len())?;
        let flags = [(self.inline, "inline"), (self.fence, "fence"), (self.signaled, "signaled")];
        for (_, name) in flags.into_iter().filter(|(set, _)| *set) {
            write!(f, ", {name}")?;
        }
        if let Some(bad) = self.bad {
            write!(f, ", bad: {}", bad.name())?;
        }
        write!(f, ": {:?} {:?}", self.op, self.local)
    }
}

/// A request for a receive queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Receive {
    pub(crate) places: Vec<Place>,
    /// The last element has an STag that does not exist.
    pub(crate) bad: bool,
}

/// The fault of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Bad {
    /// The peer has no such STag.
    Stag,
    /// The peer has invalidated it.
    Invalidated,
    /// The access begins inside of the peer's region and ends outside.
    Bounds,
    /// The access begins before the peer's region.
    Before,
    /// Offset plus length is more than 64 bits hold.
    Wrap,
    /// The peer's region does not grant the right.
    Rights,
    /// The peer's region is of another protection domain.
    Domain,
    /// The peer's region is for another stream.
    Stream,
    /// An Atomic on an unaligned address.
    Unaligned,
    /// The STag to be invalidated does not exist, or is not of this stream alone.
    CannotInvalidate,
    /// The peer has posted no receive.
    NoReceive,
    /// The peer's receive is too short.
    ShortReceive,
    /// The peer's receive has an SGE with a bad STag.
    ReceiveStag,
    /// An own SGE with a bad STag.
    LocalStag,
    /// An own SGE that leaves its region.
    LocalBounds,
    /// An own SGE whose region does not grant the right: a sink in memory that may only be read.
    LocalRights,
    /// An own SGE of another protection domain.
    LocalDomain,
}

/// Layer, error type and error code of a Terminate.
pub(crate) type Code = (u8, u8, u8);

impl Bad {
    /// Returns the possible faults of a request of this kind.
    pub(crate) fn choice(opcode: CompletionOpcode) -> Vec<Self> {
        use Bad::*;
        let access = [Stag, Invalidated, Bounds, Before, Wrap, Rights, Domain, Stream];
        let source = [LocalStag, LocalBounds, LocalDomain];
        let sink = [LocalStag, LocalBounds, LocalRights, LocalDomain];
        match opcode {
            CompletionOpcode::Write => [&access[..], &source].concat(),
            CompletionOpcode::Read => [&access[..], &sink].concat(),
            CompletionOpcode::FetchAdd | CompletionOpcode::CompareSwap => {
                [&access[..], &[Unaligned], &sink].concat()
            }
            CompletionOpcode::Immediate => vec![NoReceive],
            _ => [&[NoReceive, ShortReceive, ReceiveStag, CannotInvalidate][..], &source].concat(),
        }
    }

    /// Returns true if the posting end itself finds the fault.
    pub(crate) const fn is_local(self) -> bool {
        matches!(self, Self::LocalStag | Self::LocalBounds | Self::LocalRights | Self::LocalDomain)
    }

    /// Returns the Terminate that ends the stream (RFC 5040 section 4.8, RFC 5041 section 7.2, RFC 7306 section 8.2).
    pub(crate) const fn code(self, opcode: CompletionOpcode) -> Code {
        let is_write = matches!(opcode, CompletionOpcode::Write);
        match self {
            Self::Stag | Self::Invalidated if is_write => (1, 1, 0x00),
            Self::Bounds | Self::Before if is_write => (1, 1, 0x01),
            Self::Domain | Self::Stream if is_write => (1, 1, 0x02),
            Self::Wrap if is_write => (1, 1, 0x03),
            Self::Stag | Self::Invalidated => (0, 1, 0x00),
            Self::Bounds | Self::Before => (0, 1, 0x01),
            Self::Rights => (0, 1, 0x02),
            Self::Domain | Self::Stream => (0, 1, 0x03),
            Self::Wrap => (0, 1, 0x04),
            Self::Unaligned => (0, 2, 0x07),
            Self::CannotInvalidate => (0, 1, 0x09),
            Self::NoReceive => (1, 2, 0x02),
            Self::ShortReceive => (1, 2, 0x05),
            Self::ReceiveStag => (0, 0, 0x00),
            Self::LocalStag | Self::LocalBounds | Self::LocalRights | Self::LocalDomain => (0, 0, 0x00),
        }
    }

    /// Returns the status of the request, if it is not success or flushed.
    pub(crate) const fn status(self, opcode: CompletionOpcode) -> Status {
        if self.is_local() {
            return Status::LocalProtection;
        }
        match self.code(opcode) {
            (0 | 1, 1, _) => Status::RemoteAccess,
            (1, 2, 0x02) => Status::RnrRetryExceeded,
            (1, 2, _) | (0, 2, 0x05 | 0x06) => Status::RemoteInvalidRequest,
            _ => Status::RemoteOperation,
        }
    }

    /// Returns the status of the receive that takes the request, if the receive has the fault.
    pub(crate) const fn receive_status(self) -> Option<Status> {
        match self {
            Self::ShortReceive => Some(Status::LocalLength),
            Self::ReceiveStag => Some(Status::LocalProtection),
            _ => None,
        }
    }

    /// Returns a region that does not grant the operation.
    pub(crate) const fn region(self, op: &Op) -> Role {
        match op {
            Op::Write { .. } => Role::Readable,
            Op::Atomic { .. } => Role::Mixed,
            _ => Role::Exposed,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Stag => "unknown STag",
            Self::Invalidated => "invalidated STag",
            Self::Bounds => "end out of bounds",
            Self::Before => "begin out of bounds",
            Self::Wrap => "offset wraps",
            Self::Rights => "no right",
            Self::Domain => "other domain",
            Self::Stream => "other stream",
            Self::Unaligned => "unaligned atomic",
            Self::CannotInvalidate => "cannot invalidate",
            Self::NoReceive => "no receive",
            Self::ShortReceive => "receive too short",
            Self::ReceiveStag => "receive with bad SGE",
            Self::LocalStag => "own SGE: unknown STag",
            Self::LocalBounds => "own SGE: bounds",
            Self::LocalRights => "own SGE: no right",
            Self::LocalDomain => "own SGE: other domain",
        }
    }
}
