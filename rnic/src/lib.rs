//! A software RNIC in user space: verbs over iWARP over TCP, in one engine.
//!
//! ```text
//!    Device ── Pd ── Mr          objects, used by any thread
//!      │       Qp ── Cq ── CompChannel
//!      │       Listener ── EventChannel ── StreamingConnection
//!      ▼
//!    Engine::poll(now)           one object that moves everything
//!      ├─ Stack                  frames and TCP (weft-netif)
//!      └─ Connection: (Streaming ⇄) Startup ─▶ Stream ─▶ end
//!                                  └─ MPA ⇄ DDP ⇄ RDMAP ⇄ User: QueuePair
//! ```
//! Begin with `stream.rs`: it is the one place where the layers meet. Each folder imports only the folders below it:
//! `objects/`, `drive/`, `engine/`, `connection/` beside `ulp/`, `stream/`, then `counters/`, `events/` and the small
//! files.
//!
//! An engine reads no clock: its time is an argument. [`Progress`] says which thread calls it: the thread that polls
//! ([`Progress::Manual`]), a driver thread ([`Progress::Thread`]), or a simulation ([`Progress::External`]). Posting
//! and polling touch rings in memory only.
//!
//! ```
//! use weft_rnic::{Access, Config, Device};
//!
//! let (wire, _peer) = weft_netif::pair(1500);
//! let device = Device::open(wire, Config::new("10.0.0.1/24".parse()?, 1))?;
//! let memory = device.alloc_pd().register(4096, Access::ALL)?;
//! memory.write(0, b"hello")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//! Specifications: RFC 5040 (RDMAP), 5041 (DDP), 5044 (MPA), 6581 (MPA startup), 7306 (Atomics, Immediate Data),
//! 5042 (security).

mod clock;
mod config;
mod connection;
mod counters;
mod drive;
mod engine;
mod error;
mod events;
mod failure;
mod ids;
mod objects;
mod stream;
pub mod ulp;

pub use clock::Clock;
pub use config::{CLOCK_SCALE, Config, Progress};
pub use counters::{
    Counters, EngineCounters, MpaCounters, SegmentCounters, TerminateCounters, VerbsCounters,
};
pub use drive::ready::Poll;
pub use engine::info::{ConnectionInfo, CqInfo, ListenerInfo, MrInfo, PdInfo, QpInfo, SrqInfo};
pub use engine::queue_pairs::{ConnectionAttributes, QpAttributes, QpModify};
pub use engine::streaming::StreamState;
pub use error::{CmError, CreateError, DestroyError, ModifyError, StreamError};
pub use events::asynchronous::AsyncEvent;
pub use events::connection::{
    CmEvent, ConnectFailure, ConnectRequest, DisconnectReason, News, Notice, StreamRequest,
};
pub use failure::Cause;
pub use ids::{CqId, RequestId, SrqId, StreamingId};
pub use objects::async_channel::AsyncChannel;
pub use objects::cq::{CompChannel, CompHold, Cq, CqInit};
pub use objects::device::Device;
pub use objects::event_channel::{EventChannel, EventQueue};
pub use objects::event_source::EventSource;
pub use objects::listener::{BoundPort, ConnParam, Listener};
pub use objects::lockstep::Lockstep;
pub use objects::mr::{Mr, Reregistration};
pub use objects::mw::{FastMr, Mw, MwBind};
pub use objects::pd::Pd;
pub use objects::qp::{Qp, QpInit};
pub use objects::srq::{Srq, SrqAttributes, SrqInit, SrqModify};
pub use objects::streaming::StreamingConnection;
pub use objects::wait::{Patience, Until};
pub use objects::watcher::Watcher;

pub use weft_ddp::Stag;
pub use weft_netif::{CloseCause, Ground, Listen};
pub use weft_verbs::{
    Access, Bind, Completion, CompletionOpcode, CycleError, Data, Errno, FastRegister, MemoryInfo,
    MemoryKind, PostError, QpCapacity, QpState, RecvWr, Region, RegisterError, ResizeError, SendOpcode,
    SendQueueLayout, SendWr, Sge, Status, Storage, Violation, WindowType, guard_memory,
};
