//! Terminates as other stacks write them, and Terminates about a Read that had begun.

use weft_ddp::Stag;
use weft_rdmap::{Asked, Body, Error, Kind, PendingRequest, ReadRequest, Terminate, Token};

use crate::{
    end::{BASE, End, MEMORY},
    vector_file::{load, octets, ulpdus},
};

#[test]
fn linux_siw_writes_the_control_word_in_another_order() {
    let tagged = "c140deadbeef0000000000001000";
    let untagged = "014300000000000000000000000200000000";
    let request =
        "41410000000000000001000000640000000000000200000000000000200000000008000000010000000000001000";
    let cases = [
        ("11000300", tagged, "DDP tagged buffer: invalid STag"),
        ("21020300", untagged, "DDP untagged buffer: no buffer available"),
        ("21030300", untagged, "DDP untagged buffer: message sequence number out of range"),
        ("21010300", untagged, "DDP untagged buffer: invalid queue number"),
        ("21040300", untagged, "DDP untagged buffer: invalid message offset"),
        ("10000700", request, "RDMAP remote protection: invalid STag"),
        ("20090300", untagged, "RDMAP remote operation: STag cannot be invalidated"),
        ("02020000", "", "MPA: CRC mismatch"),
        ("11040000", "", "DDP tagged buffer: invalid DDP version"),
    ];
    for (control, headers, words) in cases {
        let length = if headers.is_empty() { "" } else { "0008" };
        let sent = octets(&[control, length, headers].concat());
        let terminate = Terminate::parse(&sent).unwrap();
        assert_eq!(terminate.describe(), words, "{control}");
        assert_eq!(terminate.segment_len, (!headers.is_empty()).then_some(8));
        let (ddp, rdma) = octets(headers)
            .split_at_checked(18)
            .map_or_else(|| (octets(headers), Vec::new()), |(ddp, rdma)| (ddp.to_vec(), rdma.to_vec()));
        assert_eq!((&terminate.ddp_header[..], &terminate.rdma_header[..]), (&ddp[..], &rdma[..]));
        assert_eq!(terminate.emit(), sent[..]);
    }
    // If the word means something in both orders, the RFC's order counts.
    let ambiguous = Terminate::parse(&[0x20, 0x06, 0, 0]).unwrap();
    assert_eq!(ambiguous.describe(), "MPA: insufficient IRD resources");
}

#[test]
fn reserved_bits_mean_nothing_and_come_back() {
    let sent = [0x20, 0x02, 0x1F, 0xFF];
    let mut terminate = Terminate::parse(&sent).unwrap();
    assert_eq!(terminate.emit(), sent);
    let clean = Terminate::new(0x2, 0x0, 0x02);
    terminate.reserved = 0;
    assert_eq!(terminate, clean);
    assert_eq!(clean.emit(), [0x20, 0x02, 0, 0]);
}

#[test]
fn fields_that_a_peer_leaves_out_are_absent() {
    let whole = ulpdus(&load(), "term-rdmap-bounds")[0][18..].to_vec();
    for len in 0..whole.len() {
        let parsed = Terminate::parse(&whole[..len]);
        if len < 4 {
            assert_eq!(parsed, Err(Error::StreamCatastrophic));
            continue;
        }
        let terminate = parsed.unwrap();
        assert_eq!(terminate.to_string(), "RDMAP remote protection: base or bounds violation (0/1/01)");
        assert_eq!(terminate.segment_len, (len >= 6).then_some(46));
        assert_eq!(terminate.ddp_header, whole[6.min(len)..24.min(len)]);
        assert_eq!(terminate.rdma_header, whole[24.min(len)..len]);
        // The bits still announce the missing fields, so the same octets are written again.
        let same = if len == 5 { &whole[..4] } else { &whole[..len] };
        assert_eq!(terminate.emit(), *same);
    }
}

