//! The state of a connection, and what it works with during a turn.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use weft_mpa::{Initiator, Negotiated, Offer, Responder};
use weft_netif::{ConnectionId, Duration, Instant, Llp};
use weft_verbs::{MemoryTable, QueuePair};

use crate::connection::trace::Trace;
use crate::counters::Counters;
use crate::events::channel::Channel;
use crate::events::connection::{CmEvent, DisconnectReason, News, Notice};
use crate::ids::{RequestId, StreamingId};
use crate::stream::ending::Stage;
use crate::stream::staging::StagingPool;

/// A connection of the engine.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) llp: ConnectionId,
    /// Never used again, unlike `llp`; names the connection in the table of deadlines and in a [`crate::RequestId`].
    pub(crate) serial: u64,
    pub(crate) phase: Phase,
    /// The slot of the queue pair, from connect or accept on.
    pub(crate) qp: Option<usize>,
    /// Where its events go; nowhere if the application wants to hear no more.
    pub(crate) events: Option<Arc<Channel<Notice>>>,
    /// What the application calls the connection, or its listener, in events.
    pub(crate) cookie: u64,
    pub(crate) peer: SocketAddr,
    /// The own end; set when the connection is entered into the table.
    pub(crate) local: SocketAddr,
    /// The listener that it came to; none for a connection that this side opened.
    pub(crate) listener: Option<SocketAddr>,
    /// When the present phase has taken too long.
    pub(crate) deadline: Option<Instant>,
    /// Octets that TCP had not delivered when the deadline of a close was set.
    pub(crate) undelivered: usize,
    /// How often the peer has been nudged.
    pub(crate) nudges: u32,
    /// A queue pair that the application has destroyed while its stream still owed something.
    pub(crate) orphan: Option<Box<QueuePair>>,
    /// The startup frame as far as it has come.
    pub(crate) frame: Vec<u8>,
    /// Why the stream ended, until the application has been told.
    pub(crate) ended: Option<DisconnectReason>,
    /// Whether the application knows the connection from streaming mode.
    pub(crate) hold: Hold,
    /// How often MPA was started in Responder mode, so that each request has an identity of its own.
    pub(crate) attempt: u32,
    /// What startup has agreed on.
    pub(crate) agreed: Option<Negotiated>,
    pub(crate) trace: Trace,
}

/// The phases of a connection.
#[derive(Debug)]
pub(crate) enum Phase {
    /// TCP's handshake; then streaming mode begins.
    Opening,
    /// Streaming mode: the octets are the application's.
    Streaming(Interest),
    /// TCP's handshake, or room; then the Request with this private data is sent.
    Connecting(Initiator, Bytes),
    /// The Request is sent.
    AwaitingReply(Initiator),
    /// The peer has connected, its Request has not come.
    AwaitingRequest(Responder),
    /// The application is to decide.
    Offered(Offer),
    /// The rejecting Reply is sent; FIN follows when the peer has it.
    Rejecting,
    /// Full Operation, or what follows it; Draining also behind a rejection.
    Full(Stage),
}

/// Whether the application knows a connection from streaming mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// The connection began with MPA.
    Never,
    /// It was offered to the application, which has not taken it yet.
    Untaken,
    /// The application has a handle.
    Held,
    /// The application has dropped its handle.
    Dropped,
}

/// What the application waits for in streaming mode.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Interest {
    /// A call has found so many octets, and wants more.
    pub(crate) octets: Option<usize>,
    /// A call has found no room.
    pub(crate) room: bool,
    /// A call has found some room, but not enough for a last message.
    pub(crate) more_room: bool,
    /// A call has found octets that the peer has not acknowledged.
    pub(crate) delivery: bool,
}

