//! The verbs objects and their rules, without an engine, a wire or a clock.
//!
//! ```text
//!    application                 verbs                          engine
//!   post_send, post_recv ──▶ QpQueues: rings of requests ──▶ QueuePair::next_message, fill
//!                            MemoryTable: STag ─▶ memory  ◀── QueuePair::apply
//!   poll                 ◀── CompletionQueue              ◀── QueuePair::finish, flush
//! ```
//!
//! A queue is a flat ring ([`Ring`]) that two threads share without a lock between them: posting is a few stores, and the
//! engine reads an entry when it starts it. Memory is registered in a [`MemoryTable`], named by an STag that cannot be
//! guessed, and reached only by copies ([`Region`]). [`QpState`] is the iWARP state table.
//!
//! The semantics are those of RFC 5040 (which check belongs to whom, what a completion means) with libibverbs' names. A
//! completion of a Send or Write says that the source may be reused, not that the peer has the data: a Read behind it
//! says that (RFC 5040 section 5.5).

mod access;
mod completion;
mod cq;
mod memory;
mod qp;
mod queues;
mod recv_queue;
mod region;
mod ring;
mod send_queue;
mod stag;
mod state;
mod transfer;
mod work;

pub use access::Access;
pub use completion::{Completion, CompletionOpcode, Status};
pub use cq::CompletionQueue;
pub use memory::{Claim, MemoryRegion, MemoryTable, PdId, RegisterError, Registration, Span, Violation};
pub use qp::{LocalFault, QpInit, QueuePair};
pub use queues::{QpCapacity, QpQueues, StreamId};
pub use recv_queue::{RecvQueue, RecvWork};
pub use region::Region;
pub use ring::Ring;
pub use send_queue::{BadEntry, SendQueue, SendWork};
pub use stag::StagPermutation;
pub use state::{QpEvent, QpState};
pub use transfer::{Effect, Refusal};
pub use work::{Data, MAX_INLINE, MAX_SGE, PostError, RecvWr, SendOpcode, SendWr, Sge};
