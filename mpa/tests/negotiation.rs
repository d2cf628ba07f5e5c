//! Startup negotiation: every combination that RFC 5044 7.1 and RFC 6581 9 and 10 describe.

use weft_mpa::{
    Config, Enhanced, Error, FrameKind, Initiator, MAX_FRAME_LEN, MAX_PRIVATE_DATA, NOT_NEGOTIATED,
    Negotiated, Outcome, Responder, RtrKind, RtrSet, Start, StartupError, StartupFrame,
};

const NONE: RtrSet = RtrSet { send: false, write: false, read: false };

/// Flags B, C, D as the bits 4, 2, 1.
fn rtr(bits: u8) -> RtrSet {
    RtrSet { send: bits & 4 != 0, write: bits & 2 != 0, read: bits & 1 != 0 }
}

fn plain(kind: FrameKind) -> StartupFrame<'static> {
    StartupFrame {
        kind,
        markers: false,
        crc: true,
        reject: false,
        reserved: 0,
        revision: 1,
        enhanced: None,
        private_data: b"",
    }
}

fn enhanced(kind: FrameKind, peer_to_peer: bool, rtr: RtrSet, depths: (u16, u16)) -> StartupFrame<'static> {
    let enhanced = Enhanced { peer_to_peer, rtr, ird: depths.0, ord: depths.1 };
    StartupFrame { revision: 2, enhanced: Some(enhanced), ..plain(kind) }
}

fn peer_to_peer() -> Config {
    Config { peer_to_peer: true, ..Config::default() }
}

/// Connects both ends, whose frames pass between them as octets.
fn connect(initiator: Config, responder: Config) -> (Outcome, Negotiated) {
    let mut wire = [0; MAX_FRAME_LEN];
    let initiator = Initiator::new(initiator);
    let len = initiator.request(b"").expect("fits").emit(&mut wire).expect("fits");
    let (request, _) = StartupFrame::parse(FrameKind::Request, &wire[..len]).expect("good").expect("whole");
    let offer = Responder::new(responder).handle_request(&request).expect("supported");
    let (reply, ours) = offer.accept(b"").expect("fits");
    let len = reply.emit(&mut wire).expect("fits");
    let (reply, _) = StartupFrame::parse(FrameKind::Reply, &wire[..len]).expect("good").expect("whole");
    (initiator.handle_reply(&reply).expect("it answers the request"), ours)
}

fn established(outcome: Outcome) -> Negotiated {
    match outcome {
        Outcome::Established(negotiated) => negotiated,
        other => panic!("{other:?}"),
    }
}

#[test]
fn crc_if_either_end_wants_it_and_markers_for_the_end_that_asked() {
    for bits in 0..16 {
        let bit = |bit: u32| bits & bit != 0;
        let initiator = Config { crc: bit(1), markers: bit(2), ..Config::default() };
        let responder = Config { crc: bit(4), markers: bit(8), ..Config::default() };
        let (outcome, theirs) = connect(initiator, responder);
        let ours = established(outcome);
        assert_eq!((ours.crc, theirs.crc), (bit(1) || bit(4), bit(1) || bit(4)));
        assert_eq!((ours.send_markers, ours.receive_markers), (bit(8), bit(2)));
        assert_eq!((theirs.send_markers, theirs.receive_markers), (bit(2), bit(8)));
    }
}

#[test]
fn the_reply_repeats_the_request_s_wish_for_crc() {
    for (asked, own) in [(false, false), (false, true), (true, false), (true, true)] {
        let request = StartupFrame { crc: asked, ..plain(FrameKind::Request) };
        let responder = || Responder::new(Config { crc: own, ..Config::default() });
        let (reply, _) = responder().handle_request(&request).expect("good").accept(b"").expect("fits");
        assert_eq!(reply.crc, asked || own);
        let reply = responder().handle_request(&request).expect("good").reject(b"").expect("fits");
        assert_eq!(reply.crc, asked || own);
    }
}

#[test]
fn default_config_requires_crc_and_no_markers() {
    let config = Config::default();
    assert!(config.crc && config.enhanced && !config.markers && !config.peer_to_peer);
    let request = Initiator::new(config).request(b"x").expect("fits");
    let mut wire = [0; MAX_FRAME_LEN];
    let len = request.emit(&mut wire).expect("fits");
    assert_eq!(wire[16..len], [0x50, 2, 0, 5, 0, 16, 0, 16, b'x']);
}

