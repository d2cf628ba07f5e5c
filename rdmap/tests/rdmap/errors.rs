//! The errors that an endpoint finds, and the Terminates for them.

use weft_ddp as ddp;
use weft_ddp::{Header, Receiver, Segment, Stag};
use weft_rdmap::{
    Endpoint, Error, Inbound, Kind, Opcode, OutstandingRequest, PendingRequest, ReadRequest, Terminate,
};

use crate::end::{BASE, End, MEMORY};

/// Layer, type and code, then M, D and R.
type Report = ((u8, u8, u8), (bool, bool, bool));

const DDP: (bool, bool, bool) = (true, true, false);
const NONE: (bool, bool, bool) = (false, false, false);

#[test]
fn every_error_has_its_report() {
    let request = ReadRequest { size: 8, source_stag: MEMORY, source_to: BASE, ..ReadRequest::default() };
    let mut long_request = request.emit().to_vec();
    long_request.push(0);
    let request = request.emit();
    let table: &[(&str, Vec<u8>, Report)] = &[
        ("runt", vec![0x41, 0x43, 0, 0], ((0x1, 0x0, 0x00), NONE)),
        ("tagged version", with(tagged(true, 0x40, MEMORY, BASE, b"x"), 0, 0xC2), ((0x1, 0x1, 0x04), DDP)),
        ("untagged version", with(untagged(0x43, 0, b"x"), 0, 0x40), ((0x1, 0x2, 0x06), DDP)),
        ("queue", untagged(0x43, 4, b"x"), ((0x1, 0x2, 0x01), DDP)),
        ("MSN", with(untagged(0x43, 0, b"x"), 13, 2), ((0x1, 0x2, 0x03), DDP)),
        ("MO", with(untagged(0x43, 0, b"x"), 17, 1), ((0x1, 0x2, 0x04), DDP)),
        ("version 0", untagged(0x03, 0, b"x"), ((0x0, 0x2, 0x05), DDP)),
        ("version 2", untagged(0x83, 0, b"x"), ((0x0, 0x2, 0x05), DDP)),
        ("version 3", tagged(true, 0xC0, MEMORY, BASE, b"x"), ((0x0, 0x2, 0x05), DDP)),
        ("opcode", untagged(0x4F, 0, b"x"), ((0x0, 0x2, 0x06), DDP)),
        ("experimental opcode", tagged(true, 0x4F, MEMORY, BASE, b"x"), ((0x0, 0x2, 0x06), DDP)),
        ("short request", untagged(0x41, 1, &request[..27]), ((0x0, 0x2, 0x07), DDP)),
        ("long request", untagged(0x41, 1, &long_request), ((0x0, 0x2, 0x07), DDP)),
        ("request without end", with(untagged(0x41, 1, &request), 0, 0x01), ((0x0, 0x2, 0x07), DDP)),
        ("unasked response", tagged(true, 0x42, MEMORY, BASE, b"x"), ((0x0, 0x2, 0x06), DDP)),
        ("unasked empty response", tagged(true, 0x42, MEMORY, BASE, b""), ((0x0, 0x2, 0x06), DDP)),
        ("short immediate", untagged(0x48, 0, &[0; 7]), ((0x0, 0x2, 0x07), DDP)),
        ("long immediate", untagged(0x49, 0, &[0; 9]), ((0x0, 0x2, 0x07), DDP)),
        ("short atomic request", untagged(0x4A, 1, &[0; 51]), ((0x0, 0x2, 0x07), DDP)),
        ("unasked atomic response", untagged(0x4B, 3, &[0; 12]), ((0x0, 0x2, 0x06), DDP)),
        ("empty terminate", untagged(0x47, 2, &[]), ((0x0, 0x2, 0x07), DDP)),
        ("terminate in parts", with(untagged(0x47, 2, &[0x20, 2, 0, 0]), 0, 0x01), ((0x0, 0x2, 0x07), DDP)),
    ];
    for (name, ulpdu, report) in table {
        let mut end = End::new(1, 1);
        let error = end.take(ulpdu).expect_err(name);
        assert_eq!(reported(&error, ulpdu), *report, "{name}: {error}");
    }
}

