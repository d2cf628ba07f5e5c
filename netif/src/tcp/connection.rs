//! One connection: its TCP, its octets on their way in and out, and how far its user knows of it.

use core::net::IpAddr;
use core::ops::RangeInclusive;

use weft_tcp::{Cause, Effects, Interval, Micros, Options, Segment, Sent, Seq, State, Template, Timestamps};

use super::frame::Outbox;
use super::held::Held;
use super::pool::Pool;
use crate::counters::TcpCounters;
use crate::demux::{Tuple, default_mss};
use crate::llp::state::{CloseCause, LlpState};
use crate::table::Ends;

/// The protocol of one connection.
pub(crate) type Tcp = weft_tcp::Connection<Vec<Sent>, Vec<Interval>>;

/// One connection of a stack.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) tuple: Tuple,
    pub(crate) tcp: Tcp,
    pub(crate) template: Template,
    /// Where the next hop was found in the table of neighbors.
    pub(crate) neighbor: usize,
    pub(crate) outbox: Outbox,
    pub(crate) held: Held,
    /// Octets that the user has taken since the last turn.
    pub(crate) consumed: u32,
    /// Octets that are queued and not acknowledged.
    pub(crate) queued: usize,
    /// What [`Self::capacity`] is at least and at most.
    capacity: RangeInclusive<usize>,
    pub(crate) end: Option<CloseCause>,
    /// The peer's FIN has come, and with it all octets before it.
    pub(crate) peer_finished: bool,
    /// The port whose listener the connection counts against, until it is taken.
    pub(crate) listener: Option<u16>,
    /// The user has forgotten the connection, and the stack closes it.
    pub(crate) is_removed: bool,
    pub(crate) is_dirty: bool,
    /// The next egress has to look at the connection, and not only the one after it.
    pub(crate) is_urgent: bool,
    pub(crate) is_ready: bool,
    /// Waits for the neighbor's MAC address.
    pub(crate) is_blocked: bool,
    /// It is in another stack than its ports choose.
    pub(crate) is_moved: bool,
    /// What is left of it in TIME-WAIT is kept elsewhere.
    pub(crate) is_waited_for: bool,
    /// The time at which a removed connection is given up, even if its peer answers.
    pub(crate) give_up_at: Option<Micros>,
    /// The user is interested in octets behind a gap.
    pub(crate) wants_ahead: bool,
    was_established: bool,
    /// Places that the protocol was lent: for what is in flight, and whether for gaps.
    records: usize,
    has_intervals: bool,
}

/// The user's view of a connection. The connection is ready when this has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Appearance {
    state: LlpState,
    end: Option<CloseCause>,
    unread: usize,
    /// Pieces behind a gap that the user has not seen, if it is interested in them.
    unseen: usize,
    queued: usize,
}

impl Ends for Connection {
    fn ends(&self) -> Tuple {
        self.tuple
    }
}

impl Connection {
    /// The user may queue so many octets, more the larger the congestion window is.
    pub(crate) const fn new(
        tuple: Tuple,
        tcp: Tcp,
        template: Template,
        capacity: RangeInclusive<usize>,
    ) -> Self {
        Self {
            tuple,
            tcp,
            template,
            neighbor: 0,
            outbox: Outbox::new(),
            held: Held::new(),
            consumed: 0,
            queued: 0,
            capacity,
            end: None,
            peer_finished: false,
            listener: None,
            is_removed: false,
            is_dirty: false,
            is_urgent: false,
            is_ready: false,
            is_blocked: false,
            is_moved: false,
            is_waited_for: false,
            give_up_at: None,
            wants_ahead: false,
            was_established: false,
            records: 0,
            has_intervals: false,
        }
    }

    /// Notes what a segment or the time has come to. `longest` is the most octets of headers and payload of a frame, if
    /// the device cuts frames into segments.
    pub(crate) fn note(
        &mut self,
        effects: &Effects,
        longest: Option<usize>,
        pool: &mut Pool,
        counters: &mut TcpCounters,
    ) {
        if effects.opened {
            self.was_established = true;
            if self.listener.is_some() {
                counters.accepted += 1;
            } else {
                counters.opened += 1;
            }
            self.set_form(longest);
        }
        self.queued -= usize::try_from(effects.acked).map_or(self.queued, |acked| acked.min(self.queued));
        while let Some(token) = self.tcp.released() {
            self.outbox.release(token, pool);
        }
        self.peer_finished |= effects.received.fin;
        if self.tcp.state() == State::TimeWait {
            self.end.get_or_insert(CloseCause::Graceful);
        }
        let Some(cause) = effects.closed else { return };
        match cause {
            Cause::TimedOut => counters.timeouts += u64::from(self.end.is_none()),
            Cause::Refused | Cause::Reset => counters.resets_received += u64::from(self.end.is_none()),
            Cause::Finished | Cause::Aborted | Cause::Unreachable => {}
        }
        self.end.get_or_insert(match cause {
            Cause::Finished => CloseCause::Graceful,
            Cause::Refused => CloseCause::Refused,
            Cause::Reset => CloseCause::Reset,
            Cause::Aborted => CloseCause::Aborted,
            Cause::TimedOut => CloseCause::TimedOut,
            Cause::Unreachable => CloseCause::Unreachable,
        });
        self.forget_octets(pool);
    }

    /// Counts the end of the connection.
    pub(crate) const fn count_end(&self, counters: &mut TcpCounters) {
        if !self.was_established {
            counters.failed += 1;
        }
    }

    /// Closes the connection by RST, which goes out at the next egress.
    pub(crate) fn abort(&mut self, cause: CloseCause, pool: &mut Pool, now: Micros) {
        self.is_urgent = true;
        self.tcp.abort(now);
        self.end.get_or_insert(cause);
        self.forget_octets(pool);
    }

