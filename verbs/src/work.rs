//! Work requests, as `ibv_send_wr` and `ibv_recv_wr` name their parts.

use weft_ddp::Stag;
use weft_rdmap::{AtomicOp, Immediate, Kind};

use crate::access::Access;
use crate::completion::CompletionOpcode;

/// A scatter-gather element: a piece of registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Sge {
    /// The tagged offset of the first octet; the address, unless the memory was registered with another iova.
    pub addr: u64,
    /// Octets.
    pub length: u32,
    /// The STag of the memory region.
    pub lkey: Stag,
}

/// A request for the send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendWr<'a> {
    /// Returned in the completion.
    pub wr_id: u64,
    /// What to do.
    pub opcode: SendOpcode,
    /// Where the data is, or for a Read where it is to go.
    pub data: Data<'a>,
    /// Make a completion even if the queue pair signals only what asks for it.
    pub signaled: bool,
    /// Start only when all Reads and Atomics posted before have completed (RFC 5040 section 5.5).
    pub fence: bool,
    /// Send kinds and Immediate Data only: ask the peer for an event.
    pub solicited: bool,
}

impl SendWr<'_> {
    /// Makes a request of this kind without local data, flags and identifier.
    pub const fn new(opcode: SendOpcode) -> Self {
        let data = Data::Sges(&[]);
        Self { wr_id: 0, opcode, data, signaled: false, fence: false, solicited: false }
    }
}

/// The local side of a request for the send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data<'a> {
    /// Registered memory, read (or for a Read or Atomic written) when the engine gets to it.
    Sges(&'a [Sge]),
    /// Octets that are copied into the queue when posted: the caller may reuse them at once. Not for Reads, Atomics
    /// and SYNCs.
    Inline(&'a [u8]),
}

/// The operations of the send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOpcode {
    /// Send to the peer's receive queue.
    Send,
    /// Send, and invalidate the peer's STag when it has arrived.
    SendInvalidate {
        /// The peer's STag.
        stag: Stag,
    },
    /// Write into the peer's memory.
    Write {
        /// The peer's STag.
        stag: Stag,
        /// The tagged offset in the peer's memory.
        to: u64,
    },
    /// Write into the peer's memory, and behind that complete a receive of the peer with [`Completion::immediate`]: one
    /// request and one completion (RFC 7306 section 6). No other request of the same queue comes between the two.
    ///
    /// [`Completion::immediate`]: crate::Completion::immediate
    WriteImmediate {
        /// The peer's STag.
        stag: Stag,
        /// The tagged offset in the peer's memory.
        to: u64,
        /// The octets, in network order if they are a number. They are the first four of the Immediate Data, and the
        /// others are 0.
        immediate: [u8; 4],
    },
    /// Read from the peer's memory.
    Read {
        /// The peer's STag.
        stag: Stag,
        /// The tagged offset in the peer's memory.
        to: u64,
    },
    /// Hand 8 octets to the peer in the completion of one of its receives (RFC 7306 section 6). There is no other data.
    Immediate {
        /// The octets.
        data: [u8; 8],
    },
    /// Add to 64 bits of the peer's memory (RFC 7306 section 5.1.1). The original value goes into the one SGE, of 8
    /// octets, in this machine's byte order.
    FetchAdd {
        /// The peer's STag.
        stag: Stag,
        /// The tagged offset in the peer's memory; the memory there must be aligned to 8 octets.
        to: u64,
        /// Summand.
        add: u64,
        /// Top bits of the fields to add separately, whose carry is dropped; 0 adds the whole word.
        mask: u64,
    },
    /// Compare 64 bits of the peer's memory, and change them where they are equal (RFC 7306 section 5.1.2). The
    /// original value goes into the one SGE, as with [`SendOpcode::FetchAdd`].
    CompareSwap {
        /// The peer's STag.
        stag: Stag,
        /// The tagged offset in the peer's memory; the memory there must be aligned to 8 octets.
        to: u64,
        /// New value.
        swap: u64,
        /// Bits of it to store.
        swap_mask: u64,
        /// Value to compare with.
        compare: u64,
        /// Bits of it to compare.
        compare_mask: u64,
    },
    /// Do nothing, and complete in order with all others. Local data is not looked at.
    Nop,
    /// Start nothing more before a completion queue has made `count` completions that no earlier WAIT of this send
    /// queue has used, and use those. All completions since the creation of the queue count, polled or not and failed
    /// or not.
    Wait {
        /// The queue's number. A queue pair of the same protection domain has to complete to it.
        cq: u32,
        /// Completions; at least 1.
        count: u32,
        /// Only good completions count. If a failed one is among those that the WAIT needs, the WAIT completes with
        /// [`Status::WorkRequestFlushed`](crate::Status::WorkRequestFlushed) and the stream ends, so that nothing
        /// behind it is started.
        strict: bool,
    },
    /// Make the octets of the SGEs durable, and complete when they are. If the memory has a copy in a file
    /// ([`Region::stored`](crate::Region::stored)), they are written there and the file is synchronized; all other memory
    /// has nothing to be done. A SYNC is local: it tells nothing of the peer's memory. If it fails, the file is not to be
    /// trusted any more ([`Region::is_spoiled`](crate::Region::is_spoiled)).
    Sync,
    /// Have the next SYNC of this send queue make the octets of the SGEs durable as well, by the same synchronization of
    /// the file, and complete at once. What is written to the memory until then is made durable, too. Behind 256 elements
    /// without a SYNC it is a SYNC itself.
    SyncLater,
    /// Start neither this nor anything behind it before the owner or a peer has rewritten the entry. For that the
    /// entries of the send queue have to be registered as memory. Local data is kept as it is, for the request that the
    /// entry becomes.
    Hold,
    /// Bind a memory window, so that peers can use a part of a region under the window's STag.
    BindWindow(Bind),
    /// Make the STag of a region for fast registration valid.
    FastRegister(FastRegister),
    /// Take an STag of our own out of use: a window of type 2, a fast registration, or memory that was registered for
    /// this stream alone. Earlier Sends and Writes do not need the memory any more by then. For earlier Reads and
    /// Atomics only [`SendWr::fence`] waits.
    LocalInvalidate {
        /// The STag.
        stag: Stag,
    },
}

