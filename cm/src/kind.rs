//! The kinds of events, as `enum rdma_cm_event_type` has them.

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
    /// A peer wants to connect; [`crate::Event::take_id`] has the new id.
    ConnectRequest = 4,
    /// Never on iWARP: the queue pair is ready when the Reply has come, and [`Self::Established`] says so.
    ConnectResponse = 5,
    /// The connection did not come about: MPA startup failed.
    ConnectError = 6,
    /// The peer did not answer in time.
    Unreachable = 7,
    /// The peer rejected the request, nothing listens at its address, or the peer hung up.
    Rejected = 8,
    /// The connection is established.
    Established = 9,
    /// The connection is over.
    Disconnected = 10,
    /// The device of the id is gone; no event follows.
    DeviceRemoval = 11,
    /// Never on iWARP: TCP keeps its TIME-WAIT itself, and a queue pair is not used again.
    TimewaitExit = 15,
}

impl EventKind {
    /// Returns the name, as `rdma_event_str` has it without its prefix.
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

    /// Returns the kind with this number, if an id posts it to itself.
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
