//! Segments.

use core::fmt;
use core::ops::{BitOr, BitOrAssign};

use smoltcp::wire::TcpPacket;

use crate::{Options, Seq};

/// A segment as it arrives or is to be sent, without ports, checksum and the octets of its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// SEG.SEQ: the number of SYN if there is one, else of the first octet.
    pub seq: Seq,
    /// SEG.ACK, if the flag ACK is set.
    pub ack: Option<Seq>,
    /// The flags but ACK.
    pub flags: Flags,
    /// The window as it stands in the header, unscaled.
    pub window: u16,
    /// Octets of payload.
    pub len: u32,
    /// The field ECN of the IP header.
    pub ecn: Ecn,
    /// The options.
    pub options: Options,
}

impl Segment {
    /// Returns a segment without payload, flags, window and options.
    pub const fn new(seq: Seq, ack: Option<Seq>) -> Self {
        let options = Options {
            mss: None,
            window_scale: None,
            sack_permitted: false,
            timestamps: None,
            sack: crate::SackBlocks::NONE,
        };
        Self { seq, ack, flags: Flags::NONE, window: 0, len: 0, ecn: Ecn::NotEct, options }
    }

    /// Reads the TCP header at the beginning of `tcp`; its payload is the rest. Neither checksum nor ports are looked at.
    ///
    /// # Errors
    /// The header is cut off, or shorter than 20 octets by its own data offset.
    pub fn parse(tcp: &[u8], ecn: Ecn) -> Result<Self, Malformed> {
        let packet = TcpPacket::new_checked(tcp).map_err(|_| Malformed)?;
        let set = |is_set, flag| if is_set { flag } else { Flags::NONE };
        let flags = set(packet.fin(), Flags::FIN)
            | set(packet.syn(), Flags::SYN)
            | set(packet.rst(), Flags::RST)
            | set(packet.psh(), Flags::PSH)
            | set(packet.urg(), Flags::URG)
            | set(packet.ece(), Flags::ECE)
            | set(packet.cwr(), Flags::CWR);
        Ok(Self {
            seq: Seq(packet.seq_number().0.cast_unsigned()),
            ack: packet.ack().then(|| Seq(packet.ack_number().0.cast_unsigned())),
            flags,
            window: packet.window_len(),
            len: u32::try_from(packet.payload().len()).map_err(|_| Malformed)?,
            ecn,
            options: Options::parse(packet.options()),
        })
    }

    /// Returns SEG.LEN: the payload's octets, and one each for SYN and FIN (RFC 9293 section 3.4).
    pub const fn seq_len(&self) -> u32 {
        self.len + self.flags.has(Flags::SYN) as u32 + self.flags.has(Flags::FIN) as u32
    }

    /// Returns the number behind the segment, SYN and FIN counted.
    pub fn end(&self) -> Seq {
        self.seq + self.seq_len()
    }

    /// Returns the number of the first octet of the payload.
    pub fn data(&self) -> Seq {
        self.seq + u32::from(self.flags.has(Flags::SYN))
    }
}

/// Flags of a segment, without ACK, which [`Segment::ack`] tells.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(u8);

impl Flags {
    /// None of them.
    pub const NONE: Self = Self(0);
    /// The sender has no more data.
    pub const FIN: Self = Self(0x01);
    /// Synchronize sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push.
    pub const PSH: Self = Self(0x08);
    /// The urgent pointer counts. It is ignored (RFC 6093).
    pub const URG: Self = Self(0x20);
    /// ECN-Echo (RFC 3168).
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Self = Self(0x80);

    /// Whether all of these flags are set.
    pub const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Returns the flags without these.
    #[must_use]
    pub const fn without(self, flags: Self) -> Self {
        Self(self.0 & !flags.0)
    }

    /// Returns the flags as the header's octet has them, ACK not set.
    pub const fn octet(self) -> u8 {
        self.0
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [(Self::FIN, "F"), (Self::SYN, "S"), (Self::RST, "R"), (Self::PSH, "P")];
        let more = [(Self::URG, "U"), (Self::ECE, "E"), (Self::CWR, "W")];
        names
            .into_iter()
            .chain(more)
            .filter(|(flag, _)| self.has(*flag))
            .try_for_each(|(_, name)| f.write_str(name))
    }
}

/// The field ECN of an IP header (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// The transport does not do ECN.
    #[default]
    NotEct = 0,
    /// ECT(1).
    Ect1 = 1,
    /// ECT(0).
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// Returns the codepoint in the two low bits of the traffic class, or of the octet that once was Type of Service.
    pub const fn of(traffic_class: u8) -> Self {
        match traffic_class & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

/// A header that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the TCP header is cut off or too short")
    }
}

impl core::error::Error for Malformed {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use smoltcp::wire::{TcpPacket, TcpSeqNumber};

    use super::*;

    proptest! {
        // Covers 9293-MUST-1.
        #[test]
        fn a_segment_is_what_smoltcp_wrote(
            seq: u32, ack: u32, window: u16, bits: u8, options in 0_u8..=10, payload in 0_u32..30,
        ) {
            let mut octets = std::vec![1; usize::from(20 + 4 * options)];
            octets.resize(octets.len() + payload as usize, 0xAA);
            let mut packet = TcpPacket::new_unchecked(&mut octets[..]);
            packet.set_seq_number(TcpSeqNumber(seq.cast_signed()));
            packet.set_ack_number(TcpSeqNumber(ack.cast_signed()));
            packet.set_window_len(window);
            packet.set_header_len(20 + 4 * options);
            octets[13] = bits;
            let segment = Segment::parse(&octets, Ecn::of(bits)).unwrap();
            let is_ack = bits & 0x10 != 0;
            prop_assert_eq!(segment.flags.octet(), bits & !0x10);
            let expected = Segment {
                flags: segment.flags, window, len: payload, ecn: Ecn::of(bits),
                ..Segment::new(Seq(seq), is_ack.then_some(Seq(ack)))
            };
            prop_assert_eq!(segment, expected);
            let control = u32::from(bits & 1 != 0) + u32::from(bits & 2 != 0);
            prop_assert_eq!(segment.end(), Seq(seq) + payload + control);
            prop_assert_eq!(segment.ecn as u8, bits & 3);
        }

        #[test]
        fn any_octets_are_read_or_refused(octets in proptest::collection::vec(any::<u8>(), 0..80)) {
            let is_good = octets.get(12).is_some_and(|offset| (5..=octets.len() / 4).contains(&usize::from(offset >> 4)));
            prop_assert_eq!(Segment::parse(&octets, Ecn::NotEct).is_ok(), is_good && octets.len() >= 20);
        }
    }
}
