//! The host under test: one port, one user, and no octets.

use weft_tcp::{
    Cause, Config, Connection, Effects, Frame, HalfOpen, Interval, Listened, Micros, Opening, Outgoing,
    Received, Secret, Segment, Sent, Seq, State, SynCookies, TimeWait, Token, Transmit, Tuple, Unsent,
    Waited, listen,
};

type Tcp = Connection<Vec<Sent>, Vec<Interval>>;

pub(crate) struct Host {
    pub(crate) config: Config,
    pub(crate) iss: Seq,
    pub(crate) role: Role,
    /// Octets are taken as soon as they are there.
    pub(crate) reads: bool,
    /// Half-open connections that may be kept. One more gets a SYN cookie.
    pub(crate) backlog: usize,
    pub(crate) cause: Option<Cause>,
    cookies: SynCookies,
    secret: Secret,
    /// Octets that wait to be sent, and those that were received and not taken.
    unsent: u32,
    /// What is left of a segment whose front has gone.
    rest: u32,
    pub(crate) unread: u32,
    pub(crate) received: u32,
    pub(crate) released: u32,
    /// Where the octets of each frame begin, by its token.
    pub(crate) frames: Vec<Seq>,
    /// The device takes nothing.
    pub(crate) is_full: bool,
    /// Records and intervals that are lent.
    pub(crate) records: usize,
    pub(crate) intervals: usize,
    /// What was taken of segments, and was not looked at.
    pub(crate) pieces: Vec<(Seq, u32)>,
    /// Segments that have gone and were not looked at.
    pub(crate) gone: Vec<(Micros, Segment)>,
}

pub(crate) enum Role {
    Closed,
    Listening(Vec<HalfOpen>),
    Open(Box<Tcp>),
    Waiting(TimeWait),
}

impl Host {
    pub(crate) fn new(config: Config, iss: Seq) -> Self {
        Self {
            config,
            iss,
            role: Role::Closed,
            reads: true,
            backlog: 8,
            cause: None,
            cookies: SynCookies::new(),
            secret: Secret::new([7; 16]),
            unsent: 0,
            rest: 0,
            unread: 0,
            received: 0,
            released: 0,
            frames: Vec::new(),
            is_full: false,
            records: 1024,
            intervals: 64,
            pieces: Vec::new(),
            gone: Vec::new(),
        }
    }

    pub(crate) fn connect(&mut self, now: Micros) {
        self.role = Role::Open(Box::new(Connection::connect(&self.config, self.iss, 0, self.storage(), now)));
    }

    pub(crate) fn listen(&mut self) {
        self.role = Role::Listening(Vec::new());
    }

    pub(crate) fn connection(&mut self) -> Result<&mut Tcp, String> {
        match &mut self.role {
            Role::Open(connection) => Ok(connection),
            _ => Err("there is no connection".into()),
        }
    }

    pub(crate) fn write(&mut self, octets: u32, now: Micros) -> Result<(), String> {
        self.unsent += octets;
        self.offer(now)
    }

    pub(crate) fn read(&mut self, octets: u32, now: Micros) -> Result<(), String> {
        self.unread = self.unread.checked_sub(octets).ok_or("so many are not there")?;
        self.connection()?.consume(octets, now);
        Ok(())
    }

    pub(crate) fn take(&mut self, segment: Segment, effects: Effects, now: Micros) {
        let Received { offset, len, .. } = effects.received;
        self.pieces.extend(Some((segment.data() + offset, len)).filter(|(_, len)| *len > 0));
        self.gone.extend(effects.reply.map(|reply| (now, reply)));
        self.cause = effects.closed.or(self.cause);
        self.unread += effects.received.ready;
        self.received += effects.received.ready;
        if self.reads && self.unread > 0 {
            let unread = self.unread;
            self.read(unread, now).expect("octets of a connection");
        }
        if let Ok(connection) = self.connection() {
            let released = std::iter::from_fn(|| connection.released()).count();
            self.released += u32::try_from(released).expect("a few frames");
        }
    }

    pub(crate) fn arrive(&mut self, segment: &Segment, now: Micros) {
        match &mut self.role {
            Role::Closed => self.gone.extend(segment.reset().map(|reset| (now, reset))),
            Role::Listening(_) => self.arrive_listening(segment, now),
            Role::Open(connection) => {
                let effects = connection.handle(segment, now);
                self.take(*segment, effects, now);
            }
            Role::Waiting(record) => match record.handle(segment, now) {
                Waited::Dropped => {}
                Waited::Reply(reply) => self.gone.push((now, reply)),
                Waited::Reopened(least) => {
                    self.iss = least;
                    self.role = Role::Listening(Vec::new());
                    self.arrive(segment, now);
                }
            },
        }
    }

