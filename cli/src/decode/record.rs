//! The output of the decoder: one record for each startup frame, DDP Segment and remark.

use std::fmt;
use std::net::SocketAddr;

use super::fpdu::Crc;
use super::pcap::Stamp;
use super::segment::Segment;
use super::startup::Startup;

/// An item that one end of a connection sent to the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The packet that completed the item.
    pub stamp: Stamp,
    /// The sender.
    pub src: SocketAddr,
    /// The receiver.
    pub dst: SocketAddr,
    /// The item.
    pub item: Item,
}

/// The items of one direction of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// An MPA Request or Reply Frame.
    Startup(Startup),
    /// An FPDU with its DDP Segment.
    Segment {
        /// The segment.
        segment: Segment,
        /// The verdict on the FPDU's CRC.
        crc: Crc,
    },
    /// A remark of the decoder itself.
    Note(Note),
}

/// The decoder's remarks about a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// Octets are missing in the capture.
    Gap {
        /// How many.
        octets: u64,
        /// The ULPDU length of a segment whose beginning alone was captured.
        incomplete: Option<usize>,
    },
    /// Segments are found again after octets that could not be read.
    Resumed {
        /// How many.
        skipped: u64,
    },
    /// The rest of the direction could not be read.
    Unread {
        /// How many octets.
        octets: u64,
    },
    /// The startup frames were not captured. CRC and Markers are assumed.
    StartMissing,
    /// The other side's startup frame was not captured. CRC and Markers are taken from this side's.
    HalfStart,
    /// A startup frame that announces more Private Data than is allowed.
    MalformedStartup,
    /// Both sides sent the same startup frame.
    SameRole,
    /// The capture or the connection ends within an FPDU or startup frame.
    EndsWithin {
        /// How many octets of the frame are there.
        octets: usize,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gap { octets, incomplete: None } => write!(f, "{octets} octets were not captured"),
            Self::Gap { octets, incomplete: Some(len) } => {
                write!(f, "{octets} octets were not captured, from within a segment of {len} octets on")
            }
            Self::Resumed { skipped } => {
                write!(f, "segments found again after {skipped} octets that could not be read")
            }
            Self::Unread { octets } => write!(f, "the last {octets} octets could not be read"),
            Self::StartMissing => write!(
                f,
                "the beginning of this connection was not captured; CRC on and Markers off are assumed"
            ),
            Self::HalfStart => write!(
                f,
                "the other side's startup frame was not captured; its flags are taken to be as these"
            ),
            Self::MalformedStartup => {
                write!(f, "malformed startup frame: more than 512 octets of Private Data announced")
            }
            Self::SameRole => write!(f, "both sides sent the same startup frame; the rest is not decoded"),
            Self::EndsWithin { octets } => {
                write!(f, "the stream ends {octets} octets into a frame")
            }
        }
    }
}
