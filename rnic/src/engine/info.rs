//! What lists of a device's objects say of each: a struct for each kind of object.

use std::net::SocketAddr;

use weft_verbs::{CqCounters, MemoryInfo, QpCounters, QpState};

/// A protection domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PdInfo {
    /// Its number within the device.
    pub pd: u64,
    /// Queue pairs in it.
    pub qps: usize,
    /// Memory regions and windows in it.
    pub mrs: usize,
}

/// A memory region or window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MrInfo {
    /// What it is, and its STag.
    pub memory: MemoryInfo,
    /// The queue pair whose stream alone may use it, if there is one.
    pub qp_num: Option<u32>,
}

/// A completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CqInfo {
    /// Its number within the device.
    pub cq: u64,
    /// Completions that wait to be polled.
    pub used: u64,
    /// Completions that fit.
    pub entries: u64,
    /// A notification was asked for; `Some(true)` when only for solicited or failed completions.
    pub armed: Option<bool>,
    /// It has a completion channel.
    pub has_channel: bool,
    /// A completion was lost.
    pub is_overrun: bool,
    /// What it has counted.
    pub counters: CqCounters,
}

/// A shared receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SrqInfo {
    /// Its number within the device.
    pub srq: u64,
    /// The protection domain.
    pub pd: u64,
    /// Requests that no message has taken yet, and those that fit.
    pub recv: [u64; 2],
    /// Below so many requests there is an event; 0 for none.
    pub limit: u32,
    /// Queue pairs that use it.
    pub qps: usize,
}

/// A queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QpInfo {
    /// The queue pair number.
    pub qp_num: u32,
    /// The state.
    pub state: QpState,
    /// The protection domain.
    pub pd: u64,
    /// The completion queues of both work queues.
    pub send_cq: u64,
    /// See `send_cq`.
    pub recv_cq: u64,
    /// Requests in the send queue, and those that fit.
    pub send: [u64; 2],
    /// Requests in the receive queue, and those that fit.
    pub recv: [u64; 2],
    /// The shared receive queue in place of a receive queue of its own.
    pub srq: Option<u64>,
    /// The own end of its connection.
    pub local: Option<SocketAddr>,
    /// The peer's end.
    pub peer: Option<SocketAddr>,
    /// What it has counted.
    pub counters: QpCounters,
}

/// A connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionInfo {
    /// Its number within the device, never used again.
    pub id: u64,
    /// Where it stands.
    pub phase: &'static str,
    /// This side has opened it.
    pub is_active: bool,
    /// The own end, as long as TCP has it.
    pub local: Option<SocketAddr>,
    /// The peer's end.
    pub peer: SocketAddr,
    /// The queue pair, from connect or accept on.
    pub qp_num: Option<u32>,
}

/// A listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListenerInfo {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its connections begin in streaming mode.
    pub is_streaming: bool,
    /// Connections that the application has not answered yet.
    pub unanswered: usize,
    /// How many of those there may be.
    pub backlog: usize,
}
