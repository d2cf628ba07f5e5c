//! A Write and Immediate Data behind it, as one request (RFC 7306 section 6).

use weft_ddp::Stag;
use weft_rdmap::{Body, Immediate, Kind, Terminate, Token};

use crate::end::{End, MEMORY};
use crate::turns::{ask, with_memory};
use crate::vector_file::octets;

const SEGMENT: usize = 118;

fn write(solicited: bool) -> Kind {
    Kind::WriteImmediate { stag: MEMORY, to: 0x10, solicited, data: Immediate(*b"1234\0\0\0\0") }
}

#[test]
fn the_octets_and_one_end() {
    for (solicited, control) in [(false, "48"), (true, "49")] {
        let mut end = End::new(0, 0);
        end.post(7, write(solicited), vec![0xAB; 3]);
        assert_eq!(end.poll(SEGMENT).unwrap().finished, None);
        // The message has 26 octets and is not cut.
        assert_eq!(end.poll(25), None);
        assert_eq!(end.poll(26).unwrap().finished, Some(Token(7)));
        assert_eq!(end.poll(SEGMENT), None);
        assert_eq!(end.wire[0], octets("c140000001000000000000000010ababab"));
        assert_eq!(
            end.wire[1],
            octets(&format!("41{control}00000000000000000000000100000000 3132333400000000").replace(' ', ""))
        );
    }
}

#[test]
fn an_empty_write_is_sent_too() {
    let mut end = End::new(0, 0);
    end.post(7, write(false), Vec::new());
    while end.poll(SEGMENT).is_some() {}
    assert_eq!((end.wire.len(), end.wire[0].len(), end.wire[1].len()), (2, 14, 26));
    assert_eq!(end.log.finished, [Token(7)]);
}

/// No message comes between the two, whenever and however many Reads and Atomics of the peer arrive.
#[test]
fn no_message_comes_between_write_and_immediate_data() {
    for asked_after in 0..9 {
        let mut end = with_memory();
        for token in 0..3 {
            end.post(token, write(false), vec![0; 250]);
        }
        let mut log = String::new();
        for sent in 0.. {
            if sent == asked_after {
                ask(&mut end, 1, 300);
                let mut peer = End::new(1, 0);
                let op = weft_rdmap::AtomicOp::FetchAdd { add: 1, mask: 0 };
                peer.post(1, Kind::Atomic { op, stag: MEMORY, to: crate::end::BASE }, vec![0; 8]);
                assert!(peer.poll(128).is_some());
                let mut request = peer.wire.pop_front().unwrap();
                // It is the second message on its queue.
                request[13] = 2;
                end.take(&request).unwrap();
                for msn in 3..=8 {
                    ask(&mut end, msn, 8);
                }
            }
            let Some(outbound) = end.poll(SEGMENT) else { break };
            log.push(match outbound.body {
                Body::Message { .. } => 'w',
                Body::Inline(_) => 'i',
                _ => 'a',
            });
        }
        let parts: Vec<_> = log.split('i').collect();
        assert_eq!(parts.len(), 4, "{log}");
        assert!(parts[..3].iter().all(|part| part.ends_with('w')), "{log}");
        assert_eq!(log.matches('a').count(), 3 + 1 + 6, "{log}");
    }
}

/// A Terminate about the Write blames the request until its Immediate Data is sent.
#[test]
fn a_terminate_over_the_write_finds_it() {
    let terminate = |header: &str| {
        let mut terminate = Terminate::new(0x1, 0x1, 0x00);
        terminate.ddp_header = octets(&header.replace(' ', "")).into_iter().collect();
        terminate
    };
    let second = terminate("c14000000100 0000000000000078");
    let another = terminate("c14000000101 0000000000000078");
    let mut end = End::new(0, 0);
    let kind =
        Kind::WriteImmediate { stag: Stag(0x100), to: 0x10, solicited: false, data: Immediate([0; 8]) };
    end.post(1, kind, vec![0; 200]);
    assert!(end.poll(SEGMENT).is_some());
    assert_eq!(end.endpoint.culprit(&second), None, "it has not been sent");
    assert!(end.poll(SEGMENT).is_some());
    assert!(!end.endpoint.readiness().idle);
    assert_eq!(end.endpoint.culprit(&second), Some(Token(1)));
    assert_eq!(end.endpoint.culprit(&another), None);
    assert!(end.poll(SEGMENT).is_some());
    assert_eq!(end.endpoint.culprit(&second), None, "it is completed");
}