// Covers 6581-9.1-1, 6581-9.1-14.
#[test]
fn each_end_reads_at_most_what_the_other_holds() {
    let depths = [0, 1, 4, 16, 0x3FFE, NOT_NEGOTIATED];
    let all = |f: &mut dyn FnMut(u16, u16, u16, u16)| {
        for ird in depths {
            for ord in depths {
                for peer_ird in depths {
                    depths.iter().for_each(|peer_ord| f(ird, ord, peer_ird, *peer_ord));
                }
            }
        }
    };
    all(&mut |ird, ord, peer_ird, peer_ord| {
        let (outcome, theirs) = connect(
            Config { ird, ord, ..Config::default() },
            Config { ird: peer_ird, ord: peer_ord, ..Config::default() },
        );
        let ours = established(outcome);
        assert_eq!((ours.ird, theirs.ird), (ird, peer_ird), "own queues stay as configured");
        // An Initiator that leaves a depth to the ULPs changes nothing. A Responder that answers so does not either.
        let is_left = ord == NOT_NEGOTIATED || peer_ird == NOT_NEGOTIATED;
        assert_eq!(ours.ord, if is_left { ord } else { ord.min(peer_ird) });
        assert_eq!(theirs.ord, if ird == NOT_NEGOTIATED { peer_ord } else { peer_ord.min(ird) });
    });
}

// Covers 6581-9.1-3, 6581-9.1-5, 6581-9.1-13, 6581-9.1-15.
#[test]
fn the_reply_has_the_depths_of_rfc_6581() {
    let n = NOT_NEGOTIATED;
    // (Request IRD, ORD), (own IRD, ORD), (Reply IRD, ORD)
    let cases = [
        ((4, 8), (16, 16), (16, 4)),
        ((4, 8), (2, 3), (2, 3)),
        ((n, 8), (16, 5), (16, n)),
        ((4, n), (16, 5), (n, 4)),
        ((n, n), (16, 5), (n, n)),
        ((0, 0), (0, 7), (0, 0)),
        ((4, 8), (60000, 60000), (n, 4)),
    ];
    for (asked, own, told) in cases {
        let config = Config { ird: own.0, ord: own.1, ..Config::default() };
        let request = enhanced(FrameKind::Request, false, NONE, asked);
        let offer = Responder::new(config).handle_request(&request).expect("supported");
        assert_eq!((offer.peer_ird, offer.peer_ord), (Some(asked.0), Some(asked.1)));
        let (reply, _) = offer.accept(b"").expect("fits");
        assert_eq!(reply, enhanced(FrameKind::Reply, false, NONE, told), "{asked:?} {own:?}");
        // The ULP's own depths replace the configured ones.
        let offer = Responder::new(Config::default()).handle_request(&request).expect("supported");
        let (reply, ours) = offer.accept_with(own.0, own.1, b"").expect("fits");
        assert_eq!(reply, enhanced(FrameKind::Reply, false, NONE, told), "{asked:?} {own:?}");
        assert_eq!(ours.ird, own.0.min(n));
    }
}

// Covers 6581-9.1-8, 6581-9.1-10, 6581-9.1-11, 6581-9.1-16.
#[test]
fn a_reply_that_wants_too_many_reads_fails_with_06() {
    let config = Config { ird: 16, ord: 8, ..Config::default() };
    for (told_ord, is_ok) in
        [(0, true), (16, true), (17, false), (1000, false), (0x3FFE, false), (0x3FFF, true)]
    {
        let reply = enhanced(FrameKind::Reply, false, NONE, (8, told_ord));
        match Initiator::new(config).handle_reply(&reply).expect("it answers") {
            Outcome::Established(ours) => assert!(is_ok && ours.ird == 16 && ours.ord == 8, "{told_ord}"),
            Outcome::Failed { error, negotiated } => {
                assert_eq!((is_ok, error, error.code()), (false, Error::InsufficientIrd, 0x06));
                assert!(negotiated.crc, "the Terminate must be framed as agreed");
            }
            other => panic!("{other:?}"),
        }
    }
    // An end that leaves the depth open can hold any number.
    let reply = enhanced(FrameKind::Reply, false, NONE, (8, 128));
    let open = Config { ird: NOT_NEGOTIATED, ..config };
    established(Initiator::new(open).handle_reply(&reply).expect("it answers"));
}

