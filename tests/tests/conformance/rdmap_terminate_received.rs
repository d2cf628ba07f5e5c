//! The Terminate header that the device gets (RFC 5040 section 4.8): every code of figures 9 and 10, in the RFC's
//! form and in that of Linux siw. siw has the layer in the place of the type, and M, D and R at the other end of
//! their octet.

use weft_rnic::{Data, DisconnectReason, RecvWr, SendOpcode, Stag, Status};
use weft_tests::{RawPeer, hex};

use crate::octets::{Place, fpdu, join, read_request, send, write};
use crate::world::{FILL, FLUSHED, ROLES, World, content, filled, open, whole, work};

/// The segment that a Terminate returns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// No segment, and no bits.
    Nothing,
    Write,
    Send,
    /// With the Read Request header.
    Read,
    /// The DDP header alone.
    ReadHeader,
}

/// Layer, type and code, the returned segment, and the meaning.
const CODES: [(u8, u8, u8, Of, &str); 35] = [
    (0, 0, 0x00, Of::Nothing, "RDMAP: local catastrophic error"),
    (0, 0, 0x77, Of::Nothing, "RDMAP: local catastrophic error"),
    (0, 1, 0x00, Of::Read, "RDMAP remote protection: invalid STag"),
    (0, 1, 0x01, Of::Read, "RDMAP remote protection: base or bounds violation"),
    (0, 1, 0x02, Of::Read, "RDMAP remote protection: access rights violation"),
    (0, 1, 0x03, Of::Read, "RDMAP remote protection: STag not associated with the stream"),
    (0, 1, 0x04, Of::Read, "RDMAP remote protection: tagged offset wraps"),
    (0, 1, 0x09, Of::Send, "RDMAP remote protection: STag cannot be invalidated"),
    (0, 1, 0xFF, Of::Read, "RDMAP remote protection: unspecified error"),
    (0, 2, 0x05, Of::Send, "RDMAP remote operation: invalid RDMAP version"),
    (0, 2, 0x06, Of::Write, "RDMAP remote operation: unexpected opcode"),
    (0, 2, 0x07, Of::ReadHeader, "RDMAP remote operation: catastrophic error of the stream"),
    (0, 2, 0x08, Of::ReadHeader, "RDMAP remote operation: global catastrophic error"),
    (0, 2, 0x09, Of::Send, "RDMAP remote operation: STag cannot be invalidated"),
    (0, 2, 0xFF, Of::Write, "RDMAP remote operation: unspecified error"),
    (1, 0, 0x00, Of::Nothing, "DDP: local catastrophic error"),
    (1, 1, 0x00, Of::Write, "DDP tagged buffer: invalid STag"),
    (1, 1, 0x01, Of::Write, "DDP tagged buffer: base or bounds violation"),
    (1, 1, 0x02, Of::Write, "DDP tagged buffer: STag not associated with the stream"),
    (1, 1, 0x03, Of::Write, "DDP tagged buffer: tagged offset wraps"),
    (1, 1, 0x04, Of::Write, "DDP tagged buffer: invalid DDP version"),
    (1, 2, 0x01, Of::Send, "DDP untagged buffer: invalid queue number"),
    (1, 2, 0x02, Of::Send, "DDP untagged buffer: no buffer available"),
    (1, 2, 0x02, Of::ReadHeader, "DDP untagged buffer: no buffer available"),
    (1, 2, 0x03, Of::Send, "DDP untagged buffer: message sequence number out of range"),
    (1, 2, 0x04, Of::Send, "DDP untagged buffer: invalid message offset"),
    (1, 2, 0x05, Of::Send, "DDP untagged buffer: message too long for the buffer"),
    (1, 2, 0x06, Of::Send, "DDP untagged buffer: invalid DDP version"),
    (2, 0, 0x01, Of::Nothing, "MPA: TCP connection closed or lost"),
    (2, 0, 0x02, Of::Nothing, "MPA: CRC mismatch"),
    (2, 0, 0x03, Of::Nothing, "MPA: Marker and ULPDU length disagree"),
    (2, 0, 0x04, Of::Nothing, "MPA: invalid Request or Reply frame"),
    (2, 0, 0x05, Of::Nothing, "MPA: local catastrophic error"),
    (2, 0, 0x06, Of::Nothing, "MPA: insufficient IRD resources"),
    (2, 0, 0x07, Of::Nothing, "MPA: no matching RTR option"),
];

