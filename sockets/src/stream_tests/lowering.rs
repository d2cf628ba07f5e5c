//! A reader that asks for TCP.

use super::*;

/// The octets of the backlog, as the kernel's socket takes them: `at_once` at a time.
fn resend(outbound: &Outbound<'_>, world: &World, at_once: usize) -> Vec<u8> {
    let mut octets = Vec::new();
    let mut position = world.end(0).outbound.head.load(Ordering::Relaxed);
    while let Some(pieces) = outbound.backlog() {
        let len = pieces.iter().map(|piece| piece.1).sum::<usize>().min(at_once);
        let memory = world.link.ring(RingPlace::new(64, 16).unwrap());
        for _ in 0..len {
            let mut octet = [0];
            assert!(memory.read(usize::try_from(position % 65536).unwrap(), &mut octet));
            octets.extend(octet);
            position += 1;
        }
        outbound.resent(len);
    }
    octets
}

#[test]
fn what_the_reader_has_not_taken_goes_out_by_tcp() {
    for begin in [0, 65_530] {
        let world = World::new();
        let (outbound, inbound) = (world.outbound(), world.inbound());
        for position in [&world.end(0).outbound.written, &world.end(1).inbound.consumed] {
            position.store(begin, Ordering::Relaxed);
        }
        inbound.attach();
        assert!(outbound.commit() && outbound.commit() && !inbound.withdraw());
        assert_eq!(outbound.begin_leg(ring(64, 16)), Ok(true));
        assert_eq!((outbound.write(b"taken, and more"), outbound.backlog()), (Ok(15), None));
        assert_eq!(inbound.read(&mut [0; 5]), Ok(5));
        assert_eq!(outbound.obey(), Ok(false));
        inbound.ask_back();
        assert_eq!((outbound.is_asked_back(), inbound.is_answered()), (true, false));
        assert_eq!((outbound.obey(), inbound.is_answered()), (Ok(true), true));
        assert_eq!((outbound.sink(), outbound.write(b"x")), (Sink::Tcp, Ok(0)));
        assert_eq!(resend(&outbound, &world, 4), b", and more");
        assert_eq!(inbound.come_back(), Ok(()));
        assert_eq!(inbound.source(), Ok(Source::Tcp { left: None }));
        assert!(!outbound.commit(), "it stays");
        world.end(0).outbound.count(3);
        assert_eq!((outbound.obey(), outbound.backlog()), (Ok(true), None));
    }
}

#[test]
fn a_reader_that_is_behind_in_the_ring_before_tcp_gets_its_rest_by_tcp() {
    let world = World::new();
    let (outbound, inbound) = (world.outbound(), world.inbound());
    inbound.attach();
    assert_eq!((outbound.commit(), outbound.begin_leg(ring(64, 16))), (true, Ok(true)));
    assert_eq!((outbound.write(b"taken, and more"), inbound.read(&mut [0; 5])), (Ok(15), Ok(5)));
    assert_eq!((outbound.begin_leg(Carrier::Tcp), outbound.backlog()), (Ok(true), None));
    inbound.ask_back();
    assert_eq!((outbound.obey(), inbound.is_answered()), (Ok(true), true));
    assert_eq!(resend(&outbound, &world, 4), b", and more");
    assert_eq!((inbound.come_back(), inbound.source()), (Ok(()), Ok(Source::Tcp { left: None })));
    world.end(0).outbound.count(3);
    assert_eq!((outbound.obey(), outbound.backlog()), (Ok(true), None));
}

#[test]
fn a_reader_that_has_taken_all_follows_its_sender_without_a_question() {
    let world = World::new();
    let (outbound, inbound) = (world.outbound(), world.inbound());
    inbound.attach();
    assert!(outbound.commit() && !inbound.follow(), "the ring comes");
    assert_eq!((outbound.begin_leg(ring(64, 16)), inbound.follow()), (Ok(true), false));
    assert_eq!((outbound.write(b"two"), outbound.begin_leg(Carrier::Tcp)), (Ok(3), Ok(true)));
    assert_eq!((inbound.read(&mut [0; 2]), inbound.follow()), (Ok(2), false));
    assert_eq!((inbound.read(&mut [0; 2]), inbound.follow()), (Ok(1), true));
    assert_eq!(inbound.source(), Ok(Source::Tcp { left: None }));
}

