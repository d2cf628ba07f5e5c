//! A connection whose peer, user, device and time do what the input says.

use crate::timestamps::ticks;
use crate::{
    Config, Connection, Ecn, Effects, Flags, Frame, HalfOpen, Interval, Micros, Opening, Options, Outgoing,
    Segment, Sent, Seq, State, Timestamps, Token, Transmit, Unreachable, Unsent,
};

/// Lives a connection.
///
/// ```text
/// octet 0       bit 0: passive; 1: timestamps; 2: SACK; 3: window scaling; 4: ECN; 5: keep-alive; 6: little storage;
///               7: windows of 1 GiB, segments far apart, and days instead of seconds
/// then steps    octet 0, low three bits: what happens
///               0-2  a segment: flags, number, ACK, length, window, options, and two octets for each block of SACK
///               3    time: octets that multiply
///               4    the user writes 16 times so many octets
///               5    a call: 0 close, 1 abort, 2 freeze, 3 thaw, 4 renege, 5 reads what is there, 6 the device is full
///               6    ICMP: kind, and the number that is quoted
///               7    the next timer
/// ```
///
/// Returns which states were reached, in their order in [`State`].
///
/// # Panics
/// If an octet is taken twice, the window shrinks, numbers go back, a state comes back, what is sent has no place,
/// something is in flight without a timer, or a timer that is over does nothing.
pub fn segment(octets: &[u8]) -> [bool; 10] {
    let mut input = octets.iter().copied();
    let mut records = [Sent::default(); 64];
    let mut intervals = [Interval::new(Seq(0), Seq(0)); 16];
    let mode = input.next().unwrap_or(0);
    let (records, intervals) = if mode & 64 == 0 {
        (&mut records[..], &mut intervals[..])
    } else {
        (&mut records[..4], &mut intervals[..2])
    };
    let mut life = Life::new(mode, records, intervals);
    while let Some(step) = input.next() {
        life.step(step, &mut input);
        life.rest();
        life.check();
    }
    life.reached
}

type Tcp<'a> = Connection<&'a mut [Sent], &'a mut [Interval]>;

struct Life<'a> {
    tcp: Tcp<'a>,
    now: Micros,
    unsent: u32,
    unread: u32,
    token: u32,
    /// The device takes nothing.
    is_full: bool,
    /// What the peer knows: the last numbers, timestamp and right edge of the connection.
    seen: Segment,
    edge: Option<Seq>,
    irs: Seq,
    /// Which octets were taken, and up to which all are there.
    taken: [u64; OCTETS / 64],
    next: Seq,
    una: Seq,
    state: State,
    reached: [bool; 10],
    is_vast: bool,
    is_scaling: bool,
}

impl<'a> Life<'a> {
    fn new(mode: u8, records: &'a mut [Sent], intervals: &'a mut [Interval]) -> Self {
        let has = |bit: u8| mode & bit != 0;
        let mut config = Config::new(1500, false);
        (config.timestamps, config.sack, config.window_scaling, config.ecn) =
            (has(2), has(4), has(8), has(16));
        config.keep_alive = has(32).then_some(Micros::from_secs(10));
        let is_vast = has(128);
        (config.receive.window, config.receive.window_max) =
            if is_vast { (VAST, VAST) } else { (2000, 8000) };
        config.timeout = config.timeout.filter(|_| !is_vast);
        let scale = if is_vast { Options::MAX_WINDOW_SCALE } else { 1 };
        let (now, iss, irs) = (Micros(1000), Seq(u32::MAX - 300), Seq(u32::MAX - 500));
        let mut syn = Segment { flags: Flags::SYN, window: 4000, ..Segment::new(irs, None) };
        syn.options = Options {
            mss: Some(400),
            window_scale: Some(scale),
            sack_permitted: true,
            timestamps: Some(Timestamps { value: 1000, echo: 0 }),
            ..Options::default()
        };
        let tcp = if has(1) {
            let mut half = HalfOpen::new(&config, &syn, iss, 5, now);
            half.sent(now);
            let mut ack = Segment { window: 2000, ..Segment::new(irs + 1, Some(iss + 1)) };
            ack.options.timestamps = syn.options.timestamps;
            assert_eq!(half.handle(&config, &ack, now), Opening::Opened);
            let mut tcp = Connection::accept(&config, &half, &ack, (records, intervals), now);
            assert_eq!(tcp.handle(&ack, now), Effects::default());
            tcp
        } else {
            Connection::connect(&config, iss, 5, (records, intervals), now)
        };
        let (state, una) = (tcp.state(), tcp.sender().una());
        let mut life = Self {
            tcp,
            now,
            unsent: 0,
            unread: 0,
            token: 0,
            is_full: false,
            seen: Segment::new(iss, None),
            edge: None,
            irs,
            taken: [0; OCTETS / 64],
            next: irs + 1,
            una,
            state,
            reached: [false; 10],
            is_vast,
            is_scaling: config.window_scaling,
        };
        life.transmit();
        life
    }

