use core::net::SocketAddr;

use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::{Duration, Instant};

use crate::config::{Congestion, StackConfig};
use crate::demux::{Segment, Tuple, default_mss};
use crate::llp::LlpState;
use crate::sequence::SendMark;
use crate::whole::{Flow, Keeper};

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseCause {
    /// Both sides sent FIN and had it acknowledged.
    Graceful,
    /// The peer answered the SYN with RST: nobody listens there.
    Refused,
    /// The peer sent RST.
    Reset,
    /// The peer was silent for the configured timeout.
    TimedOut,
    /// This side gave the connection up.
    Aborted,
}

/// One TCP connection: a socket set with one socket, and what smoltcp doesn't keep or tell.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) set: SocketSet<'static>,
    pub(crate) tuple: Tuple,
    pub(crate) mark: SendMark,
    pub(crate) keeper: Keeper,
    pub(crate) end: Option<CloseCause>,
    /// The peer's FIN has come; everything that was sent before it has come too.
    pub(crate) peer_finished: bool,
    /// The port whose listener the connection counts against, until it is taken.
    pub(crate) listener: Option<u16>,
    pub(crate) is_announced: bool,
    /// Forgotten by the user: the stack closes it.
    pub(crate) is_removed: bool,
    pub(crate) is_dirty: bool,
    pub(crate) is_ready: bool,
    /// A segment of it went out, if only to the wire.
    pub(crate) has_sent: bool,
    /// Waits for the neighbor's MAC address.
    pub(crate) is_waiting: bool,
    /// When a half-open or removed connection is given up, whatever its peer says.
    pub(crate) give_up_at: Option<Instant>,
    peer_mss: u16,
    ip_mtu: usize,
    handle: SocketHandle,
    last_state: State,
    /// The peer was heard, or an answer of it was awaited first.
    silent_since: Instant,
    is_pending: bool,
    /// Since when the RST of an abort waits for the peer's MAC address.
    reset_waits_since: Option<Instant>,
    is_reset_lost: bool,
    time_wait_until: Option<Instant>,
    timeout: Option<Duration>,
    keep_alive: Option<Duration>,
}

/// What the user sees of a connection; it is ready when this changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Appearance {
    state: State,
    end: Option<CloseCause>,
    received: usize,
    queued: usize,
}

