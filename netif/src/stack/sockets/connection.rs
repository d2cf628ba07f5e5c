//! One TCP connection of a stack: smoltcp's socket, and the facts that smoltcp does not keep or tell.

use core::net::{IpAddr, SocketAddr};

use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::{Duration, Instant};

use super::own::OwnSegment;
use super::sequence::{SendMark, drop_late_fin, put_out_of_reach};
use super::tally::{Appearance, Tally, is_established};
use super::whole::{Flow, Keeper};
use crate::config::{Congestion, StackConfig};
use crate::counters::TcpCounters;
use crate::demux::{Segment, Tuple, default_mss};
use crate::frame::Frame;
use crate::llp::state::{CloseCause, LlpState};
use crate::table::Ends;

/// One TCP connection: a socket set with one socket, and the facts that smoltcp does not keep or tell.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) set: SocketSet<'static>,
    pub(crate) tuple: Tuple,
    pub(crate) mark: SendMark,
    pub(crate) keeper: Keeper,
    pub(crate) tally: Tally,
    pub(crate) end: Option<CloseCause>,
    /// The peer's FIN has come, and with it all octets before it.
    pub(crate) peer_finished: bool,
    /// The port whose listener the connection counts against, until it is taken.
    pub(crate) listener: Option<u16>,
    pub(crate) is_announced: bool,
    /// The user has forgotten the connection, and the stack closes it.
    pub(crate) is_removed: bool,
    pub(crate) is_dirty: bool,
    /// The next egress has to look at the connection, and not only the one after it.
    pub(crate) is_urgent: bool,
    pub(crate) is_ready: bool,
    /// A segment of it went out.
    pub(crate) has_sent: bool,
    /// Waits for the neighbor's MAC address.
    pub(crate) is_waiting: bool,
    /// It is in another stack than its ports choose.
    pub(crate) is_moved: bool,
    /// The time at which a half-open or removed connection is given up, even if its peer answers.
    pub(crate) give_up_at: Option<Instant>,
    peer_mss: u16,
    /// The scale of the windows that the peer is told: that of the SYN, or 0 if the peer scales none.
    window_shift: u8,
    ip_mtu: usize,
    /// The place in the send buffer for the next octet.
    written_to: usize,
    handle: SocketHandle,
    last_state: State,
    /// The time of the peer's last segment or, if later, of the first segment after it that needs an answer.
    silent_since: Instant,
    /// A segment of the peer has come after the last one that it has to answer.
    is_answered: bool,
    is_pending: bool,
    /// Keep-alives replace the timer that smoltcp lacks. See [`Self::ask_again`].
    is_asking: bool,
    /// The time at which the RST of an abort began to wait for the peer's MAC address.
    reset_waits_since: Option<Instant>,
    is_reset_lost: bool,
    time_wait_until: Option<Instant>,
    timeout: Option<Duration>,
    keep_alive: Option<Duration>,
}

impl Ends for Connection {
    fn ends(&self) -> Tuple {
        self.tuple
    }
}

impl Connection {
    pub(crate) fn new(tuple: Tuple, config: &StackConfig, ip_mtu: usize, now: Instant) -> Self {
        let buffer = |len: usize| SocketBuffer::new(vec![0; len]);
        let largest = ip_mtu - headers(tuple.local.ip());
        let [receive, send] = [receive_len(config.tcp_buffer), send_len(config.tcp_buffer, largest)];
        let mut socket = Socket::new(buffer(receive), buffer(send));
        socket.set_ack_delay(config.ack_delay);
        socket.set_keep_alive(config.keep_alive);
        socket.set_congestion_control(match config.congestion {
            Congestion::Cubic => CongestionControl::Cubic,
            Congestion::None => CongestionControl::None,
        });
        let mut set = SocketSet::new(Vec::with_capacity(1));
        let handle = set.add(socket);
        Self {
            set,
            tuple,
            mark: SendMark::default(),
            keeper: Keeper::default(),
            tally: Tally::default(),
            end: None,
            peer_finished: false,
            listener: None,
            is_announced: false,
            is_removed: false,
            is_dirty: false,
            is_urgent: false,
            is_ready: false,
            has_sent: false,
            is_waiting: false,
            is_moved: false,
            give_up_at: None,
            peer_mss: default_mss(tuple.remote.ip()),
            window_shift: window_shift(receive),
            ip_mtu,
            written_to: 0,
            handle,
            last_state: State::Closed,
            silent_since: now,
            is_answered: false,
            is_pending: false,
            is_asking: false,
            reset_waits_since: None,
            is_reset_lost: false,
            time_wait_until: None,
            timeout: config.timeout,
            keep_alive: config.keep_alive,
        }
    }

