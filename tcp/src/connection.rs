//! A connection.

mod arriving;
mod black_hole;
mod departing;
mod effects;
mod icmp;
mod timers;

pub use departing::Outgoing;
pub use effects::{Cause, Effects};
pub use icmp::Unreachable;

use black_hole::BlackHole;

use crate::opening::first_window;
use crate::opening::{Agreement, offer};
use crate::state::Event;
use crate::timestamps::TimestampClock;
use crate::{
    Agreed, Config, Flags, HalfOpen, Interval, Micros, RateLimit, Receiver, Segment, Sender, Sent, Seq,
    State, TimeWait, Token, Unsent,
};

/// A connection but in the states LISTEN and, after it, SYN-RECEIVED.
///
/// Its owner keeps the octets and calls methods of four kinds:
///
/// * [`handle`](Self::handle) takes a segment, [`expire`](Self::expire) the time.
/// * [`offer`](Self::offer), [`consume`](Self::consume), [`close`](Self::close) and [`abort`](Self::abort) are the
///   user's.
/// * [`poll_transmit`](Self::poll_transmit) tells the next segment, and [`sent`](Self::sent) that it has gone. The owner
///   calls them after anything else, until nothing is to be sent.
/// * [`released`](Self::released) tells the frames that are not needed any more, after `handle`.
///
/// [`next_timeout`](Self::next_timeout) is the latest time for the next `expire`.
#[derive(Debug)]
pub struct Connection<S, I> {
    config: Config,
    state: State,
    sender: Sender<S>,
    receiver: Receiver<I>,
    clock: TimestampClock,
    agreement: Agreement,
    iss: Seq,
    irs: Seq,
    /// The SYN or SYN/ACK of this side: how often and when it went.
    syn_times: u8,
    syn_sent_at: Micros,
    challenges: RateLimit,
    /// An RST that has to go.
    reset: Option<Segment>,
    /// The user has closed before the connection was established.
    closes: bool,
    unsent: u32,
    /// The distance of the peer as the receiver sees it.
    receive_rtt: Option<Micros>,
    /// When the peer last acknowledged something, or the wait for that began.
    progress_at: Micros,
    /// When a closed window was probed first since the peer was heard.
    asked_at: Option<Micros>,
    /// When an acceptable segment came last.
    heard_at: Micros,
    /// The first and the last probe of an idle peer since then.
    probed_at: Option<(Micros, Micros)>,
    black_hole: BlackHole,
}

impl<S: AsRef<[Sent]> + AsMut<[Sent]>, I: AsMut<[Interval]>> Connection<S, I> {
    /// Opens a connection (RFC 9293 section 3.10.1). `iss` and `timestamp_offset` come from [`Secret`](crate::Secret).
    pub fn connect(
        config: &Config,
        iss: Seq,
        timestamp_offset: u32,
        (records, intervals): (S, I),
        now: Micros,
    ) -> Self {
        let agreement = Agreement {
            mss: config.mss,
            shifts: None,
            timestamps: config.timestamps,
            sack: false,
            ecn: false,
        };
        Self {
            config: *config,
            state: State::SynSent,
            sender: Sender::new(&config.send, iss, records),
            receiver: Receiver::new(&config.receive, config.mss, Seq(0), intervals, now),
            clock: TimestampClock::new(timestamp_offset),
            agreement,
            iss,
            irs: Seq(0),
            syn_times: 0,
            syn_sent_at: now,
            challenges: RateLimit::new(CHALLENGES_PER_SECOND),
            reset: None,
            closes: false,
            unsent: 0,
            receive_rtt: None,
            progress_at: now,
            asked_at: None,
            heard_at: now,
            probed_at: None,
            black_hole: BlackHole::None,
        }
    }

    /// Makes a connection of a half-open one. `segment` has opened it; the caller gives it to [`Self::handle`] next.
    pub fn accept(config: &Config, half: &HalfOpen, segment: &Segment, storage: (S, I), now: Micros) -> Self {
        let (iss, irs) = half.numbers();
        let mut connection = Self::connect(config, iss, 0, storage, now);
        connection.clock = half.clock(now);
        connection.agreement = *half.agreement();
        connection.synchronize(irs, now);
        connection.syn_times = half.times_sent().max(1);
        connection.establish(segment, half.rtt(now), now);
        connection
    }

    /// Returns the state.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Returns the most octets of payload in a segment to the peer.
    pub const fn emss(&self) -> u16 {
        self.agreement.emss()
    }

    /// Whether all segments but resets carry timestamps, which the EMSS leaves room for (RFC 7323 section 3.2).
    pub const fn has_timestamps(&self) -> bool {
        self.agreement.timestamps
    }

    /// Whether the SYN, or the SYN/ACK of this side, has gone and was not asked for anew.
    pub const fn has_sent_syn(&self) -> bool {
        self.syn_times > 0
    }

    /// Returns the sending half.
    pub const fn sender(&self) -> &Sender<S> {
        &self.sender
    }

    /// Returns the receiving half.
    pub const fn receiver(&self) -> &Receiver<I> {
        &self.receiver
    }

    /// Returns the settings.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Tells what waits to be sent for the first time. The owner calls it whenever that has changed.
    pub fn offer(&mut self, unsent: Unsent, now: Micros) {
        self.begin_waiting(now);
        self.unsent = unsent.octets;
        self.sender.offer(unsent, now);
    }

    /// Tells that the user has taken octets out of what was ready.
    pub fn consume(&mut self, octets: u32, now: Micros) {
        self.receiver.consume(octets, self.receive_rtt, now);
    }

