//! Immediate Data and Atomics (RFC 7306) between two endpoints, and against octets.

use weft_ddp::Receiver;
use weft_rdmap::{AtomicOp, Body, Busy, Error, Immediate, Inbound, Kind, Message, Token};

use crate::end::{BASE, End, MEMORY, SEND};
use crate::vector_file::octets;

const ADD_FIVE: Kind = Kind::Atomic { op: AtomicOp::FetchAdd { add: 5, mask: 0 }, stag: MEMORY, to: BASE };

fn read(size_goes_with_the_message: u64) -> Kind {
    let sink_to = BASE + size_goes_with_the_message;
    Kind::Read { sink_stag: MEMORY, sink_to, source_stag: MEMORY, source_to: BASE }
}

fn immediate(solicited: bool) -> Kind {
    Kind::Immediate { solicited, data: Immediate(*b"12345678") }
}

/// Returns the only segment that `end` sends now.
fn only(end: &mut End, max_ulpdu: usize) -> Vec<u8> {
    assert!(end.poll(max_ulpdu).is_some());
    assert_eq!(end.poll(max_ulpdu), None);
    end.wire.pop_front().unwrap()
}

// Covers 7306-4.1-1, 7306-4.1-2, 7306-4.1-3, 7306-6.3-6.
#[test]
fn the_octets_of_immediate_data() {
    let mut end = End::new(0, 0);
    for (msn, solicited, opcode) in [(1, false, "48"), (2, true, "49")] {
        end.post(7, immediate(solicited), Vec::new());
        // The message has 26 octets and is not cut.
        assert_eq!(end.poll(25), None);
        let ulpdu = only(&mut end, 26);
        let header = format!("41{opcode}0000000000000000{msn:08x}00000000");
        assert_eq!(ulpdu, [&octets(&header)[..], b"12345678"].concat());
    }
    assert_eq!(end.log.finished, [Token(7), Token(7)]);
}

// Covers 7306-5.2.1-3, 7306-5.2.1-6, 7306-5.2.1-12, 7306-10-1.
#[test]
fn the_octets_of_atomic_requests() {
    let mut end = End::new(2, 0);
    end.post(0x0001_0A0B_0C0D, ADD_FIVE, vec![0; 8]);
    assert_eq!(end.poll(69), None);
    let add = "414a00000000000000010000000100000000 00000000 0a0b0c0d 00000100 0000000000001000
               0000000000000005 0000000000000000 0000000000000000 ffffffffffffffff";
    assert_eq!(only(&mut end, 70), octets(&add.replace(char::is_whitespace, "")));
    let op = AtomicOp::CompareSwap { swap: 1, swap_mask: 2, compare: 3, compare_mask: 4 };
    end.post(2, Kind::Atomic { op, stag: MEMORY, to: BASE }, vec![0; 8]);
    let swap = "414a00000000000000010000000200000000 00000002 00000002 00000100 0000000000001000
                0000000000000001 0000000000000002 0000000000000003 0000000000000004";
    assert_eq!(only(&mut end, 70), octets(&swap.replace(char::is_whitespace, "")));
    // Atomics are done when the answers have come.
    assert_eq!(end.log.finished, []);
}

// Covers 7306-5.2-3, 7306-5.2-1.
#[test]
fn atomics_and_reads_share_ord_and_message_numbers() {
    let mut end = End::new(2, 0);
    end.post(1, read(0), vec![0; 8]);
    end.post(2, ADD_FIVE, vec![0; 8]);
    end.post(3, ADD_FIVE, vec![0; 8]);
    assert!(end.poll(128).is_some() && end.poll(128).is_some());
    let readiness = end.endpoint.readiness();
    assert_eq!((readiness.requests_outstanding, readiness.requests_free), (2, 0));
    assert_eq!(end.poll(128), None);
    let another = Message { token: Token(4), len: 8, kind: ADD_FIVE };
    assert_eq!(end.endpoint.start(another), Err(Busy));
    let numbers: Vec<u8> = end.wire.iter().map(|ulpdu| ulpdu[13]).collect();
    assert_eq!(numbers, [1, 2]);
    assert!(end.wire.iter().all(|ulpdu| ulpdu[9] == 1));
    // Messages that take no request slot still go out.
    assert_eq!(end.endpoint.start(Message { token: Token(5), len: 0, kind: immediate(false) }), Ok(()));
}