impl SendOpcode {
    /// Returns the kind of completion that a request for this makes.
    pub const fn completion(&self) -> CompletionOpcode {
        match self {
            Self::Send | Self::SendInvalidate { .. } => CompletionOpcode::Send,
            Self::Write { .. } | Self::WriteImmediate { .. } => CompletionOpcode::Write,
            Self::Read { .. } => CompletionOpcode::Read,
            Self::Immediate { .. } => CompletionOpcode::Immediate,
            Self::FetchAdd { .. } => CompletionOpcode::FetchAdd,
            Self::CompareSwap { .. } => CompletionOpcode::CompareSwap,
            Self::Nop | Self::Hold => CompletionOpcode::Nop,
            Self::Wait { .. } => CompletionOpcode::Wait,
            Self::Sync | Self::SyncLater => CompletionOpcode::Sync,
            Self::BindWindow(_) => CompletionOpcode::BindWindow,
            Self::FastRegister(_) => CompletionOpcode::FastRegister,
            Self::LocalInvalidate { .. } => CompletionOpcode::LocalInvalidate,
        }
    }

    /// Returns the message of a request. `None` for a Read, which has a message for each SGE, and for what the engine
    /// carries out by itself.
    #[inline]
    pub(crate) const fn kind(&self, solicited: bool) -> Option<Kind> {
        Some(match *self {
            Self::Send => Kind::Send { solicited, invalidate: None },
            Self::SendInvalidate { stag } => Kind::Send { solicited, invalidate: Some(stag) },
            Self::Write { stag, to } => Kind::Write { stag, to },
            Self::WriteImmediate { stag, to, immediate: [a, b, c, d] } => {
                let data = Immediate([a, b, c, d, 0, 0, 0, 0]);
                Kind::WriteImmediate { stag, to, solicited, data }
            }
            Self::Immediate { data } => Kind::Immediate { solicited, data: Immediate(data) },
            Self::FetchAdd { stag, to, add, mask } => {
                Kind::Atomic { op: AtomicOp::FetchAdd { add, mask }, stag, to }
            }
            Self::CompareSwap { stag, to, swap, swap_mask, compare, compare_mask } => {
                let op = AtomicOp::CompareSwap { swap, swap_mask, compare, compare_mask };
                Kind::Atomic { op, stag, to }
            }
            Self::Read { .. }
            | Self::BindWindow(_)
            | Self::FastRegister(_)
            | Self::LocalInvalidate { .. }
            | Self::Nop
            | Self::Wait { .. }
            | Self::Sync
            | Self::SyncLater
            | Self::Hold => return None,
        })
    }

