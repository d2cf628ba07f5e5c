//! MPA's startup of a ULP's stream, octet by octet.

use weft_conform::octets::{bare_terminate, fpdu, hex};
use weft_mpa::{Config, Error, StartupError};
use weft_netif::LlpState;
use weft_rnic::ConnectFailure;
use weft_rnic::ulp::{Agreement, AnswerError, Association, DdpStream, Startup, StartupEvent};

use crate::line::{Line, LineConfig, plain};

const KEY_OF_REQUEST: &str = "4D504120494420526571204672616D65";
const KEY_OF_REPLY: &str = "4D504120494420526570204672616D65";

fn line() -> Line {
    Line::new(LineConfig::default())
}

/// Runs one end's startup against octets of the other end. Returns the events, the error that ended them, and the
/// octets.
fn run(line: &mut Line, startup: &mut Startup) -> (Vec<StartupEvent>, Option<ConnectFailure>, Vec<u8>) {
    let (mut events, mut failure, mut octets) = (Vec::new(), None, Vec::new());
    line.settle(|line| {
        match startup.poll(&mut line.llp(0)) {
            Ok(event) => events.extend(event),
            Err(error) => failure = Some(error),
        }
        let mut llp = line.llp(1);
        while let len @ 1.. = llp.readable().len() {
            octets.extend_from_slice(llp.readable());
            llp.consume(len);
        }
    });
    (events, failure, octets)
}

// Covers 5044-7.1.1-20, 5044-7.1.2-11, 5044-7.1.2-14.
#[test]
fn an_initiator_sends_its_request_and_takes_the_reply_octet_by_octet() {
    let mut line = line();
    let mut startup = Startup::initiator(plain(true, true), b"hello").unwrap();
    let (events, failure, octets) = run(&mut line, &mut startup);
    assert_eq!((events, failure), (vec![], None));
    assert_eq!(octets, hex(&format!("{KEY_OF_REQUEST} C0 01 0005 68656C6C6F")));
    // Octets behind the Reply belong to the stream, and stay in TCP.
    let reply = hex(&format!("{KEY_OF_REPLY} 00 01 0003 616263 0012"));
    for (sent, octet) in reply.iter().enumerate() {
        assert_eq!(line.llp(1).send_slice(&[*octet]), 1);
        let (events, failure, _) = run(&mut line, &mut startup);
        assert_eq!(failure, None);
        let whole = sent == 22;
        assert_eq!(events.len(), usize::from(whole), "octet {sent}");
        for event in events {
            let StartupEvent::Established(agreement) = event else { panic!("{event:?}") };
            let Agreement { negotiated, initiator, peer_depths, private_data } = agreement;
            assert_eq!((initiator, peer_depths, &private_data[..]), (true, None, &b"abc"[..]));
            assert!(negotiated.crc && negotiated.receive_markers && !negotiated.send_markers);
        }
    }
    let mut rest = [0; 9];
    assert_eq!((line.llp(0).peek(&mut rest), &rest[..2]), (2, &hex("0012")[..]));
}

// Covers 5044-7.1.2-18, 6581-9.1-2.
#[test]
fn a_ulp_decides_whether_its_responder_accepts() {
    for accepts in [true, false] {
        let mut line = line();
        let mut startup = Startup::responder(Config::default());
        assert_eq!(startup.accept([1, 1], b""), Err(AnswerError::NothingAsked));
        let request = hex(&format!("{KEY_OF_REQUEST} 50 02 0006 0008 0004 6869 FFFF"));
        assert_eq!(line.llp(1).send_slice(&request), request.len());
        let (events, failure, octets) = run(&mut line, &mut startup);
        let asked = StartupEvent::Requested {
            revision: 2,
            ird: Some(8),
            ord: Some(4),
            private_data: b"hi"[..].into(),
        };
        assert_eq!((events, failure, &octets[..]), (vec![asked], None, &b""[..]));
        let too_long = StartupError::PrivateDataTooLong { len: 509, max: 508 };
        assert_eq!(startup.accept([4, 2], &[0; 509]), Err(AnswerError::Frame(too_long)));
        assert_eq!(startup.reject(&[0; 509]), Err(AnswerError::Frame(too_long)));
        let flags = if accepts { 0x50 } else { 0x70 };
        if accepts {
            startup.accept([4, 2], b"yes").unwrap();
        } else {
            startup.reject(b"no!").unwrap();
        }
        assert_eq!(startup.reject(b""), Err(AnswerError::NothingAsked));
        let (events, failure, octets) = run(&mut line, &mut startup);
        assert_eq!(failure, None);
        assert_eq!(octets[..20], hex(&format!("{KEY_OF_REPLY} {flags:02X} 02 0007")));
        assert_eq!(&octets[24..], if accepts { b"yes" } else { b"no!" });
        match &events[..] {
            [StartupEvent::Established(agreement)] if accepts => {
                let negotiated = agreement.negotiated;
                assert_eq!((negotiated.ird, negotiated.ord, agreement.initiator), (4, 2, false));
                assert_eq!((agreement.peer_depths, &agreement.private_data[..]), (Some((8, 4)), &b"hi"[..]));
                assert_eq!(octets[20..24], hex("0004 0002"));
            }
            [StartupEvent::RejectionSent] if !accepts => {}
            other => panic!("{other:?}"),
        }
        // TCP is open, also after a rejection, and octets behind the Request belong to the ULP.
        assert_eq!(line.llp(1).state(), LlpState::Established);
        assert_eq!(line.llp(0).readable(), hex("FFFF"));
    }
}