#[test]
fn octets_that_a_peer_appends_are_ignored() {
    for name in ["term-crc", "term-ddp-stag", "term-ddp-nobuf", "term-rdmap-bounds"] {
        let mut octets = ulpdus(&load(), name)[0][18..].to_vec();
        let terminate = Terminate::parse(&octets).unwrap();
        octets.extend([0; 48]);
        assert_eq!(Terminate::parse(&octets), Ok(terminate), "{name}");
    }
}

#[test]
fn headers_come_as_the_bits_say() {
    // D without M: the length is there, and not valid.
    let header = octets("c140deadbeef0000000000001000");
    let without_length = Terminate::parse(&[&[0x11, 0x00, 0x40, 0, 0, 0], &header[..]].concat()).unwrap();
    assert_eq!((without_length.segment_len, &without_length.ddp_header[..]), (None, &header[..]));
    // M without D: a length and no header.
    let alone = Terminate::parse(&[0x12, 0x02, 0x80, 0, 0, 23]).unwrap();
    assert_eq!((alone.segment_len, alone.ddp_header.len()), (Some(23), 0));
    assert_eq!(alone.len(), 6);
}

/// Miri is slow and gets two of them.
const CODES: core::ops::RangeInclusive<u8> = if cfg!(miri) { 0x76..=0x77 } else { 0..=0xFF };

#[test]
fn every_code_has_words() {
    let known = |layer, etype, code| Terminate::new(layer, etype, code).describe().to_owned();
    for layer in 0..=0xF {
        for etype in 0..=0xF {
            for code in CODES {
                assert!(!known(layer, etype, code).is_empty());
            }
        }
    }
    assert_eq!(known(0x1, 0x1, 0x77), "DDP tagged buffer: unknown error code");
    assert_eq!(known(0x9, 0x0, 0x00), "unknown layer");
    // Each error that this crate reports has its own words.
    for error in
        [Error::InvalidStag, Error::CannotInvalidate, Error::UnexpectedOpcode, Error::RemoteOperation]
    {
        assert!(!Terminate::from_error(&error, None).describe().contains("unknown"));
    }
}

#[test]
fn a_read_that_fails_on_the_way_comes_back_moved_on() {
    let mut end = End::new(0, 2);
    end.memory = vec![7; 300];
    let request = ReadRequest {
        sink_stag: Stag(0xCAFE_BABE),
        sink_to: u64::MAX - 50,
        size: 300,
        source_stag: MEMORY,
        source_to: BASE,
    };
    for msn in [1, 2] {
        let mut ulpdu = octets("414100000000000000010000000000000000");
        ulpdu[13] = msn;
        ulpdu.extend(request.emit());
        end.take(&ulpdu).unwrap();
    }
    // The whole first Read and 200 octets of the second are sent. Then the memory of the second is gone.
    while end.wire.len() < 5 {
        assert!(end.poll(114).is_some());
    }
    let failed = end.poll(114).unwrap();
    assert_eq!(failed.body, Body::ReadResponse { stag: MEMORY, to: BASE + 200 });
    end.wire.clear();
    end.endpoint.fail_response(Error::InvalidStag);

    let terminate = Terminate::parse(&sent(&mut end)).unwrap();
    assert_eq!(terminate.to_string(), "RDMAP remote protection: invalid STag (0/1/00)");
    assert_eq!(terminate.segment_len, Some(46));
    assert_eq!(terminate.ddp_header, octets("414100000000000000010000000200000000")[..]);
    let left = ReadRequest::parse(&terminate.rdma_header).unwrap();
    let expected = ReadRequest { sink_to: 149, size: 100, source_to: BASE + 200, ..request };
    assert_eq!(left, expected);
    assert_eq!(end.poll(114), None);
}