/// An endpoint without RFC 7306 refuses messages that an endpoint with it takes.
// Covers 7306-1.1-4.
#[test]
fn an_endpoint_without_rfc_7306_refuses_its_opcodes() {
    let known = [untagged(0x48, 0, &[0; 8]), untagged(0x49, 0, &[0; 8]), untagged(0x4A, 1, &[0; 52])];
    for ulpdu in known {
        assert_eq!(End::new(0, 1).take(&ulpdu), Ok(()));
        let segment = Segment::parse(&ulpdu).unwrap();
        let mut old =
            Endpoint::new([OutstandingRequest::default()], [PendingRequest::default()]).without_extensions();
        assert_eq!(old.accept(segment).map(|_| ()), Err(Error::UnexpectedOpcode));
    }
}

#[test]
fn an_opcode_has_one_kind_of_segment_and_one_queue() {
    for opcode in (0..=0xB).map(|code| Opcode::parse(0x40 | code).unwrap()) {
        let control = opcode.control();
        let header = |queue| Header::Untagged { last: true, control, word: 0, queue, msn: 1, mo: 0 };
        for queue in 0..6 {
            let right = opcode.queue().is_some_and(|own| own as u32 == queue);
            let expected = if right { Ok(opcode) } else { Err(Error::UnexpectedOpcode) };
            assert_eq!(Opcode::of(&header(queue)), expected, "{opcode} on queue {queue}");
            if !right {
                let mut endpoint = Endpoint::new([], []);
                let segment = Segment { header: header(queue), payload: &[] };
                assert_eq!(endpoint.accept(segment), Err(Error::UnexpectedOpcode));
            }
        }
        let tagged = Header::Tagged { last: true, control, stag: MEMORY, to: 0 };
        let expected = if opcode.is_tagged() { Ok(opcode) } else { Err(Error::UnexpectedOpcode) };
        assert_eq!(Opcode::of(&tagged), expected, "{opcode}");
        // The reserved bits between version and opcode mean nothing.
        assert_eq!(Opcode::parse(control | 0x30), Ok(opcode));
    }
}

#[test]
fn the_table_gives_all_properties_of_an_opcode() {
    let flags = |opcode: Opcode| {
        let flags = [opcode.is_tagged(), opcode.is_send(), opcode.is_request(), opcode.is_response()];
        flags.map(u8::from)
    };
    let table = [
        ("write", None, [1, 0, 0, 0], false),
        ("read-request", Some(1), [0, 0, 1, 0], false),
        ("read-response", None, [1, 0, 0, 1], false),
        ("send", Some(0), [0, 1, 0, 0], false),
        ("send-inv", Some(0), [0, 1, 0, 0], false),
        ("send-se", Some(0), [0, 1, 0, 0], false),
        ("send-se-inv", Some(0), [0, 1, 0, 0], false),
        ("terminate", Some(2), [0, 0, 0, 0], false),
        ("immediate", Some(0), [0, 0, 0, 0], true),
        ("immediate-se", Some(0), [0, 0, 0, 0], true),
        ("atomic-request", Some(1), [0, 0, 1, 0], true),
        ("atomic-response", Some(3), [0, 0, 0, 1], true),
    ];
    assert_eq!(Opcode::ALL.len(), table.len());
    for ((number, row), &opcode) in (0_u8..).zip(table).zip(Opcode::ALL) {
        let queue = opcode.queue().map(|queue| queue as u32);
        assert_eq!((opcode.name(), queue, flags(opcode), opcode.is_extension()), row);
        assert_eq!((opcode.control(), Opcode::parse(0x40 | number)), (0x40 | number, Ok(opcode)));
    }
    for number in u8::try_from(table.len()).unwrap()..=0xF {
        assert_eq!(Opcode::parse(0x40 | number), Err(Error::UnexpectedOpcode));
    }
}

