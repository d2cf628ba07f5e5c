//! The order in which an endpoint sends its messages.

use weft_ddp::{Header, Queue, Segment, Sender, Stag};
use weft_rdmap::{
    Body, Busy, Error, Kind, Message, Opcode, Outbound, ReadRequest, Readiness, Terminate, Token,
};

use crate::end::{BASE, End, MEMORY, SEND};

/// The octets of each segment in these tests. A tagged segment carries 4 octets more than a piece. This saves no
/// segment as long as a message has fewer than 26 pieces.
const SEGMENT: usize = 18 + PIECE;
const PIECE: usize = 100;

#[test]
fn a_send_and_a_read_response_take_turns_of_four() {
    let mut end = with_memory();
    end.post(1, SEND, vec![0; 20 * PIECE]);
    assert_eq!(order(&mut end, 6), "OOOOOO");
    ask(&mut end, 1, 20 * PIECE);
    // Our side has had its turn already, so the peer's Read goes first.
    assert_eq!(order(&mut end, 16), "AAAAOOOOAAAAOOOO");
    assert_eq!(order(&mut end, 100), "AAAAOOOOAAAAOOAAAA");
    assert_eq!(end.log.finished, [Token(1)]);
}

#[test]
fn many_small_messages_and_many_small_reads_take_turns_of_four() {
    let mut end = with_memory();
    for token in 0..10 {
        end.post(token, Kind::Write { stag: MEMORY, to: 0 }, vec![0; 8]);
    }
    for msn in 1..=10 {
        ask(&mut end, msn, 8);
    }
    assert_eq!(order(&mut end, 100), "AAAAOOOOAAAAOOOOAAOO");
}

#[test]
fn empty_messages_take_turns_too() {
    let mut end = with_memory();
    for token in 0..6 {
        end.post(token, SEND, Vec::new());
    }
    for msn in 1..=6 {
        ask(&mut end, msn, 0);
    }
    assert_eq!(order(&mut end, 100), "AAAAOOOOAAOO");
}

#[test]
fn a_write_and_a_read_response_do_not_mix() {
    let mut end = with_memory();
    end.post(1, Kind::Write { stag: MEMORY, to: 0 }, vec![0; 10 * PIECE]);
    assert_eq!(order(&mut end, 3), "OOO");
    ask(&mut end, 1, 10 * PIECE);
    end.post(2, Kind::Write { stag: MEMORY, to: 0 }, vec![0; 2 * PIECE]);
    assert_eq!(order(&mut end, 100), "OOOOOOOAAAAAAAAAAOO");
}

#[test]
fn a_long_write_waits_for_the_read_response_that_began() {
    let mut end = with_memory();
    ask(&mut end, 1, 6 * PIECE);
    ask(&mut end, 2, PIECE);
    assert_eq!(order(&mut end, 1), "A");
    end.post(1, Kind::Write { stag: MEMORY, to: 0 }, vec![0; 2 * PIECE]);
    end.post(2, SEND, vec![0; PIECE]);
    assert_eq!(order(&mut end, 100), "AAAAAOOOA");
}

#[test]
fn a_segment_that_does_not_fit_keeps_its_turn() {
    let mut end = with_memory();
    ask(&mut end, 1, 8 * PIECE);
    assert_eq!(order(&mut end, 4), "AAAA");
    end.post(1, read(8), vec![0; 8]);
    // A Read Request takes 46 octets. A response would fit, but must not overtake it for ever.
    assert_eq!(end.poll(45), None);
    assert_eq!(end.poll(45), None);
    assert_eq!(kind(&end.poll(46).unwrap()), 'O');
    assert_eq!(kind(&end.poll(15).unwrap()), 'A');
}

#[test]
fn sizes_below_the_smallest_segment_send_nothing() {
    let mut end = with_memory();
    ask(&mut end, 1, 1);
    end.endpoint.terminate(Terminate::new(0x2, 0x0, 0x02));
    assert_eq!(end.poll(21), None);
    assert!(end.poll(22).is_some());
    let mut end = with_memory();
    ask(&mut end, 1, 1);
    assert_eq!(end.poll(14), None);
    assert!(end.poll(15).is_some());
    end.post(1, SEND, vec![0]);
    assert_eq!(end.poll(18), None);
    assert!(end.poll(19).is_some_and(|outbound| outbound.finished == Some(Token(1))));
}