/// The responses of both kinds come in the order of the requests. Each Atomic is done when its answer is due.
// Covers 7306-7-5, 7306-7-6, 7306-5.2.2-10, 7306-5.2.1-15.
#[test]
fn responses_of_both_kinds_keep_the_order_of_the_requests() {
    let (mut left, mut right) = (End::new(4, 0), End::new(0, 4));
    left.memory = vec![0; 16];
    right.memory = 0x37_u64.to_be_bytes().to_vec();
    left.post(1, ADD_FIVE, vec![0; 8]);
    left.post(2, read(0), vec![0; 8]);
    let op = AtomicOp::CompareSwap { swap: 9, swap_mask: !0, compare: 0x3C, compare_mask: !0 };
    left.post(3, Kind::Atomic { op, stag: MEMORY, to: BASE }, vec![0; 8]);
    left.post(4, read(8), vec![0; 8]);
    while left.poll(128).is_some() {}
    for ulpdu in std::mem::take(&mut left.wire) {
        right.take(&ulpdu).unwrap();
    }
    // No Atomic is done yet.
    assert_eq!((right.memory.as_slice(), right.log.atomics.len()), (&0x37_u64.to_be_bytes()[..], 2));
    let mut controls = Vec::new();
    for value in [0x3C_u64, 0x3C, 9, 9] {
        let ulpdu = {
            assert!(right.poll(128).is_some());
            right.wire.pop_front().unwrap()
        };
        assert_eq!(right.memory, value.to_be_bytes());
        controls.push(ulpdu[1]);
        left.take(&ulpdu).unwrap();
    }
    assert_eq!(controls, [0x4B, 0x42, 0x4B, 0x42]);
    assert_eq!(left.log.finished, [Token(1), Token(2), Token(3), Token(4)]);
    assert_eq!(left.log.originals, [0x37, 0x3C]);
    assert_eq!(left.memory, [0x3C_u64.to_be_bytes(), 9_u64.to_be_bytes()].concat());
}

/// An Atomic Response may come between the segments of a Write, unlike a Read Response.
#[test]
fn an_atomic_response_does_not_wait_for_a_write() {
    let mut end = End::new(0, 1);
    end.memory = vec![0; 8];
    end.post(1, Kind::Write { stag: MEMORY, to: 0 }, vec![0; 1000]);
    assert!(end.poll(114).is_some());
    let request = End::new(1, 0);
    let mut request = request;
    request.post(1, ADD_FIVE, vec![0; 8]);
    end.take(&only(&mut request, 128)).unwrap();
    let kinds: Vec<bool> = std::iter::from_fn(|| end.poll(114))
        .map(|outbound| matches!(outbound.body, Body::AtomicResponse(_)))
        .collect();
    let at = kinds.iter().position(|&is_answer| is_answer).unwrap();
    assert!(at < 4 && kinds.len() == 10, "{kinds:?}");
}

// Covers 7306-5.2.2-9, 7306-5-6, 7306-6.3-8.
#[test]
fn answers_without_a_request_are_refused() {
    let response = "414b00000000000000030000000100000000";
    let cases = [
        // A response without a request.
        (0, format!("{response}000000010000000000000037"), Error::UnexpectedOpcode),
        // A response with another identifier.
        (1, format!("{response}000000020000000000000037"), Error::StreamCatastrophic),
        (1, format!("{response}0000000100000000000000"), Error::StreamCatastrophic),
        (1, format!("{response}00000001000000000000003700"), Error::StreamCatastrophic),
        (1, format!("01{}000000010000000000000037", &response[2..]), Error::StreamCatastrophic),
        // A Read Response, while the next answer has to be an Atomic's.
        (1, "c142000001000000000000001000".into(), Error::UnexpectedOpcode),
        // Immediate Data of another length.
        (
            0,
            "414800000000000000000000000100000000 01020304050607".replace(' ', ""),
            Error::StreamCatastrophic,
        ),
        (0, "414900000000000000000000000100000000010203040506070809".into(), Error::StreamCatastrophic),
        (0, "414800000000000000000000000100000000".into(), Error::StreamCatastrophic),
    ];
    for (asked, ulpdu, error) in cases {
        let mut end = End::new(1, 1);
        if asked == 1 {
            end.post(1, ADD_FIVE, vec![0; 8]);
            assert!(end.poll(128).is_some());
        }
        assert_eq!(end.take(&octets(&ulpdu)), Err(error), "{ulpdu}");
        assert_eq!((end.log.finished.len(), end.log.immediates.len()), (0, 0));
    }
    // An Atomic Response, while the next answer has to be a Read's.
    let mut end = End::new(1, 0);
    end.post(1, read(0), vec![0; 8]);
    assert!(end.poll(128).is_some());
    let ulpdu = octets(&format!("{response}000000010000000000000037"));
    assert_eq!(end.take(&ulpdu), Err(Error::UnexpectedOpcode));
}

