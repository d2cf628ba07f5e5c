//! A sender that a test drives by hand. Numbers are counted in segments of 1000 octets from 0.

use std::vec::Vec;

use crate::send::Sender;
use crate::send::rack::ticks;
use crate::{
    Acknowledgement, Agreed, Frame, Interval, Micros, Reason, SendConfig, Sent, Seq, Token, Transmit, Unsent,
};

pub(super) const SMSS: u32 = 1000;

/// The sender, the time, and what the peer has told.
pub(super) struct Direct {
    pub(super) sender: Sender<Vec<Sent>>,
    pub(super) now: Micros,
    pub(super) window: u32,
    /// The echo of ACKs in milliseconds, if timestamps are in use.
    pub(super) echo: Option<u32>,
    pub(super) ece: bool,
    waits: u32,
}

/// What went: the first octet in segments, and why.
pub(super) type Gone = (f32, Reason);

impl Direct {
    /// Returns a connection with a round-trip time of 10 ms, that wants to send many segments.
    pub(super) fn new(sack: bool) -> Self {
        Self::with(sack, false, SendConfig { pacing: false, ..SendConfig::default() })
    }

    pub(super) fn with(sack: bool, ecn: bool, config: SendConfig) -> Self {
        let now = Micros::from_millis(1000);
        let mut sender = Sender::new(&config, Seq(u32::MAX), std::vec![Sent::EMPTY; 256]);
        let (emss, window, wl1, rtt) = (1000, 1 << 20, Seq(1), Some(Micros::from_millis(10)));
        sender.established(&Agreed { emss, sack, ecn, window, wl1, rtt, syn_repeated: false }, now);
        Self { sender, now, window, echo: None, ece: false, waits: 0 }
    }

    /// Hands over segments, and sends what may go.
    pub(super) fn offer(&mut self, segments: u32) -> Vec<Gone> {
        self.waits += segments * SMSS;
        self.told();
        self.go()
    }

    fn told(&mut self) {
        let first = match self.waits % SMSS {
            0 => self.waits.min(SMSS),
            part => part,
        };
        self.sender.offer(Unsent { octets: self.waits, first }, self.now);
    }

    /// Sends all that may go now, in segments.
    pub(super) fn go(&mut self) -> Vec<Gone> {
        let mut gone = std::vec![];
        while let Some(transmit) = self.sender.poll_transmit(self.now) {
            let at = |seq: Seq, reason| (f32::from(u16::try_from(seq.0 / 10).unwrap()) / 100.0, reason);
            match transmit {
                Transmit::New { seq, room, reason, .. } => {
                    let whole = (self.waits - 1) % SMSS + 1;
                    let len = room.min(whole).min(self.waits);
                    let offset = u16::try_from(SMSS - whole).unwrap();
                    let (token, len16) = (Token(seq.0 / SMSS), u16::try_from(len).unwrap());
                    let frame = Frame { token, offset, len: len16, segment: len16, ends: len == whole };
                    self.sender.sent_new(&transmit, &frame, self.now);
                    self.waits -= len;
                    self.told();
                    gone.push(at(seq, reason));
                }
                Transmit::Again { seq, reason, .. } | Transmit::Fin { seq, reason } => {
                    self.sender.sent(&transmit, self.now);
                    gone.push(at(seq, reason));
                }
            }
            assert!(gone.len() < 1000);
        }
        super::check::check(&self.sender).unwrap();
        gone
    }

    /// An ACK arrives: for all segments before `una`, with blocks of segments. Returns what goes then.
    pub(super) fn ack(&mut self, una: u32, blocks: &[(u32, u32)]) -> Vec<Gone> {
        let sack: Vec<Interval> =
            blocks.iter().map(|(start, end)| Interval::new(Seq(start * SMSS), Seq(end * SMSS))).collect();
        let ack = Acknowledgement {
            seq: Seq(1),
            ack: Seq(una * SMSS),
            window: self.window,
            sack: &sack,
            echo: self.echo,
            ece: self.ece,
            occupies: false,
        };
        self.sender.acknowledge(&ack, self.now);
        while self.sender.released().is_some() {}
        self.go()
    }

    /// Time passes. Returns what goes then, if timers expire.
    pub(super) fn wait(&mut self, millis: u64) -> Vec<Gone> {
        let end = self.now + Micros::from_millis(millis);
        let mut gone = std::vec![];
        while let Some(at) = self.sender.next_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.sender.expire(self.now);
            gone.extend(self.go());
        }
        self.now = end;
        gone
    }

    /// Has a window of so many segments acknowledged, so that it grows, and everything in flight thereafter.
    pub(super) fn settle(&mut self, segments: u32) -> u32 {
        self.offer(segments);
        let mut una = 0;
        while self.sender.in_flight() {
            self.wait(10);
            una = self.sender.nxt().0 / SMSS;
            (self.sender.una().0 / SMSS + 1..=una).for_each(|at| _ = self.ack(at, &[]));
        }
        una
    }

    pub(super) fn now_ticks(&self) -> u32 {
        ticks(self.now)
    }
}