/// What a connection works with during a turn.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    pub(crate) llp: Llp<'a>,
    pub(crate) qp: Option<&'a mut QueuePair>,
    pub(crate) memory: &'a MemoryTable,
    pub(crate) counters: &'a mut Counters,
    pub(crate) stagings: &'a mut StagingPool,
    /// Room for one FPDU, for when the free part of the send buffer wraps.
    pub(crate) scratch: &'a mut [u8],
    /// Octets of a TCP buffer.
    pub(crate) tcp_buffer: usize,
    pub(crate) max_reads: u16,
    /// The listener has as many unanswered requests as its backlog allows.
    pub(crate) backlog_is_full: bool,
    pub(crate) nudge_after: Option<Duration>,
    pub(crate) startup_timeout: Duration,
    pub(crate) answer_timeout: Duration,
    pub(crate) close_timeout: Duration,
    pub(crate) now: Instant,
}

/// How a connection counts against the backlog of its listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Its Request has not come.
    Silent,
    /// It waits for the application.
    Asking,
}

/// What becomes of a connection after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Keep,
    Remove,
}

impl Connection {
    /// A connection without events, queue pair, listener and deadline.
    pub(crate) const fn new(llp: ConnectionId, serial: u64, phase: Phase, peer: SocketAddr) -> Self {
        Self {
            llp,
            serial,
            phase,
            qp: None,
            events: None,
            cookie: 0,
            peer,
            local: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            listener: None,
            deadline: None,
            undelivered: 0,
            nudges: 0,
            orphan: None,
            frame: Vec::new(),
            ended: None,
            hold: Hold::Never,
            attempt: 0,
            agreed: None,
            trace: Trace::none(),
        }
    }

    /// The listener that this connection counts against, as long as the application has not answered it, and as what.
    pub(crate) fn standing(&self) -> Option<(SocketAddr, Standing)> {
        let listener = self.listener?;
        let standing = match (self.hold, &self.phase) {
            (Hold::Never, Phase::AwaitingRequest(_)) => Standing::Silent,
            (Hold::Never, Phase::Offered(_)) | (Hold::Untaken, _) => Standing::Asking,
            _ => return None,
        };
        Some((listener, standing))
    }

    /// Takes back a request that nobody can answer any more: a peer that comes and goes must not fill the channel. Says
    /// whether it was still there.
    pub(crate) fn withdraw_request(&self) -> bool {
        let (request, stream) = (RequestId(self.serial, self.attempt), StreamingId(self.serial));
        if matches!(self.phase, Phase::Offered(_)) {
            self.withdraw(|event| matches!(event, CmEvent::ConnectRequest(stale) if stale.id == request))
        } else {
            self.hold == Hold::Untaken
                && self.withdraw(|event| matches!(event, CmEvent::StreamRequest(stale) if stale.id == stream))
        }
    }

    /// Tells the application of an event.
    pub(crate) fn tell(&self, event: CmEvent) {
        if let Some(events) = &self.events {
            events.push(Notice { id: self.cookie, news: News::Event(event) });
        }
    }

    fn withdraw(&self, is_stale: impl Fn(&CmEvent) -> bool) -> bool {
        let is_stale = |notice: &Notice| matches!(&notice.news, News::Event(event) if is_stale(event));
        self.events.as_ref().is_some_and(|events| events.remove(is_stale))
    }
}

impl Phase {
    /// Whether Full Operation is over.
    pub(crate) const fn is_ending(&self) -> bool {
        matches!(self, Self::Full(stage) if stage.operating().is_none())
    }

    /// The phase in a word or two.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Streaming(_) => "streaming",
            Self::Connecting(..) => "connecting",
            Self::AwaitingReply(_) => "awaiting-reply",
            Self::AwaitingRequest(_) => "awaiting-request",
            Self::Offered(_) => "offered",
            Self::Rejecting => "rejecting",
            Self::Full(Stage::Operating(_)) => "established",
            Self::Full(Stage::Ending(_)) => "ending",
            Self::Full(Stage::Draining | Stage::Over) => "draining",
        }
    }
}
