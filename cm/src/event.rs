//! Events, as `struct rdma_cm_event` has them.

use std::sync::Arc;

use rustix::io::Errno;
use weft_rnic::{ConnectFailure, DisconnectReason};

use crate::id::{Id, Shared};
use crate::param::EventParam;

/// What has happened; the numbers are those of `enum rdma_cm_event_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum EventKind {
    /// The device and the way to the peer are known.
    AddrResolved = 0,
    /// No device leads to the peer.
    AddrError = 1,
    /// The id may connect.
    RouteResolved = 2,
    /// There is no route any more.
    RouteError = 3,
    /// A peer wants to connect; [`Event::take_id`] has the new id.
    ConnectRequest = 4,
    /// Never on iWARP: the queue pair is ready when the Reply has come, and [`Self::Established`] says so.
    ConnectResponse = 5,
    /// The connection did not come about: MPA startup failed.
    ConnectError = 6,
    /// The peer did not answer in time.
    Unreachable = 7,
    /// The peer said no, nobody listens there, or the peer hung up.
    Rejected = 8,
    /// The connection stands.
    Established = 9,
    /// The connection is over.
    Disconnected = 10,
    /// The device of the id is gone; no event follows.
    DeviceRemoval = 11,
    /// Never on iWARP: TCP keeps its TIME-WAIT itself, and a queue pair is not used again.
    TimewaitExit = 15,
}

/// An event; dropping it acknowledges it.
#[derive(Debug)]
pub struct Event {
    pub(crate) kind: EventKind,
    pub(crate) status: Option<Errno>,
    pub(crate) param: EventParam,
    pub(crate) cause: Cause,
    pub(crate) id: u64,
    pub(crate) context: u64,
    pub(crate) listener: Option<u64>,
    pub(crate) child: Option<Id>,
    pub(crate) acknowledgement: Option<Acknowledgement>,
}

/// What the device has said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Cause {
    #[default]
    None,
    Failure(ConnectFailure),
    End(DisconnectReason),
}

/// Counts an event as acknowledged when it is dropped.
#[derive(Debug)]
pub(crate) struct Acknowledgement(pub(crate) Arc<Shared>);

impl Event {
    /// What has happened.
    pub const fn kind(&self) -> EventKind {
        self.kind
    }

    /// 0, or the negative number of libc that librdmacm would report: why it happened.
    pub fn status(&self) -> i32 {
        self.status.map_or(0, |errno| -errno.raw_os_error())
    }

    /// The same as an [`Errno`]; none for 0.
    pub const fn error(&self) -> Option<Errno> {
        self.status
    }

    /// The number of the id; in a connect request that of the new one.
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// What the application has stored in the id; a new id begins with its listener's.
    pub const fn context(&self) -> u64 {
        self.context
    }

    /// The number of the id that listens, in a connect request.
    pub const fn listen_id(&self) -> Option<u64> {
        self.listener
    }

    /// The new id of a connect request, once. If nobody takes it, the request is rejected when the event is dropped.
    pub const fn take_id(&mut self) -> Option<Id> {
        self.child.take()
    }

    /// What came with it.
    pub const fn param(&self) -> &EventParam {
        &self.param
    }

    /// The private data that came with it.
    pub fn private_data(&self) -> &[u8] {
        &self.param.private_data
    }

    /// Why a connection did not come about, as the device has it.
    pub const fn connect_failure(&self) -> Option<&ConnectFailure> {
        match &self.cause {
            Cause::Failure(failure) => Some(failure),
            _ => None,
        }
    }

    /// How a connection ended, as the device has it.
    pub const fn disconnect_reason(&self) -> Option<&DisconnectReason> {
        match &self.cause {
            Cause::End(reason) => Some(reason),
            _ => None,
        }
    }

    /// Acknowledges the event and goes on showing it; for those that keep it.
    pub fn acknowledge(&mut self) {
        self.acknowledgement = None;
    }
}

impl EventKind {
    /// The name, as `rdma_event_str` has it without its prefix.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AddrResolved => "ADDR_RESOLVED",
            Self::AddrError => "ADDR_ERROR",
            Self::RouteResolved => "ROUTE_RESOLVED",
            Self::RouteError => "ROUTE_ERROR",
            Self::ConnectRequest => "CONNECT_REQUEST",
            Self::ConnectResponse => "CONNECT_RESPONSE",
            Self::ConnectError => "CONNECT_ERROR",
            Self::Unreachable => "UNREACHABLE",
            Self::Rejected => "REJECTED",
            Self::Established => "ESTABLISHED",
            Self::Disconnected => "DISCONNECTED",
            Self::DeviceRemoval => "DEVICE_REMOVAL",
            Self::TimewaitExit => "TIMEWAIT_EXIT",
        }
    }

    /// The kinds that an id posts to itself.
    pub(crate) const fn of_posted(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::AddrResolved,
            1 => Self::AddrError,
            2 => Self::RouteResolved,
            3 => Self::RouteError,
            10 => Self::Disconnected,
            11 => Self::DeviceRemoval,
            _ => return None,
        })
    }
}

impl core::fmt::Display for EventKind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

impl Drop for Acknowledgement {
    fn drop(&mut self) {
        self.0.acknowledge();
    }
}