// Covers 5040-5.4-9, 5040-7.1-5.
#[test]
fn a_terminate_is_first_and_last() {
    let mut end = with_memory();
    end.post(1, SEND, vec![0; 20 * PIECE]);
    ask(&mut end, 1, 20 * PIECE);
    assert_eq!(order(&mut end, 6), "AAAAOO");
    let first = Terminate::from_error(&Error::InvalidVersion, None);
    end.endpoint.terminate(first.clone());
    end.endpoint.terminate(Terminate::from_error(&Error::UnexpectedOpcode, None));
    assert!(end.endpoint.is_terminating() && !end.endpoint.is_terminate_sent());
    assert!(end.endpoint.has_output());
    let outbound = end.poll(1500).unwrap();
    assert_eq!(Opcode::of(&outbound.header), Ok(Opcode::Terminate));
    // The first error is the one reported (requirement 5040-7.1-5).
    let Body::Inline(octets) = outbound.body else { panic!("a Terminate is inline") };
    assert_eq!(Terminate::parse(&octets), Ok(first.clone()));
    // Nothing comes after it, however often and for whatever reason the caller asks (requirement 5040-5.4-9).
    assert!(end.endpoint.is_terminate_sent() && !end.endpoint.has_output());
    end.endpoint.terminate(first);
    assert_eq!(end.endpoint.start(message(2, SEND)), Err(Busy));
    assert_eq!(end.poll(1500), None);
}

#[test]
fn a_second_message_waits_for_the_first() {
    let mut end = with_memory();
    assert_eq!(end.endpoint.start(message(1, SEND)), Ok(()));
    assert!(!end.endpoint.readiness().idle);
    assert_eq!(end.endpoint.start(message(2, SEND)), Err(Busy));
    assert!(end.endpoint.poll_segment(128).is_some_and(|outbound| outbound.finished == Some(Token(1))));
    assert_eq!(end.endpoint.start(message(2, SEND)), Ok(()));
}

// Covers 5040-6.1-4.
#[test]
fn reads_are_no_more_than_the_ord() {
    let mut end = End::new(2, 0);
    for token in 1..=2 {
        assert_eq!(end.endpoint.start(message(token, read(0))), Ok(()));
        let outbound = end.endpoint.poll_segment(46).unwrap();
        assert_eq!((outbound.ulpdu_len(), outbound.finished), (46, None));
    }
    let full = Readiness { idle: true, requests_outstanding: 2, requests_free: 0, requests_to_answer: 0 };
    assert_eq!(end.endpoint.readiness(), full);
    assert_eq!(end.endpoint.start(message(3, read(0))), Err(Busy));
    // Other messages do not wait for Reads.
    assert_eq!(end.endpoint.start(message(4, SEND)), Ok(()));
    assert!(end.endpoint.poll_segment(128).is_some());
    let response = crate::errors::tagged(true, 0x42, Stag(0), 0, &[]);
    end.take(&response).unwrap();
    assert_eq!(end.log.finished, [Token(1)]);
    assert_eq!(end.endpoint.start(message(3, read(0))), Ok(()));
    let full = Readiness { idle: false, ..full };
    assert_eq!(end.endpoint.readiness(), full);
}

#[test]
fn an_answer_has_a_place_ahead_of_its_turn_in_the_sink_of_any_read() {
    let mut end = End::new(2, 0);
    let ask = |end: &mut End, token, stag, size| {
        let kind = Kind::Read { sink_stag: stag, sink_to: 1000, source_stag: Stag(9), source_to: 0 };
        end.endpoint.start(Message { token: Token(token), len: size, kind }).unwrap();
        end.endpoint.poll_segment(128).unwrap();
    };
    ask(&mut end, 1, Stag(1), 100);
    ask(&mut end, 2, Stag(2), 50);
    let control = Opcode::ReadResponse.control();
    let place = |end: &End, stag, to, len| {
        let header = Header::Tagged { last: false, control, stag: Stag(stag), to };
        end.endpoint.place_ahead(&header, len).map(|place| (place.to, place.answers))
    };
    assert_eq!(place(&end, 2, 1000, 50), Some((1000, Some(Token(2)))), "not the next one");
    assert_eq!(place(&end, 1, 1060, 40), Some((1060, Some(Token(1)))), "not the next octets");
    assert_eq!(place(&end, 1, 1060, 41), None, "beyond the sink");
    assert_eq!(place(&end, 2, 999, 2), None, "before the sink");
    assert_eq!(place(&end, 3, 1000, 1), None, "another buffer");
    let answer = crate::errors::tagged(false, control, Stag(1), 1000, &[0; 60]);
    assert!(end.endpoint.accept(Segment::parse(&answer).unwrap()).is_ok());
    assert_eq!(place(&end, 1, 1059, 1), None, "octets that have come stay as they are");
    assert_eq!(place(&end, 1, 1060, 40), Some((1060, Some(Token(1)))));
    let write = Header::Tagged { last: true, control: Opcode::Write.control(), stag: Stag(7), to: 5 };
    assert_eq!(end.endpoint.place_ahead(&write, 9).map(|place| (place.to, place.answers)), Some((5, None)));
}

#[test]
fn an_end_without_storage_reads_nothing() {
    let mut end = End::new(0, 0);
    assert_eq!(end.endpoint.start(message(1, read(0))), Err(Busy));
    assert_eq!(end.endpoint.start(message(1, SEND)), Ok(()));
}

