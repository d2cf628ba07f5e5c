//! A peer's own way to write FPDUs: headers as octets, and a CRC32c bit by bit. It shares no code with the stack. So
//! a test that judges with it does not repeat the stack's mistakes.

use std::fmt::Write;

/// Returns octets from hexadecimal digits. Blanks and line ends between them mean nothing.
///
/// # Panics
/// If there are other characters or half an octet. The text is always part of a check.
#[must_use]
pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|digit| !digit.is_ascii_whitespace()).collect();
    let octet = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).expect("hexadecimal digits");
        u8::from_str_radix(pair, 16).expect("hexadecimal digits")
    };
    assert!(digits.len().is_multiple_of(2), "half an octet at the end of {text}");
    digits.chunks(2).map(octet).collect()
}

/// Returns octets as digits, at most `limit` octets from each end.
#[must_use]
pub fn digits(octets: &[u8], limit: usize) -> String {
    let mut out = String::new();
    let mut write = |octets: &[u8]| {
        for octet in octets {
            // A `String` takes every write.
            let _infallible = write!(out, "{octet:02x}");
        }
    };
    if octets.len() <= 2 * limit {
        write(octets);
        return out;
    }
    write(&octets[..limit]);
    let left_out = octets.len() - 2 * limit;
    let mut tail = digits(&octets[octets.len() - limit..], limit);
    tail.insert_str(0, &format!("…({left_out} octets)…"));
    out.push_str(&tail);
    out
}

/// How one direction of a stream is framed, and where its next Marker falls.
#[derive(Clone, Debug)]
pub struct Framing {
    /// The CRC field has a CRC32c, else zeros.
    pub crc: bool,
    /// Octets since the first Marker, if there are Markers.
    pub position: Option<usize>,
}

impl Framing {
    /// Begins at the first octet of Full Operation.
    #[must_use]
    pub const fn new(crc: bool, markers: bool) -> Self {
        Self { crc, position: if markers { Some(0) } else { None } }
    }

    /// Returns the FPDU of `ulpdu`: length, padding, Markers, and the CRC or zeros.
    pub fn fpdu(&mut self, ulpdu: &[u8]) -> Vec<u8> {
        self.fpdu_with_markers(ulpdu, |pointer| pointer)
    }

    /// Does the same with every FPDUPTR changed, and a CRC that covers the change.
    pub fn fpdu_with_markers(&mut self, ulpdu: &[u8], change: impl Fn(u16) -> u16) -> Vec<u8> {
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

/// Returns an FPDU with a CRC and without Markers.
pub fn fpdu(ulpdu: &[u8]) -> Vec<u8> {
    Framing::new(true, false).fpdu(ulpdu)
}

/// Returns the CRC32c, computed one bit at a time.
pub fn crc32c(octets: &[u8]) -> u32 {
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

/// Returns `head`, which is hexadecimal, followed by `rest`.
pub fn join(head: &str, rest: &[&[u8]]) -> Vec<u8> {
    let mut octets = hex(head);
    for part in rest {
        octets.extend_from_slice(part);
    }
    octets
}

/// Returns a Send of one segment.
pub fn send(msn: u32, payload: &[u8]) -> Vec<u8> {
    join("4143 00000000 00000000", &[&msn.to_be_bytes(), &[0; 4], payload])
}

/// Returns one segment of a Send. `control` is DDP's octet, `41` or `01`.
pub fn send_part(control: &str, msn: u32, offset: u32, payload: &[u8]) -> Vec<u8> {
    join(control, &[&hex("43 00000000 00000000"), &msn.to_be_bytes(), &offset.to_be_bytes(), payload])
}

/// Returns a Send with Invalidate of one segment.
pub fn send_invalidate(msn: u32, stag: u32, payload: &[u8]) -> Vec<u8> {
    join("4144", &[&stag.to_be_bytes(), &[0; 4], &msn.to_be_bytes(), &[0; 4], payload])
}

/// Returns an RDMA Write of one segment.
pub fn write(stag: u32, to: u64, payload: &[u8]) -> Vec<u8> {
    join("C140", &[&stag.to_be_bytes(), &to.to_be_bytes(), payload])
}

/// Returns a tagged segment. `head` has the two control octets.
pub fn tagged(head: &str, stag: u32, to: u64, payload: &[u8]) -> Vec<u8> {
    join(head, &[&stag.to_be_bytes(), &to.to_be_bytes(), payload])
}

/// One of the two ends of a Read: STag and tagged offset.
#[derive(Clone, Copy, Debug)]
pub struct Place(pub u32, pub u64);

/// Returns an RDMA Read Request.
pub fn read_request(msn: u32, sink: Place, size: u32, source: Place) -> Vec<u8> {
    let header = join("4141 00000000 00000001", &[&msn.to_be_bytes(), &[0; 4]]);
    let mut out = header;
    out.extend_from_slice(&sink.0.to_be_bytes());
    out.extend_from_slice(&sink.1.to_be_bytes());
    out.extend_from_slice(&size.to_be_bytes());
    out.extend_from_slice(&source.0.to_be_bytes());
    out.extend_from_slice(&source.1.to_be_bytes());
    out
}

/// Returns a Terminate without headers. `code` is layer and type, and the error code.
pub fn bare_terminate(code: &str) -> Vec<u8> {
    join("4147 00000000 00000002 00000001 00000000", &[&hex(code), &[0, 0]])
}

/// Returns a Terminate with M and D, with the DDP header of `ulpdu`.
pub fn terminate(code: &str, ulpdu: &[u8]) -> Vec<u8> {
    let header = if ulpdu[0] & 0x80 == 0 { 18 } else { 14 };
    let len = u16::try_from(ulpdu.len()).expect("a ULPDU").to_be_bytes();
    let start = bare_terminate(code);
    join("", &[&start[..20], &hex("C000"), &len, &ulpdu[..header]])
}

/// Returns a Terminate with M, D and R, with both headers of the Read Request in `ulpdu`.
pub fn terminate_read(code: &str, ulpdu: &[u8]) -> Vec<u8> {
    let start = bare_terminate(code);
    join("", &[&start[..20], &hex("E000 002E"), &ulpdu[..46]])
}

/// Returns octets that show whether they are in their right places.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| low(i % 251) ^ low(i / 251)).collect()
}

/// Returns the first two octets as a number in network order.
pub fn number(octets: &[u8]) -> usize {
    usize::from(u16::from_be_bytes([octets[0], octets[1]]))
}

fn low(i: usize) -> u8 {
    i.to_le_bytes()[0]
}