#[test]
fn a_sender_that_has_left_the_ring_by_itself_answers_behind_the_rest() {
    for (taken, is_owed) in [(5, true), (15, false)] {
        let world = World::new();
        let (outbound, inbound) = (world.outbound(), world.inbound());
        inbound.attach();
        assert_eq!((outbound.commit(), outbound.begin_leg(ring(64, 16))), (true, Ok(true)));
        assert_eq!(outbound.write(b"taken, and more"), Ok(15));
        assert_eq!(inbound.read(&mut [0; 15][..taken]), Ok(taken));
        assert_eq!((outbound.begin_leg(Carrier::Tcp), outbound.owes_rest()), (Ok(true), Ok(false)));
        inbound.ask_back();
        assert_eq!(outbound.owes_rest(), Ok(is_owed));
        assert_eq!((outbound.give_back(), inbound.is_answered()), (Ok(()), false));
        if is_owed {
            outbound.resent(3);
            assert_eq!((outbound.owes_rest(), outbound.give_back()), (Ok(true), Ok(())), "it goes on");
            assert_eq!(resend(&outbound, &world, 4), b"nd more");
        }
        assert_eq!((outbound.owes_rest(), outbound.backlog()), (Ok(false), None));
        assert_eq!((outbound.obey(), inbound.is_answered()), (Ok(true), true));
        assert_eq!((inbound.come_back(), outbound.owes_rest()), (Ok(()), Ok(false)));
    }
}

#[test]
fn a_reader_that_is_behind_in_a_smaller_ring_gets_both_by_tcp() {
    let world = World::new();
    let (outbound, inbound) = (world.outbound(), world.inbound());
    inbound.attach();
    assert_eq!((outbound.commit(), outbound.begin_leg(ring(64, 16))), (true, Ok(true)));
    assert_eq!((outbound.write(b"taken, small "), inbound.read(&mut [0; 7])), (Ok(13), Ok(7)));
    assert_eq!((outbound.begin_leg(ring(68, 18)), outbound.write(b"large")), (Ok(true), Ok(5)));
    inbound.ask_back();
    assert_eq!(outbound.obey(), Ok(true));
    let mut resent = Vec::new();
    let mut position = 7;
    while let Some(pieces) = outbound.backlog() {
        let (unit, log2, len) = if position < 13 { (64, 16, 6) } else { (68, 18, 5) };
        assert_eq!(pieces.map(|piece| piece.1), [len, 0]);
        let mut octets = vec![0; len];
        assert!(world.link.ring(RingPlace::new(unit, log2).unwrap()).read(position, &mut octets));
        resent.extend(octets);
        outbound.resent(len);
        position += len;
    }
    assert_eq!(resent, b"small large");
    assert_eq!((inbound.come_back(), inbound.source()), (Ok(()), Ok(Source::Tcp { left: None })));
}

#[test]
fn a_reader_in_a_ring_that_its_sender_has_left_gets_no_stream_with_a_gap() {
    for (taken, answer) in [(6, Ok(true)), (5, Err(Broken))] {
        let world = World::new();
        let (outbound, inbound) = (world.outbound(), world.inbound());
        inbound.attach();
        assert_eq!((outbound.commit(), outbound.begin_leg(ring(64, 16))), (true, Ok(true)));
        assert_eq!((outbound.write(b"octets"), inbound.read(&mut [0; 9][..taken])), (Ok(6), Ok(taken)));
        assert_eq!(outbound.begin_leg(Carrier::Tcp), Ok(true));
        world.end(0).outbound.count(3);
        inbound.ask_back();
        assert_eq!((outbound.obey(), outbound.backlog()), (answer, None));
    }
}

#[test]
fn a_reader_that_has_gone_back_with_its_sender_is_answered() {
    let world = World::new();
    let (outbound, inbound) = (world.outbound(), world.inbound());
    inbound.attach();
    assert_eq!((outbound.commit(), outbound.begin_leg(ring(64, 16))), (true, Ok(true)));
    assert_eq!((outbound.write(b"octets"), inbound.read(&mut [0; 9])), (Ok(6), Ok(6)));
    assert_eq!(outbound.begin_leg(Carrier::Tcp), Ok(true));
    assert_eq!(inbound.source(), Ok(Source::Tcp { left: None }));
    world.end(0).outbound.count(3);
    world.end(1).inbound.count(2);
    inbound.ask_back();
    assert_eq!((outbound.obey(), outbound.backlog(), inbound.is_answered()), (Ok(true), None, true));
}