#[test]
fn protection_errors_return_the_read_request() {
    let request = ReadRequest { size: 8, source_stag: Stag(0xBAD), ..ReadRequest::default() }.emit();
    let ulpdu = untagged(0x41, 1, &request);
    for error in [
        Error::InvalidStag,
        Error::BaseOrBounds,
        Error::AccessRights,
        Error::WrongStream,
        Error::ToWrap,
        Error::RemoteProtection,
    ] {
        assert_eq!(reported(&error, &ulpdu), (error.code(), (true, true, true)));
        let terminate = Terminate::from_error(&error, Some(&ulpdu));
        assert_eq!(terminate.segment_len, Some(46));
        assert_eq!(terminate.ddp_header, ulpdu[..18]);
        assert_eq!(terminate.rdma_header, request);
    }
    // Other messages have no RDMA header to return.
    let send = untagged(0x44, 0, &request);
    assert_eq!(reported(&Error::CannotInvalidate, &send), ((0x0, 0x1, 0x09), DDP));
    let write = tagged(true, 0x40, MEMORY, BASE, &request);
    assert_eq!(reported(&Error::AccessRights, &write), ((0x0, 0x1, 0x02), DDP));
    assert_eq!(Terminate::from_error(&Error::AccessRights, Some(&write)).ddp_header, write[..14]);
}

#[test]
fn codes_are_those_of_the_rfc() {
    let table = [
        (Error::Ddp(ddp::Error::InvalidQueue), (0x1, 0x2, 0x01)),
        (Error::LocalCatastrophic, (0x0, 0x0, 0x00)),
        (Error::InvalidStag, (0x0, 0x1, 0x00)),
        (Error::BaseOrBounds, (0x0, 0x1, 0x01)),
        (Error::AccessRights, (0x0, 0x1, 0x02)),
        (Error::WrongStream, (0x0, 0x1, 0x03)),
        (Error::ToWrap, (0x0, 0x1, 0x04)),
        (Error::CannotInvalidate, (0x0, 0x1, 0x09)),
        (Error::RemoteProtection, (0x0, 0x1, 0xFF)),
        (Error::InvalidVersion, (0x0, 0x2, 0x05)),
        (Error::UnexpectedOpcode, (0x0, 0x2, 0x06)),
        (Error::StreamCatastrophic, (0x0, 0x2, 0x07)),
        (Error::GlobalCatastrophic, (0x0, 0x2, 0x08)),
        (Error::RemoteOperation, (0x0, 0x2, 0xFF)),
    ];
    for (error, code) in table {
        assert_eq!(error.code(), code);
        let text = error.to_string();
        assert!(!text.is_empty() && !text.contains('\n'));
        // An error that DDP found has DDP's text, too.
        let source = std::error::Error::source(&error).map(ToString::to_string);
        assert_eq!(source, matches!(error, Error::Ddp(_)).then_some(text));
    }
}

// Covers 5040-6.1-5.
#[test]
fn more_read_requests_than_the_ird_have_no_buffer() {
    let request = ReadRequest { size: 8, source_stag: MEMORY, source_to: BASE, ..ReadRequest::default() };
    let ulpdu = |msn: u8| with(untagged(0x41, 1, &request.emit()), 13, msn);
    for ird in 0..4_u8 {
        let mut end = End::new(0, ird.into());
        for msn in 1..=ird {
            end.take(&ulpdu(msn)).unwrap();
        }
        let error = end.take(&ulpdu(ird + 1)).unwrap_err();
        assert_eq!(error, ddp::Error::NoBuffer.into());
        assert_eq!(reported(&error, &ulpdu(ird + 1)), ((0x1, 0x2, 0x02), DDP));
    }
    // A slot is free again after the last segment of its answer, and not before.
    let mut end = End::new(0, 1);
    end.memory = vec![0; 8];
    end.take(&ulpdu(1)).unwrap();
    assert!(end.poll(14 + 7).is_some());
    assert_eq!(end.endpoint.readiness().requests_to_answer, 1);
    assert!(end.poll(14 + 7).is_some());
    end.take(&ulpdu(2)).unwrap();
}

