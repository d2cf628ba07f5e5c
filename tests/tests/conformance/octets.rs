//! The peer's own way to write down FPDUs: headers as octets, and a CRC32c bit by bit.

use weft_tests::hex;

/// How one direction of a stream is framed, and where its next Marker falls.
#[derive(Clone, Debug)]
pub(crate) struct Framing {
    pub(crate) crc: bool,
    /// Octets since the first Marker, if there are Markers.
    pub(crate) position: Option<usize>,
}

impl Framing {
    pub(crate) fn new(crc: bool, markers: bool) -> Self {
        Self { crc, position: markers.then_some(0) }
    }

    /// The FPDU of `ulpdu`: length, padding, Markers, and the CRC, or zeros without one.
    pub(crate) fn fpdu(&mut self, ulpdu: &[u8]) -> Vec<u8> {
        self.fpdu_with_markers(ulpdu, |pointer| pointer)
    }

    /// The same with every FPDUPTR changed, and a CRC that covers the change.
    pub(crate) fn fpdu_with_markers(&mut self, ulpdu: &[u8], change: impl Fn(u16) -> u16) -> Vec<u8> {
        let mut content = u16::try_from(ulpdu.len()).expect("a ULPDU").to_be_bytes().to_vec();
        content.extend_from_slice(ulpdu);
        content.resize(content.len().next_multiple_of(4), 0);
        let mut out = Vec::new();
        let mut start = None;
        for octet in content.into_iter().map(Some).chain([None]) {
            if let Some(position) = self.position.filter(|position| (position + out.len()) % 512 == 0) {
                let from = start.map_or(0, |start: usize| position + out.len() - start);
                let pointer = change(u16::try_from(from).expect("inside an FPDU"));
                out.extend_from_slice(&[0, 0]);
                out.extend_from_slice(&pointer.to_be_bytes());
            }
            start.get_or_insert_with(|| self.position.unwrap_or(0) + out.len());
            out.extend(octet);
        }
        let crc = if self.crc { crc32c(&out) } else { 0 };
        out.extend_from_slice(&crc.to_le_bytes());
        if let Some(position) = &mut self.position {
            *position += out.len();
        }
        out
    }
}

/// An FPDU with a CRC and without Markers.
pub(crate) fn fpdu(ulpdu: &[u8]) -> Vec<u8> {
    Framing::new(true, false).fpdu(ulpdu)
}

/// Takes one FPDU with a CRC, without Markers.
pub(crate) fn read_fpdu(peer: &weft_tests::RawPeer) -> Vec<u8> {
    let len = peer.read_exact(2);
    let len = usize::from(len[0]) << 8 | usize::from(len[1]);
    let rest = peer.read_exact((2 + len).next_multiple_of(4) - 2 + 4);
    let ulpdu = rest[..len].to_vec();
    assert_eq!(fpdu(&ulpdu)[2..], rest, "padding or CRC");
    ulpdu
}

/// CRC32c, one bit at a time.
pub(crate) fn crc32c(octets: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for octet in octets {
        crc ^= u32::from(*octet);
        for _ in 0..8 {
            let carry = crc & 1;
            crc >>= 1;
            if carry == 1 {
                crc ^= 0x82F6_3B78;
            }
        }
    }
    !crc
}

/// `head` in hexadecimal, and whatever else belongs behind it.
pub(crate) fn join(head: &str, rest: &[&[u8]]) -> Vec<u8> {
    let mut octets = hex(head);
    for part in rest {
        octets.extend_from_slice(part);
    }
    octets
}

/// A Send of one segment.
pub(crate) fn send(msn: u32, payload: &[u8]) -> Vec<u8> {
    join("4143 00000000 00000000", &[&msn.to_be_bytes(), &[0; 4], payload])
}

/// One segment of a Send; `control` is DDP's octet, `41` or `01`.
pub(crate) fn send_part(control: &str, msn: u32, offset: u32, payload: &[u8]) -> Vec<u8> {
    join(control, &[&hex("43 00000000 00000000"), &msn.to_be_bytes(), &offset.to_be_bytes(), payload])
}

/// A Send with Invalidate of one segment.
pub(crate) fn send_invalidate(msn: u32, stag: u32, payload: &[u8]) -> Vec<u8> {
    join("4144", &[&stag.to_be_bytes(), &[0; 4], &msn.to_be_bytes(), &[0; 4], payload])
}

/// An RDMA Write of one segment.
pub(crate) fn write(stag: u32, to: u64, payload: &[u8]) -> Vec<u8> {
    join("C140", &[&stag.to_be_bytes(), &to.to_be_bytes(), payload])
}

/// A tagged segment; `head` has the two control octets.
pub(crate) fn tagged(head: &str, stag: u32, to: u64, payload: &[u8]) -> Vec<u8> {
    join(head, &[&stag.to_be_bytes(), &to.to_be_bytes(), payload])
}

/// One of the two ends of a Read: STag and tagged offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(pub(crate) u32, pub(crate) u64);