// Covers 6581-9.2-1, 6581-9.2-2, 6581-9.2-12, 6581-9.2-14.
#[test]
fn the_request_has_the_rtr_flags_only_if_peer_to_peer() {
    for bits in 0..8 {
        let with = Initiator::new(Config { rtr: rtr(bits), ..peer_to_peer() }).request(b"").expect("fits");
        assert_eq!(with, enhanced(FrameKind::Request, true, rtr(bits), (16, 16)));
        let without =
            Initiator::new(Config { rtr: rtr(bits), ..Config::default() }).request(b"").expect("fits");
        assert_eq!(without, enhanced(FrameKind::Request, false, NONE, (16, 16)));
    }
}

// Covers 6581-9.2-4, 6581-9.2-5, 6581-9.2-6, 6581-9.2-8.
#[test]
fn the_responder_agrees_to_common_rtr_kinds_or_tells_its_own() {
    for asked in 0..8 {
        for own in 1..8 {
            let responder = Responder::new(Config { rtr: rtr(own), ..Config::default() });
            let request = enhanced(FrameKind::Request, true, rtr(asked), (16, 16));
            let offer = responder.handle_request(&request).expect("supported");
            assert!(offer.peer_to_peer);
            let (reply, ours) = offer.accept(b"").expect("fits");
            let expected = rtr(if asked & own == 0 { own } else { asked & own });
            assert_eq!(reply, enhanced(FrameKind::Reply, true, expected, (16, 16)));
            assert_eq!(ours.start, Start::ExpectRtr(expected));
        }
    }
}

// Covers 6581-9.2-3.
#[test]
fn a_responder_without_rtr_kinds_takes_all_of_them() {
    let request = enhanced(FrameKind::Request, true, rtr(4), (16, 16));
    let responder = Responder::new(Config { rtr: NONE, ..Config::default() });
    let (_, ours) = responder.handle_request(&request).expect("supported").accept(b"").expect("fits");
    assert_eq!(ours.start, Start::ExpectRtr(rtr(4)));
}

// Covers 6581-9.2-13, 6581-9.2-15.
#[test]
fn client_server_ignores_the_rtr_flags() {
    let request = enhanced(FrameKind::Request, false, RtrSet::ALL, (16, 16));
    let offer = Responder::new(Config::default()).handle_request(&request).expect("supported");
    assert!(!offer.peer_to_peer);
    let (reply, ours) = offer.accept(b"").expect("fits");
    assert_eq!(reply, enhanced(FrameKind::Reply, false, NONE, (16, 16)));
    assert_eq!(ours.start, Start::ClientServer);
    let reply = enhanced(FrameKind::Reply, false, RtrSet::ALL, (16, 16));
    let ours = established(Initiator::new(Config::default()).handle_reply(&reply).expect("it answers"));
    assert_eq!(ours.start, Start::ClientServer);
}

// Covers 6581-9.2-9, 6581-9.2-10, 6581-9.2-11.
#[test]
fn the_initiator_chooses_write_then_read_then_send_or_fails_with_07() {
    for own in 0..8 {
        for told in 0..8 {
            let reply = enhanced(FrameKind::Reply, true, rtr(told), (16, 16));
            let initiator = Initiator::new(Config { rtr: rtr(own), ..peer_to_peer() });
            let outcome = initiator.handle_reply(&reply).expect("it answers");
            let expected = match own & told {
                0 => None,
                common if common & 2 != 0 => Some(RtrKind::Write),
                common if common & 1 != 0 => Some(RtrKind::Read),
                _ => Some(RtrKind::Send),
            };
            match (outcome, expected) {
                (Outcome::Established(ours), Some(kind)) => assert_eq!(ours.start, Start::SendRtr(kind)),
                (Outcome::Failed { error, .. }, None) => {
                    assert_eq!((error, error.code()), (Error::NoRtr, 0x07))
                }
                other => panic!("{own} {told} {other:?}"),
            }
        }
    }
}

#[test]
fn different_connection_models_fail_with_07() {
    for asked in [true, false] {
        let reply = enhanced(FrameKind::Reply, !asked, RtrSet::ALL, (16, 16));
        let initiator = Initiator::new(Config { peer_to_peer: asked, ..Config::default() });
        let outcome = initiator.handle_reply(&reply).expect("it answers");
        assert!(matches!(outcome, Outcome::Failed { error: Error::NoRtr, .. }), "{outcome:?}");
    }
}

