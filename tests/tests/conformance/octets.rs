//! The peer's own way to write FPDUs, and the vectors that it has to agree with.

pub(crate) use weft_conform::octets::*;

/// Takes one FPDU with a CRC, without Markers.
pub(crate) fn read_fpdu(peer: &weft_tests::RawPeer) -> Vec<u8> {
    let len = peer.read_exact(2);
    let len = usize::from(len[0]) << 8 | usize::from(len[1]);
    let rest = peer.read_exact((2 + len).next_multiple_of(4) - 2 + 4);
    let ulpdu = rest[..len].to_vec();
    assert_eq!(fpdu(&ulpdu)[2..], rest, "padding or CRC");
    ulpdu
}

/// The octets of a vector of `tests/data/vectors.json`.
pub(crate) fn vector(name: &str) -> Vec<u8> {
    let text = include_str!("../../data/vectors.json");
    let vectors: serde_json::Value = serde_json::from_str(text).expect("vectors");
    hex(vectors[name]["hex"].as_str().unwrap_or_else(|| panic!("no vector {name}")))
}

fn low(i: usize) -> u8 {
    i.to_le_bytes()[0]
}

/// The vectors, which were made independently, show mistakes of the handwritten octets.
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