    /// Ends the user's stream by a FIN behind what is queued.
    pub(crate) fn shutdown(&mut self, now: Micros) {
        self.is_urgent = true;
        let effects = self.tcp.close(now);
        if effects.closed.is_some() {
            self.end.get_or_insert(CloseCause::Aborted);
        }
    }

    /// Takes all octets that wait for the user away. If they filled the window, the peer's FIN could never come.
    pub(crate) fn discard(&mut self, pool: &mut Pool) {
        let len = self.held.consume(usize::MAX, pool);
        self.consumed = self.consumed.saturating_add(u32::try_from(len).unwrap_or(u32::MAX));
    }

    /// Returns true if the user may queue octets.
    pub(crate) const fn may_send(&self) -> bool {
        matches!(self.tcp.state(), State::Established | State::CloseWait) && self.end.is_none()
    }

    /// Returns how many octets may be queued: two congestion windows, so that one can be built while the other one is on
    /// its way.
    pub(crate) fn capacity(&self) -> usize {
        let windows =
            usize::try_from(self.tcp.sender().cwnd()).map_or(usize::MAX, |cwnd| cwnd.saturating_mul(2));
        windows.clamp(*self.capacity.start(), *self.capacity.end())
    }

    pub(crate) fn room(&self) -> usize {
        if self.may_send() { self.capacity().saturating_sub(self.queued) } else { 0 }
    }

    /// Returns the octets of payload in the largest segment that may be sent.
    pub(crate) fn emss(&self) -> usize {
        let emss = usize::from(self.tcp.emss());
        let is_known = self.tcp.state() != State::SynSent;
        if is_known { emss } else { emss.min(usize::from(default_mss(self.tuple.remote.ip()))) }
    }

    pub(crate) const fn state(&self) -> LlpState {
        match (self.end, self.tcp.state()) {
            (Some(CloseCause::Graceful), _) | (None, State::TimeWait) => LlpState::Closed,
            (Some(_), _) | (None, State::Closed) => LlpState::Reset,
            (None, State::SynSent | State::SynReceived) => LlpState::Connecting,
            (None, State::Established | State::FinWait1 | State::FinWait2) => LlpState::Established,
            (None, State::CloseWait | State::Closing | State::LastAck) => LlpState::PeerClosed,
        }
    }

    pub(crate) const fn appearance(&self) -> Appearance {
        let (state, unread) = (self.state(), self.held.unread());
        let unseen = if self.wants_ahead { self.held.unseen() } else { 0 };
        Appearance { state, end: self.end, unread, unseen, queued: self.queued }
    }

    /// Returns true if the connection sends nothing more, and no segment is for it.
    pub(crate) fn is_over(&self) -> bool {
        self.is_waited_for || self.tcp.state() == State::Closed && self.tcp.next_timeout().is_none()
    }

    /// Returns true if the connection is established and has nothing to send.
    pub(crate) fn is_quiet(&self, emss: usize) -> bool {
        let has_unsent = self.outbox.unsent(emss).octets > 0;
        self.tcp.state() == State::Established && !has_unsent && !self.is_blocked && !self.is_removed
    }

    /// Returns true if the connection ends when its peer is gone without a FIN or RST.
    pub(crate) fn loses_peer(&self) -> bool {
        let has_ended = self.end.is_some() || (self.peer_finished && !self.is_removed);
        !has_ended && !matches!(self.tcp.state(), State::Closed | State::SynSent)
    }

    pub(crate) const fn remote(&self) -> IpAddr {
        self.tuple.remote.ip()
    }

    /// Lends the protocol more places for what is in flight, if it has none left.
    pub(crate) fn lend_records(&mut self) {
        if !self.tcp.sender().is_full() || self.records >= MOST_RECORDS {
            return;
        }
        let count = (2 * self.records).clamp(FEWEST_RECORDS, MOST_RECORDS);
        if self.tcp.swap_records(vec![Sent::default(); count]).is_ok() {
            self.records = count;
        }
    }

    /// Lends the protocol places for gaps, if a segment lies beyond one.
    pub(crate) fn lend_intervals(&mut self, segment: &Segment) {
        if !self.has_intervals && segment.len > 0 && segment.data() != self.tcp.receiver().next() {
            let nothing = Interval { start: Seq(0), end: Seq(0) };
            self.tcp.swap_intervals(vec![nothing; INTERVALS]);
            self.has_intervals = true;
        }
    }

    /// Notes how long a data segment's headers are.
    pub(crate) fn set_form(&mut self, longest: Option<usize>) {
        let emss = usize::from(self.tcp.emss());
        let mut options = Options::default();
        if self.tcp.has_timestamps() {
            options.timestamps = Some(Timestamps { value: 0, echo: 0 });
        }
        let headers = self.template.len(&options);
        let whole = longest.filter(|_| emss >= LEAST_CUT).map_or(1, |longest| {
            longest.saturating_sub(headers).checked_div(emss).unwrap_or(1).clamp(1, MOST_SEGMENTS)
        });
        self.outbox.set_form(headers, whole * emss);
    }

    fn forget_octets(&mut self, pool: &mut Pool) {
        self.outbox.clear(pool);
        self.held.forget_ahead(pool);
        self.queued = 0;
    }
}

/// Places for what is in flight, at first and at most.
const FEWEST_RECORDS: usize = 16;
const MOST_RECORDS: usize = 16_384;
/// Places for what lies beyond gaps.
const INTERVALS: usize = 64;
/// A device cuts no frames into segments of fewer octets, nor into more segments.
const LEAST_CUT: usize = 536;
const MOST_SEGMENTS: usize = 122;