// Covers 6581-9.1-4.
#[test]
fn a_read_rtr_has_a_place_at_both_ends() {
    let read = rtr(1);
    let no_reads = |config| Config { ird: 0, ord: 0, rtr: read, ..config };
    let (outcome, theirs) = connect(no_reads(peer_to_peer()), no_reads(Config::default()));
    let ours = established(outcome);
    assert_eq!((ours.start, ours.ird, ours.ord), (Start::SendRtr(RtrKind::Read), 0, 1));
    assert_eq!((theirs.start, theirs.ird, theirs.ord), (Start::ExpectRtr(read), 1, 0));
    // A peer that offers a Read and has an IRD of 0 does not offer it in effect. Other common kinds remain.
    for (told, expected) in [(1, None), (5, Some(RtrKind::Send)), (3, Some(RtrKind::Write))] {
        let reply = enhanced(FrameKind::Reply, true, rtr(told), (0, 0));
        match Initiator::new(peer_to_peer()).handle_reply(&reply).expect("it answers") {
            Outcome::Established(ours) => assert_eq!(Some(ours.start), expected.map(Start::SendRtr)),
            Outcome::Failed { error, .. } => assert_eq!((error, expected), (Error::NoRtr, None)),
            other => panic!("{other:?}"),
        }
    }
}

// Covers 6581-10-2, 6581-10-4, 6581-10-6, 5044-3-12.
#[test]
fn plain_requests_get_plain_replies() {
    // Revision 2 without the S flag is legal, and the Reply has the same form.
    for revision in [1, 2] {
        let request = StartupFrame { revision, ..plain(FrameKind::Request) };
        let offer = Responder::new(Config { ird: 3, ord: 5, ..Config::default() }).handle_request(&request);
        let offer = offer.expect("every responder takes plain requests");
        assert_eq!((offer.revision, offer.peer_ird, offer.peer_ord), (revision, None, None));
        let (reply, ours) = offer.accept(b"pd").expect("fits");
        assert_eq!(reply, StartupFrame { revision, private_data: b"pd", ..plain(FrameKind::Reply) });
        assert_eq!((ours.revision, ours.ird, ours.ord, ours.start), (revision, 3, 5, Start::ClientServer));
    }
}

#[test]
fn a_plain_initiator_needs_a_plain_reply() {
    let config = Config { enhanced: false, ird: 3, ord: 5, peer_to_peer: true, ..Config::default() };
    assert_eq!(Initiator::new(config).request(b""), Ok(plain(FrameKind::Request)));
    let ours =
        established(Initiator::new(config).handle_reply(&plain(FrameKind::Reply)).expect("it answers"));
    assert_eq!((ours.revision, ours.ird, ours.ord, ours.start), (1, 3, 5, Start::ClientServer));
    let error =
        |reply: StartupFrame<'_>| Initiator::new(config).handle_reply(&reply).expect_err("not an answer");
    let second = StartupFrame { revision: 2, ..plain(FrameKind::Reply) };
    assert_eq!(error(second), Error::Startup(StartupError::Revision(2)));
    let both = StartupFrame { revision: 1, ..enhanced(FrameKind::Reply, false, NONE, (1, 1)) };
    assert_eq!(error(both), Error::Startup(StartupError::EnhancedMismatch));
}

#[test]
fn an_enhanced_initiator_needs_an_enhanced_reply() {
    for reject in [false, true] {
        let error = |reply: StartupFrame<'_>| {
            let reply = StartupFrame { reject, ..reply };
            Initiator::new(Config::default()).handle_reply(&reply).expect_err("not an answer")
        };
        assert_eq!(error(plain(FrameKind::Reply)), Error::Startup(StartupError::Revision(1)));
        let no_data = StartupFrame { revision: 2, ..plain(FrameKind::Reply) };
        assert_eq!(error(no_data), Error::Startup(StartupError::EnhancedMismatch));
        assert_eq!(error(no_data).code(), 0x04);
    }
}

#[test]
fn two_initiators_or_two_responders_are_an_error() {
    let request = Initiator::new(Config::default()).request(b"").expect("fits");
    let error = Initiator::new(Config::default()).handle_reply(&request).expect_err("a Request");
    assert_eq!(error, Error::Startup(StartupError::Key));
    let error =
        Responder::new(Config::default()).handle_request(&plain(FrameKind::Reply)).expect_err("a Reply");
    assert_eq!(error, Error::Startup(StartupError::Key));
}

// Covers 6581-10-7.
#[test]
fn a_plain_responder_closes_on_revision_2() {
    let config = Config { enhanced: false, ..Config::default() };
    for request in [
        enhanced(FrameKind::Request, false, NONE, (1, 1)),
        StartupFrame { revision: 2, ..plain(FrameKind::Request) },
    ] {
        let error = Responder::new(config).handle_request(&request).expect_err("not supported");
        assert_eq!(error, Error::Startup(StartupError::Revision(2)));
    }
    Responder::new(config).handle_request(&plain(FrameKind::Request)).expect("revision 1 is for all");
}

