//! Events of connection management, as librdmacm's `rdma_cm_event` names them.

use std::net::SocketAddr;

use bytes::Bytes;

use crate::failure::Cause;
use crate::ids::{RequestId, StreamingId};

/// Something happened to a listener or a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CmEvent {
    /// A peer wants to connect; answer it with [`crate::Device::accept`] or [`crate::Device::reject`].
    ConnectRequest(ConnectRequest),
    /// The stream is in Full Operation and the queue pair in RTS.
    Established {
        /// The queue pair.
        qp_num: u32,
        /// Private data of the peer's reply; empty on the accepting side.
        private_data: Bytes,
        /// Reads and Atomics of the peer that this side holds at a time.
        ird: u16,
        /// Reads and Atomics that this side may have outstanding.
        ord: u16,
        /// The peer's own IRD and ORD as it told them (RFC 6581 section 9.1).
        peer_depths: Option<(u16, u16)>,
    },
    /// The peer said no. The queue pair is Idle and may try again.
    Rejected {
        /// The queue pair.
        qp_num: u32,
        /// Private data of the peer's reply.
        private_data: Bytes,
        /// The peer's IRD and ORD, if it told them: what it could have agreed to.
        peer_depths: Option<(u16, u16)>,
    },
    /// The connection did not come about. The queue pair is Idle and may try again.
    ConnectError {
        /// The queue pair.
        qp_num: u32,
        /// What went wrong.
        reason: ConnectFailure,
    },
    /// A peer has connected to a port in streaming mode; take the connection with [`crate::Device::accept_stream`].
    StreamRequest(StreamRequest),
    /// A connection in streaming mode has what the application waits for: TCP's handshake is over, or after a call
    /// that found less than it asked for there are octets, room, or the end. Try again. The event may come late,
    /// after a further call has found everything, or after MPA has been started.
    StreamReady {
        /// The connection.
        id: StreamingId,
    },
    /// A connection could not be opened in streaming mode, or was closed because MPA startup in Responder mode failed.
    StreamFailed {
        /// The connection.
        id: StreamingId,
        /// What went wrong.
        reason: ConnectFailure,
    },
    /// An established connection has ended; everything posted has been flushed.
    Disconnected {
        /// The queue pair.
        qp_num: u32,
        /// Which side ended it, and why.
        reason: DisconnectReason,
    },
}

/// Something new about a connection or listener, with the name that the application gave to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The name: `id` of [`crate::ConnParam`] or [`crate::Device::listen_as`], 0 if none was given.
    pub id: u64,
    /// What is new.
    pub news: News,
}

/// What a [`Notice`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// An event of a device.
    Event(CmEvent),
    /// What the application itself has posted by [`crate::EventQueue::post`].
    Posted(u32),
}

/// A peer's wish to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectRequest {
    /// Names the request in the answer.
    pub id: RequestId,
    /// The port that the peer connected to; 0 when this side opened the connection, in streaming mode.
    pub port: u16,
    /// The peer.
    pub peer: SocketAddr,
    /// The own end, to which the peer connected.
    pub local: SocketAddr,
    /// The connection, if the application knows it from streaming mode.
    pub stream: Option<StreamingId>,
    /// The MPA revision of the request: 1 (RFC 5044) or 2 (RFC 6581).
    pub revision: u8,
    /// The private data of the request, at most 512 octets.
    pub private_data: Bytes,
    /// Reads that the peer can answer at a time, if it said so (RFC 6581).
    pub ird: Option<u16>,
    /// Reads that the peer wants to have outstanding, if it said so.
    pub ord: Option<u16>,
}

/// A peer's connection in streaming mode that the application has not taken yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamRequest {
    /// Names the connection.
    pub id: StreamingId,
    /// The port that the peer connected to.
    pub port: u16,
    /// The peer.
    pub peer: SocketAddr,
}

/// Why a connection did not come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectFailure {
    /// TCP could not reach the peer.
    Unreachable,
    /// No process listens there: the peer answered TCP's SYN by a reset.
    Refused,
    /// The peer did not answer in time.
    TimedOut,
    /// The peer closed the connection instead of answering, as a peer without this MPA revision does.
    Closed,
    /// The peer's answer is no MPA Reply, or does not fit the Request.
    Protocol(weft_mpa::Error),
}

impl core::fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Unreachable => f.write_str("the peer is unreachable"),
            Self::Refused => f.write_str("nobody listens there"),
            Self::TimedOut => f.write_str("the peer did not answer in time"),
            Self::Closed => f.write_str("the peer closed the connection during MPA startup"),
            // Its text begins with the same words.
            Self::Protocol(error @ weft_mpa::Error::Startup(_)) => error.fmt(f),
            Self::Protocol(error) => write!(f, "MPA startup failed: {error}"),
        }
    }
}

impl core::error::Error for ConnectFailure {}

/// How an established connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DisconnectReason {
    /// This side asked for it.
    Local,
    /// The peer closed its direction gracefully, between two FPDUs. Its earlier Reads and Atomics are still answered.
    /// So memory that it may change by Atomics can change a last time after this event.
    Peer,
    /// The peer sent a Terminate.
    PeerTerminate {
        /// Layer, error type and error code.
        code: (u8, u8, u8),
        /// The same in words.
        text: &'static str,
        /// The meaning if the peer writes layer and type the other way round, as Linux siw does, and if that makes
        /// sense.
        other: Option<((u8, u8, u8), &'static str)>,
    },
    /// This side sent a Terminate.
    LocalTerminate(Cause),
    /// TCP lost the connection, or the peer closed it inside an FPDU.
    Lost,
    /// TCP gave the peer up: it left data or a probe unanswered for the configured time.
    TimedOut,
}

impl core::fmt::Display for DisconnectReason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Local => f.write_str("disconnected"),
            Self::Peer => f.write_str("the peer disconnected"),
            Self::PeerTerminate { code: (layer, etype, code), text, other } => {
                write!(f, "the peer sent Terminate {layer:x}/{etype:x}/{code:02x}: {text}")?;
                match other {
                    Some(((layer, etype, code), text)) => {
                        write!(f, ", or from Linux siw {layer:x}/{etype:x}/{code:02x}: {text}")
                    }
                    None => Ok(()),
                }
            }
            Self::LocalTerminate(cause) => write!(f, "terminated: {cause}"),
            Self::Lost => f.write_str("the TCP connection was lost"),
            Self::TimedOut => f.write_str("the peer did not answer any more"),
        }
    }
}
