//! What an engine has done, layer by layer.
//!
//! The engine owns plain integers and counts under its lock. The application's threads count in the rings that they
//! write anyhow (`weft_verbs::Ring`). The sum is made when it is asked for.

use weft_netif::{HostCounters, TcpCounters, WireCounters, counters};
use weft_verbs::{CqCounters, QpCounters, QueuePair, Status};

use crate::events::connection::ConnectFailure;
use crate::failure::{Cause, Failure};

mod causes;
mod segments;

pub use causes::TerminateCounters;
pub use segments::SegmentCounters;

/// Everything that a device counts. Totals since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// The wire.
    pub wire: WireCounters,
    /// Frames and connections of the stack above it.
    pub stack: weft_netif::Counters,
    /// TCP.
    pub tcp: TcpCounters,
    /// What was asked of the kernel's TCP, where that is used instead of wire, stack and TCP.
    pub host: HostCounters,
    /// MPA.
    pub mpa: MpaCounters,
    /// Segments sent.
    pub sent: SegmentCounters,
    /// Segments received, with good CRC.
    pub received: SegmentCounters,
    /// Connections that failed in MPA startup: bad frames, time-outs, early closes.
    pub startup_failures: u64,
    /// Terminate messages for which this side is the cause.
    pub terminates: u64,
    /// The same by what they say.
    pub terminates_sent: TerminateCounters,
    /// Terminate messages of peers, by what they say.
    pub terminates_received: TerminateCounters,
    /// Queue pairs and completion queues.
    pub verbs: VerbsCounters,
    /// The engine itself.
    pub engine: EngineCounters,
}

counters! {
    /// What MPA has done on all connections (RFC 5044, RFC 6581).
    "mpa" MpaCounters {
        /// FPDUs given to TCP.
        fpdus_sent,
        /// FPDUs taken from TCP, whole and with good CRC.
        fpdus_received,
        /// Octets of FPDUs given to TCP: with length, Markers, pad and CRC.
        octets_sent,
        /// Octets taken from TCP in Full Operation, parts of FPDUs and bad ones included.
        octets_received,
        /// Streams that ended because a CRC did not fit its FPDU.
        crc_errors,
        /// Streams that ended because a Marker pointed elsewhere than to its FPDU.
        marker_errors,
        /// Streams that ended because TCP was closed inside an FPDU.
        cut_short,
        /// Connections that came to Full Operation.
        established,
        /// Rejecting Replies sent.
        rejects_sent,
        /// Rejecting Replies received.
        rejects_received,
        /// Startups that failed because TCP could not reach the peer, or the peer refused the connection.
        startup_unreachable,
        /// Startups that failed because the peer did not answer in time.
        startup_timed_out,
        /// Startups that failed because the peer closed the connection instead of answering.
        startup_closed,
        /// Startups that failed because a frame was malformed, or one that does not fit the other.
        startup_malformed,
        /// Startups that failed because the peer's ORD is larger than what this side can answer (RFC 6581 section 9.3).
        startup_insufficient_ird,
        /// Startups that failed because there is no RTR message in common (RFC 6581 section 9.3).
        startup_no_rtr,
        /// Startups that failed for a reason of this side.
        startup_local,
    }
}