// Covers 5044-7.1.2-13, 6581-9.1-12.
#[test]
fn a_rejected_initiator_keeps_tcp() {
    let mut line = line();
    let mut startup = Startup::initiator(Config::default(), b"").unwrap();
    let reply = hex(&format!("{KEY_OF_REPLY} 70 02 0006 0001 0002 6E6F"));
    assert_eq!(line.llp(1).send_slice(&reply), reply.len());
    let (events, failure, _) = run(&mut line, &mut startup);
    let rejected = StartupEvent::Rejected { ird: Some(1), ord: Some(2), private_data: b"no"[..].into() };
    assert_eq!((events, failure), (vec![rejected], None));
    assert_eq!(line.llp(1).state(), LlpState::Established);
}

// Covers 5044-7.1.2-12, 5044-7.1.2-16.
#[test]
fn a_malformed_frame_closes_tcp() {
    let frames = [
        (false, format!("{KEY_OF_REQUEST} 40 01 0000"), StartupError::Key),
        (true, format!("{KEY_OF_REPLY} 40 01 0000"), StartupError::Key),
        (true, format!("{KEY_OF_REQUEST} 40 03 0000"), StartupError::Revision(3)),
        (
            true,
            format!("{KEY_OF_REQUEST} 40 01 0201"),
            StartupError::PrivateDataTooLong { len: 513, max: 512 },
        ),
    ];
    for (responder, frame, error) in frames {
        let mut line = line();
        let mut startup = if responder {
            Startup::responder(Config::default())
        } else {
            Startup::initiator(plain(true, false), b"").unwrap()
        };
        assert!(line.llp(1).send_slice(&hex(&frame)) > 0);
        let (events, failure, _) = run(&mut line, &mut startup);
        assert_eq!(events, []);
        assert_eq!(failure, Some(ConnectFailure::Protocol(Error::Startup(error))));
        assert_eq!(line.llp(1).state(), LlpState::PeerClosed);
        assert_eq!(startup.poll(&mut line.llp(0)), Ok(None), "it is over");
    }
}

/// A Reply with terms that cannot be met: the first and last FPDU is a Terminate.
// Covers 6581-9.1-10, 6581-9.2-10.
#[test]
fn terms_that_cannot_be_met_are_answered_by_a_terminate() {
    let config = Config { ird: 2, ord: 2, ..Config::default() };
    let asks_too_much = format!("{KEY_OF_REPLY} 50 02 0004 0002 0003");
    let wants_to_start = format!("{KEY_OF_REPLY} 50 02 0004 8002 0002");
    for (reply, error, code) in
        [(asks_too_much, Error::InsufficientIrd, "2006"), (wants_to_start, Error::NoRtr, "2007")]
    {
        let mut line = line();
        let mut startup = Startup::initiator(config, b"").unwrap();
        assert!(line.llp(1).send_slice(&hex(&reply)) > 0);
        let (_, failure, octets) = run(&mut line, &mut startup);
        assert_eq!(failure, Some(ConnectFailure::Protocol(error)));
        assert_eq!(octets[24..], fpdu(&bare_terminate(code)));
        assert_eq!(line.llp(1).state(), LlpState::PeerClosed);
    }
}

#[test]
fn a_peer_that_leaves_fails_the_connection() {
    for responder in [true, false] {
        let mut line = line();
        let mut startup = if responder {
            Startup::responder(Config::default())
        } else {
            Startup::initiator(Config::default(), b"").unwrap()
        };
        line.llp(1).shutdown();
        assert_eq!(run(&mut line, &mut startup).1, Some(ConnectFailure::Closed));
    }
    let mut line = line();
    let mut startup = Startup::responder(Config::default());
    assert!(line.llp(1).send_slice(&hex(&format!("{KEY_OF_REQUEST} 40 01 0000"))) > 0);
    assert!(matches!(run(&mut line, &mut startup).0[..], [StartupEvent::Requested { .. }]));
    line.llp(1).abort();
    assert_eq!(run(&mut line, &mut startup).1, Some(ConnectFailure::Closed), "while the ULP decides");
}

#[test]
fn private_data_that_is_too_long_is_refused_at_the_call() {
    let error = |len, max| Some(StartupError::PrivateDataTooLong { len, max });
    assert_eq!(Startup::initiator(plain(true, false), &[0; 513]).err(), error(513, 512));
    assert_eq!(Startup::initiator(Config::default(), &[0; 509]).err(), error(509, 508));
    assert!(Startup::initiator(Config::default(), &[0; 508]).is_ok());
}

/// An RTR message is RDMAP's: a DDP stream refuses such a start.
#[test]
fn a_ddp_stream_has_no_rtr_message() {
    let mut line = line();
    let wish = Config { peer_to_peer: true, ..Config::default() };
    let agreements = crate::line::start(&mut line, [wish; 2]);
    for agreement in agreements {
        let association = Association::new(weft_verbs::PdId(1));
        assert_eq!(DdpStream::new(&agreement, association, 1).err(), Some(Error::NoRtr));
    }
}
