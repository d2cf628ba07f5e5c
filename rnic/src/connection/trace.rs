//! What happens to a connection, told to `tracing`: a span from its beginning to its end, and its events in it.
//! Subscribers are called under the engine's lock and must not use the device. No level tells anything of the data: no
//! function on its way calls anything here. Without the feature `tracing` all of this is nothing.

use std::net::SocketAddr;

use weft_mpa::Negotiated;
use weft_rdmap::Terminate;
use weft_verbs::QpCounters;

use crate::events::connection::{ConnectFailure, DisconnectReason};

/// The span of one connection.
#[derive(Debug)]
pub(crate) struct Trace {
    #[cfg(feature = "tracing")]
    span: tracing::Span,
}

/// An event in the span of a connection.
macro_rules! tell {
    ($trace:expr, $level:ident, $text:literal $(, $field:ident = $value:expr)*) => {{
        #[cfg(feature = "tracing")]
        tracing::event!(parent: &$trace.span, tracing::Level::$level, $($field = $value,)* $text);
        #[cfg(not(feature = "tracing"))]
        let _nobody_listens = (&$trace, $text, $(&$value,)*);
    }};
}

#[cfg(feature = "tracing")]
use tracing::field::display as shown;

#[cfg(not(feature = "tracing"))]
const fn shown<T>(value: T) -> T {
    value
}

impl Trace {
    /// Of a connection that has not begun.
    pub(crate) const fn none() -> Self {
        Self {
            #[cfg(feature = "tracing")]
            span: tracing::Span::none(),
        }
    }

    /// A connection begins, opened by this side if it `is_active`.
    pub(crate) fn begin(id: u64, is_active: bool, [local, peer]: [Option<SocketAddr>; 2]) -> Self {
        #[cfg(feature = "tracing")]
        let trace = {
            use tracing::field::Empty;
            let role = if is_active { "active" } else { "passive" };
            let span = tracing::info_span!(
                "connection",
                id,
                role,
                local = Empty,
                peer = Empty,
                qp_num = Empty,
                revision = Empty,
                crc = Empty,
                send_markers = Empty,
                receive_markers = Empty,
                ird = Empty,
                ord = Empty
            );
            for (name, address) in [("local", local), ("peer", peer)] {
                if let Some(address) = address {
                    span.record(name, shown(address));
                }
            }
            Self { span }
        };
        #[cfg(not(feature = "tracing"))]
        let trace = Self::none();
        tell!(trace, INFO, "begun");
        let _in_the_span = (id, is_active, local, peer);
        trace
    }

    /// TCP's handshake is over, and streaming mode begins.
    pub(crate) fn opened(&self) {
        tell!(self, DEBUG, "streaming mode");
    }

    /// The MPA Request is in TCP.
    pub(crate) fn request_sent(&self, private_data: usize) {
        tell!(self, DEBUG, "MPA Request sent", private_data = private_data);
    }

    /// The peer's MPA Request has come.
    pub(crate) fn request_received(&self, revision: u8, private_data: usize) {
        tell!(self, DEBUG, "MPA Request received", revision = revision, private_data = private_data);
    }

    /// The MPA Reply is in TCP.
    pub(crate) fn reply_sent(&self, is_reject: bool) {
        tell!(self, DEBUG, "MPA Reply sent", is_reject = is_reject);
    }

    /// The peer's MPA Reply has come.
    pub(crate) fn reply_received(&self, is_reject: bool) {
        tell!(self, DEBUG, "MPA Reply received", is_reject = is_reject);
    }

    /// Full Operation begins on this queue pair, with what both sides have agreed on.
    pub(crate) fn established(&self, qp_num: Option<u32>, negotiated: &Negotiated) {
        let Negotiated { revision, crc, send_markers, receive_markers, ird, ord, .. } = *negotiated;
        #[cfg(feature = "tracing")]
        {
            self.span.record("qp_num", qp_num);
            self.span.record("revision", revision);
            self.span.record("crc", crc).record("send_markers", send_markers);
            self.span.record("receive_markers", receive_markers);
            self.span.record("ird", ird).record("ord", ord);
        }
        let _recorded = (revision, crc, send_markers, receive_markers);
        tell!(self, INFO, "established", qp_num = qp_num, ird = ird, ord = ord);
    }

    /// The connection was rejected, by the peer or by this side.
    pub(crate) fn rejected(&self, by_peer: bool) {
        tell!(self, INFO, "rejected", by_peer = by_peer);
    }

    /// The connection has not come about.
    pub(crate) fn startup_failed(&self, reason: &ConnectFailure) {
        tell!(self, WARN, "startup failed", reason = shown(reason));
    }

    /// This side ends the stream by a Terminate.
    pub(crate) fn terminate_sent(&self, terminate: &Terminate) {
        let Terminate { layer, etype, code, .. } = *terminate;
        let cause = shown(terminate);
        tell!(self, WARN, "Terminate sent", layer = layer, etype = etype, code = code, cause = cause);
    }

    /// The peer has ended the stream by a Terminate.
    pub(crate) fn terminate_received(&self, terminate: &Terminate) {
        let Terminate { layer, etype, code, .. } = *terminate;
        let cause = shown(terminate);
        tell!(self, WARN, "Terminate received", layer = layer, etype = etype, code = code, cause = cause);
    }

    /// The stream is over.
    pub(crate) fn ended(&self, reason: &DisconnectReason) {
        tell!(self, INFO, "ended", reason = shown(reason));
    }

    /// The application has destroyed the queue pair while the connection was there.
    pub(crate) fn destroyed(&self, counters: &QpCounters) {
        let QpCounters { messages_sent, messages_received, octets_sent, octets_received, .. } = *counters;
        tell!(
            self,
            INFO,
            "queue pair destroyed",
            messages_sent = messages_sent,
            octets_sent = octets_sent,
            messages_received = messages_received,
            octets_received = octets_received
        );
    }

    /// The connection is gone, with what its queue pair has counted if there still is one.
    pub(crate) fn closed(&self, counters: Option<&QpCounters>) {
        let Some(counters) = counters else { return tell!(self, INFO, "closed") };
        let QpCounters { messages_sent, messages_received, octets_sent, octets_received, .. } = *counters;
        tell!(
            self,
            INFO,
            "closed",
            messages_sent = messages_sent,
            octets_sent = octets_sent,
            messages_received = messages_received,
            octets_received = octets_received
        );
    }
}