/// An RDMA Read Request.
pub(crate) fn read_request(msn: u32, sink: Place, size: u32, source: Place) -> Vec<u8> {
    let header = join("4141 00000000 00000001", &[&msn.to_be_bytes(), &[0; 4]]);
    let mut out = header;
    out.extend_from_slice(&sink.0.to_be_bytes());
    out.extend_from_slice(&sink.1.to_be_bytes());
    out.extend_from_slice(&size.to_be_bytes());
    out.extend_from_slice(&source.0.to_be_bytes());
    out.extend_from_slice(&source.1.to_be_bytes());
    out
}

/// A Terminate without headers: layer and type, code.
pub(crate) fn bare_terminate(code: &str) -> Vec<u8> {
    join("4147 00000000 00000002 00000001 00000000", &[&hex(code), &[0, 0]])
}

/// A Terminate with M and D, which returns the DDP header of `ulpdu`.
pub(crate) fn terminate(code: &str, ulpdu: &[u8]) -> Vec<u8> {
    let header = if ulpdu[0] & 0x80 == 0 { 18 } else { 14 };
    let len = u16::try_from(ulpdu.len()).expect("a ULPDU").to_be_bytes();
    let start = bare_terminate(code);
    join("", &[&start[..20], &hex("C000"), &len, &ulpdu[..header]])
}

/// A Terminate with M, D and R, which returns both headers of the Read Request in `ulpdu`.
pub(crate) fn terminate_read(code: &str, ulpdu: &[u8]) -> Vec<u8> {
    let start = bare_terminate(code);
    join("", &[&start[..20], &hex("E000 002E"), &ulpdu[..46]])
}

/// Octets that show when they are somewhere else than they should.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| low(i % 251) ^ low(i / 251)).collect()
}

/// A number in network order from the first two octets.
pub(crate) fn number(octets: &[u8]) -> usize {
    usize::from(u16::from_be_bytes([octets[0], octets[1]]))
}

fn low(i: usize) -> u8 {
    i.to_le_bytes()[0]
}

/// The octets of a vector of `tests/data/vectors.json`.
pub(crate) fn vector(name: &str) -> Vec<u8> {
    let text = include_str!("../../data/vectors.json");
    let vectors: serde_json::Value = serde_json::from_str(text).expect("vectors");
    hex(vectors[name]["hex"].as_str().unwrap_or_else(|| panic!("no vector {name}")))
}

/// Whoever writes by hand makes mistakes: the vectors are from another hand.
#[test]
fn this_file_agrees_with_the_vectors() {
    assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    let payload = hex("0001020304050607");
    let request = read_request(1, Place(0x200, 0x2000), 8, Place(0x100, 0x1000));
    assert_eq!(fpdu(&send(1, b"")), vector("send0"));
    assert_eq!(fpdu(&send(1, b"hello")), vector("send5"));
    assert_eq!(Framing::new(false, false).fpdu(&send(1, b"hello")), vector("send-nocrc"));
    assert_eq!(fpdu(&send_invalidate(1, 0x1122_3344, b"hello")), vector("sendinv"));
    let parts = [send_part("01", 1, 0, b"abcd"), send_part("41", 1, 4, b"efgh")];
    assert_eq!(parts.map(|part| fpdu(&part)).concat(), vector("send-2seg"));
    assert_eq!(fpdu(&write(0x100, 0x1000, &payload)), vector("write8"));
    assert_eq!(fpdu(&request), vector("rreq"));
    assert_eq!(fpdu(&tagged("C142", 0x200, 0x2000, &payload)), vector("rrsp"));
    assert_eq!(fpdu(&bare_terminate("2002")), vector("term-crc"));
    assert_eq!(fpdu(&terminate("1100", &write(0xDEAD_BEEF, 0x1000, &payload))), vector("term-ddp-stag"));
    assert_eq!(fpdu(&terminate("1202", &send(1, b"hello"))), vector("term-ddp-nobuf"));
    assert_eq!(fpdu(&terminate_read("0101", &request)), vector("term-rdmap-bounds"));
}

#[test]
fn the_markers_of_this_file_agree_with_the_vectors() {
    let counting = |len: usize| (0..len).map(low).collect::<Vec<u8>>();
    let stream = |payloads: &[Vec<u8>]| {
        let mut framing = Framing::new(true, true);
        let fpdus = payloads.iter().zip(1..).map(|(payload, msn)| framing.fpdu(&send(msn, payload)));
        fpdus.collect::<Vec<_>>().concat()
    };
    assert_eq!(stream(&[vec![]]), vector("m-send0"));
    assert_eq!(stream(&[vec![0; 24]]), vector("m-fig5"));
    assert_eq!(stream(&[vec![0; 464], vec![0; 24]]), vector("m-fig6"));
    assert_eq!(stream(&[counting(484), vec![]]), vector("m-between"));
    assert_eq!(stream(&[counting(488)]), vector("m-before-crc"));
    assert_eq!(stream(&[counting(487)]), vector("m-before-crc-pad"));
    assert_eq!(stream(&[counting(1400)]), vector("m-1400"));
}