    fn step(&mut self, step: u8, input: &mut impl Iterator<Item = u8>) {
        let mut octet = || input.next().unwrap_or(0);
        match step & 7 {
            0..=2 => {
                let fields = [octet(), octet(), octet(), octet(), octet(), octet()];
                let mut segment = self.segment(fields);
                for _ in 0..fields[5] >> 5 & 3 {
                    let block = Interval::new(self.own(octet()), self.own(octet()));
                    segment.options.sack.push(block);
                }
                let effects = self.tcp.handle(&segment, self.now);
                self.take(&segment, effects);
            }
            3 => {
                let unit = if self.is_vast { 800_000 } else { 8 };
                self.now =
                    self.now + Micros(u64::from(octet()) * u64::from(octet()) * u64::from(step >> 3) * unit);
                self.expire();
            }
            4 => {
                self.unsent = (self.unsent + 16 * u32::from(octet())).min(16_000);
                self.offer();
            }
            5 => self.call(octet()),
            6 => {
                let what = match octet() % 4 {
                    0 => Unreachable::Hard,
                    1 => Unreachable::Soft,
                    mss => Unreachable::TooBig(u16::from(mss) * 200),
                };
                let quoted = self.own(octet());
                self.tcp.icmp(quoted, what, self.now);
            }
            _ => {
                if let Some(timeout) = self.tcp.next_timeout() {
                    self.now = self.now.max(timeout);
                    self.expire();
                }
            }
        }
        self.transmit();
    }

    fn call(&mut self, what: u8) {
        match what % 16 {
            0 => {
                self.tcp.close(self.now);
            }
            1 if what & 0xF0 == 0 => {
                self.tcp.abort(self.now);
            }
            2 => self.tcp.freeze(true),
            3 => self.tcp.freeze(false),
            4 => {
                self.tcp.renege();
                let ready = self.tcp.receiver().next();
                for octet in 0..OCTETS {
                    let seq = self.irs + 1 + u32::try_from(octet).unwrap_or(0);
                    if !seq.is_before(ready) {
                        self.taken[octet / 64] &= !(1 << (octet % 64));
                    }
                }
            }
            6 => self.is_full = !self.is_full,
            _ => {
                self.tcp.consume(self.unread, self.now);
                self.unread = 0;
            }
        }
    }

    /// Returns a number near one that matters on the connection's side.
    fn own(&self, octet: u8) -> Seq {
        let base = match octet >> 6 {
            0 => self.tcp.sender().una(),
            1 => self.tcp.sender().nxt(),
            2 => self.tcp.sender().una() + 388,
            _ => self.tcp.sender().nxt() - 388,
        };
        base + u32::from(octet & 0x3F) - SPREAD.min(u32::from(octet & 0x3F) * 2)
    }

    fn segment(&self, [flags, seq, ack, len, window, options]: [u8; 6]) -> Segment {
        // Most segments are near the truth, so that lives are long.
        let near = |octet: u8| if octet & 0x80 == 0 { 0 } else { u32::from(octet & 0x7F) * 16 };
        let next = if self.tcp.state() == State::SynSent { self.irs } else { self.tcp.receiver().next() };
        let far = if self.is_vast && len & 1 != 0 { 18 } else { 0 };
        let seq = if seq & 0x40 == 0 { next + (near(seq) << far) } else { next - (near(seq) << far) };
        let all = [Flags::SYN, Flags::FIN, Flags::RST, Flags::PSH, Flags::ECE, Flags::CWR];
        let is_wild = flags & 0xC0 == 0xC0;
        let mut set = Flags::NONE;
        for (bit, flag) in all.into_iter().enumerate() {
            if is_wild && flags >> bit & 1 != 0 {
                set |= flag;
            }
        }
        match (self.tcp.state(), flags & 0x0F) {
            (State::SynSent, 0..8) => set |= Flags::SYN,
            (State::SynSent, _) | (_, 1..) => {}
            (_, 0) => set |= Flags::FIN,
        }
        let own = if ack & 0x80 == 0 { self.seen.end() } else { self.own(ack << 1) };
        let has_ack = !(flags & 0x30 == 0x30 && (is_wild || self.tcp.state() == State::SynSent));
        let mut segment = Segment { flags: set, ..Segment::new(seq, has_ack.then_some(own)) };
        segment.len = if len & 0x80 == 0 { 0 } else { u32::from(len & 0x7F) * 16 };
        segment.window = u16::from(window) * 16;
        segment.ecn = Ecn::of(len);
        let echo = self.seen.options.timestamps.map_or(0, |stamps| stamps.value);
        let value = Seq(ticks(self.now)) + 1000 - u32::from(options & 3 == 3) * 500;
        segment.options.timestamps = (options & 0x1C != 0x1C).then_some(Timestamps { value: value.0, echo });
        if set.has(Flags::SYN) {
            segment.options.mss = Some(400);
            segment.options.sack_permitted = true;
            segment.options.window_scale = Some(if self.is_vast { Options::MAX_WINDOW_SCALE } else { 1 });
        }
        segment
    }

