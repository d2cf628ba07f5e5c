//! What the two sides tell each other at the start: the private data of the MPA Request and of the accepting MPA Reply
//! (RFC 5044 section 7.1, RFC 6581), and of the Reply that rejects.
//!
//! | octets | field of a hello, big-endian |
//! |---|---|
//! | 0-7 | `weft-exs` |
//! | 8 | version, 0x01 |
//! | 9 | flags: 0x01 the socket is a stream, 0x02 STags that this side tells may be invalidated by the peer |
//! | 10-11 | WINDOW: Sends of any kind that this side takes before the peer hears of it |
//! | 12-13 | messages that this side takes before it acknowledges one; of a stream, the adverts that it stores |
//! | 14-15 | zero |
//! | 16-19 | octets of the longest Send that this side takes |
//! | 20-23 | octets of its ring; 0: it has none |
//! | 24-31 | address of the ring |
//! | 32-35 | STag of the ring |
//! | 36-37 | Reads that this side answers at a time |
//! | 38-39 | zero |
//!
//! A Reply that rejects has octets 0 to 8, and a code at 9. Zeros may follow either.

use core::fmt;

use weft_ddp::Stag;

use crate::message::HEADER_LEN;

/// What a side tells at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hello {
    /// What the socket carries.
    pub kind: Kind,
    /// STags that this side tells may be invalidated by the peer.
    pub invalidates: bool,
    /// Sends of any kind that this side takes before the peer hears of it.
    pub window: u16,
    /// Messages that this side takes before it acknowledges one; of a stream, the adverts that it stores.
    pub credits: u16,
    /// Octets of the longest Send that this side takes.
    pub slot: u32,
    /// The ring, of a stream only.
    pub ring: Option<Ring>,
    /// Reads that this side answers at a time (IRD). At least 1 for messages.
    pub reads: u16,
}

/// What a socket carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Messages: SOCK_SEQPACKET.
    Message,
    /// Octets: SOCK_STREAM.
    Stream,
}

/// The intermediate buffer of a side, into which the peer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ring {
    /// Octets.
    pub len: u32,
    /// The tagged offset of the first octet.
    pub to: u64,
    /// The STag of the memory.
    pub stag: Stag,
}

/// Why a connection was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RejectCode {
    /// The version is not known.
    Version = 1,
    /// One side has a stream, the other one messages.
    Kind = 2,
    /// The hello is malformed, or there is none.
    Malformed = 3,
    /// There are no resources.
    Resources = 4,
    /// Nothing listens for this.
    NotListening = 5,
}

impl Hello {
    /// Octets of a hello.
    pub const LEN: usize = 40;
    /// The octets by which the private data is known.
    pub const MAGIC: [u8; 8] = *b"weft-exs";

    /// Reads a hello.
    ///
    /// # Errors
    /// [`RejectCode::Version`], or [`RejectCode::Malformed`] if a field is out of its limits.
    pub fn parse(octets: &[u8]) -> Result<Self, RejectCode> {
        let (&version, _) =
            octets.strip_prefix(&Self::MAGIC).and_then(<[u8]>::split_first).ok_or(RejectCode::Malformed)?;
        if version != VERSION {
            return Err(RejectCode::Version);
        }
        let (hello, rest) = octets.split_first_chunk().ok_or(RejectCode::Malformed)?;
        let read = Self::read(hello).ok_or(RejectCode::Malformed)?;
        let is_exact = read.encode() == *hello && rest.iter().all(|octet| *octet == 0);
        if is_exact && read.is_within_limits() { Ok(read) } else { Err(RejectCode::Malformed) }
    }