counters! {
    /// What the objects of the verbs have done, those that were destroyed included.
    "verbs" VerbsCounters {
        /// Doorbells of send queues: calls that posted at least one request.
        doorbells,
        /// Requests posted to send queues.
        sends_posted,
        /// Requests of send queues that the engine has taken up, to be sent or flushed.
        sends_started,
        /// Requests posted to receive queues, shared ones not included.
        receives_posted,
        /// Requests of receive queues that a message, or a flush, has taken.
        receives_started,
        /// Messages that found no receive request.
        rnr,
        /// Requests of both kinds that ended well, those without a completion included.
        completed_success,
        /// Requests that ended with IBV_WC_LOC_LEN_ERR.
        completed_local_length,
        /// Requests that ended with IBV_WC_LOC_QP_OP_ERR.
        completed_local_qp_operation,
        /// Requests that ended with IBV_WC_LOC_PROT_ERR.
        completed_local_protection,
        /// Requests that ended with IBV_WC_WR_FLUSH_ERR.
        completed_flushed,
        /// Requests that ended with IBV_WC_MW_BIND_ERR.
        completed_window_bind,
        /// Requests that ended with IBV_WC_BAD_RESP_ERR.
        completed_bad_response,
        /// Requests that ended with IBV_WC_REM_INV_REQ_ERR.
        completed_remote_invalid_request,
        /// Requests that ended with IBV_WC_REM_ACCESS_ERR.
        completed_remote_access,
        /// Requests that ended with IBV_WC_REM_OP_ERR.
        completed_remote_operation,
        /// Requests that ended with IBV_WC_RETRY_EXC_ERR.
        completed_retry_exceeded,
        /// Requests that ended with IBV_WC_RNR_RETRY_EXC_ERR.
        completed_rnr_retry_exceeded,
        /// Requests that ended with any other status, as IBV_WC_GENERAL_ERR.
        completed_general,
        /// Completions put into completion queues.
        completions,
        /// Calls to poll a completion queue that found at least one completion.
        polls_found,
        /// Calls to poll a completion queue that found nothing. Of calls by several threads at the same moment some
        /// may be missed.
        polls_empty,
        /// Events that completion queues gave to their channels.
        completion_events,
        /// Completion queues that have overrun.
        cq_overruns,
    }
}

counters! {
    /// How busy the engine is.
    "engine" EngineCounters {
        /// Rounds of the engine.
        polls,
        /// Rounds in which nothing had come, nothing was posted, nothing was due and nothing was sent.
        polls_idle,
        /// Queue pairs that a doorbell brought to the engine; several doorbells before a round are one.
        doorbells,
        /// Times that a connection had its turn.
        turns,
        /// Times that a thread went to sleep until the engine has something to do.
        sleeps,
        /// Sleeps that ended by a frame, or by room for one.
        woken_by_wire,
        /// Sleeps that ended by a doorbell or another call of the application.
        woken_by_doorbell,
        /// Sleeps that ended by an event that the sleeper waited for.
        woken_by_event,
        /// Sleeps that ended at their deadline.
        woken_by_time,
    }
}

impl Counters {
    /// The name of each counter, its layer first, and its value, in the order of the layers. `docs/observability.md`
    /// has their meaning.
    pub fn list(&self) -> Vec<(String, u64)> {
        let fixed = |(name, value): (&str, u64)| (name.to_owned(), value);
        let mut list: Vec<_> = self
            .wire
            .list()
            .chain(self.stack.list())
            .chain(self.tcp.list())
            .chain(self.host.list())
            .map(fixed)
            .collect();
        let startup = [
            ("mpa.requests_sent", self.sent.mpa_requests),
            ("mpa.requests_received", self.received.mpa_requests),
            ("mpa.replies_sent", self.sent.mpa_replies),
            ("mpa.replies_received", self.received.mpa_replies),
            ("mpa.startup_failures", self.startup_failures),
        ];
        list.extend(self.mpa.list().chain(startup).map(fixed));
        self.sent.list("sent", &mut list);
        self.received.list("received", &mut list);
        list.push(("rdmap.terminates_sent".to_owned(), self.terminates));
        self.terminates_sent.list("sent", &mut list);
        self.terminates_received.list("received", &mut list);
        list.extend(self.verbs.list().chain(self.engine.list()).map(fixed));
        list
    }

    /// Adds the counts of another engine.
    pub fn add(&mut self, other: &Self) {
        self.wire.add(&other.wire);
        self.stack.add(&other.stack);
        self.tcp.add(&other.tcp);
        self.host.add(&other.host);
        self.mpa.add(&other.mpa);
        self.sent.add(&other.sent);
        self.received.add(&other.received);
        self.startup_failures += other.startup_failures;
        self.terminates += other.terminates;
        self.terminates_sent.add(&other.terminates_sent);
        self.terminates_received.add(&other.terminates_received);
        self.verbs.add(&other.verbs);
        self.engine.add(&other.engine);
    }