    pub(crate) fn socket_mut(&mut self) -> &mut Socket<'static> {
        self.set.get_mut(self.handle)
    }

    /// Has smoltcp send no part of a segment while a whole segment waits, if the congestion window or the peer's
    /// window ends there (silly window avoidance of the sender, RFC 9293 section 3.8.6.2.1). So TCP segments keep to
    /// the FPDUs that were cut to fit them (RFC 5044 section 5). A shorter rest at the end of the queue goes out at
    /// once, if the window takes all of it. [`Keeper`] handles the other case.
    pub(crate) fn hold_back_fragments(&mut self) {
        let whole_segment_waits = self.mark.unsent() >= self.emss();
        self.socket_mut().set_nagle_enabled(whole_segment_waits);
    }

    /// Notes octets that were put into the send buffer. `is_whole` is true if they end with a unit of the user's.
    pub(crate) fn note_queued(&mut self, len: usize, is_whole: bool) {
        self.is_urgent |= len > 0;
        let socket = self.socket();
        // smoltcp begins at the front of the buffer whenever that is empty.
        let was_empty = socket.send_queue() == len;
        let capacity = socket.send_capacity();
        let end = if was_empty { len } else { self.written_to + len };
        self.written_to = if end < capacity { end } else { end - capacity };
        self.mark.note_queued(len);
        if is_whole && end == capacity {
            self.mark.note_seam();
        }
    }

    /// Returns the room in the segment that takes the next octet queued. The segments before it are whole, and a
    /// segment begins where the send buffer begins.
    pub(crate) fn segment_room(&self) -> usize {
        let unsent = self.mark.unsent() + self.keeper.held();
        let emss = self.emss();
        emss - unsent.min(self.written_to) % emss
    }

    /// Returns true if the connection is established, and neither sends nor holds back octets.
    pub(crate) fn is_quiet(&self) -> bool {
        self.socket().state() == State::Established
            && self.mark.unsent() == 0
            && !self.is_waiting
            && !self.keeper.is_holding()
    }

    /// Returns the state of the sending direction, or `None` before the SYN.
    pub(crate) fn flow(&self) -> Option<Flow> {
        let queue_end = self.mark.queue_end()?;
        let queued = u32::try_from(self.socket().send_queue()).ok()?;
        let unacknowledged = queue_end.wrapping_sub(queued);
        let (is_closed, seam) = (self.mark.is_window_closed(), self.mark.seam());
        Some(Flow { emss: self.emss(), unacknowledged, queue_end, is_closed, seam })
    }

    /// Has smoltcp refuse the segment in `frame` if it acknowledges octets that were never sent; see
    /// [`put_out_of_reach`]. While a connection opens, smoltcp refuses such segments by itself.
    pub(crate) fn refuses(&self, segment: &Segment, frame: &mut [u8]) -> bool {
        let Some(reached) = self.tally.reached().filter(|_| self.is_established()) else { return false };
        let is_ahead = self.tally.is_ahead(segment);
        if is_ahead {
            put_out_of_reach(frame, frame.len().saturating_sub(segment.len), reached);
        }
        is_ahead
    }

    /// Has smoltcp take no FIN behind octets that the window has no room for; see [`drop_late_fin`].
    pub(crate) fn drop_late_fin(&self, segment: &Segment, frame: &mut [u8]) {
        if segment.has_fin()
            && let Some(window_end) = self.mark.window_end(self.window_shift)
        {
            drop_late_fin(frame, frame.len().saturating_sub(segment.len), window_end);
        }
    }

    /// Has a stuck connection send keep-alives, and returns whether it is stuck. smoltcp turns its timer off when a
    /// retransmission timeout runs out under a closed window. If the segment that opens the window gets lost, both
    /// sides wait for ever (RFC 9293 section 3.8.6.1). Keep-alives go out until the peer answers; then smoltcp probes
    /// the window or sends. A peer that stays silent is given up after the user timeout.
    ///
    /// After such a timeout smoltcp counts no octets as under way. So its keep-alive repeats an octet that the peer
    /// has already.
    pub(crate) fn ask_again(&mut self) -> bool {
        let is_stuck = self.end.is_none()
            && self.is_established()
            && self.mark.is_window_closed()
            && self.socket().send_queue() > 0;
        if is_stuck {
            self.is_asking = true;
            self.socket_mut().set_keep_alive(Some(ASK_AGAIN));
        }
        is_stuck
    }

    /// Closes the connection by RST, which goes out at the next egress.
    pub(crate) fn abort(&mut self, cause: CloseCause) {
        self.socket_mut().abort();
        self.end.get_or_insert(cause);
    }

    /// Returns true if the connection ends when its peer is gone without a FIN or RST.
    pub(crate) fn loses_peer(&self) -> bool {
        let state = self.socket().state();
        let has_ended = self.end.is_some() || (self.peer_finished && !self.is_removed);
        !has_ended && !matches!(state, State::Closed | State::Listen | State::SynSent)
    }

    /// Drops a RST that cannot be sent. smoltcp would try it once a second for ever, and an absent peer needs none.
    pub(crate) fn drop_unsendable_reset(&mut self, now: Instant) {
        if self.is_waiting && self.socket().state() == State::Closed {
            let since = *self.reset_waits_since.get_or_insert(now);
            self.is_reset_lost = now >= since + RESET_PATIENCE;
        }
    }

    /// Returns true in the state of most connections: only data and acknowledgements go either way, and sending does
    /// not change that.
    pub(crate) fn is_calm(&self) -> bool {
        self.last_state == State::Established
            && self.socket().state() == State::Established
            && self.end.is_none()
            && !self.is_removed
            && !self.is_waiting
            && self.listener.is_none()
            && self.give_up_at.is_none()
    }

    /// Notes a frame that smoltcp sends, and corrects it. Returns true if the caller has nothing else to do, as for
    /// nearly all frames. If it returns false, the caller has to keep the frame's segments whole and count it.
    pub(crate) fn passes(&mut self, now: Instant, frame: &mut Frame, counters: &mut TcpCounters) -> bool {
        let Some(mut own) = OwnSegment::of(frame) else { return false };
        self.mark.stamp(frame, &mut own);
        self.has_sent = true;
        let Some(flow) = self.flow().filter(|flow| self.keeper.passes(frame, &own, flow)) else {
            return false;
        };
        self.note_sent(now, false);
        self.tally.count_one(&own, frame.segment, Some(&flow), counters);
        true
    }

    /// Notes that a frame was sent. `is_blocked` is true if it waits for the neighbor's MAC address instead. The time
    /// for an answer to probes begins with the first probe after the peer's last answer.
    pub(crate) fn note_sent(&mut self, now: Instant, is_blocked: bool) {
        let has_asked = self.mark.take_asked() || is_blocked;
        if has_asked && core::mem::take(&mut self.is_answered) && self.is_probing() {
            self.silent_since = now;
        }
    }

    /// Notes that the neighbor was found. An acknowledgement that waited for that needs no answer.
    pub(crate) const fn note_neighbor(&mut self) {
        self.is_waiting = false;
        self.is_answered |= self.is_probing();
    }

    /// Notes how a segment or the time has changed the socket. `segment` is the one that was just processed.
    pub(crate) fn observe(&mut self, now: Instant, segment: Option<&Segment>) {
        let (state, last) = (self.socket().state(), self.last_state);
        self.last_state = state;
        if segment.is_some() {
            self.silent_since = now;
            self.is_answered = true;
            if core::mem::take(&mut self.is_asking) {
                let keep_alive = self.keep_alive;
                self.socket_mut().set_keep_alive(keep_alive);
            }
        }
        let is_pending = self.is_pending_now();
        if is_pending && !self.is_pending {
            self.silent_since = now;
        }
        self.is_pending = is_pending;
        if state == last {
            return;
        }
        let is_opening = matches!(last, State::Listen | State::SynSent);
        let is_syn = |segment: &&Segment| is_opening && segment.has_syn();
        if segment.filter(is_syn).is_some_and(|segment| !segment.scales) {
            self.window_shift = 0;
        }
        // Only now the checksum is known to be good. An MSS of 0 counts as none, and smoltcp takes none below 48.
        if let Some(mss) = segment.and_then(|segment| segment.mss).filter(|&mss| is_opening && mss != 0) {
            self.peer_mss = mss.max(MIN_PEER_MSS);
        }
        match state {
            State::CloseWait | State::Closing | State::LastAck => self.peer_finished = true,
            State::TimeWait => {
                self.peer_finished = true;
                self.end.get_or_insert(CloseCause::Graceful);
                self.time_wait_until = Some(now + TIME_WAIT);
            }
            State::Closed => {
                let is_reset = segment.is_some_and(Segment::is_reset);
                self.end.get_or_insert(match (last, is_reset) {
                    (State::SynSent, true) => CloseCause::Refused,
                    (_, true) => CloseCause::Reset,
                    (State::LastAck, false) => CloseCause::Graceful,
                    (_, false) => CloseCause::Aborted,
                });
            }
            State::Listen | State::SynSent | State::SynReceived | State::Established => {}
            // The closing side may be gone soon. So it acknowledges arriving segments at once, above all a FIN.
            State::FinWait1 | State::FinWait2 => self.socket_mut().set_ack_delay(None),
        }
    }

    pub(crate) fn socket(&self) -> &Socket<'static> {
        self.set.get(self.handle)
    }

    pub(crate) fn is_in_time_wait(&self) -> bool {
        self.socket().state() == State::TimeWait
    }

    pub(crate) fn appearance(&self) -> Appearance {
        let socket = self.socket();
        Appearance {
            state: socket.state(),
            end: self.end,
            received: socket.recv_queue(),
            queued: socket.send_queue(),
        }
    }

    /// Returns true if a segment may be for this connection. Before its own SYN is out no peer can know of it, and
    /// smoltcp panics on a segment that comes so early.
    pub(crate) fn takes_segments(&self) -> bool {
        self.has_sent || self.socket().state() != State::SynSent
    }

    pub(crate) fn llp_state(&self) -> LlpState {
        match (self.end, self.socket().state()) {
            (Some(CloseCause::Graceful), _) => LlpState::Closed,
            (Some(_), _) | (None, State::Closed) => LlpState::Reset,
            (None, State::Listen | State::SynSent | State::SynReceived) => LlpState::Connecting,
            (None, State::Established | State::FinWait1 | State::FinWait2) => LlpState::Established,
            (None, State::CloseWait | State::Closing | State::LastAck) => LlpState::PeerClosed,
            (None, State::TimeWait) => LlpState::Closed,
        }
    }

    /// Returns true if the connection is, or was, established.
    pub(crate) fn is_established(&self) -> bool {
        is_established(self.socket().state())
    }

    /// Returns true if the connection sends nothing more, and no segment is for it.
    pub(crate) fn is_over(&self) -> bool {
        let is_closed = matches!(self.socket().state(), State::Closed | State::Listen);
        is_closed && (self.is_reset_lost || self.socket().remote_endpoint().is_none())
    }

    /// Returns the time at which the peer's silence will be too long: after data, a probe of its closed window, or
    /// the probe of an idle connection.
    ///
    /// Time counts from the probe. So a stack that was not polled for long asks before it gives a peer up. smoltcp's
    /// own timeout would end connections that are merely idle.
    pub(crate) fn times_out_at(&self) -> Option<Instant> {
        let patience = self.timeout?;
        let is_asked = self.is_pending || self.keep_alive.is_some();
        // A peer that answers each probe lives, and the intervals between probes of a closed window grow.
        let is_alive = self.is_answered && self.is_probing();
        (self.end.is_none() && is_asked && !is_alive).then(|| self.silent_since + patience)
    }

    /// Returns true if TIME-WAIT is over but the user has unread octets. smoltcp would forget the connection, so that
    /// the end has to wait.
    pub(crate) fn holds_unread(&self, now: Instant) -> bool {
        !self.is_removed
            && self.socket().state() == State::TimeWait
            && self.socket().can_recv()
            && self.time_wait_until.is_some_and(|until| now >= until)
    }

    /// Returns the octets of payload in the largest segment that may be sent.
    pub(crate) fn emss(&self) -> usize {
        usize::from(self.peer_mss).min(self.ip_mtu - headers(self.tuple.local.ip()))
    }

    pub(crate) const fn local(&self) -> SocketAddr {
        self.tuple.local
    }

    pub(crate) const fn remote(&self) -> SocketAddr {
        self.tuple.remote
    }

    /// Returns true if the peer answers only probes at present.
    const fn is_probing(&self) -> bool {
        !self.is_pending || self.mark.is_window_closed()
    }

    /// Returns true if the peer owes an answer: to data, SYN or FIN.
    fn is_pending_now(&self) -> bool {
        let socket = self.socket();
        let awaits_control = matches!(
            socket.state(),
            State::SynSent | State::SynReceived | State::FinWait1 | State::Closing | State::LastAck
        );
        awaits_control || (socket.is_open() && socket.send_queue() > 0)
    }
}

