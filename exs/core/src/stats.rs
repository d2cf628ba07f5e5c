//! What a session has counted.

use core::hash::{Hash, Hasher};

use crate::message::{Body, Source, Target};

/// What a session has counted since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Octets of the user that were sent.
    pub sent: ByWay,
    /// Octets of the peer's user that were announced or came. Some of them may not be received.
    pub received: ByWay,
    /// Adverts of the peer that were void when they came.
    pub stale_adverts: u64,
    /// Times that this side held back, to reach the peer's memory directly.
    pub holds: u64,
    /// Times that a send came to wait since the peer had not taken enough Sends.
    pub window_stalls: u64,
    /// Times that a send came to wait for room in the peer's ring.
    pub ring_stalls: u64,
    /// Times that a send came to wait for an advert, or a message for the acknowledgement of another one.
    pub advert_stalls: u64,
}

/// What a side uses at a moment of what the peer has granted, and all that was granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credits {
    /// Sends of any kind of which the peer has not told that it has taken them, of the peer's WINDOW.
    pub window: [u32; 2],
    /// Messages without an acknowledgement. Of a stream there are none.
    pub messages: [u32; 2],
    /// Adverts of the peer that are not used up, of those that this side stores. Of messages there are none.
    pub adverts: [u32; 2],
    /// Octets in the peer's ring of which the peer has not told that they were read. Of messages there are none.
    pub ring: [u32; 2],
}

/// Octets by the way that they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByWay {
    /// From one user's memory to the other's: by Reads of messages, or by Writes of a stream.
    pub direct: u64,
    /// Written into the receiver's ring.
    pub ring: u64,
    /// As immediate data.
    pub inline: u64,
    /// Over TCP alone.
    pub plain: u64,
}

/// What a send waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stall {
    Window,
    Ring,
    Advert,
}

/// A value that is no part of a state: all are equal. States that differ in what they have counted only do the same
/// from then on, and a search visits one of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted<T>(pub(crate) T);

impl<T> PartialEq for Counted<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Eq for Counted<T> {}

impl<T> Hash for Counted<T> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl ByWay {
    /// Counts the octets of a message, if it has some.
    pub(crate) fn count(&mut self, body: &Body) {
        match body {
            Body::Msg(msg) => match msg.source {
                Source::Inline => self.inline += u64::from(msg.len),
                Source::Memory { .. } => self.direct += u64::from(msg.len),
            },
            Body::Data(data) => match data.target {
                _ if data.is_inline => self.inline += u64::from(data.len),
                Target::Advert { .. } => self.direct += u64::from(data.len),
                Target::Ring { .. } => self.ring += u64::from(data.len),
            },
            _ => {}
        }
    }
}

impl core::ops::AddAssign for ByWay {
    fn add_assign(&mut self, Self { direct, ring, inline, plain }: Self) {
        self.direct += direct;
        self.ring += ring;
        self.inline += inline;
        self.plain += plain;
    }
}

impl core::ops::AddAssign for Stats {
    fn add_assign(&mut self, other: Self) {
        let Self { sent, received, stale_adverts, holds, window_stalls, ring_stalls, advert_stalls } = other;
        self.sent += sent;
        self.received += received;
        self.stale_adverts += stale_adverts;
        self.holds += holds;
        self.window_stalls += window_stalls;
        self.ring_stalls += ring_stalls;
        self.advert_stalls += advert_stalls;
    }
}

impl Stats {
    /// Counts what goes out with a message.
    pub(crate) fn count_sent(&mut self, body: &Body) {
        self.sent.count(body);
        if let Body::Data(data) = body
            && data.target == (Target::Ring { holds: true })
        {
            self.holds += 1;
        }
    }

    /// Counts a wait that has begun.
    pub(crate) const fn count_stall(&mut self, stall: Stall) {
        match stall {
            Stall::Window => self.window_stalls += 1,
            Stall::Ring => self.ring_stalls += 1,
            Stall::Advert => self.advert_stalls += 1,
        }
    }
}