    /// This side ends a stream by a Terminate.
    pub(crate) fn count_failure(&mut self, failure: &Failure) {
        self.terminates += 1;
        self.terminates_sent.count(&failure.terminate);
        match failure.cause {
            Cause::Mpa(weft_mpa::Error::Crc { .. }) => self.mpa.crc_errors += 1,
            Cause::Mpa(weft_mpa::Error::Marker { .. }) => self.mpa.marker_errors += 1,
            _ => {}
        }
    }
}

impl MpaCounters {
    /// A connection has not come about.
    pub(crate) const fn count_startup(&mut self, reason: &ConnectFailure) {
        use weft_mpa::Error::{InsufficientIrd, NoRtr, Startup};
        let counter = match reason {
            ConnectFailure::Unreachable | ConnectFailure::Refused => &mut self.startup_unreachable,
            ConnectFailure::TimedOut => &mut self.startup_timed_out,
            ConnectFailure::Closed => &mut self.startup_closed,
            ConnectFailure::Protocol(Startup(_)) => &mut self.startup_malformed,
            ConnectFailure::Protocol(InsufficientIrd) => &mut self.startup_insufficient_ird,
            ConnectFailure::Protocol(NoRtr) => &mut self.startup_no_rtr,
            ConnectFailure::Protocol(_) => &mut self.startup_local,
        };
        *counter += 1;
    }
}

impl EngineCounters {
    /// A round is over.
    pub(crate) const fn count_poll(&mut self, has_worked: bool) {
        self.polls += 1;
        self.polls_idle += !has_worked as u64;
    }

    /// A measure of what the engine has done for connections and queue pairs.
    pub(crate) const fn work(&self) -> u64 {
        self.turns + self.doorbells
    }
}

impl VerbsCounters {
    /// Adds what a queue pair has counted.
    pub(crate) fn add_qp(&mut self, qp: &QueuePair) {
        let QpCounters { sends_started, receives_started, rnr, completed, .. } = qp.counters();
        let (send, recv) = (&qp.queues().send, &qp.queues().recv);
        self.doorbells += send.doorbells();
        self.sends_posted += send.posted();
        self.receives_posted += recv.posted();
        self.sends_started += sends_started;
        self.receives_started += receives_started;
        self.rnr += rnr;
        for &status in Status::ALL {
            *self.completed(status) += completed[status as usize];
        }
    }

    /// Adds what completion queues have counted.
    pub(crate) const fn add_cqs(&mut self, cqs: &CqCounters) {
        self.completions += cqs.completions;
        self.polls_found += cqs.polls_found;
        self.polls_empty += cqs.polls_empty;
        self.completion_events += cqs.events;
        self.cq_overruns += cqs.overruns;
    }

    /// The requests that ended with a status.
    const fn completed(&mut self, status: Status) -> &mut u64 {
        match status {
            Status::Success => &mut self.completed_success,
            Status::LocalLength => &mut self.completed_local_length,
            Status::LocalQpOperation => &mut self.completed_local_qp_operation,
            Status::LocalProtection => &mut self.completed_local_protection,
            Status::WorkRequestFlushed => &mut self.completed_flushed,
            Status::MemoryWindowBind => &mut self.completed_window_bind,
            Status::BadResponse => &mut self.completed_bad_response,
            Status::RemoteInvalidRequest => &mut self.completed_remote_invalid_request,
            Status::RemoteAccess => &mut self.completed_remote_access,
            Status::RemoteOperation => &mut self.completed_remote_operation,
            Status::RetryExceeded => &mut self.completed_retry_exceeded,
            Status::RnrRetryExceeded => &mut self.completed_rnr_retry_exceeded,
            Status::General => &mut self.completed_general,
        }
    }
}
