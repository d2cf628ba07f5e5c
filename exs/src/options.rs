//! The options of a socket.

use std::time::Duration;

use weft_exs_core::{
    Kind, MAX_ADVERTS, MAX_CREDITS, MAX_IMMEDIATE, MAX_RING, MAX_WINDOW, MIN_RING, MIN_SLOT, MIN_WINDOW,
    Wishes,
};

use crate::error::Error;

/// The options of a socket. They are fixed when it connects or listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The longest immediate data of this side, in octets, at most 16 MiB. 0: only empty messages are immediate. The
    /// slots of a socket take `(window + recv_credits) * (32 + this)` octets, those of a stream `window * (32 + this)`,
    /// at most 1 GiB.
    pub small_packet_max: u32,
    /// Messages that are sent before the first is acknowledged, 1 to 1,024. Of a stream not used.
    pub send_credits: u16,
    /// Messages that are taken before one is acknowledged, 1 to 1,024. Of a stream not used.
    pub recv_credits: u16,
    /// Sends of any kind that may come before the peer hears of it, 8 to 1,024.
    pub window: u16,
    /// Receives that are advertised at a time, and adverts of the peer that are stored, 1 to 256. Of a stream only.
    pub adverts: u16,
    /// Octets of the intermediate buffer of a stream, 4 KiB to 64 MiB, or 0 for none.
    pub ring: u32,
    /// The shortest rest of a send, in octets, for which a stream holds back to reach the peer's memory directly.
    pub direct_min: u32,
    /// How long a close waits for the peer, before it ends the connection and says [`Error::TimedOut`]. 0: the connection
    /// is ended at once.
    pub linger: Duration,
    /// How long a send may take. If it takes longer and is on the wire, the connection ends.
    pub send_timeout: Option<Duration>,
    /// How long a receive waits.
    pub recv_timeout: Option<Duration>,
    /// Connections of a listener that are being established, or that no call has accepted, 1 to 4,096. Those that come
    /// beyond that are refused, also if calls wait for them: many peers may connect at the same moment.
    pub backlog: usize,
    /// Whether a stream has peers without EXS.
    pub plain: Plain,
}

/// Whether a stream has peers over plain TCP, without EXS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plain {
    /// A peer without EXS is refused.
    #[default]
    Off,
    /// A listener takes both kinds of peers. One that does not begin with a Request of MPA is over plain TCP: it sends
    /// other octets, or nothing for 200 ms. For a side that connects it is as [`Self::Off`], for it does not guess.
    Accept,
    /// Over plain TCP, whatever the peer sends.
    Always,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            small_packet_max: 1024,
            send_credits: 32,
            recv_credits: 32,
            window: 32,
            adverts: 16,
            ring: 256 << 10,
            direct_min: 65_536,
            linger: Duration::from_secs(30),
            send_timeout: None,
            recv_timeout: None,
            backlog: 128,
            plain: Plain::Off,
        }
    }
}

impl Options {
    /// Checks all options, as sockets of this kind do when they connect or listen.
    ///
    /// # Errors
    /// [`Error::InvalidOption`], with the name of the first one that is out of its limits.
    pub fn check<K: crate::Kind>(&self) -> Result<(), Error> {
        self.check_for(K::CARRIED)
    }

    /// As [`Self::check`].
    ///
    /// # Errors
    /// [`Error::InvalidOption`].
    pub(crate) fn check_for(&self, kind: Kind) -> Result<(), Error> {
        let credits = 1..=MAX_CREDITS;
        let slots = self.slots(kind).saturating_mul(self.slot_len() as usize);
        let rules = [
            ("small_packet_max", self.small_packet_max <= MAX_IMMEDIATE && slots <= MAX_SLOTS),
            ("send_credits", credits.contains(&self.send_credits)),
            ("recv_credits", credits.contains(&self.recv_credits)),
            ("window", (MIN_WINDOW..=MAX_WINDOW).contains(&self.window)),
            ("adverts", (1..=MAX_ADVERTS).contains(&self.adverts)),
            ("ring", self.ring == 0 || (MIN_RING..=MAX_RING).contains(&self.ring)),
            ("plain", self.plain == Plain::Off || kind == Kind::Stream),
            ("backlog", (1..=MAX_BACKLOG).contains(&self.backlog)),
        ];
        rules
            .into_iter()
            .find(|(_, is_kept)| !is_kept)
            .map_or(Ok(()), |(name, _)| Err(Error::InvalidOption(name)))
    }

    /// Returns how many slots a socket has.
    pub(crate) fn slots(&self, kind: Kind) -> usize {
        let held = match kind {
            Kind::Message => self.recv_credits,
            Kind::Stream => 0,
        };
        usize::from(self.window) + usize::from(held)
    }

    /// Returns the octets of a slot.
    pub(crate) const fn slot_len(&self) -> u32 {
        MIN_SLOT.saturating_add(self.small_packet_max)
    }

    /// Returns the messages, or the adverts of a stream, that this side takes.
    pub(crate) const fn taken(&self, kind: Kind) -> u16 {
        match kind {
            Kind::Message => self.recv_credits,
            Kind::Stream => self.adverts,
        }
    }

    pub(crate) const fn wishes(&self, kind: Kind, reads: u16) -> Wishes {
        let send_credits = match kind {
            Kind::Message => self.send_credits,
            Kind::Stream => self.adverts,
        };
        Wishes { send_credits, immediate: self.small_packet_max, reads, direct_min: self.direct_min }
    }
}

/// Octets of the slots of one socket at most.
const MAX_SLOTS: usize = 1 << 30;
const MAX_BACKLOG: usize = 4096;