/// Returns the size of a receive buffer for the size asked for.
///
/// The window of a SYN is never scaled, but smoltcp scales it when it checks whether a segment lies in the window
/// announced last. A peer that ignores the window could then send more than the buffer holds, and smoltcp would panic.
/// With one octet less than a power of two, the scaled maximum of 65535 is not above the size.
const fn receive_len(len: usize) -> usize {
    if len <= 0xFFFF { len } else { len.next_power_of_two() - 1 }
}

/// Returns the window scale that smoltcp chooses for a receive buffer.
fn window_shift(len: usize) -> u8 {
    let bits = usize::BITS - len.leading_zeros();
    u8::try_from(bits.saturating_sub(16)).unwrap_or(0)
}

/// Returns the size of a send buffer for the size asked for. It holds whole segments, since smoltcp cuts a segment
/// where the buffer ends. A buffer of a few segments keeps its size, because rounding down would lose too much of it.
const fn send_len(len: usize, segment: usize) -> usize {
    if len < FEW * segment { len } else { len - len % segment }
}

/// Returns the octets of the headers of IP and TCP.
const fn headers(local: IpAddr) -> usize {
    if local.is_ipv4() { 40 } else { 60 }
}

const FEW: usize = 4;

/// smoltcp's lower bound for the MSS of a SYN.
const MIN_PEER_MSS: u16 = 48;

/// The interval between two keep-alives to a peer that has closed its window: smoltcp's shortest retransmission
/// timeout.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The time of three questions for the peer's MAC address.
const RESET_PATIENCE: Duration = Duration::from_secs(3);

/// smoltcp's value. The stack has to act just before.
const TIME_WAIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_send_buffer_of_many_segments_holds_whole_segments() {
        assert_eq!(send_len(10_000, 1460), 6 * 1460);
        assert_eq!(send_len(8760, 1460), 8760);
        assert_eq!(send_len(5000, 1460), 5000);
    }
}
