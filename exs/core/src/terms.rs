//! What follows from the hellos of both sides.

use crate::hello::{Hello, Kind, MIN_SLOT, RejectCode, Ring};

/// What holds for a connection, as one side sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// What the socket carries.
    pub kind: Kind,
    /// Sends of any kind that this side takes before the peer hears of it.
    pub window: u16,
    /// Sends of any kind that the peer takes.
    pub peer_window: u16,
    /// Messages that this side sends before the first is acknowledged; of a stream, receives that it advertises at a
    /// time.
    pub send_credits: u16,
    /// Messages that this side takes before it acknowledges one; of a stream, adverts that it stores.
    pub recv_credits: u16,
    /// The longest immediate data that this side sends, in octets.
    pub immediate: u32,
    /// The peer's STags may be invalidated.
    pub invalidates: bool,
    /// Reads that this side has under way at a time (ORD).
    pub reads: u16,
    /// Octets of this side's ring. 0: it has none.
    pub ring: u32,
    /// The ring of the peer, if it has one.
    pub peer_ring: Option<Ring>,
    /// Octets of a send that have to be left for HOLD.
    pub direct_min: u32,
}

/// What a side wants for itself and does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wishes {
    /// Messages sent before the first is acknowledged, at most; of a stream, receives advertised at a time.
    pub send_credits: u16,
    /// The longest immediate data, in octets.
    pub immediate: u32,
    /// Reads under way at a time, at most.
    pub reads: u16,
    /// Octets of a send that have to be left for HOLD.
    pub direct_min: u32,
}

impl Terms {
    /// Returns the terms of a side with this hello, whose peer has told that one.
    ///
    /// # Errors
    /// [`RejectCode::Kind`]: one side has a stream, the other one messages.
    pub fn new(own: &Hello, wishes: &Wishes, peer: &Hello) -> Result<Self, RejectCode> {
        if own.kind != peer.kind {
            return Err(RejectCode::Kind);
        }
        Ok(Self {
            kind: own.kind,
            window: own.window,
            peer_window: peer.window,
            send_credits: wishes.send_credits.min(peer.credits),
            recv_credits: own.credits,
            immediate: wishes.immediate.min(peer.slot.saturating_sub(MIN_SLOT)),
            invalidates: peer.invalidates,
            reads: wishes.reads.min(peer.reads),
            ring: own.ring.map_or(0, |ring| ring.len),
            peer_ring: peer.ring,
            direct_min: wishes.direct_min,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_of_both_holds() {
        let hello = Hello {
            kind: Kind::Message,
            invalidates: false,
            window: 8,
            credits: 5,
            slot: 132,
            ring: None,
            reads: 6,
        };
        let wishes = Wishes { send_credits: 32, immediate: 1024, reads: 16, direct_min: 9 };
        let peer = Hello { invalidates: true, window: 9, credits: 4, slot: 96, reads: 3, ..hello };
        let terms = Terms {
            kind: Kind::Message,
            window: 8,
            peer_window: 9,
            send_credits: 4,
            recv_credits: 5,
            immediate: 64,
            invalidates: true,
            reads: 3,
            ring: 0,
            peer_ring: None,
            direct_min: 9,
        };
        assert_eq!(Terms::new(&hello, &wishes, &peer), Ok(terms));
        let modest = Wishes { send_credits: 1, immediate: 7, reads: 2, ..wishes };
        let lower = Terms { send_credits: 1, immediate: 7, reads: 2, ..terms };
        assert_eq!(Terms::new(&hello, &modest, &peer), Ok(lower));
        let stream = Hello { kind: Kind::Stream, ..peer };
        assert_eq!(Terms::new(&hello, &wishes, &stream), Err(RejectCode::Kind));
    }
}