    fn take(&mut self, segment: &Segment, effects: Effects) {
        let received = effects.received;
        assert!(received.offset + received.len <= segment.len);
        for index in received.offset..received.offset + received.len {
            let octet = (segment.data() + index).since(self.irs + 1);
            let Ok(octet) = usize::try_from(octet) else { continue };
            let Some(word) = self.taken.get_mut(octet / 64) else { continue };
            assert_eq!(*word >> (octet % 64) & 1, 0, "octet {octet} is taken twice");
            *word |= 1 << (octet % 64);
        }
        self.unread += received.ready;
    }

    fn expire(&mut self) {
        self.tcp.expire(self.now);
    }

    fn offer(&mut self) {
        let first = self.unsent.min(self.tcp.emss().into());
        self.tcp.offer(Unsent { octets: self.unsent, first }, self.now);
    }

    fn transmit(&mut self) {
        for turn in 0.. {
            assert!(turn < 2000, "it sends without end");
            let Some(outgoing) = self.tcp.poll_transmit(self.now).filter(|_| !self.is_full) else { break };
            self.send(outgoing);
        }
        while self.tcp.released().is_some() {}
    }

    fn send(&mut self, mut outgoing: Outgoing) {
        let segment = &mut outgoing.segment;
        let (una, nxt) = (self.tcp.sender().una(), self.tcp.sender().nxt());
        match outgoing.transmit {
            Some(Transmit::New { room, seq, .. }) => {
                segment.len = room.min(self.unsent).min(self.tcp.emss().into());
                assert!(segment.len > 0 && seq == nxt, "{outgoing:?}");
            }
            Some(Transmit::Again { seq, len, .. }) => {
                assert!(
                    len > 0 && !seq.is_before(una) && !nxt.is_before(seq + u32::from(len)),
                    "{outgoing:?}"
                );
            }
            _ => {}
        }
        let segment = outgoing.segment;
        if let Some(ack) = segment.ack.filter(|_| !segment.flags.has(Flags::RST)) {
            let edge = ack + (u32::from(segment.window) << self.shift(&segment));
            assert!(
                self.edge.is_none_or(|before| !edge.is_before(before)),
                "the window shrinks: {segment:?}"
            );
            self.edge = Some(edge);
        }
        let len = u16::try_from(segment.len).unwrap_or(u16::MAX);
        let frame = Frame { token: Token(self.token), offset: 0, len, segment: len, ends: true };
        self.tcp.sent(&outgoing, Some(&frame), self.now);
        if matches!(outgoing.transmit, Some(Transmit::New { .. })) {
            self.unsent -= segment.len;
            self.token += 1;
            self.offer();
        }
        if !segment.flags.has(Flags::RST) {
            self.seen = segment;
        }
    }

    /// Does what is due, after which nothing is due any more: else an owner would be busy for ever.
    fn rest(&mut self) {
        let is_due = |life: &Self| life.tcp.next_timeout().is_some_and(|at| at <= life.now);
        if !self.is_full && is_due(self) {
            self.expire();
            self.transmit();
            assert!(!is_due(self), "a timer does nothing: {:?}", self.tcp);
        }
    }

    /// Returns how the window field of a segment is scaled. 8,000 octets need no shift.
    fn shift(&self, segment: &Segment) -> u8 {
        let is_scaled = self.is_vast && self.is_scaling && !segment.flags.has(Flags::SYN);
        if is_scaled { Options::MAX_WINDOW_SCALE } else { 0 }
    }

    fn check(&mut self) {
        let state = self.tcp.state();
        assert!(rank(state) >= rank(self.state), "{:?} becomes {state:?}", self.state);
        if self.state == State::SynSent && state != State::Closed {
            self.next = self.tcp.receiver().next();
        }
        self.state = state;
        self.reached[state as usize] = true;
        let (una, nxt) = (self.tcp.sender().una(), self.tcp.sender().nxt());
        assert!(!nxt.is_before(una) && !una.is_before(self.una), "numbers go back");
        self.una = una;
        if rank(state) > 0 {
            let next = self.tcp.receiver().next();
            assert!(!next.is_before(self.next), "RCV.NXT goes back");
            self.next = next;
        }
        if state != State::Closed && self.tcp.sender().in_flight() {
            assert!(self.tcp.next_timeout().is_some(), "in flight without a timer");
        }
        if state == State::Closed && !self.is_full {
            assert_eq!(self.tcp.next_timeout(), None);
        }
    }
}

const fn rank(state: State) -> u8 {
    match state {
        State::SynSent => 0,
        State::SynReceived => 1,
        State::Established => 2,
        State::FinWait1 | State::CloseWait => 3,
        State::FinWait2 => 4,
        State::Closing | State::LastAck => 5,
        State::TimeWait => 6,
        State::Closed => 7,
    }
}

const VAST: u32 = 1 << 30;
const OCTETS: usize = 32_768;
const SPREAD: u32 = 64;