// Covers 6581-9.1-6, 6581-9.1-12.
#[test]
fn a_reject_tells_the_depths_that_are_needed() {
    let config = Config { ird: 7, ord: 8, ..Config::default() };
    for (request, told) in [
        (plain(FrameKind::Request), None),
        (enhanced(FrameKind::Request, false, NONE, (2, 1)), Some((7, 8))),
        (enhanced(FrameKind::Request, true, rtr(4), (2, 1)), Some((7, 8))),
        (enhanced(FrameKind::Request, false, NONE, (2, NOT_NEGOTIATED)), Some((NOT_NEGOTIATED, 8))),
        (enhanced(FrameKind::Request, false, NONE, (NOT_NEGOTIATED, 1)), Some((7, NOT_NEGOTIATED))),
    ] {
        let reply =
            Responder::new(config).handle_request(&request).expect("supported").reject(b"no").expect("fits");
        assert!(reply.reject && reply.private_data == b"no" && reply.revision == request.revision);
        assert_eq!(reply.enhanced.map(|data| (data.ird, data.ord)), told);
        assert_eq!(
            reply.enhanced.map(|data| data.peer_to_peer),
            request.enhanced.map(|data| data.peer_to_peer)
        );
        let initiator = Initiator::new(Config { enhanced: told.is_some(), ..Config::default() });
        let outcome = initiator.handle_reply(&reply).expect("it answers");
        assert_eq!(outcome, Outcome::Rejected { ird: told.map(|told| told.0), ord: told.map(|told| told.1) });
    }
}

#[test]
fn a_request_s_reject_and_reserved_bits_are_ignored() {
    let mut wire = [0; 64];
    let request = Initiator::new(Config::default()).request(b"").expect("fits");
    let len = request.emit(&mut wire).expect("fits");
    wire[16] |= 0x2F;
    let (frame, _) = StartupFrame::parse(FrameKind::Request, &wire[..len]).expect("good").expect("whole");
    assert_eq!(frame, StartupFrame { reject: true, reserved: 0x0F, ..request });
    let (reply, _) =
        Responder::new(Config::default()).handle_request(&frame).expect("good").accept(b"").expect("fits");
    assert!(!reply.reject && reply.reserved == 0);
    let mut again = [0; 64];
    assert_eq!(frame.emit(&mut again), Ok(len));
    assert_eq!(again, wire, "a decoded frame is encoded as it came");
}

// Covers 6581-6-8.
#[test]
fn revision_1_has_no_s_flag() {
    let mut wire = *b"MPA ID Req Frame\x5F\x01\x00\x02hi";
    let (frame, len) = StartupFrame::parse(FrameKind::Request, &wire).expect("good").expect("whole");
    assert_eq!((frame.enhanced, frame.reserved, frame.private_data, len), (None, 0x1F, &b"hi"[..], 22));
    let mut again = [0; 22];
    assert_eq!(frame.emit(&mut again), Ok(22));
    assert_eq!(again, wire);
    wire[17] = 2;
    let error = StartupFrame::parse(FrameKind::Request, &wire);
    assert_eq!(error, Err(StartupError::EnhancedTooShort), "two octets cannot hold IRD and ORD");
}

#[test]
fn bad_frames_are_refused_at_the_first_octet_that_shows_it() {
    let good = b"MPA ID Req Frame\x40\x01\x00\x00";
    let altered = |at: usize, octets: &[u8]| {
        let mut frame = good.to_vec();
        frame[at..at + octets.len()].copy_from_slice(octets);
        frame
    };
    let too_long = |len| StartupError::PrivateDataTooLong { len, max: 512 };
    let cases = [
        (altered(0, b"X"), 1, StartupError::Key),
        (altered(9, b"p"), 10, StartupError::Key),
        (altered(15, b"E"), 16, StartupError::Key),
        (altered(17, &[0]), 18, StartupError::Revision(0)),
        (altered(17, &[3]), 18, StartupError::Revision(3)),
        (altered(17, &[255]), 18, StartupError::Revision(255)),
        (altered(18, &[2, 1]), 20, too_long(513)),
        (altered(18, &[0xFF, 0xFF]), 20, too_long(65535)),
        (altered(16, &[0x50, 2, 0, 3]), 20, StartupError::EnhancedTooShort),
    ];
    for (octets, shown, error) in cases {
        for end in 0..octets.len() {
            let verdict = StartupFrame::parse(FrameKind::Request, &octets[..end]);
            assert_eq!(verdict, if end < shown { Ok(None) } else { Err(error) }, "{error} {end}");
        }
    }
    assert_eq!(StartupFrame::parse_any(b"MPA ID Rx"), Err(StartupError::Key));
    assert_eq!(StartupFrame::parse_any(b"MPA ID Re"), Ok(None));
    assert_eq!(StartupFrame::parse_any(b"MPA ID Rex"), Err(StartupError::Key));
}