#[test]
fn a_reader_that_has_taken_all_leaves_no_backlog() {
    let world = World::new();
    let (outbound, inbound) = (world.outbound(), world.inbound());
    inbound.attach();
    assert_eq!((outbound.commit(), outbound.begin_leg(ring(64, 16))), (true, Ok(true)));
    assert_eq!((outbound.write(b"octets"), inbound.read(&mut [0; 9])), (Ok(6), Ok(6)));
    inbound.ask_back();
    assert_eq!(outbound.obey(), Ok(true));
    world.end(0).outbound.count(3);
    assert_eq!(outbound.backlog(), None, "these octets went by TCP");
}

#[test]
fn a_reader_that_is_not_yet_in_the_ring_gets_all_of_it_by_tcp() {
    let world = World::new();
    let (outbound, inbound) = (world.outbound(), world.inbound());
    inbound.attach();
    world.end(0).outbound.count(100);
    world.end(1).inbound.count(60);
    assert!(outbound.commit());
    assert_eq!(outbound.begin_leg(ring(64, 16)), Ok(true));
    assert_eq!(outbound.write(b"behind"), Ok(6));
    inbound.ask_back();
    inbound.ask_no_more();
    assert_eq!((outbound.obey(), outbound.sink()), (Ok(false), Sink::Ring));
    inbound.ask_back();
    assert_eq!(outbound.obey(), Ok(true));
    assert_eq!(resend(&outbound, &world, 100), b"behind");
    assert_eq!((inbound.come_back(), inbound.source()), (Ok(()), Ok(Source::Tcp { left: None })));
}

#[test]
fn a_reader_withdraws_from_a_sender_that_has_not_committed_itself() {
    let world = World::new();
    let (outbound, inbound) = (world.outbound(), world.inbound());
    assert!(!outbound.commit(), "the reader has not attached");
    inbound.attach();
    assert!(inbound.withdraw() && inbound.withdraw() && inbound.is_answered());
    assert!(!outbound.commit());
    let (asked, asking) = (World::new(), World::new());
    asked.inbound().attach();
    assert!(asked.outbound().commit());
    asked.inbound().ask_back();
    assert_eq!((asked.outbound().obey(), asked.inbound().is_answered()), (Ok(true), true));
    assert_eq!((asked.outbound().backlog(), asked.inbound().come_back()), (None, Ok(())));
    assert_eq!(asking.outbound().obey(), Ok(false));
}

#[test]
fn a_reader_that_lies_about_its_head_ends_its_connection() {
    for head in [1, 9, u64::MAX] {
        let world = World::new();
        let (outbound, inbound) = (world.outbound(), world.inbound());
        inbound.attach();
        world.end(0).outbound.count(2);
        world.end(1).inbound.count(2);
        assert_eq!((outbound.commit(), outbound.begin_leg(ring(64, 16))), (true, Ok(true)));
        assert_eq!((outbound.write(b"octets"), inbound.source()), (Ok(6), Ok(Source::Ring { available: 6 })));
        inbound.ask_back();
        let shared = &world.link.channel(5).unwrap().directions[0];
        shared.consumer.head.store(head, Ordering::Relaxed);
        assert_eq!(outbound.obey(), Err(Broken), "{head}");
    }
}

#[test]
fn an_answer_that_no_sender_gives_ends_the_connection() {
    for (number, answer) in [(0, Err(Broken)), (1, Ok(())), (3, Ok(())), (4, Err(Broken))] {
        let world = World::new();
        let (outbound, inbound) = world.ringed();
        assert_eq!((outbound.write(b"octets"), inbound.available(9)), (Ok(6), Ok(6)));
        inbound.ask_back();
        let shared = &world.link.channel(5).unwrap().directions[0];
        shared.legs.leg.store(number, Ordering::Relaxed);
        assert_eq!(inbound.come_back(), answer, "{number}");
        if answer.is_ok() {
            assert_eq!(inbound.source(), Ok(Source::Tcp { left: None }));
            assert_eq!(world.end(1).inbound.tail.load(Ordering::Relaxed), 0, "what the ring had is gone");
        }
    }
}
