//! The verbs objects and their rules, without an engine, a wire or a clock.
//!
//! ```text
//!    application                 verbs                          engine
//!   post_send, post_recv ──▶ QpQueues: rings of requests ──▶ QueuePair::next_message, fill
//!                            MemoryTable: STag ─▶ memory  ◀── QueuePair::apply
//!   poll                 ◀── CompletionQueue              ◀── QueuePair::finish, flush
//! ```
//!
//! A queue is a flat ring ([`Ring`]) in private memory of the process that opened the device. The engine and the
//! application share it without a lock between them; threads that post take turns. The engine reads an entry when it
//! starts it. Only the *entries* of a send queue can be registered, so that a peer writes work there.
//!
//! Memory is registered in a [`MemoryTable`], named by an STag that cannot be guessed, and reached only by copies
//! ([`Region`]). [`QpState`] is the iWARP state table.
//!
//! The semantics are those of RFC 5040 (which check belongs to whom, what a completion means) with libibverbs' names. A
//! completion of a Send or Write says that the source may be reused, not that the peer has the data: a Read behind it
//! says that (RFC 5040 section 5.5).

mod access;
mod completion;
mod copy;
mod counters;
mod cq;
mod cq_table;
pub mod crc;
mod doorbell;
mod entry;
mod errno;
mod guard;
mod ids;
mod landing;
mod layout;
mod lending;
#[cfg(all(test, loom))]
mod loom_tests;
mod memory;
mod notice;
mod numbered;
mod payload;
mod pieces;
mod qp;
mod queues;
mod reach;
mod recv_queue;
mod refusal;
mod region;
mod ring;
mod send_queue;
mod srq;
mod stag;
mod state;
mod sync;
mod syncing;
mod transfer;
mod work;

pub use access::Access;
pub use completion::{Completion, CompletionOpcode, Status};
pub use counters::{CqCounters, QpCounters};
pub use cq::{CompletionQueue, CqNotice, MAX_CQ_ENTRIES, ResizeError};
pub use cq_table::CqTable;
pub use doorbell::{Doorbells, Taking};
pub use entry::{BadEntry, SendWork};
pub use errno::Errno;
pub use guard::guard_memory;
pub use ids::{PdId, StreamId};
pub use landing::Landing;
pub use layout::SendQueueLayout;
pub use lending::{Left, Lending};
pub use memory::{
    Change, Claim, KeyedKind, KeyedStag, MemoryInfo, MemoryKind, MemoryRegion, MemoryTable, RegisterError,
    Registration, Span, Violation, WindowType,
};
pub use notice::{QpNotice, QpNotices};
pub use payload::Payload;
pub use qp::{CycleError, QpInit, QueuePair, Short};
pub use queues::{QpCapacity, QpQueues};
pub use reach::Reach;
pub use recv_queue::{RecvQueue, RecvWork};
pub use refusal::{LocalFault, Refusal};
pub use region::{Region, Storage};
pub use ring::Ring;
pub use send_queue::SendQueue;
pub use srq::{SharedRecvQueue, SrqEvents, TooSmall};
pub use stag::StagPermutation;
pub use state::{QpEvent, QpState};
pub use syncing::{SyncJob, Syncer};
pub use work::{Bind, Data, FastRegister, MAX_INLINE, MAX_SGE, PostError, RecvWr, SendOpcode, SendWr, Sge};