/// Layer, type and code, and the same in words.
type Meaning = ((u8, u8, u8), &'static str);

fn meaning(layer: u8, etype: u8, code: u8) -> Option<Meaning> {
    let row = CODES.into_iter().find(|row| (row.0, row.1, row.2) == (layer, etype, code))?;
    Some(((layer, etype, code), row.4))
}

/// Returns the meaning for Linux siw, if only the code could tell and both orders are in the table.
fn other_reading(control: [u8; 4]) -> Option<Meaning> {
    let [first, code, 0, 0] = control else { return None };
    let (high, low) = (first >> 4, first & 0xF);
    meaning(high, low, code).filter(|_| high != low).and_then(|_| meaning(low, high, code))
}

/// A connection with a Send and a Write that are done, a Read (3) that waits, and a receive (4).
struct Stage {
    world: World,
    peer: RawPeer,
    read: Vec<u8>,
    sink: weft_rnic::Mr,
}

impl Stage {
    fn new(role: crate::world::Role) -> Self {
        let (world, peer) = open(role);
        let sink = filled(&world.side, 8);
        let qp = &world.side.qp;
        qp.post_recv(&RecvWr { wr_id: 4, sges: &[] }).unwrap();
        qp.post_send(&work(1, SendOpcode::Send, Data::Inline(b"hello"))).unwrap();
        let far = SendOpcode::Write { stag: Stag(0xDEAD_BEEF), to: 0x1000 };
        qp.post_send(&work(2, far, Data::Inline(b"12345678"))).unwrap();
        let far = SendOpcode::Read { stag: Stag(0xDEAD_BEEF), to: 0x1000 };
        qp.post_send(&work(3, far, Data::Sges(&[whole(&sink)]))).unwrap();
        let read = read_request(1, Place(sink.lkey().0, sink.addr()), 8, Place(0xDEAD_BEEF, 0x1000));
        let sent = [send(1, b"hello"), write(0xDEAD_BEEF, 0x1000, b"12345678"), read.clone()];
        peer.expect(&sent.map(|ulpdu| fpdu(&ulpdu)).concat());
        assert_eq!(world.completion().wr_id, 1);
        assert_eq!(world.completion().wr_id, 2);
        Self { world, peer, read, sink }
    }

    /// The segment in question as a Terminate returns it: M, D and R as a number with R lowest, and the octets behind
    /// the control word. The length is that of the segment, or of its payload as siw has it.
    fn returned(&self, of: Of, is_siw: bool) -> (u8, Vec<u8>) {
        let (bits, header, ulpdu) = match of {
            Of::Nothing => return (0, Vec::new()),
            Of::Write => (0b110, 14, write(0xDEAD_BEEF, 0x1000, b"12345678")),
            Of::Send => (0b110, 18, send(1, b"hello")),
            Of::Read => (0b111, 46, self.read.clone()),
            Of::ReadHeader => (0b110, 18, self.read.clone()),
        };
        let len = if is_siw { ulpdu.len() - header.min(18) } else { ulpdu.len() };
        (bits, [&[0, u8::try_from(len).unwrap()], &ulpdu[..header]].concat())
    }

    /// The Terminate comes. Its code and meaning reach the application, and the Read fails if it is the refused
    /// segment.
    fn expect_end(&self, control: &[u8; 4], rest: &[u8], (code, text): Meaning, of: Of) {
        let ulpdu = join("4147 00000000 00000002 00000001 00000000", &[control, rest]);
        self.peer.send(&fpdu(&ulpdu));
        self.peer.expect_fin();
        match self.world.disconnected() {
            DisconnectReason::PeerTerminate { code: received, text: meaning, other } => {
                assert_eq!((received, meaning), (code, text), "{control:02x?}");
                assert_eq!(other, other_reading(*control), "{control:02x?}");
            }
            reason => panic!("{reason:?}"),
        }
        let failed = self.world.completion();
        let refusal = match code {
            (_, 1, _) => Status::RemoteAccess,
            (1, 2, _) | (0, 2, 0x05 | 0x06) => Status::RemoteInvalidRequest,
            _ => Status::RemoteOperation,
        };
        let is_read = matches!(of, Of::Read | Of::ReadHeader);
        assert_eq!((failed.wr_id, failed.status), (3, if is_read { refusal } else { FLUSHED }));
        let number = u32::from_be_bytes([0, code.0, code.1, code.2]);
        assert_eq!(failed.vendor_err, if is_read { number } else { 0 });
        assert_eq!(self.world.all_completions(), [(4, FLUSHED)]);
        assert_eq!(content(&self.sink), [FILL; 8]);
    }
}

// Covers 5040-3.2-3, 5040-3.2-9, 5040-4.8-3.
#[test]
fn every_code_reaches_the_application() {
    for role in ROLES {
        for (layer, etype, code, of, text) in CODES {
            let stage = Stage::new(role);
            let (bits, rest) = stage.returned(of, false);
            let control = [layer << 4 | etype, code, bits << 5, 0];
            stage.expect_end(&control, &rest, ((layer, etype, code), text), of);
        }
    }
}

/// The thirteen bits have any value, in Terminates with and without headers: each bit alone, all, and some patterns.
// Covers 5040-4.8-8.
#[test]
fn reserved_bits_of_a_terminate_mean_nothing() {
    let bits = (0..13).map(|bit| 1_u16 << bit).chain([0x1FFF, 0x0F00, 0x1500, 0x00FF, 0x0300, 0x0700]);
    let codes =
        [(2, 0, 0x02, Of::Nothing), (1, 1, 0x00, Of::Write), (0, 1, 0x01, Of::Read), (1, 2, 0x02, Of::Send)];
    for (reserved, role) in bits.zip(ROLES.into_iter().cycle()) {
        for (layer, etype, code, of) in codes {
            let expected = meaning(layer, etype, code).unwrap();
            let stage = Stage::new(role);
            let (bits, rest) = stage.returned(of, false);
            let [third, fourth] = (u16::from(bits) << 13 | reserved).to_be_bytes();
            let control = [layer << 4 | etype, code, third, fourth];
            stage.expect_end(&control, &rest, expected, of);
        }
    }
}

/// With headers the bits tell the order. Without them only the code can. If it is registered in both readings, the
/// RFC's counts, and the application gets the other one beside it.
#[test]
fn every_code_in_the_order_of_linux_siw() {
    for role in ROLES {
        for (layer, etype, code, of, text) in CODES {
            let stage = Stage::new(role);
            let (bits, rest) = stage.returned(of, true);
            let control = [etype << 4 | layer, code, bits.reverse_bits() >> 5, 0];
            let in_rfc_order = meaning(etype, layer, code).filter(|_| of == Of::Nothing);
            let expected = in_rfc_order.unwrap_or(((layer, etype, code), text));
            stage.expect_end(&control, &rest, expected, of);
        }
    }
}

/// From a capture of Linux siw: the returned Read Request has its length in the place of the MSN. So the oldest Read
/// is taken for the refused one. For the oldest one this is right.
#[test]
fn a_read_refused_by_linux_siw() {
    for role in ROLES {
        let stage = Stage::new(role);
        let mut request = stage.read.clone();
        request[10..14].copy_from_slice(&8_u32.to_be_bytes());
        let rest = [&hex("0008")[..], &request].concat();
        let text = "RDMAP remote protection: invalid STag";
        stage.expect_end(&[0x10, 0x00, 0x07, 0x00], &rest, ((0, 1, 0), text), Of::Read);
    }
}
