//! Streams for a ULP that sits below verbs: on RDMAP alone, or on DDP alone.
//!
//! ```text
//!   RdmapStream                     DdpStream
//!     Stream ─── the spine ───────▶   segments, MPA and DDP
//!       ▲                                ▲
//!       └──────── Startup ───────────────┘      on any Llp of weft-netif
//! ```
//! None of the three has a thread or a clock. The caller calls `poll` when the connection has news
//! ([`Stack::next_ready`](weft_netif::Stack::next_ready)) or after a call of the ULP, until `poll` returns `None`.
//! Each call returns at most one event, so octets that the ULP has not asked for stay in TCP. The same code as for
//! verbs makes and reads the octets on the wire.
//!
//! Memory that a peer may reach is registered in a [`MemoryTable`], which may serve many streams and is an argument
//! of `poll`. The buffers of untagged messages are vectors. The ULP gives them to `post_buffer` and gets them back with
//! the message.

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