    /// Returns the octets to be sent.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LEN] {
        let stream = if self.kind == Kind::Stream { STREAM } else { 0 };
        let invalidate = if self.invalidates { INVALIDATE } else { 0 };
        let [w0, w1] = self.window.to_be_bytes();
        let [c0, c1] = self.credits.to_be_bytes();
        let [s0, s1, s2, s3] = self.slot.to_be_bytes();
        let ring = self.ring.unwrap_or(Ring { len: 0, to: 0, stag: Stag(0) });
        let [l0, l1, l2, l3] = ring.len.to_be_bytes();
        let [t0, t1, t2, t3] = ring.stag.0.to_be_bytes();
        let [r0, r1] = self.reads.to_be_bytes();
        let words = [
            Self::MAGIC,
            [VERSION, stream | invalidate, w0, w1, c0, c1, 0, 0],
            [s0, s1, s2, s3, l0, l1, l2, l3],
            ring.to.to_be_bytes(),
            [t0, t1, t2, t3, r0, r1, 0, 0],
        ];
        let mut octets = [0; Self::LEN];
        octets.copy_from_slice(words.as_flattened());
        octets
    }

    fn read(octets: &[u8; Self::LEN]) -> Option<Self> {
        let &[_, terms, lengths, to, last] = octets.as_chunks::<8>().0 else { return None };
        let [_, flags, w0, w1, c0, c1, ..] = terms;
        let [s0, s1, s2, s3, l0, l1, l2, l3] = lengths;
        let [t0, t1, t2, t3, r0, r1, ..] = last;
        let ring = Ring {
            len: u32::from_be_bytes([l0, l1, l2, l3]),
            to: u64::from_be_bytes(to),
            stag: Stag(u32::from_be_bytes([t0, t1, t2, t3])),
        };
        Some(Self {
            kind: if flags & STREAM != 0 { Kind::Stream } else { Kind::Message },
            invalidates: flags & INVALIDATE != 0,
            window: u16::from_be_bytes([w0, w1]),
            credits: u16::from_be_bytes([c0, c1]),
            slot: u32::from_be_bytes([s0, s1, s2, s3]),
            ring: Some(ring).filter(|ring| ring.len > 0),
            reads: u16::from_be_bytes([r0, r1]),
        })
    }

    fn is_within_limits(&self) -> bool {
        let is_right = match self.kind {
            Kind::Message => {
                (1..=MAX_CREDITS).contains(&self.credits) && self.ring.is_none() && self.reads > 0
            }
            Kind::Stream => {
                (1..=MAX_ADVERTS).contains(&self.credits)
                    && self.ring.as_ref().is_none_or(Ring::is_within_limits)
            }
        };
        is_right
            && (MIN_WINDOW..=MAX_WINDOW).contains(&self.window)
            && (MIN_SLOT..=MIN_SLOT + MAX_IMMEDIATE).contains(&self.slot)
    }
}

impl Ring {
    /// Returns whether its length is allowed, and its last octet has a tagged offset.
    const fn is_within_limits(&self) -> bool {
        self.len >= MIN_RING && self.len <= MAX_RING && self.to.checked_add(self.len as u64).is_some()
    }
}

impl RejectCode {
    /// Octets of the private data.
    pub const LEN: usize = 10;

    /// Returns why the peer has rejected the connection, or `None` if its private data does not tell.
    #[must_use]
    pub fn parse(octets: &[u8]) -> Option<Self> {
        let (&[version, code], rest) = octets.strip_prefix(&Hello::MAGIC)?.split_first_chunk::<2>()?;
        let code = ALL.into_iter().find(|known| *known as u8 == code)?;
        (version == VERSION && rest.iter().all(|octet| *octet == 0)).then_some(code)
    }

    /// Returns the octets to be sent.
    #[must_use]
    pub const fn encode(self) -> [u8; Self::LEN] {
        let [a, b, c, d, e, f, g, h] = Hello::MAGIC;
        [a, b, c, d, e, f, g, h, VERSION, self as u8]
    }
}

impl fmt::Display for RejectCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Version => "the version is not known",
            Self::Kind => "one side has a stream, the other one messages",
            Self::Malformed => "malformed hello",
            Self::Resources => "no resources",
            Self::NotListening => "nothing listens for this",
        })
    }
}