    /// Ends the user's stream with a FIN behind what is offered (RFC 9293 section 3.10.4). The peer may go on sending.
    pub fn close(&mut self, now: Micros) -> Effects {
        match self.state {
            State::SynSent => return self.end(Cause::Aborted),
            State::SynReceived => self.closes = true,
            State::Established | State::CloseWait => {
                self.begin_waiting(now);
                self.state = self.state.after(Event::Close);
                self.sender.close(now);
            }
            _ => {}
        }
        Effects::default()
    }

    /// Gives the connection up. The peer gets an RST if it believes that there is one (RFC 9293 section 3.10.5).
    pub fn abort(&mut self, now: Micros) -> Effects {
        if matches!(self.state, State::Closed) {
            return Effects::default();
        }
        let is_known = self.state.is_synchronized() || self.state == State::SynReceived;
        let is_over = matches!(self.state, State::Closing | State::LastAck | State::TimeWait);
        if is_known && !is_over {
            let next = if self.state == State::SynReceived { self.iss + 1 } else { self.sender.acceptable() };
            let ack = self.header(next, now);
            self.reset = Some(Segment { flags: Flags::RST, ..ack });
        }
        self.end(Cause::Aborted)
    }

    /// Returns a frame whose octets are all acknowledged, until there is none left.
    pub fn released(&mut self) -> Option<Token> {
        self.sender.released()
    }

    /// Exchanges the storage of records for a larger one, and returns the old one.
    ///
    /// # Errors
    /// It is too small for what is in flight. The old one stays.
    pub fn swap_records(&mut self, records: S) -> Result<S, S> {
        self.sender.swap_records(records)
    }

    /// Exchanges the storage of intervals for a larger one, and returns the old one.
    pub fn swap_intervals(&mut self, intervals: I) -> I {
        self.receiver.swap_intervals(intervals)
    }

    /// For lack of memory: keeps the receive window's edge where it is, and takes nothing beyond a gap any more.
    pub const fn freeze(&mut self, is_frozen: bool) {
        self.receiver.freeze(is_frozen);
    }

    /// For lack of memory: forgets what lies beyond a gap. The owner drops it, too.
    pub fn renege(&mut self) {
        self.receiver.renege();
    }

    /// Returns the record for the rest of TIME-WAIT. The owner drops the connection when nothing is to be sent any more.
    pub fn time_wait(&self, now: Micros) -> Option<TimeWait> {
        let last = self.header(self.sender.nxt(), now);
        (self.state == State::TimeWait).then(|| TimeWait::new(&last, &self.clock, now))
    }

    /// Takes the peer's ISN. The window is that of a segment with SYN, which the peer has or will get.
    fn synchronize(&mut self, irs: Seq, now: Micros) {
        self.irs = irs;
        self.receiver.synchronize(&self.config.receive, irs, now);
        self.receiver.sent(&Segment { window: first_window(&self.config), ..Segment::new(self.iss, None) });
    }

    /// Enters ESTABLISHED. `segment` has acknowledged the SYN.
    fn establish(&mut self, segment: &Segment, rtt: Option<Micros>, now: Micros) {
        self.state = self.state.after(Event::Opened);
        let Agreement { mss, sack, ecn, shifts, .. } = self.agreement;
        self.receiver.established(mss, sack, ecn, shifts.map_or(0, |shifts| shifts.receive));
        let agreed = Agreed {
            emss: self.agreement.emss(),
            sack,
            ecn,
            window: self.agreement.window(segment),
            wl1: segment.seq,
            rtt,
            syn_repeated: self.syn_times > 1,
        };
        self.sender.established(&agreed, now);
        if self.syn_times > 2 {
            self.sender.begin_small();
        }
        (self.progress_at, self.heard_at) = (now, now);
        if self.closes {
            self.state = self.state.after(Event::Close);
            self.sender.close(now);
        }
    }

    fn end(&mut self, cause: Cause) -> Effects {
        self.state = self.state.after(Event::End);
        Effects { closed: Some(cause), ..Effects::default() }
    }

    /// Begins the user timeout if nothing waited for the peer up to now.
    fn begin_waiting(&mut self, now: Micros) {
        if !self.is_waiting() {
            self.progress_at = now;
        }
    }

    /// Whether anything waits for the peer, a SYN included.
    fn is_waiting(&self) -> bool {
        !self.state.is_synchronized() || self.sender.in_flight() || self.unsent > 0
    }

    /// Returns a segment with this number, and with acknowledgement, window and timestamps as they stand now.
    fn header(&self, seq: Seq, now: Micros) -> Segment {
        let mut segment = Segment::new(seq, None);
        self.receiver.fill(&mut segment);
        segment.options.timestamps = self.agreement.timestamps.then(|| self.clock.stamp(now));
        segment
    }

    /// Returns the SYN, or in SYN-RECEIVED the SYN/ACK.
    fn syn(&self, now: Micros) -> Segment {
        let mut segment = Segment::new(self.iss, None);
        segment.flags = Flags::SYN;
        segment.window = first_window(&self.config);
        segment.options = offer(&self.config);
        if self.state == State::SynReceived {
            segment.ack = Some(self.receiver.next());
            segment.options = self.agreement.options(&self.config);
        } else if self.config.ecn && self.syn_times == 0 {
            segment.flags |= Flags::ECE | Flags::CWR;
        }
        segment.options.timestamps = self.agreement.timestamps.then(|| self.clock.stamp(now));
        segment
    }
}

/// RFC 5961 section 7. The limit holds for each connection, as a common one tells strangers of other connections.
const CHALLENGES_PER_SECOND: u16 = 10;
