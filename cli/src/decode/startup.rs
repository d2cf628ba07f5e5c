//! The MPA Request and Reply Frame (RFC 5044 7.1, RFC 6581 section 6), as a decoder reads it: leniently.

use bytes::Bytes;
use nom::bytes::streaming::{tag, take};
use nom::combinator::verify;
use nom::number::streaming::{be_u8, be_u16};
use nom::{IResult, Parser};

/// A startup frame as it was on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Startup {
    /// Which of the two frames.
    pub role: Role,
    /// M: the sender wants Markers in what it receives.
    pub markers: bool,
    /// C: the sender requires the CRC.
    pub crc: bool,
    /// R: the connection is rejected (in a Reply).
    pub reject: bool,
    /// The revision.
    pub revision: u8,
    /// The enhanced data of RFC 6581.
    pub enhanced: Option<Enhanced>,
    /// The ULP's private data.
    pub private_data: Bytes,
    /// Octets of the whole frame.
    pub len: usize,
}

/// The side that sends a startup frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The Initiator, which sends the Request.
    Initiator,
    /// The Responder, which sends the Reply.
    Responder,
}

/// The enhanced connection data (RFC 6581 section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enhanced {
    /// A: the peer-to-peer model.
    pub peer_to_peer: bool,
    /// B: a zero-length Send as RTR.
    pub send: bool,
    /// C: a zero-length Write as RTR.
    pub write: bool,
    /// D: a zero-length Read as RTR.
    pub read: bool,
    /// The sender's IRD; 0x3fff is "not negotiated".
    pub ird: u16,
    /// The sender's ORD; 0x3fff is "not negotiated".
    pub ord: u16,
}

/// The result of reading octets as a startup frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// A whole frame.
    Frame(Startup),
    /// The beginning of a frame.
    Incomplete,
    /// A frame with the right key that announces more Private Data than is allowed.
    Malformed,
    /// Octets without the key of a frame.
    Other,
}

/// Reads the octets at the beginning of `octets` as a startup frame.
pub fn read(octets: &[u8]) -> Reading {
    match frame(octets) {
        Ok((_, startup)) => Reading::Frame(startup),
        Err(nom::Err::Incomplete(_)) => Reading::Incomplete,
        Err(_) if key(octets).is_ok() => Reading::Malformed,
        Err(_) => Reading::Other,
    }
}

/// Returns the place in `octets` where a startup frame may begin.
pub fn find(octets: &[u8]) -> Option<usize> {
    (0..octets.len()).find(|&at| !matches!(key(&octets[at..]), Err(nom::Err::Error(_))))
}

fn frame(input: &[u8]) -> IResult<&[u8], Startup> {
    let (rest, (role, flags, revision)) = (key, be_u8, be_u8).parse(input)?;
    let (rest, len) = verify(be_u16, |&len| len <= MAX_PRIVATE_DATA).parse(rest)?;
    let (rest, data) = take(len).parse(rest)?;
    let enhanced = if revision >= 2 && flags & 0x10 != 0 { enhanced(data) } else { None };
    let own = if enhanced.is_some() { ENHANCED_LEN } else { 0 };
    let startup = Startup {
        role,
        markers: flags & 0x80 != 0,
        crc: flags & 0x40 != 0,
        reject: flags & 0x20 != 0,
        revision,
        enhanced,
        private_data: Bytes::copy_from_slice(&data[own..]),
        len: input.len() - rest.len(),
    };
    Ok((rest, startup))
}

fn key(input: &[u8]) -> IResult<&[u8], Role> {
    let (rest, _) = tag(&b"MPA ID Re"[..]).parse(input)?;
    let (rest, which) = verify(be_u8, |which| matches!(which, b'q' | b'p')).parse(rest)?;
    let (rest, _) = tag(&b" Frame"[..]).parse(rest)?;
    Ok((rest, if which == b'q' { Role::Initiator } else { Role::Responder }))
}

/// Reads the first four octets of Private Data. A frame that is too short has no enhanced data.
fn enhanced(data: &[u8]) -> Option<Enhanced> {
    let &[a, b, c, d] = data.first_chunk::<ENHANCED_LEN>()?;
    let (first, second) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    Some(Enhanced {
        peer_to_peer: first & 0x8000 != 0,
        send: first & 0x4000 != 0,
        write: second & 0x8000 != 0,
        read: second & 0x4000 != 0,
        ird: first & 0x3fff,
        ord: second & 0x3fff,
    })
}

/// Octets of the key that a startup frame begins with.
pub const KEY_LEN: usize = 16;

const MAX_PRIVATE_DATA: u16 = 512;
const ENHANCED_LEN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_enhanced_request_is_read() {
        let octets = b"MPA ID Req Frame\x50\x02\x00\x06\xc0\x04\xc0\x08hi+more";
        let Reading::Frame(startup) = read(octets) else { panic!("{:?}", read(octets)) };
        assert_eq!((startup.role, startup.revision, startup.len), (Role::Initiator, 2, 26));
        assert_eq!((startup.markers, startup.crc, startup.reject), (false, true, false));
        let all = Enhanced { peer_to_peer: true, send: true, write: true, read: true, ird: 4, ord: 8 };
        assert_eq!(startup.enhanced, Some(all));
        assert_eq!(&startup.private_data[..], b"hi");
        for cut in 0..26 {
            assert_eq!(read(&octets[..cut]), Reading::Incomplete, "cut at {cut}");
        }
    }

    #[test]
    fn other_octets_are_no_malformed_frames() {
        assert_eq!(read(b"MPA ID Rex Frame"), Reading::Other);
        assert_eq!(read(b"GET / HTTP/1.1"), Reading::Other);
        assert_eq!(read(b"MPA ID Rep Frame\x00\x01\x02\x01"), Reading::Malformed);
        assert_eq!(find(b"login MMPA ID Rep Frame"), Some(7));
        assert_eq!(find(b"login MP"), Some(6));
        assert_eq!(find(b"login"), None);
    }

    #[test]
    fn revision_1_has_no_enhanced_data() {
        let Reading::Frame(startup) = read(b"MPA ID Rep Frame\x70\x01\x00\x04abcd") else { panic!() };
        assert_eq!((startup.role, startup.enhanced, startup.reject), (Role::Responder, None, true));
        assert_eq!(&startup.private_data[..], b"abcd");
    }
}
