//! A segment that has arrived.

use core::net::IpAddr;
use core::ops::Range;

use weft_tcp::{Ecn, Segment};

use crate::demux::Tuple;
use crate::frame::Frame;

/// A segment that has arrived, and where its payload is in the frame.
#[derive(Debug, Clone)]
pub(crate) struct Arrived {
    pub(crate) tuple: Tuple,
    pub(crate) segment: Segment,
    pub(crate) payload: Range<usize>,
}

impl Arrived {
    /// Reads the TCP segment in a frame whose checksums are good. It begins `len` octets before the frame's end, and
    /// ends where the IP header says.
    pub(crate) fn read(frame: &Frame, tuple: Tuple, len: usize) -> Option<Self> {
        let start = frame.len().checked_sub(len)?;
        let ip = frame.get(14..)?.first_chunk::<20>()?;
        let (end, ecn) = match tuple.local.ip() {
            IpAddr::V4(_) => (14 + usize::from(u16::from_be_bytes([ip[2], ip[3]])), Ecn::of(ip[1])),
            IpAddr::V6(_) => (54 + usize::from(u16::from_be_bytes([ip[4], ip[5]])), Ecn::of(ip[1] >> 4)),
        };
        let tcp = frame.get(start..end)?;
        let segment = Segment::parse(tcp, ecn).ok()?;
        let payload = end.checked_sub(usize::try_from(segment.len).ok()?)?..end;
        Some(Self { tuple, segment, payload })
    }
}
