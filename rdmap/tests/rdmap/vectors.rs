//! Every computed RDMAP message, octet by octet.

use weft_ddp::{Header, Segment, Stag};
use weft_rdmap::{
    AtomicOp, AtomicRequest, AtomicResponse, Body, Error, Immediate, Kind, Opcode, ReadRequest, Terminate,
    Token,
};

use crate::{
    end::{End, SEND},
    vector_file::{fpdu_names, load, ulpdus},
};

#[test]
fn every_control_octet_is_read_and_written() {
    let file = load();
    for name in fpdu_names(&file).iter().filter(|name| *name != "term-rdmap-opcode") {
        for ulpdu in ulpdus(&file, name) {
            let header = Segment::parse(&ulpdu).unwrap().header;
            let opcode = Opcode::of(&header).unwrap();
            assert_eq!(opcode.control(), header.control(), "{name}");
            assert_eq!(opcode.is_tagged(), header.is_tagged(), "{name}");
        }
    }
}

#[test]
fn read_requests() {
    let file = load();
    let request = ReadRequest {
        sink_stag: Stag(0x200),
        sink_to: 0x2000,
        size: 8,
        source_stag: Stag(0x100),
        source_to: 0x1000,
    };
    for (name, request) in [("rreq", request), ("rreq0", ReadRequest::default())] {
        let ulpdu = &ulpdus(&file, name)[0];
        assert_eq!(ReadRequest::parse(&ulpdu[18..]), Ok(request), "{name}");
        assert_eq!(request.emit(), ulpdu[18..], "{name}");
    }
}

#[test]
fn atomics() {
    let file = load();
    let (stag, to) = (Stag(0x100), 0x1000);
    let add = AtomicOp::FetchAdd { add: 5, mask: 0 };
    let (swap, swap_mask) = (0x1111_1111_1111_1111, u64::MAX);
    let compare_swap = AtomicOp::CompareSwap { swap, swap_mask, compare: 0, compare_mask: u64::MAX };
    let add = AtomicRequest { op: add, id: 0x0A0B_0C0D, stag, to };
    let compare_swap = AtomicRequest { op: compare_swap, id: 1, stag, to };
    for (name, request) in [("atomic-fadd", add), ("atomic-cas", compare_swap)] {
        let ulpdu = &ulpdus(&file, name)[0];
        assert_eq!(AtomicRequest::parse(&ulpdu[18..]), Ok(request), "{name}");
        assert_eq!(request.emit(), ulpdu[18..], "{name}");
    }
    let response = AtomicResponse { id: 0x0A0B_0C0D, original: 0x37 };
    let ulpdu = &ulpdus(&file, "atomic-rsp")[0];
    assert_eq!(AtomicResponse::parse(&ulpdu[18..]), Ok(response));
    assert_eq!(response.emit(), ulpdu[18..]);
}

#[test]
fn immediate_data() {
    let file = load();
    for name in ["imm", "immse"] {
        let ulpdu = &ulpdus(&file, name)[0];
        let immediate = Immediate::parse(&ulpdu[18..]).unwrap();
        assert_eq!(immediate, Immediate([1, 2, 3, 4, 5, 6, 7, 8]));
        assert_eq!(immediate.emit(), ulpdu[18..]);
    }
}