#[test]
fn a_response_answers_the_oldest_read_exactly() {
    let wrong_stag = ddp::Error::InvalidStag.into();
    let out_of_bounds: Error = ddp::Error::BaseOrBounds.into();
    // For a Read of 8 octets, each case has segments that are right, then the wrong one.
    let first = tagged(false, 0x42, MEMORY, BASE, b"abcd");
    let cases = [
        ("other STag", vec![], tagged(true, 0x42, Stag(0x101), BASE, b"abcdefgh"), wrong_stag),
        ("other TO", vec![], tagged(true, 0x42, MEMORY, BASE + 1, b"abcdefgh"), out_of_bounds),
        ("too long", vec![], tagged(true, 0x42, MEMORY, BASE, b"abcdefghi"), out_of_bounds),
        ("ends early", vec![], tagged(true, 0x42, MEMORY, BASE, b"abcdefg"), Error::StreamCatastrophic),
        ("ends empty", vec![], tagged(true, 0x42, MEMORY, BASE, b""), Error::StreamCatastrophic),
        ("STag changes", vec![&first], tagged(true, 0x42, Stag(1), BASE + 4, b"efgh"), wrong_stag),
        ("TO repeats", vec![&first], tagged(true, 0x42, MEMORY, BASE, b"efgh"), out_of_bounds),
        ("TO jumps", vec![&first], tagged(true, 0x42, MEMORY, BASE + 5, b"fgh"), out_of_bounds),
        ("grows too long", vec![&first], tagged(true, 0x42, MEMORY, BASE + 4, b"efghi"), out_of_bounds),
        ("stops", vec![&first], tagged(true, 0x42, MEMORY, BASE + 4, b"efg"), Error::StreamCatastrophic),
    ];
    for (name, fine, bad, error) in cases {
        let mut end = reader(8);
        for ulpdu in fine {
            end.take(ulpdu).unwrap();
        }
        assert_eq!(end.take(&bad), Err(error), "{name}");
        assert_eq!(end.endpoint.readiness().requests_outstanding, 1, "{name}");
        assert_eq!(reported(&error, &bad).1, DDP, "{name}");
    }

    let mut end = reader(8);
    end.take(&first).unwrap();
    end.take(&tagged(true, 0x42, MEMORY, BASE + 4, b"efgh")).unwrap();
    assert_eq!(end.memory, b"abcdefgh");
    // The Read is answered, so the same response again answers no request.
    assert_eq!(end.take(&first), Err(Error::UnexpectedOpcode));
}

#[test]
fn a_response_may_end_with_an_empty_segment() {
    let mut end = reader(4);
    end.take(&tagged(false, 0x42, MEMORY, BASE, b"abcd")).unwrap();
    assert!(end.log.finished.is_empty());
    // Neither STag nor TO mean anything without payload (requirement 5041-5.2-11).
    end.take(&tagged(true, 0x42, Stag(0xFFFF_FFFF), u64::MAX, b"")).unwrap();
    assert_eq!(end.log.finished.len(), 1);
}

#[test]
fn an_answer_before_the_request_is_refused() {
    let mut end = End::new(1, 0);
    end.post(
        1,
        Kind::Read { sink_stag: MEMORY, sink_to: BASE, source_stag: MEMORY, source_to: 0 },
        Vec::new(),
    );
    // The Read is started, but 45 octets do not hold its request.
    assert_eq!(end.poll(45), None);
    assert_eq!(end.endpoint.readiness().requests_outstanding, 1);
    assert_eq!(end.take(&tagged(true, 0x42, MEMORY, BASE, b"")), Err(Error::UnexpectedOpcode));
}

#[test]
fn messages_without_octets_name_no_buffer() {
    // Linux siw opens a peer-to-peer stream with the first of these. The others have any other STag and TO.
    for (stag, to) in [(Stag(1), 0), (Stag(0), 0), (Stag(u32::MAX), u64::MAX)] {
        let write = tagged(true, 0x40, stag, to, b"");
        let mut end = End::new(1, 1);
        let segment = Receiver::new(3).accept(&write).unwrap();
        let inbound = end.endpoint.accept(segment);
        assert_eq!(inbound, Ok(Inbound::Write { stag, to, payload: &[], last: true }));

        let mut end = reader(0);
        end.take(&tagged(true, 0x42, stag, to, b"")).unwrap();
        assert_eq!(end.log.finished.len(), 1);

        let mut end = End::new(0, 1);
        let request = ReadRequest { sink_stag: stag, sink_to: to, size: 0, source_stag: stag, source_to: to };
        end.take(&untagged(0x41, 1, &request.emit())).unwrap();
        assert!(end.poll(14).is_some());
        assert_eq!(end.wire, [tagged(true, 0x42, stag, to, b"")]);
    }
    let mut end = End::new(0, 0);
    end.take(&untagged(0x43, 0, b"")).unwrap();
    assert_eq!(end.log.sends, [b""]);
}

