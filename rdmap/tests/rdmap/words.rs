//! The registry of error codes (RFC 5040 section 4.8, RFC 5041 section 7.2, RFC 5044 section 8, RFC 6581 section 8) in words.

use weft_rdmap::Terminate;

const REGISTRY: [(u8, u8, u8, &str); 34] = [
    (0x0, 0x0, 0x00, "RDMAP: local catastrophic error"),
    (0x0, 0x1, 0x00, "RDMAP remote protection: invalid STag"),
    (0x0, 0x1, 0x01, "RDMAP remote protection: base or bounds violation"),
    (0x0, 0x1, 0x02, "RDMAP remote protection: access rights violation"),
    (0x0, 0x1, 0x03, "RDMAP remote protection: STag not associated with the stream"),
    (0x0, 0x1, 0x04, "RDMAP remote protection: tagged offset wraps"),
    (0x0, 0x1, 0x09, "RDMAP remote protection: STag cannot be invalidated"),
    (0x0, 0x1, 0xFF, "RDMAP remote protection: unspecified error"),
    (0x0, 0x2, 0x05, "RDMAP remote operation: invalid RDMAP version"),
    (0x0, 0x2, 0x06, "RDMAP remote operation: unexpected opcode"),
    (0x0, 0x2, 0x07, "RDMAP remote operation: catastrophic error of the stream"),
    (0x0, 0x2, 0x08, "RDMAP remote operation: global catastrophic error"),
    (0x0, 0x2, 0x09, "RDMAP remote operation: STag cannot be invalidated"),
    (0x0, 0x2, 0xFF, "RDMAP remote operation: unspecified error"),
    (0x1, 0x0, 0x00, "DDP: local catastrophic error"),
    (0x1, 0x1, 0x00, "DDP tagged buffer: invalid STag"),
    (0x1, 0x1, 0x01, "DDP tagged buffer: base or bounds violation"),
    (0x1, 0x1, 0x02, "DDP tagged buffer: STag not associated with the stream"),
    (0x1, 0x1, 0x03, "DDP tagged buffer: tagged offset wraps"),
    (0x1, 0x1, 0x04, "DDP tagged buffer: invalid DDP version"),
    (0x1, 0x2, 0x01, "DDP untagged buffer: invalid queue number"),
    (0x1, 0x2, 0x02, "DDP untagged buffer: no buffer available"),
    (0x1, 0x2, 0x03, "DDP untagged buffer: message sequence number out of range"),
    (0x1, 0x2, 0x04, "DDP untagged buffer: invalid message offset"),
    (0x1, 0x2, 0x05, "DDP untagged buffer: message too long for the buffer"),
    (0x1, 0x2, 0x06, "DDP untagged buffer: invalid DDP version"),
    (0x1, 0x3, 0x17, "DDP: error of the lower layer"),
    (0x2, 0x0, 0x01, "MPA: TCP connection closed or lost"),
    (0x2, 0x0, 0x02, "MPA: CRC mismatch"),
    (0x2, 0x0, 0x03, "MPA: Marker and ULPDU length disagree"),
    (0x2, 0x0, 0x04, "MPA: invalid Request or Reply frame"),
    (0x2, 0x0, 0x05, "MPA: local catastrophic error"),
    (0x2, 0x0, 0x06, "MPA: insufficient IRD resources"),
    (0x2, 0x0, 0x07, "MPA: no matching RTR option"),
];

#[test]
fn every_registered_code_has_its_words() {
    for (layer, etype, code, words) in REGISTRY {
        assert_eq!(Terminate::new(layer, etype, code).describe(), words);
    }
}

#[test]
fn unregistered_codes_name_their_layer_and_type() {
    for (layer, etype, code, words) in [
        (0x0, 0x1, 0x05, "RDMAP remote protection: unknown error code"),
        (0x0, 0x2, 0x04, "RDMAP remote operation: unknown error code"),
        (0x0, 0x3, 0x00, "RDMAP: unknown error type"),
        (0x1, 0x1, 0x77, "DDP tagged buffer: unknown error code"),
        (0x1, 0x2, 0x00, "DDP untagged buffer: unknown error code"),
        (0x1, 0x4, 0x00, "DDP: unknown error type"),
        (0x2, 0x0, 0x08, "MPA: unknown error code"),
        (0x2, 0x1, 0x01, "LLP: unknown error type"),
        (0x3, 0x0, 0x00, "unknown layer"),
        (0xF, 0xF, 0xFF, "unknown layer"),
    ] {
        assert_eq!(Terminate::new(layer, etype, code).describe(), words);
    }
}

/// M, D and R of Linux siw are reserved bits in the RFC's order. They count only if a part of each announced field
/// follows: two octets for a length (M, or D, which implies it), and one of the headers (D, R).
#[test]
fn the_bits_of_linux_siw_need_octets_behind_them() {
    // siw's third octet has M as 1, D as 2 and R as 4. The second number is the fewest octets that make it siw's.
    for (bits, fewest) in [(1, 2), (2, 3), (3, 3), (4, 1), (5, 3), (6, 3), (7, 3)] {
        for following in 0..6 {
            let octets = [&[0x11, 0x00, bits, 0x00][..], &[0; 5][..following.min(5)]].concat();
            let terminate = Terminate::parse(&octets).expect("a control word");
            assert_eq!(terminate.swapped, following >= fewest, "{bits} and {following} octets");
            assert_eq!(terminate.reserved != 0, following < fewest);
        }
    }
}