#[test]
fn private_data_up_to_the_limit_without_the_octets_behind_it() {
    let data = [0x5A; MAX_PRIVATE_DATA + 1];
    for (enhanced, max) in [(false, 512), (true, 508)] {
        let config = Config { enhanced, ..Config::default() };
        let too_long = Err(StartupError::PrivateDataTooLong { len: max + 1, max });
        assert_eq!(Initiator::new(config).request(&data[..max + 1]), too_long);
        let request = Initiator::new(config).request(&data[..max]).expect("the limit itself fits");
        let mut wire = vec![0xEE; MAX_FRAME_LEN + 3];
        assert_eq!(request.emit(&mut wire), Ok(MAX_FRAME_LEN));
        assert_eq!(StartupFrame::parse(FrameKind::Request, &wire), Ok(Some((request, MAX_FRAME_LEN))));
        let offer = || Responder::new(config).handle_request(&request).expect("good");
        assert_eq!(offer().accept(&data[..max + 1]).map(|(reply, _)| reply), too_long);
        assert_eq!(offer().reject(&data[..max + 1]), too_long);
        offer().accept(&data[..max]).expect("the limit itself fits");
        let by_hand = StartupFrame { private_data: &data[..max + 1], ..request };
        assert_eq!(by_hand.emit(&mut [0; 1000]).map(|_| by_hand), too_long);
    }
}

#[test]
fn emit_refuses_values_that_no_frame_can_carry() {
    let mut out = [0; 64];
    let frame = enhanced(FrameKind::Request, false, NONE, (16, 0x4000));
    assert_eq!(frame.emit(&mut out), Err(StartupError::Depth(0x4000)));
    let frame = StartupFrame { revision: 1, ..enhanced(FrameKind::Request, false, NONE, (1, 1)) };
    assert_eq!(frame.emit(&mut out), Err(StartupError::Revision(1)));
    let frame = StartupFrame { revision: 3, ..plain(FrameKind::Request) };
    assert_eq!(frame.emit(&mut out), Err(StartupError::Revision(3)));
    assert_eq!(
        plain(FrameKind::Reply).emit(&mut out[..19]),
        Err(StartupError::BufferTooSmall { needed: 20 })
    );
    assert_eq!(out, [0; 64], "nothing is written by a refusal");
}

#[test]
fn rtr_sets() {
    for bits in 0..8 {
        let set = rtr(bits);
        assert_eq!(set.is_empty(), bits == 0);
        for other in 0..8 {
            assert_eq!(set.intersection(rtr(other)), rtr(bits & other));
        }
        let flags = [RtrKind::Send, RtrKind::Write, RtrKind::Read].map(|kind| set.contains(kind));
        assert_eq!(flags, [bits & 4 != 0, bits & 2 != 0, bits & 1 != 0]);
        assert!(set.first().is_none_or(|kind| set.contains(kind)));
    }
}

/// The application gets these texts when startup fails.
#[test]
fn messages_contain_the_numbers() {
    let cases = [
        (StartupError::Key, "wrong key in the startup frame"),
        (
            StartupError::PrivateDataTooLong { len: 513, max: 512 },
            "513 octets of private data, at most 512 are allowed",
        ),
        (StartupError::Revision(255), "MPA revision 255 cannot be used here"),
        (StartupError::EnhancedTooShort, "enhanced startup frame is too short for IRD and ORD"),
        (StartupError::EnhancedMismatch, "enhanced Request and plain Reply, or the reverse"),
        (StartupError::Depth(0x4000), "IRD or ORD of 16384 is over the limit of 16383"),
        (StartupError::BufferTooSmall { needed: 24 }, "startup frame needs a buffer of 24 octets"),
    ];
    for (error, words) in cases {
        assert_eq!(error.to_string(), words);
    }
}