impl Connection {
    pub(crate) fn new(tuple: Tuple, config: &StackConfig, ip_mtu: usize, now: Instant) -> Self {
        let buffer = |len: usize| SocketBuffer::new(vec![0; len]);
        let mut socket = Socket::new(buffer(receive_len(config.tcp_buffer)), buffer(config.tcp_buffer));
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
            end: None,
            peer_finished: false,
            listener: None,
            is_announced: false,
            is_removed: false,
            is_dirty: false,
            is_ready: false,
            has_sent: false,
            is_waiting: false,
            give_up_at: None,
            peer_mss: default_mss(tuple.remote.ip()),
            ip_mtu,
            handle,
            last_state: State::Closed,
            silent_since: now,
            is_pending: false,
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

    /// While a whole segment waits, nothing shorter is sent because the congestion window has an odd length or the peer's
    /// window ends (the sender's side of silly window avoidance, RFC 9293 section 3.8.6.2.1). So TCP segments keep to
    /// the FPDUs that were cut to fit them (RFC 5044 section 5). A shorter rest at the end goes out at once, if the window
    /// takes all of it: [`Keeper`] sees to that.
    pub(crate) fn hold_back_fragments(&mut self) {
        let whole_segment_waits = self.mark.unsent() >= self.emss();
        self.socket_mut().set_nagle_enabled(whole_segment_waits);
    }

    /// Where sending stands; nowhere before the SYN.
    pub(crate) fn flow(&self) -> Option<Flow> {
        let queue_end = self.mark.queue_end()?;
        let queued = u32::try_from(self.socket().send_queue()).ok()?;
        let unacknowledged = queue_end.wrapping_sub(queued);
        Some(Flow { emss: self.emss(), unacknowledged, queue_end, is_closed: self.mark.is_window_closed() })
    }

    /// Closes the connection by RST; the RST goes out at the next egress.
    pub(crate) fn abort(&mut self, cause: CloseCause) {
        self.socket_mut().abort();
        self.end.get_or_insert(cause);
    }

    /// A RST that can't be sent would be tried once a second for ever; a peer that is not there needs none.
    pub(crate) fn drop_unsendable_reset(&mut self, now: Instant) {
        if self.is_waiting && self.socket().state() == State::Closed {
            let since = *self.reset_waits_since.get_or_insert(now);
            self.is_reset_lost = now >= since + RESET_PATIENCE;
        }
    }

    /// Takes note of what a segment, or the time, did to the socket. `segment` is the one just processed.
    pub(crate) fn observe(&mut self, now: Instant, segment: Option<&Segment>) {
        let (state, last) = (self.socket().state(), self.last_state);
        self.last_state = state;
        if segment.is_some() {
            self.silent_since = now;
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
        // Only now is it known that the checksum was good. An MSS of 0 counts as none, and smoltcp takes none
        // below 48.
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
            State::FinWait1 | State::FinWait2 => {}
        }
    }

    pub(crate) fn socket(&self) -> &Socket<'static> {
        self.set.get(self.handle)
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

    /// Whether a segment may be for it. Before its own SYN is out nobody can know of a connection, and
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

    /// Both ends know each other.
    pub(crate) fn is_established(&self) -> bool {
        !matches!(self.socket().state(), State::Closed | State::Listen | State::SynSent | State::SynReceived)
    }

    /// Nothing will be sent any more, and nothing that arrives is for this connection.
    pub(crate) fn is_over(&self) -> bool {
        let is_closed = matches!(self.socket().state(), State::Closed | State::Listen);
        is_closed && (self.is_reset_lost || self.socket().remote_endpoint().is_none())
    }

    /// When the peer has been silent for too long.
    ///
    /// smoltcp's own timeout would also end connections that are merely idle, so the stack keeps one of its
    /// own.
    pub(crate) fn times_out_at(&self) -> Option<Instant> {
        let patience = self.timeout?;
        match self.keep_alive {
            _ if self.end.is_some() => None,
            _ if self.is_pending => Some(self.silent_since + patience),
            Some(interval) => Some(self.silent_since + interval + patience),
            None => None,
        }
    }

    /// At the end of TIME-WAIT smoltcp forgets what was received; while the user hasn't read it, that must
    /// wait.
    pub(crate) fn holds_unread(&self, now: Instant) -> bool {
        !self.is_removed
            && self.socket().state() == State::TimeWait
            && self.socket().can_recv()
            && self.time_wait_until.is_some_and(|until| now >= until)
    }

    /// Octets of payload in the largest segment that may be sent.
    pub(crate) fn emss(&self) -> usize {
        let headers = if self.tuple.local.is_ipv4() { 40 } else { 60 };
        usize::from(self.peer_mss).min(self.ip_mtu - headers)
    }

    pub(crate) const fn local(&self) -> SocketAddr {
        self.tuple.local
    }

    pub(crate) const fn remote(&self) -> SocketAddr {
        self.tuple.remote
    }

    /// Whether the peer owes an answer: to data, SYN or FIN.
    fn is_pending_now(&self) -> bool {
        let socket = self.socket();
        let awaits_control = matches!(
            socket.state(),
            State::SynSent | State::SynReceived | State::FinWait1 | State::Closing | State::LastAck
        );
        awaits_control || (socket.is_open() && socket.send_queue() > 0)
    }
}

/// How large a receive buffer is made for the size asked for.
///
/// The window of a SYN is never scaled, but smoltcp scales it when it looks whether a segment lies in the
/// window it has announced last. A peer that ignores the window could then send more than the buffer holds,
/// which makes smoltcp panic. One octet below a power of two, the scaled maximum of 65535 is not above the
/// size.
const fn receive_len(len: usize) -> usize {
    if len <= 0xFFFF { len } else { len.next_power_of_two() - 1 }
}

/// smoltcp's lower bound for what a SYN may say.
const MIN_PEER_MSS: u16 = 48;

/// Three questions for the peer's MAC address.
const RESET_PATIENCE: Duration = Duration::from_secs(3);

/// smoltcp's; the stack only has to know it to act just before.
const TIME_WAIT: Duration = Duration::from_secs(10);
