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
//!                                  └─ MPA ⇄ DDP ⇄ RDMAP ⇄ QueuePair
//! ```
//! Begin with `stream.rs`: it is the one place where the layers meet, and all of the way of an octet.
//!
//! The engine reads no clock: its time is an argument. [`Progress`] says who calls it: the thread that polls
//! ([`Progress::Manual`]), a thread of the device's own ([`Progress::Thread`]), or a simulation
//! ([`Progress::External`]). Posting and polling touch rings in memory only.
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

mod channel;
mod clock;
mod cm;
mod config;
mod connection;
mod counters;
mod cq;
mod device;
mod doorbell;
mod driver;
mod engine;
mod error;
mod failure;
mod listener;
mod lockstep;
mod mr;
mod operate;
mod preamble;
mod qp;
mod startup;
mod stream;
mod streaming;

pub use clock::Clock;
pub use cm::{
    CmEvent, ConnectFailure, ConnectRequest, DisconnectReason, RequestId, StreamRequest, StreamingId,
};
pub use config::{CLOCK_SCALE, Config, Progress};
pub use counters::{Counters, SegmentCounters};
pub use cq::{CompChannel, Cq, CqId};
pub use device::Device;
pub use error::{CmError, CreateError, StreamError};
pub use failure::Cause;
pub use listener::{ConnParam, EventChannel, Listener};
pub use lockstep::Lockstep;
pub use mr::{Mr, Pd};
pub use qp::{Qp, QpInit};
pub use streaming::{StreamState, StreamingConnection};

pub use weft_ddp::Stag;
pub use weft_verbs::{
    Access, Completion, CompletionOpcode, Data, PostError, QpCapacity, QpState, RecvWr, Region,
    RegisterError, SendOpcode, SendWr, Sge, Status, Violation,
};