#[test]
fn terminates() {
    let file = load();
    let sent = |name: &str| ulpdus(&file, name)[0].clone();
    let bad_write = [0xC1, 0x40, 0xDE, 0xAD, 0xBE, 0xEF, 0, 0, 0, 0, 0, 0, 0x10, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let bad_opcode = [0x41, 0x4C, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
    let made = [
        ("term-crc", Terminate::new(0x2, 0x0, 0x02)),
        ("term-mpa07", Terminate::new(0x2, 0x0, 0x07)),
        ("term-mpa06", Terminate::new(0x2, 0x0, 0x06)),
        ("term-localcat", Terminate::from_error(&Error::LocalCatastrophic, Some(&bad_write))),
        ("term-ddp-stag", Terminate::from_error(&Error::Ddp(weft_ddp::Error::InvalidStag), Some(&bad_write))),
        (
            "term-ddp-nobuf",
            Terminate::from_error(&Error::Ddp(weft_ddp::Error::NoBuffer), Some(&sent("send5"))),
        ),
        ("term-rdmap-bounds", Terminate::from_error(&Error::BaseOrBounds, Some(&sent("rreq")))),
        ("term-rdmap-opcode", Terminate::from_error(&Error::UnexpectedOpcode, Some(&bad_opcode))),
    ];
    for (name, terminate) in made {
        let ulpdu = sent(name);
        assert_eq!(terminate.emit(), ulpdu[18..], "{name}");
        assert_eq!(terminate.len(), ulpdu.len() - 18, "{name}");
        assert_eq!(Terminate::parse(&ulpdu[18..]).as_ref(), Ok(&terminate), "{name}");

        // An endpoint makes the whole segment too, with its header.
        let mut end = End::new(0, 0);
        end.endpoint.terminate(terminate.clone());
        assert!(end.poll(128).is_some());
        assert_eq!(end.wire, ulpdus(&file, name), "{name}");
        let mut peer = End::new(0, 0);
        peer.take(&ulpdu).unwrap();
        assert_eq!(peer.log.terminates, [terminate]);
    }
}

#[test]
fn an_endpoint_makes_the_messages() {
    let file = load();
    let invalidate = Some(Stag(0x1122_3344));
    let hello = b"hello".to_vec();
    let write = |stag, to| Kind::Write { stag: Stag(stag), to };
    for (name, kind, octets) in [
        ("send0", SEND, Vec::new()),
        ("send5", SEND, hello.clone()),
        ("send-1", SEND, b"a".to_vec()),
        ("send24z", SEND, vec![0; 24]),
        ("sendinv", Kind::Send { solicited: false, invalidate }, hello.clone()),
        ("sendse", Kind::Send { solicited: true, invalidate: None }, hello.clone()),
        ("sendseinv", Kind::Send { solicited: true, invalidate }, hello),
        ("write8", write(0x100, 0x1000), (0..8).collect()),
        ("write0", write(0, 0), Vec::new()),
        ("rreq", read(0x200, 0x2000, 0x100, 0x1000), vec![0; 8]),
        ("rreq0", read(0, 0, 0, 0), Vec::new()),
        ("m-1400", SEND, (0..1400_u16).map(|i| i.to_be_bytes()[1]).collect()),
    ] {
        let mut end = End::new(1, 1);
        end.post(7, kind, octets);
        let outbound = end.poll(64768).unwrap();
        assert_eq!(end.wire, ulpdus(&file, name), "{name}");
        let is_read = matches!(outbound.body, Body::Inline(_));
        assert_eq!(outbound.finished, (!is_read).then_some(Token(7)), "{name}");
        assert!(end.endpoint.readiness().idle);
    }
    let mut end = End::new(1, 1);
    end.post(7, SEND, b"abcdefgh".to_vec());
    assert!(end.poll(22).is_some_and(|outbound| outbound.finished.is_none()));
    assert!(end.poll(22).is_some_and(|outbound| outbound.finished == Some(Token(7))));
    assert_eq!(end.wire, ulpdus(&file, "send-2seg"));
}

#[test]
fn an_endpoint_answers_the_read_requests() {
    let file = load();
    for (request, response) in [("rreq", "rrsp"), ("rreq0", "rrsp0")] {
        let mut end = End::new(1, 1);
        end.memory = (0..8).collect();
        end.take(&ulpdus(&file, request)[0]).unwrap();
        assert!(end.poll(128).is_some());
        assert_eq!(end.wire, ulpdus(&file, response));
        assert_eq!(end.endpoint.readiness().requests_to_answer, 0);
    }
}

#[test]
fn all_segments_have_the_fields_of_the_first() {
    let mut end = End::new(1, 1);
    end.post(1, Kind::Send { solicited: true, invalidate: Some(Stag(0x1122_3344)) }, vec![0; 50]);
    end.post(2, Kind::Write { stag: Stag(5), to: u64::MAX - 9 }, vec![0; 50]);
    let headers: Vec<Header> = std::iter::from_fn(|| end.poll(28)).map(|outbound| outbound.header).collect();
    assert_eq!(headers.len(), 5 + 4);
    for header in headers {
        match header {
            Header::Untagged { control, word, queue, msn, .. } => {
                assert_eq!((control, word, queue, msn), (0x46, 0x1122_3344, 0, 1));
            }
            Header::Tagged { control, stag, .. } => assert_eq!((control, stag), (0x40, Stag(5))),
        }
    }
}

fn read(sink_stag: u32, sink_to: u64, source_stag: u32, source_to: u64) -> Kind {
    Kind::Read { sink_stag: Stag(sink_stag), sink_to, source_stag: Stag(source_stag), source_to }
}
