//! Streams for a ULP that sits below verbs: on RDMAP alone, or on DDP alone.
//!
//! ```text
//!   RdmapStream                     DdpStream
//!     Stream ─── the spine ───────▶   segments, MPA and DDP
//!       ▲                                ▲
//!       └──────── Startup ───────────────┘      on any Llp of weft-netif
//! ```
//! All three are polled and hold neither a thread nor a clock: `poll` is called when the connection has news
//! ([`Stack::next_ready`](weft_netif::Stack::next_ready)) or the ULP has asked for something, until it answers
//! `None`. Each call answers at most one event, so that what nobody asks for stays in TCP. The octets are those of
//! verbs: the same code makes and reads them.
//!
//! Memory that a peer may reach is registered in a [`MemoryTable`], which may serve many streams and is an argument
//! of `poll`; the buffers of untagged messages are vectors that go in with `post_buffer` and come back with the
//! message.

mod association;
mod buffer;
mod ddp;
mod ddp_error;
mod error;
mod event;
mod rdmap;
mod requests;
mod sink;
mod source;
mod startup;

pub use association::Association;
pub use ddp::DdpStream;
pub use ddp_error::{DdpCause, DdpError};
pub use error::{AnswerError, PostError};
pub use event::{DdpEvent, RdmapEvent};
pub use rdmap::RdmapStream;
pub use source::Source;
pub use startup::{Startup, StartupEvent};

pub use crate::stream::startup::Agreement;
pub use weft_rdmap::{AtomicOp, Terminate};
pub use weft_verbs::{MemoryRegion, MemoryTable, PdId, StreamId};
