//! The classic format of capture files, read record by record.

use std::fmt;
use std::io::{self, Read};

use bytes::Bytes;
use nom::number::Endianness;
use nom::number::complete::{u16, u32};
use nom::{IResult, Parser};

/// The reader of a capture file, in either byte order, with stamps in micro- or nanoseconds.
#[derive(Debug)]
pub struct Capture<R> {
    reader: R,
    endianness: Endianness,
    nanoseconds: bool,
    link: Link,
    records: u64,
}

impl<R: Read> Capture<R> {
    /// Reads the file header, and checks that the file is a capture of a known kind.
    pub fn open(mut reader: R) -> Result<Self, Error> {
        let mut header = [0; FILE_HEADER_LEN];
        let filled = fill(&mut reader, &mut header)?;
        let (endianness, nanoseconds) = format(&header[..filled])?;
        if filled < FILE_HEADER_LEN {
            return Err(Error::ShortHeader);
        }
        let Ok((_, (version, link))) = file_header(endianness, &header) else {
            return Err(Error::ShortHeader);
        };
        if version != VERSION {
            return Err(Error::Version(version));
        }
        // The upper half of the word announces a frame check sequence. The IP length cuts that off anyway.
        let link = Link::from_number(link & 0xffff).ok_or(Error::LinkType(link))?;
        Ok(Self { reader, endianness, nanoseconds, link, records: 0 })
    }

    /// Returns the next packet, or `None` at the end of the file. After an error the rest of the file is unreadable.
    #[expect(clippy::should_implement_trait, reason = "it can fail, and the caller must see where")]
    pub fn next(&mut self) -> Result<Option<Packet>, Error> {
        let number = self.records + 1;
        let mut header = [0; RECORD_HEADER_LEN];
        match fill(&mut self.reader, &mut header)? {
            0 => return Ok(None),
            RECORD_HEADER_LEN => {}
            _ => return Err(Error::Truncated { record: number }),
        }
        let Ok((_, (seconds, fraction, captured, original))) = record_header(self.endianness, &header) else {
            return Err(Error::Truncated { record: number });
        };
        if captured > MAX_RECORD_LEN {
            return Err(Error::RecordLength { record: number, length: captured });
        }
        let mut data = vec![0; captured as usize];
        if fill(&mut self.reader, &mut data)? < data.len() {
            return Err(Error::Truncated { record: number });
        }
        self.records = number;
        let unit = if self.nanoseconds { 1 } else { 1000 };
        let time = Time(u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * unit);
        Ok(Some(Packet { stamp: Stamp { time, number }, cut: original > captured, data: Bytes::from(data) }))
    }

    /// Returns the link layer of all packets of the file.
    pub const fn link(&self) -> Link {
        self.link
    }
}

/// One record of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// The time of capture, and the number of the record.
    pub stamp: Stamp,
    /// The capture kept only the beginning of this packet.
    pub cut: bool,
    /// The octets, from the link layer on.
    pub data: Bytes,
}

/// The time of a packet, and its place in the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// The record's own time.
    pub time: Time,
    /// The record's number; the first is 1, as in other tools.
    pub number: u64,
}

/// A point in time, in nanoseconds since the epoch of the file (usually 1970).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub u64);

impl Time {
    /// Returns the nearest number of seconds.
    #[expect(clippy::cast_precision_loss, reason = "each half is exact, their sum is rounded once")]
    pub fn seconds(self) -> f64 {
        (self.0 / 1_000_000_000) as f64 + (self.0 % 1_000_000_000) as f64 / 1e9
    }
}

/// The link layers that the decoder reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Ethernet, with or without VLAN tags (LINKTYPE 1).
    Ethernet,
    /// An IPv4 or IPv6 header comes first (LINKTYPE 101).
    RawIp,
}

impl Link {
    /// Returns the link layer of a LINKTYPE number, if the decoder reads it.
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Ethernet),
            101 => Some(Self::RawIp),
            _ => None,
        }
    }
}