#[test]
fn the_last_segment_of_a_send_tells_its_kind_and_length() {
    for (control, solicited, invalidates) in
        [(0x43, false, false), (0x44, false, true), (0x45, true, false), (0x46, true, true)]
    {
        let mut ulpdu = untagged(control, 0, b"hello");
        ulpdu[2..6].copy_from_slice(&0x1122_3344_u32.to_be_bytes());
        let segment = Segment::parse(&ulpdu).unwrap();
        let mut endpoint = Endpoint::new([], []);
        let Ok(Inbound::Send { last: Some(end), .. }) = endpoint.accept(segment) else { panic!("no Send") };
        let invalidate = invalidates.then_some(Stag(0x1122_3344));
        assert_eq!((end.len, end.opcode.is_solicited(), end.invalidate), (5, solicited, invalidate));
    }
}

// Covers 5040-5.4-3.
#[test]
fn a_stream_has_one_terminate() {
    let terminate = untagged(0x47, 2, &[0x20, 0x02, 0, 0]);
    let mut end = End::new(0, 0);
    end.take(&terminate).unwrap();
    assert_eq!(end.log.terminates, [Terminate::new(0x2, 0x0, 0x02)]);
    assert_eq!(end.take(&terminate), Err(ddp::Error::MsnRange.into()));
    assert_eq!(end.take(&with(terminate, 13, 2)), Err(ddp::Error::NoBuffer.into()));
}

#[test]
fn an_impossible_message_offset_is_too_long() {
    // DDP's receiver stops this earlier, but the endpoint does not rely on it.
    let header = Header::Untagged { last: true, control: 0x43, word: 0, queue: 0, msn: 1, mo: u32::MAX };
    let mut endpoint = Endpoint::new([], []);
    let too_long = Err(ddp::Error::TooLong.into());
    assert_eq!(endpoint.accept(Segment { header, payload: b"x" }), too_long);
}

/// Returns an end that has asked for `size` octets into the start of its memory.
fn reader(size: usize) -> End {
    let mut end = End::new(1, 1);
    end.memory = vec![0; size];
    let kind = Kind::Read { sink_stag: MEMORY, sink_to: BASE, source_stag: Stag(7), source_to: 0 };
    end.post(1, kind, vec![0; size]);
    assert!(end.poll(46).is_some());
    end
}

fn reported(error: &Error, ulpdu: &[u8]) -> Report {
    let octets = Terminate::from_error(error, Some(ulpdu)).emit();
    let bit = |mask| octets[2] & mask != 0;
    ((octets[0] >> 4, octets[0] & 0xF, octets[1]), (bit(0x80), bit(0x40), bit(0x20)))
}

pub(crate) fn tagged(last: bool, control: u8, stag: Stag, to: u64, payload: &[u8]) -> Vec<u8> {
    build(Header::Tagged { last, control, stag, to }, payload)
}

/// Returns the first and only segment of the first message on a queue.
fn untagged(control: u8, queue: u32, payload: &[u8]) -> Vec<u8> {
    build(Header::Untagged { last: true, control, word: 0, queue, msn: 1, mo: 0 }, payload)
}

fn build(header: Header, payload: &[u8]) -> Vec<u8> {
    let mut ulpdu = vec![0; header.len()];
    header.emit(&mut ulpdu);
    ulpdu.extend_from_slice(payload);
    ulpdu
}

fn with(mut ulpdu: Vec<u8>, index: usize, octet: u8) -> Vec<u8> {
    ulpdu[index] = octet;
    ulpdu
}