/// The version of the hello and of all messages.
pub const VERSION: u8 = 0x01;
/// The smallest window.
pub const MIN_WINDOW: u16 = 8;
/// The largest window.
pub const MAX_WINDOW: u16 = 1024;
/// The most messages that a side takes before it acknowledges one.
pub const MAX_CREDITS: u16 = 1024;
/// The most adverts that a side stores.
pub const MAX_ADVERTS: u16 = 256;
/// The smallest slot, in octets: a message without immediate data.
pub const MIN_SLOT: u32 = 32;
/// The longest immediate data, in octets.
pub const MAX_IMMEDIATE: u32 = 16 << 20;
/// The smallest ring, in octets.
pub const MIN_RING: u32 = 4 << 10;
/// The largest ring, in octets.
pub const MAX_RING: u32 = 64 << 20;

const _: () = assert!(MIN_SLOT as usize == HEADER_LEN);

// Flags.
const STREAM: u8 = 0x01;
const INVALIDATE: u8 = 0x02;

const ALL: [RejectCode; 5] = [
    RejectCode::Version,
    RejectCode::Kind,
    RejectCode::Malformed,
    RejectCode::Resources,
    RejectCode::NotListening,
];

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: Hello = Hello {
        kind: Kind::Message,
        invalidates: true,
        window: 0x0102,
        credits: 0x0304,
        slot: 0x0005_0607,
        ring: None,
        reads: 0x0809,
    };
    #[rustfmt::skip]
    const OCTETS: [u8; Hello::LEN] = [
        0x77, 0x65, 0x66, 0x74, 0x2d, 0x65, 0x78, 0x73, 0x01, 0x02, 1, 2, 3, 4, 0, 0, // magic, terms
        0, 5, 6, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // lengths, address
        0, 0, 0, 0, 8, 9, 0, 0, // STag, Reads
    ];
    #[rustfmt::skip]
    const STREAM_OCTETS: [u8; Hello::LEN] = [
        0x77, 0x65, 0x66, 0x74, 0x2d, 0x65, 0x78, 0x73, 0x01, 0x01, 1, 2, 0, 4, 0, 0, // magic, terms
        0, 5, 6, 7, 0, 0x0b, 0x0c, 0x0d, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, // lengths, address
        0x20, 0x21, 0x22, 0x23, 0, 0, 0, 0, // STag, Reads
    ];

    fn stream() -> Hello {
        let ring = Ring { len: 0x000b_0c0d, to: 0x1011_1213_1415_1617, stag: Stag(0x2021_2223) };
        Hello { kind: Kind::Stream, invalidates: false, credits: 4, ring: Some(ring), reads: 0, ..MESSAGES }
    }

    #[test]
    fn the_octets_are_those_of_the_table() {
        assert_eq!((MESSAGES.encode(), Hello::parse(&OCTETS)), (OCTETS, Ok(MESSAGES)));
        assert_eq!((stream().encode(), Hello::parse(&STREAM_OCTETS)), (STREAM_OCTETS, Ok(stream())));
    }

    #[test]
    fn zeros_may_follow_and_nothing_else() {
        assert_eq!(Hello::parse(&[&OCTETS[..], &[0; 7]].concat()), Ok(MESSAGES));
        assert_eq!(Hello::parse(&[&OCTETS[..], &[0, 0, 1]].concat()), Err(RejectCode::Malformed));
        for len in 0..Hello::LEN {
            assert_eq!(Hello::parse(&OCTETS[..len]), Err(RejectCode::Malformed), "{len} octets");
        }
    }

    #[test]
    fn each_reserved_bit_makes_a_hello_malformed() {
        let reserved = |place: usize, octets: [u8; Hello::LEN]| {
            for bit in 0..8 {
                let mut changed = octets;
                changed[place] ^= 1 << bit;
                assert_eq!(Hello::parse(&changed), Err(RejectCode::Malformed), "bit {bit} of octet {place}");
            }
        };
        for place in [14, 15, 38, 39] {
            reserved(place, OCTETS);
            reserved(place, STREAM_OCTETS);
        }
        // Messages have no ring.
        (20..36).for_each(|place| reserved(place, OCTETS));
        for bit in 2..8 {
            let mut flags = OCTETS;
            flags[9] ^= 1 << bit;
            assert_eq!(Hello::parse(&flags), Err(RejectCode::Malformed), "flag {bit}");
        }
    }

    #[test]
    fn another_version_is_said_to_be_that_whatever_its_layout() {
        for version in (0..=u8::MAX).filter(|version| *version != VERSION) {
            let short = [&Hello::MAGIC[..], &[version, 0xff]].concat();
            assert_eq!(Hello::parse(&short), Err(RejectCode::Version));
        }
        let mut magic = OCTETS;
        magic[7] ^= 1;
        assert_eq!(Hello::parse(&magic), Err(RejectCode::Malformed));
    }

    #[test]
    fn what_is_out_of_its_limits_is_malformed() {
        let ring = |len| Some(Ring { len, to: 0, stag: Stag(1) });
        let fine = [
            Hello { window: 8, credits: 1, slot: 32, reads: 1, ..MESSAGES },
            Hello { window: 1024, credits: 1024, slot: (16 << 20) + 32, reads: u16::MAX, ..MESSAGES },
            Hello { credits: 1, ring: None, ..stream() },
            Hello { credits: 256, ring: ring(4096), ..stream() },
            Hello { ring: ring(64 << 20), ..stream() },
            Hello { ring: Some(Ring { len: 4096, to: u64::MAX - 4096, stag: Stag(1) }), ..stream() },
        ];
        assert_eq!(fine.map(|hello| Hello::parse(&hello.encode())), fine.map(Ok));
        let wrong = [
            Hello { window: 7, ..MESSAGES },
            Hello { window: 1025, ..MESSAGES },
            Hello { credits: 0, ..MESSAGES },
            Hello { credits: 1025, ..MESSAGES },
            Hello { slot: 31, ..MESSAGES },
            Hello { slot: (16 << 20) + 33, ..MESSAGES },
            Hello { reads: 0, ..MESSAGES },
            Hello { ring: ring(4096), ..MESSAGES },
            Hello { credits: 0, ..stream() },
            Hello { credits: 257, ..stream() },
            Hello { ring: ring(4095), ..stream() },
            Hello { ring: ring((64 << 20) + 1), ..stream() },
            Hello { ring: ring(0), ..stream() },
            Hello { ring: Some(Ring { len: 4096, to: u64::MAX - 4095, stag: Stag(1) }), ..stream() },
        ];
        for hello in wrong {
            assert_eq!(Hello::parse(&hello.encode()), Err(RejectCode::Malformed), "{hello:?}");
        }
    }

    #[test]
    fn a_rejection_tells_its_code() {
        let codes = [
            (1, RejectCode::Version),
            (2, RejectCode::Kind),
            (3, RejectCode::Malformed),
            (4, RejectCode::Resources),
            (5, RejectCode::NotListening),
        ];
        for (number, code) in codes {
            let octets = [0x77, 0x65, 0x66, 0x74, 0x2d, 0x65, 0x78, 0x73, 0x01, number];
            assert_eq!((code.encode(), RejectCode::parse(&octets)), (octets, Some(code)));
            assert_eq!(RejectCode::parse(&[&octets[..], &[0; 30]].concat()), Some(code));
            assert_eq!(RejectCode::parse(&[&octets[..], &[1]].concat()), None);
            assert!((0..10).all(|len| RejectCode::parse(&octets[..len]).is_none()));
        }
        assert_eq!(
            [0, 6, 0xff].map(|code| RejectCode::parse(&[b"weft-exs\x01", &[code][..]].concat())),
            [None; 3]
        );
        assert_eq!(RejectCode::parse(b"weft-exs\x02\x01"), None);
    }
}