/// The reason why a file cannot be read, or not further.
#[derive(Debug)]
pub enum Error {
    /// The file is empty.
    Empty,
    /// The first four octets are not those of a capture.
    Magic([u8; 4]),
    /// The file has the newer format, which other tools convert.
    Pcapng,
    /// The file ends within its own header.
    ShortHeader,
    /// The major version is not 2.
    Version(u16),
    /// The decoder does not read this link layer.
    LinkType(u32),
    /// The file ends within this record.
    Truncated {
        /// The record's number.
        record: u64,
    },
    /// A record claims more octets than any capture tool writes: the file is damaged.
    RecordLength {
        /// The record's number.
        record: u64,
        /// The octets that it claims.
        length: u32,
    },
    /// The operating system could not read the file.
    Io(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the file is empty"),
            Self::Magic([a, b, c, d]) => {
                write!(f, "not a pcap file (it begins with {a:02x} {b:02x} {c:02x} {d:02x})")
            }
            Self::Pcapng => {
                write!(f, "a pcapng file, only classic pcap is read; convert it with: editcap -F pcap IN OUT")
            }
            Self::ShortHeader => write!(f, "the file ends within the pcap file header"),
            Self::Version(version) => write!(f, "pcap version {version} is not known, only 2"),
            Self::LinkType(number) => {
                write!(f, "link type {number} is not known, only Ethernet (1) and raw IP (101)")
            }
            Self::Truncated { record } => write!(f, "the file ends within record {record}"),
            Self::RecordLength { record, length } => {
                write!(f, "record {record} claims {length} octets; the file is damaged")
            }
            Self::Io(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Returns byte order and stamp unit, from the first octets of the file.
fn format(begin: &[u8]) -> Result<(Endianness, bool), Error> {
    let Some(&magic) = begin.first_chunk::<4>() else {
        return Err(if begin.is_empty() { Error::Empty } else { Error::ShortHeader });
    };
    Ok(match magic {
        [0xa1, 0xb2, 0xc3, 0xd4] => (Endianness::Big, false),
        [0xd4, 0xc3, 0xb2, 0xa1] => (Endianness::Little, false),
        [0xa1, 0xb2, 0x3c, 0x4d] => (Endianness::Big, true),
        [0x4d, 0x3c, 0xb2, 0xa1] => (Endianness::Little, true),
        [0x0a, 0x0d, 0x0d, 0x0a] => return Err(Error::Pcapng),
        other => return Err(Error::Magic(other)),
    })
}

/// Returns major version and link type.
fn file_header(order: Endianness, input: &[u8]) -> IResult<&[u8], (u16, u32)> {
    let (rest, (_magic, major, _minor)) = (u32(order), u16(order), u16(order)).parse(input)?;
    let (rest, (_zone, _accuracy, _snap)) = (u32(order), u32(order), u32(order)).parse(rest)?;
    let (rest, link) = u32(order).parse(rest)?;
    Ok((rest, (major, link)))
}

/// Returns seconds, fraction, captured octets, and octets that were on the wire.
fn record_header(order: Endianness, input: &[u8]) -> IResult<&[u8], (u32, u32, u32, u32)> {
    (u32(order), u32(order), u32(order), u32(order)).parse(input)
}

/// Reads until the buffer is full or the file ends. Returns how many octets were read.
fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

const FILE_HEADER_LEN: usize = 24;
const RECORD_HEADER_LEN: usize = 16;
const VERSION: u16 = 2;

/// The longest record that capture tools write (libpcap's largest snap length).
const MAX_RECORD_LEN: u32 = 262_144;

#[cfg(test)]
mod tests {
    use super::*;

    fn file(order: Endianness, magic: u32, link: u32, records: &[(u32, u32, &[u8])]) -> Vec<u8> {
        let four =
            |value: u32| if order == Endianness::Big { value.to_be_bytes() } else { value.to_le_bytes() };
        let two =
            |value: u16| if order == Endianness::Big { value.to_be_bytes() } else { value.to_le_bytes() };
        let mut out = four(magic).to_vec();
        out.extend(two(2));
        out.extend(two(4));
        for value in [0, 0, 65535, link] {
            out.extend(four(value));
        }
        for (seconds, fraction, data) in records {
            let len = u32::try_from(data.len()).unwrap();
            for value in [*seconds, *fraction, len, len] {
                out.extend(four(value));
            }
            out.extend(*data);
        }
        out
    }

    #[test]
    fn both_byte_orders_and_both_units_are_read() {
        for order in [Endianness::Big, Endianness::Little] {
            for (magic, time) in [(0xa1b2_c3d4, 7_000_009_000), (0xa1b2_3c4d, 7_000_000_009)] {
                let octets = file(order, magic, 1, &[(7, 9, b"abc"), (8, 0, b"")]);
                let mut capture = Capture::open(&octets[..]).unwrap();
                assert_eq!(capture.link(), Link::Ethernet);
                let packet = capture.next().unwrap().unwrap();
                assert_eq!(
                    (packet.stamp.time.0, packet.stamp.number, &packet.data[..]),
                    (time, 1, &b"abc"[..])
                );
                assert_eq!(capture.next().unwrap().unwrap().stamp.number, 2);
                assert!(capture.next().unwrap().is_none());
            }
        }
    }

    #[test]
    fn every_cut_of_a_file_is_an_error_or_a_shorter_file() {
        let octets = file(Endianness::Little, 0xa1b2_c3d4, 101, &[(1, 2, b"0123456789")]);
        for cut in 0..octets.len() {
            let message = match Capture::open(&octets[..cut]) {
                Err(error) => error.to_string(),
                Ok(mut capture) => match capture.next() {
                    Err(error) => error.to_string(),
                    Ok(packet) => {
                        assert!(packet.is_none() && cut == 24, "cut at {cut}");
                        continue;
                    }
                },
            };
            let expected = match cut {
                0 => "the file is empty",
                1..24 => "the file ends within the pcap file header",
                _ => "the file ends within record 1",
            };
            assert_eq!(message, expected, "cut at {cut}");
        }
    }

    #[test]
    fn unknown_files_are_refused() {
        let of =
            |octets: &[u8]| Capture::open(octets).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(of(&[0x0a, 0x0d, 0x0d, 0x0a, 0, 0]).starts_with("a pcapng file"));
        assert!(of(b"#!/bin/sh\n").contains("23 21 2f 62"));
        assert!(of(&file(Endianness::Big, 0xa1b2_c3d4, 113, &[])).starts_with("link type 113"));
        let mut old = file(Endianness::Big, 0xa1b2_c3d4, 1, &[]);
        old[5] = 1;
        assert!(of(&old).starts_with("pcap version 1"));
        let mut huge = file(Endianness::Big, 0xa1b2_c3d4, 1, &[(0, 0, b"")]);
        huge[32] = 0x7f;
        let error = Capture::open(&huge[..]).unwrap().next().unwrap_err();
        assert!(error.to_string().starts_with("record 1 claims 2130706432 octets"));
    }
}