    fn arrive_listening(&mut self, segment: &Segment, now: Micros) {
        let Role::Listening(halves) = &mut self.role else { return };
        let tuple = Tuple { local: ([10, 0, 0, 1], 80).into(), remote: ([10, 0, 0, 2], 9).into() };
        let key = (&self.secret, &tuple);
        let mut reply = None;
        match halves.first().map(|half| (*half, half.handle(&self.config, segment, now))) {
            Some((_, Opening::Dropped)) => {}
            Some((_, Opening::Reply(segment))) => {
                if segment.flags.has(weft_tcp::Flags::SYN) {
                    halves.iter_mut().for_each(|half| half.sent(now));
                }
                reply = Some(segment);
            }
            Some((_, Opening::Ended)) => halves.clear(),
            Some((half, Opening::Opened)) => return self.accept(&half, segment, now),
            None => match (self.cookies.check(&self.config, key, segment, now), listen(segment)) {
                (Some(half), _) => return self.accept(&half, segment, now),
                (None, Listened::Dropped) => {}
                (None, Listened::Reset(reset)) => reply = Some(reset),
                (None, Listened::Syn) if self.backlog == 0 => {
                    reply = self.cookies.answer(&self.config, key, segment, now);
                    self.iss = reply.map_or(self.iss, |reply| reply.seq);
                }
                (None, Listened::Syn) => {
                    let mut half = HalfOpen::new(&self.config, segment, self.iss, 0, now);
                    reply = Some(half.syn_ack(&self.config, now));
                    half.sent(now);
                    halves.push(half);
                }
            },
        }
        self.gone.extend(reply.map(|reply| (now, reply)));
    }

    fn accept(&mut self, half: &HalfOpen, segment: &Segment, now: Micros) {
        let connection = Connection::accept(&self.config, half, segment, self.storage(), now);
        self.role = Role::Open(Box::new(connection));
        self.arrive(segment, now);
    }

    pub(crate) fn next_timeout(&self) -> Option<Micros> {
        match &self.role {
            Role::Closed => None,
            Role::Listening(halves) => halves.iter().map(HalfOpen::next_timeout).min(),
            Role::Open(connection) => connection.next_timeout(),
            Role::Waiting(record) => Some(record.next_timeout()),
        }
    }

    pub(crate) fn expire(&mut self, now: Micros) {
        match &mut self.role {
            Role::Closed => {}
            Role::Listening(halves) => {
                for half in halves.iter_mut().filter(|half| half.next_timeout() <= now) {
                    self.gone.push((now, half.syn_ack(&self.config, now)));
                    half.sent(now);
                }
            }
            Role::Open(connection) => {
                let effects = connection.expire(now);
                self.take(Segment::new(Seq(0), None), effects, now);
            }
            Role::Waiting(record) if record.next_timeout() <= now => self.role = Role::Closed,
            Role::Waiting(_) => {}
        }
    }

    /// Sends all that may go now.
    pub(crate) fn transmit(&mut self, now: Micros) {
        while let Ok(connection) = self.connection() {
            let Some(outgoing) = connection.poll_transmit(now) else { break };
            if self.is_full {
                break;
            }
            self.send(outgoing, now);
            assert!(self.gone.len() < 10_000, "it sends without end: {outgoing:?}");
        }
        if let Role::Open(connection) = &self.role {
            if let Some(record) = connection.time_wait(now) {
                self.role = Role::Waiting(record);
            } else if connection.state() == State::Closed {
                self.role = Role::Closed;
            }
        }
    }

    fn send(&mut self, mut outgoing: Outgoing, now: Micros) {
        if let Some(Transmit::Again { seq, token, offset, .. }) = outgoing.transmit {
            let begins_at = self.frames[token.0 as usize];
            assert_eq!(begins_at + u32::from(offset), seq, "other octets go again");
        }
        let frame = match outgoing.transmit {
            Some(Transmit::New { seq, room, .. }) => Some(self.frame(&mut outgoing.segment, seq, room)),
            _ => None,
        };
        if let Ok(connection) = self.connection() {
            connection.sent(&outgoing, frame.as_ref(), now);
        }
        self.gone.push((now, outgoing.segment));
        if frame.is_some() {
            self.offer(now).expect("the connection that sends");
        }
    }

    /// Takes the next segment, or as much of it as there is room for, out of what waits.
    fn frame(&mut self, segment: &mut Segment, seq: Seq, room: u32) -> Frame {
        let first = self.first();
        let len = first.min(room);
        segment.len = len;
        if len == self.unsent {
            segment.flags |= weft_tcp::Flags::PSH;
        }
        // The rest of a segment whose front has gone lies in the same frame.
        if self.rest == 0 {
            self.frames.push(seq);
        }
        let begins_at = *self.frames.last().expect("the frame of this segment");
        let number = |number: u32| u16::try_from(number).expect("a place in a frame");
        let token = Token(u32::try_from(self.frames.len() - 1).expect("a few frames"));
        self.unsent -= len;
        self.rest = (if self.rest > 0 { self.rest } else { first }) - len;
        let (offset, ends) = (number(seq.since(begins_at)), self.rest == 0);
        Frame { token, offset, len: number(len), segment: number(len), ends }
    }

    /// Returns the octets of the first segment that waits.
    fn first(&mut self) -> u32 {
        let (unsent, rest) = (self.unsent, self.rest);
        let emss = self.connection().map_or(0, |connection| u32::from(connection.emss()));
        if rest > 0 { rest.min(emss) } else { unsent.min(emss) }
    }

    fn offer(&mut self, now: Micros) -> Result<(), String> {
        let (octets, first) = (self.unsent, self.first());
        self.connection()?.offer(Unsent { octets, first }, now);
        Ok(())
    }

    fn storage(&self) -> (Vec<Sent>, Vec<Interval>) {
        let nothing = Interval { start: Seq(0), end: Seq(0) };
        (vec![Sent::default(); self.records], vec![nothing; self.intervals])
    }
}