#[test]
fn a_read_can_fail_in_its_last_and_in_its_only_segment() {
    for (size, sent_before, segments) in [(100, 0, 1), (150, 100, 2)] {
        let mut end = End::new(0, 1);
        end.memory = vec![7; 150];
        let request = ReadRequest { size, source_stag: MEMORY, source_to: BASE, ..ReadRequest::default() };
        end.take(&[&octets("414100000000000000010000000100000000")[..], &request.emit()].concat()).unwrap();
        for _ in 0..segments {
            assert!(end.poll(114).is_some());
        }
        end.wire.clear();
        end.endpoint.fail_response(Error::WrongStream);
        let terminate = Terminate::parse(&sent(&mut end)).unwrap();
        assert_eq!(ReadRequest::parse(&terminate.rdma_header), Ok(request.moved_on(sent_before)));
    }
}

#[test]
fn a_read_request_header_stands_alone() {
    let request = ReadRequest { size: 10, ..ReadRequest::default() };
    let mut terminate = Terminate::new(0x0, 0x1, 0x01);
    terminate.rdma_header = request.moved_on(4).emit().into_iter().collect();
    assert_eq!(terminate.emit()[..4], [0x01, 0x01, 0x20, 0x00]);
    assert_eq!(Terminate::parse(&terminate.emit()), Ok(terminate));
}

#[test]
fn errors_of_other_classes_return_less() {
    let request = ReadRequest { size: 10, ..ReadRequest::default() };
    let pending = PendingRequest { asked: Asked::Read(request), msn: 1, sent: 4 };
    assert_eq!(Terminate::for_pending(&Error::LocalCatastrophic, &pending).len(), 4);
    assert_eq!(Terminate::for_pending(&Error::StreamCatastrophic, &pending).len(), 24);
}

/// Returns the Terminate that an end sends now, without its DDP header.
fn sent(end: &mut End) -> Vec<u8> {
    assert!(end.poll(128).is_some());
    let ulpdu = end.wire.pop_front().unwrap();
    assert_eq!(ulpdu[..18], octets("414700000000000000020000000100000000"));
    ulpdu[18..].to_vec()
}

/// Without headers only the code shows the bit order. If both readings are registered, the RFC's wins and both are
/// shown.
#[test]
fn a_terminate_of_either_order_shows_both() {
    let read = |text: &str| Terminate::parse(&octets(text)).unwrap();
    let version = read("02050000");
    assert_eq!((version.layer, version.etype, version.code), (0, 2, 5));
    let other = version.other_reading().unwrap();
    assert_eq!((other.layer, other.etype, other.code, other.swapped), (2, 0, 5, true));
    assert_eq!(other.other_reading(), None);
    assert_eq!(
        version.to_string(),
        "RDMAP remote operation: invalid RDMAP version (0/2/05), or from Linux siw: MPA: local catastrophic error (2/0/05)"
    );
    let catastrophic = read("10000000");
    assert_eq!((catastrophic.layer, catastrophic.etype), (1, 0));
    assert_eq!(catastrophic.other_reading().map(|other| (other.layer, other.etype)), Some((0, 1)));
    // A bit in its place, a reserved bit, a code of one layer only, or two equal halves leave no doubt.
    for certain in ["02058000", "02050100", "02050800", "02080000", "20020000", "11000000", "00ff0000"] {
        assert_eq!(read(certain).other_reading(), None, "{certain}");
    }
}

/// Of two Writes to one buffer, the first is done. A Terminate that names its place does not blame the second.
#[test]
fn a_terminate_tells_writes_to_one_buffer_apart() {
    let mut end = End::new(0, 0);
    end.post(1, Kind::Write { stag: MEMORY, to: BASE }, vec![1; 8]);
    end.post(2, Kind::Write { stag: MEMORY, to: BASE + 8 }, vec![2; 300]);
    for _ in 0..3 {
        assert!(end.poll(64).is_some());
    }
    let culprit = |segment: usize| {
        let terminate = Terminate::from_error(&Error::AccessRights, Some(&end.wire[segment]));
        end.endpoint.culprit(&terminate)
    };
    assert_eq!([0, 1, 2].map(culprit), [None, Some(Token(2)), Some(Token(2))]);
}