#[test]
fn a_cancelled_message_is_sent_no_further() {
    let mut end = with_memory();
    end.post(1, SEND, vec![0; 3 * PIECE]);
    assert_eq!(order(&mut end, 1), "O");
    end.endpoint.cancel_message();
    assert_eq!(order(&mut end, 9), "");
    end.endpoint.terminate(Terminate::new(0x0, 0x0, 0x00));
    assert_eq!(order(&mut end, 9), "O");
    assert!(end.log.finished.is_empty());
}

#[test]
fn cancelled_reads_are_not_answered() {
    let mut end = with_memory();
    ask(&mut end, 1, 8 * PIECE);
    ask(&mut end, 2, 8 * PIECE);
    assert_eq!(order(&mut end, 1), "A");
    end.endpoint.cancel_responses();
    assert_eq!(end.endpoint.readiness().requests_to_answer, 0);
    assert_eq!(order(&mut end, 9), "");
}

#[test]
fn an_endpoint_knows_whether_it_has_output() {
    let mut end = with_memory();
    assert!(!end.endpoint.has_output() && !end.endpoint.is_terminating());
    assert_eq!(end.endpoint.start(message(1, SEND)), Ok(()));
    assert!(end.endpoint.has_output());
    assert!(end.endpoint.poll_segment(128).is_some());
    assert!(!end.endpoint.has_output());
    ask(&mut end, 1, 1);
    assert!(end.endpoint.has_output());
    assert!(end.endpoint.poll_segment(128).is_some());
    assert!(!end.endpoint.has_output() && !end.endpoint.is_terminating());
    assert_eq!(Busy.to_string(), "the stream cannot start another message now");
}

/// A Terminate about a Send or Write in progress names it by its buffer. One about a Write that was sent blames no
/// message.
#[test]
fn a_terminate_finds_the_message_in_progress() {
    let write = Kind::Write { stag: MEMORY, to: 0 };
    let other = Kind::Write { stag: Stag(0x101), to: 0 };
    let headers = [
        ("c14000000100 0000000000000064", [Some(Token(1)), None, None]),
        ("c14000000101 0000000000000064", [None, Some(Token(1)), None]),
        // The offset of the last octet that was sent, and of the first that was not.
        ("c14000000100 0000000000000067", [Some(Token(1)), None, None]),
        ("c14000000100 0000000000000068", [None, None, None]),
        ("4143000000000000000000000001 00000064", [None, None, Some(Token(1))]),
        ("4143000000000000000000000002 00000064", [None, None, None]),
        ("4142000000000000000100000001 00000064", [None, None, None]),
    ];
    for (header, expected) in headers {
        let header = crate::vector_file::octets(&header.replace(' ', ""));
        let mut terminate = Terminate::new(0x1, 0x1, 0x00);
        terminate.ddp_header = header.into_iter().collect();
        for (kind, expected) in [write, other, SEND].into_iter().zip(expected) {
            let mut end = with_memory();
            end.post(1, kind, vec![0; 3 * PIECE]);
            assert_eq!(order(&mut end, 1), "O");
            assert_eq!(end.endpoint.culprit(&terminate), expected);
            assert_eq!(order(&mut end, 9).len(), 2);
            assert_eq!(end.endpoint.culprit(&terminate), None);
        }
    }
}

/// Sends up to `count` segments and returns a letter for each: O for own, A for an answer.
fn order(end: &mut End, count: usize) -> String {
    let segments = std::iter::from_fn(|| end.poll(SEGMENT));
    segments.take(count).map(|outbound| kind(&outbound)).collect()
}

fn kind(outbound: &Outbound) -> char {
    match outbound.body {
        Body::ReadResponse { .. } => 'A',
        _ => 'O',
    }
}

pub(crate) fn with_memory() -> End {
    let mut end = End::new(16, 16);
    end.memory = vec![0; 0x1000];
    end
}

/// Lets a Read Request of the peer arrive.
pub(crate) fn ask(end: &mut End, msn: u32, size: usize) {
    let request = ReadRequest {
        sink_stag: Stag(0xCAFE_BABE),
        sink_to: 0,
        size: u32::try_from(size).unwrap(),
        source_stag: MEMORY,
        source_to: BASE,
    };
    let mut cutter = Sender::with_msn(msn).untagged(0x41, 0, Queue::ReadRequest, 28);
    let mut ulpdu = vec![0; 18];
    cutter.next(46).unwrap().header.emit(&mut ulpdu);
    ulpdu.extend(request.emit());
    end.take(&ulpdu).unwrap();
}

fn message(token: u64, kind: Kind) -> Message {
    Message { token: Token(token), len: 0, kind }
}

fn read(sink_to: u64) -> Kind {
    Kind::Read { sink_stag: Stag(0x200), sink_to, source_stag: Stag(0x300), source_to: 0 }
}
