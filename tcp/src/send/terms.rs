//! What a sender is told and what it answers.

use crate::{Interval, Micros, Seq, Token};

/// Which congestion control a sender uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// CUBIC (RFC 9438) with HyStart++ (RFC 9406).
    Cubic,
    /// A constant congestion window of so many octets, for wires that carry nothing else.
    None(u32),
}

/// Settings of a sender, which hold before and after the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendConfig {
    /// The congestion control.
    pub control: Control,
    /// The least retransmission timeout. 50 ms, below the second of RFC 6298 rule 2.4: undo corrects a needless expiry.
    pub rto_min: Micros,
    /// How long the peer is believed to delay an ACK at first (RFC 8985's `TLP.max_ack_delay`). 50 ms.
    pub peer_ack_delay: Micros,
    /// Whether segments are spread over the round trip.
    pub pacing: bool,
}

impl Default for SendConfig {
    fn default() -> Self {
        Self {
            control: Control::Cubic,
            rto_min: Micros::from_millis(50),
            peer_ack_delay: Micros::from_millis(50),
            pacing: true,
        }
    }
}

/// What the handshake has agreed on, as the sender needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// Octets of payload in a segment: Eff.snd.MSS (RFC 9293 section 3.7.1), less the options of every segment.
    pub emss: u16,
    /// Whether the peer sends SACK options (RFC 2018).
    pub sack: bool,
    /// Whether both ends sent ECN-setup SYNs (RFC 3168 section 6.1.1).
    pub ecn: bool,
    /// SND.WND, the window of the segment that made the connection, after scaling.
    pub window: u32,
    /// SND.WL1, the sequence number of that segment.
    pub wl1: Seq,
    /// The time from our SYN to its ACK, if the SYN was sent once.
    pub rtt: Option<Micros>,
    /// Whether our SYN had to be repeated. The timeout is then 3 s (RFC 6298 rule 5.7).
    pub syn_repeated: bool,
}

/// What an acceptable segment with ACK says about our octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledgement<'a> {
    /// SEG.SEQ, which says whether the window is news (RFC 9293 section 3.10.7.4).
    pub seq: Seq,
    /// SEG.ACK.
    pub ack: Seq,
    /// SEG.WND after scaling.
    pub window: u32,
    /// The blocks of the SACK option in order of the option. More than four are not looked at.
    pub sack: &'a [Interval],
    /// The echoed timestamp in ticks of 1 ms of the clock of `now` (RFC 7323's TSecr less the connection's offset).
    pub echo: Option<u32>,
    /// The bit ECE.
    pub ece: bool,
    /// Whether the segment occupies sequence numbers: payload, SYN or FIN. It is no duplicate ACK then.
    pub occupies: bool,
}

/// What an acknowledgement came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acked {
    /// By how many sequence numbers SND.UNA has moved on.
    pub octets: u32,
    /// Whether our FIN is acknowledged with this one.
    pub fin: bool,
    /// Whether the ACK number lies beyond SND.NXT. Nothing else was taken from the segment.
    pub beyond: bool,
}

/// What waits to be sent for the first time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unsent {
    /// All octets that wait.
    pub octets: u32,
    /// The octets of the first segment that waits, at most the EMSS but after the EMSS has fallen.
    pub first: u32,
}

/// Why a segment goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Congestion window and peer's window let it go.
    Window,
    /// Its loss was found.
    Loss,
    /// The tail loss probe (RFC 8985 section 7.3).
    TailProbe,
    /// The peer's window is closed or smaller than the segment (RFC 9293 sections 3.8.6.1 and 3.8.6.2.1).
    WindowProbe,
}

/// What is to be sent next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmit {
    /// Octets that were never sent: the first segment that waits.
    New {
        /// SND.NXT, the number of the first octet.
        seq: Seq,
        /// How many octets may go. If the first segment is longer, its front goes and the rest stays first in line;
        /// if it is shorter, further whole segments may go with it in one super-frame.
        room: u32,
        /// Whether the IP header says ECT(0) (RFC 3168 section 6.1.5).
        ect: bool,
        /// Whether the first segment has CWR (RFC 3168 section 6.1.2).
        cwr: bool,
        /// Why it goes.
        reason: Reason,
    },
    /// Octets that were sent before, in a frame of their own.
    Again {
        /// The number of the first octet.
        seq: Seq,
        /// The frame that holds them.
        token: Token,
        /// Where they begin in that frame's payload.
        offset: u16,
        /// How many they are, at most the EMSS.
        len: u16,
        /// Why they go.
        reason: Reason,
    },
    /// A FIN without payload, for the first time or again.
    Fin {
        /// Its number.
        seq: Seq,
        /// Why it goes.
        reason: Reason,
    },
}

impl Transmit {
    /// Returns why it goes.
    pub const fn reason(&self) -> Reason {
        match *self {
            Self::New { reason, .. } | Self::Again { reason, .. } | Self::Fin { reason, .. } => reason,
        }
    }
}

/// The frame in which octets went for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What the owner calls it.
    pub token: Token,
    /// Where the octets begin in its payload.
    pub offset: u16,
    /// How many octets went.
    pub len: u16,
    /// The octets of each segment of a super-frame but its last, or `len`.
    pub segment: u16,
    /// Whether the frame's payload ends with them. If not, its rest is sent later under the same token.
    pub ends: bool,
}