// Covers 7306-5.2.1-8, 7306-4.1-4.
#[test]
fn each_atomic_takes_one_slot_of_the_ird() {
    let mut end = End::new(0, 2);
    end.memory = vec![0; 8];
    // The Invalidate STag field and the reserved bits of the operation are ignored.
    let ask = |msn: u8| {
        octets(&format!(
            "414affffffff00000001000000{msn:02x}00000000fffffff00000000100000100000000000000100000000000000000050000000000000000\
             00000000000000000000000000000000"
        ))
    };
    assert_eq!(end.take(&ask(1)), Ok(()));
    assert_eq!(end.take(&ask(2)), Ok(()));
    assert_eq!(end.take(&ask(3)), Err(Error::Ddp(weft_ddp::Error::NoBuffer)));
    assert_eq!(end.log.atomics.len(), 2);
    assert_eq!(end.log.atomics[0].op, AtomicOp::FetchAdd { add: 5, mask: 0 });
}

/// Immediate Data is in line with Sends, and the upper layer gets the flag of the control octet.
#[test]
fn immediate_data_arrives_among_sends() {
    let (mut left, mut right) = (End::new(0, 0), End::new(0, 0));
    left.post(1, SEND, b"before".to_vec());
    left.post(2, immediate(true), Vec::new());
    left.post(3, immediate(false), Vec::new());
    left.post(4, SEND, b"behind".to_vec());
    while left.poll(128).is_some() {}
    let numbers: Vec<u8> = left.wire.iter().map(|ulpdu| ulpdu[13]).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    for ulpdu in std::mem::take(&mut left.wire) {
        right.take(&ulpdu).unwrap();
    }
    let data = Immediate(*b"12345678");
    assert_eq!(right.log.immediates, [(data, true), (data, false)]);
    assert_eq!(right.log.sends, [b"before".to_vec(), b"behind".to_vec()]);
}

/// The memory of an Atomic is gone when its answer is due: the Terminate has the request's DDP header, no RDMA
/// header.
// Covers 7306-8.1-2.
#[test]
fn an_atomic_that_fails_late_returns_its_ddp_header() {
    let mut end = End::new(0, 1);
    end.memory = vec![0; 8];
    let mut peer = End::new(1, 0);
    peer.post(1, ADD_FIVE, vec![0; 8]);
    end.take(&only(&mut peer, 128)).unwrap();
    assert!(end.poll(128).is_some());
    end.wire.clear();
    end.endpoint.fail_response(Error::InvalidStag);
    let header = "414a00000000000000010000000100000000";
    let expected = octets(&format!("4147000000000000000200000001000000000100c0000046{header}"));
    assert_eq!(only(&mut end, 128), expected);
}

/// The peer's Terminate names the Atomic by its message number.
#[test]
fn a_terminate_finds_the_atomic_it_complains_about() {
    let mut end = End::new(3, 0);
    for token in 1..=3 {
        end.post(token, ADD_FIVE, vec![0; 8]);
        assert!(end.poll(128).is_some());
    }
    let header = "414a00000000000000010000000200000000";
    let octets =
        octets(&format!("414700000000000000020000000100000000 0207c0000046{header}").replace(' ', ""));
    let segment = Receiver::new(4).accept(&octets).unwrap();
    let Ok(Inbound::Terminate(terminate)) = end.endpoint.accept(segment) else { panic!("no Terminate") };
    assert_eq!(end.endpoint.culprit(&terminate), Some(Token(2)));
}

/// The Terminate also finds the request after the list has wrapped in its storage, at every length.
#[test]
fn a_terminate_finds_the_request_around_the_end_of_the_list() {
    let answer =
        |msn: u32| octets(&format!("414b000000000000000300000{msn:03x}00000000{msn:08x}0000000000000000"));
    for done in 1..7_u32 {
        let mut end = End::new(3, 0);
        for token in 1..=done + 3 {
            end.post(token.into(), ADD_FIVE, vec![0; 8]);
            while end.poll(128).is_some() {}
            if token <= done {
                end.take(&answer(token)).unwrap();
            }
        }
        for msn in done + 1..=done + 3 {
            let mut terminate = weft_rdmap::Terminate::new(0x0, 0x2, 0x07);
            let header = octets(&format!("414a00000000000000010000{msn:04x}00000000"));
            terminate.ddp_header = header.into_iter().collect();
            assert_eq!(end.endpoint.culprit(&terminate), Some(Token(msn.into())), "{done} done");
        }
    }
}
