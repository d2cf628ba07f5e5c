//! What goes with a connection: the fields of `struct rdma_conn_param`, in the call and in the event.

use bytes::Bytes;

/// What an id sends with its request or with its answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnParam<'a> {
    /// Private data: at most 508 octets, 512 where the device starts MPA by revision 1.
    pub private_data: &'a [u8],
    /// Reads and Atomics of the peer that are held at a time (IRD), at most the device's `max_reads`; the device's
    /// setting if not given (`RDMA_MAX_RESP_RES`).
    pub responder_resources: Option<u16>,
    /// Reads and Atomics outstanding (ORD), likewise (`RDMA_MAX_INIT_DEPTH`).
    pub initiator_depth: Option<u16>,
    /// Connecting side only: the peer-to-peer start of RFC 6581; the device's setting if not given.
    pub peer_to_peer: Option<bool>,
    /// Taken and ignored: TCP controls the flow.
    pub flow_control: bool,
    /// Taken and ignored: TCP sends again by itself, and says when it gives up.
    pub retry_count: u8,
    /// Taken and ignored: iWARP has no RNR NAK. Whether a Send waits for a receive is an attribute of the queue pair.
    pub rnr_retry_count: u8,
    /// Taken and ignored: the queue pair of the id knows whether it has a shared receive queue.
    pub srq: bool,
    /// Taken and ignored: iWARP does not tell the peer a number, and the id knows its queue pair.
    pub qp_num: u32,
}

/// What came with an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventParam {
    /// Private data of the peer: of its request, its Reply or its rejection. Empty if it sent none.
    pub private_data: Bytes,
    /// Reads and Atomics that this side is to hold: in a request the peer's ORD, when established what was agreed on.
    /// The device's largest number where the peer does not tell, as one of MPA revision 1.
    pub responder_resources: u16,
    /// Reads and Atomics that this side may have outstanding: in a request the peer's IRD, when established what was
    /// agreed on.
    pub initiator_depth: u16,
    /// The own queue pair; 0 in a request. iWARP does not tell the peer's.
    pub qp_num: u32,
}