    /// Returns whether octets of the peer's memory are written into the local memory.
    pub const fn fetches(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::FetchAdd { .. } | Self::CompareSwap { .. })
    }

    /// Returns whether it is one of those that RFC 7306 adds, which not every peer knows.
    pub const fn is_extension(&self) -> bool {
        matches!(
            self,
            Self::Immediate { .. }
                | Self::WriteImmediate { .. }
                | Self::FetchAdd { .. }
                | Self::CompareSwap { .. }
        )
    }

    /// Returns whether the engine carries it out by itself, without a message.
    pub const fn is_local(&self) -> bool {
        match self {
            Self::BindWindow(_)
            | Self::FastRegister(_)
            | Self::LocalInvalidate { .. }
            | Self::Nop
            | Self::Wait { .. }
            | Self::Sync
            | Self::SyncLater
            | Self::Hold => true,
            Self::Send
            | Self::SendInvalidate { .. }
            | Self::Write { .. }
            | Self::WriteImmediate { .. }
            | Self::Read { .. }
            | Self::Immediate { .. }
            | Self::FetchAdd { .. }
            | Self::CompareSwap { .. } => false,
        }
    }

    /// Returns whether its local side may be inline octets. What fetches, or makes memory durable, needs memory.
    pub(crate) const fn takes_inline(&self) -> bool {
        !self.fetches() && !matches!(self, Self::Sync | Self::SyncLater)
    }

    /// Returns whether it completes a receive of the peer's.
    pub const fn takes_receive(&self) -> bool {
        matches!(
            self,
            Self::Send | Self::SendInvalidate { .. } | Self::Immediate { .. } | Self::WriteImmediate { .. }
        )
    }
}

/// The window, the memory under it, and what peers may do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind {
    /// The STag that the window is to have: its own but for the key octet.
    pub window: Stag,
    /// The memory region.
    pub region: Stag,
    /// Where the window begins, in the tagged offsets of the region.
    pub addr: u64,
    /// Octets; 0 unbinds a window of type 1.
    pub length: u64,
    /// Remote rights, and whether the tagged offsets of the window begin at 0.
    pub access: Access,
}

/// A part of a region for fast registration, and what may be done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastRegister {
    /// The STag that the memory is to have: its own but for the key octet.
    pub stag: Stag,
    /// Where in the region's own memory it begins, in octets.
    pub offset: u64,
    /// The tagged offset of the first octet.
    pub iova: u64,
    /// Octets.
    pub length: u64,
    /// The rights.
    pub access: Access,
}

/// A request for the receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvWr<'a> {
    /// Returned in the completion.
    pub wr_id: u64,
    /// Where a message is to go.
    pub sges: &'a [Sge],
}

/// Why a request cannot be posted. Nothing was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostError {
    /// The queue holds as many requests as it can.
    QueueFull,
    /// More scatter-gather elements than the queue was made for.
    TooManySges,
    /// More inline octets than the queue was made for.
    InlineTooLong,
    /// The message would be longer than 2^32 - 1 octets.
    TooLong,
    /// Inline data with a Read, Atomic or SYNC, or Solicited Event with an operation that takes no receive at the peer.
    BadFlags,
    /// An Atomic without exactly one SGE of 8 octets, or data with an operation that has none.
    BadData,
    /// Immediate Data or an Atomic, on a device that was set not to know them.
    Unsupported,
    /// The state of the queue pair does not allow it.
    InvalidState,
    /// A memory window of another type than the call is for.
    WrongWindow,
    /// An object that was given belongs to another device or protection domain.
    ForeignObject,
    /// A receive for a queue pair that takes its receives from a shared receive queue: post it there.
    SharedQueue,
    /// The queue is cyclic: its entries are posted again by themselves.
    Cyclic,
}

impl core::fmt::Display for PostError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::QueueFull => "the work queue is full: poll completions first",
            Self::TooManySges => "more scatter-gather elements than the queue pair was created for",
            Self::InlineTooLong => "more inline data than the queue pair was created for",
            Self::TooLong => "a message has at most 2^32 - 1 octets",
            Self::BadFlags => "this flag does not go with this operation",
            Self::BadData => {
                "an Atomic takes one scatter-gather element of 8 octets, and what moves no data takes none"
            }
            Self::Unsupported => "the device is set not to know Atomics and Immediate Data",
            Self::WrongWindow => {
                "the call is for memory windows of type 1, those of type 2 are bound by post_send"
            }
            Self::ForeignObject => "the objects belong to different devices or protection domains",
            Self::InvalidState => "the state of the queue pair does not allow posting",
            Self::Cyclic => "the queue is cyclic: its requests are posted again by themselves",
            Self::SharedQueue => "the queue pair takes its receives from a shared receive queue: post there",
        })
    }
}

impl core::error::Error for PostError {}

/// The most scatter-gather elements that a queue can be made for.
pub const MAX_SGE: usize = 32;
/// The most inline octets that a queue can be made for.
pub const MAX_INLINE: usize = 1024;
