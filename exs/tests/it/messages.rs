//! Messages by Read and as immediate data.

use std::time::Duration;

use weft_exs::{Context, Error, Messages, Mode, Op, Options, Outcome, Socket};

use crate::world::{PATIENCE, World, octets};

type Ended = (Result<Outcome, Error>, weft_exs::Buf);

fn send(context: &Context, socket: &Socket<Messages>, octets: &[u8]) -> Op<Ended> {
    let mut buf = context.buffer(octets.len().max(1)).unwrap();
    buf[..octets.len()].copy_from_slice(octets);
    socket.send(buf, ..octets.len())
}

fn receive(context: &Context, socket: &Socket<Messages>, len: usize) -> Op<Ended> {
    socket.recv(context.buffer(len.max(1)).unwrap(), ..len)
}

fn end(op: Op<Ended>) -> Ended {
    op.wait_timeout(PATIENCE).expect("the operation ends")
}

/// Lengths around the limit of immediate data, and a long one.
const LENGTHS: [usize; 9] = [0, 1, 31, 1000, 1023, 1024, 1025, 70_000, 1_000_003];

#[test]
fn messages_of_all_lengths_arrive_both_ways_octet_by_octet() {
    let world = World::new();
    let options = Options::default();
    let (ours, theirs) = world.connect::<Messages>(&options, &options);
    let ends = [(&world.client, &ours), (&world.server, &theirs)];
    for (from, to) in [(ends[0], ends[1]), (ends[1], ends[0])] {
        for (number, len) in LENGTHS.into_iter().enumerate() {
            let message = octets(number, len);
            let receiving = receive(to.0, to.1, len + 9);
            let sending = send(from.0, from.1, &message);
            let (received, buf) = end(receiving);
            let mode = if len <= 1024 { Mode::Inline } else { Mode::Read };
            let whole = u32::try_from(len).unwrap();
            let outcome = Outcome { octets: whole, message_len: whole, mode };
            assert_eq!(received, Ok(outcome), "{len} octets");
            assert!(buf[..len] == message, "{len} octets");
            assert!(buf[len..].iter().all(|octet| *octet == 0), "{len} octets");
            let (sent, back) = end(sending);
            assert_eq!(sent, Ok(outcome), "{len} octets");
            assert!(back[..len] == message);
        }
    }
}

#[test]
fn many_messages_at_a_time_come_in_the_order_of_their_sends() {
    let world = World::new();
    let options = Options { send_credits: 5, window: 8, ..Options::default() };
    let (ours, theirs) = world.connect::<Messages>(&options, &options);
    for round in 0..5 {
        let lens = (0..60).map(|number| number * 97 % 2100);
        let messages: Vec<Vec<u8>> =
            lens.enumerate().map(|(number, len)| octets(number + round, len)).collect();
        let sends: Vec<_> = messages.iter().map(|octets| send(&world.client, &ours, octets)).collect();
        let receives: Vec<_> = messages.iter().map(|_| receive(&world.server, &theirs, 2100)).collect();
        for (message, receiving) in messages.iter().zip(receives) {
            let (received, buf) = end(receiving);
            assert!(buf[..received.unwrap().octets as usize] == **message);
        }
        assert!(sends.into_iter().all(|op| end(op).0.is_ok()));
    }
}

#[test]
fn a_receive_that_is_too_short_truncates_the_message_and_both_sides_hear_of_it() {
    let world = World::new();
    let options = Options::default();
    let (ours, theirs) = world.connect::<Messages>(&options, &options);
    for len in [900, 5000] {
        let message = octets(len, len);
        let sending = send(&world.client, &ours, &message);
        let (received, buf) = end(receive(&world.server, &theirs, 600));
        let received = received.unwrap();
        assert_eq!((received.octets, received.message_len as usize), (600, len));
        assert!(received.is_truncated() && buf[..] == message[..600]);
        let sent = end(sending).0.unwrap();
        assert_eq!((sent.octets, sent.message_len as usize), (600, len));
    }
    // The next message is whole.
    let sending = send(&world.client, &ours, b"next");
    assert_eq!(&end(receive(&world.server, &theirs, 4)).1[..], b"next");
    assert!(end(sending).0.is_ok());
}

#[test]
fn a_buffer_goes_through_many_operations_of_both_directions() {
    let world = World::new();
    let options = Options::default();
    let (ours, theirs) = world.connect::<Messages>(&options, &options);
    let (mut there, mut here) = (world.server.buffer(3000).unwrap(), world.client.buffer(3000).unwrap());
    // More rounds than a window has keys.
    for round in 0..300 {
        here.copy_from_slice(&octets(round, 3000));
        let (receiving, sending) = (theirs.recv(there, 500..2500), ours.send(here, 500..2500));
        let received;
        (received, there) = end(receiving);
        assert_eq!(received.unwrap().octets, 2000);
        assert!(there[500..2500] == octets(round, 3000)[500..2500], "round {round}");
        (_, here) = end(sending);
        let (receiving, sending) = (ours.recv(here, ..), theirs.send(there, 500..2500));
        (_, here) = end(receiving);
        assert!(here[..2000] == octets(round, 3000)[500..2500], "round {round}");
        (_, there) = end(sending);
    }
}

#[test]
fn after_a_shutdown_come_the_messages_and_then_the_end() {
    let world = World::new();
    let options = Options::default();
    let (ours, theirs) = world.connect::<Messages>(&options, &options);
    let sends = [send(&world.client, &ours, b"last but one"), send(&world.client, &ours, &octets(1, 9000))];
    ours.shutdown();
    assert_eq!(end(send(&world.client, &ours, b"late")).0, Err(Error::Shutdown));
    assert_eq!(&end(receive(&world.server, &theirs, 12)).1[..], b"last but one");
    assert!(end(receive(&world.server, &theirs, 9000)).1[..] == octets(1, 9000));
    assert_eq!(end(receive(&world.server, &theirs, 10)).0, Ok(Outcome::END));
    assert!(sends.into_iter().all(|op| end(op).0.is_ok()));
    // The other direction goes on.
    let sending = send(&world.server, &theirs, b"answer");
    assert_eq!(&end(receive(&world.client, &ours, 6)).1[..], b"answer");
    assert!(end(sending).0.is_ok());
    let closes = [theirs.close(), ours.close()];
    assert!(closes.into_iter().all(|close| close.wait_timeout(PATIENCE).unwrap() == Ok(())));
    drop((ours, theirs));
    until(|| world.client.sockets() + world.server.sockets() == 0);
}

#[test]
fn a_socket_that_is_closed_with_unread_messages_resets_the_peer() {
    let world = World::new();
    let options = Options::default();
    let (ours, theirs) = world.connect::<Messages>(&options, &options);
    let sends = [send(&world.client, &ours, b"unread"), send(&world.client, &ours, &octets(1, 9000))];
    let (first, _) = end(receive(&world.server, &theirs, 1));
    assert!(first.unwrap().is_truncated());
    let waiting = receive(&world.client, &ours, 10);
    drop(theirs);
    // If the second message was still on its way, the end of the other direction comes first.
    let waited = end(waiting).0;
    assert!([Ok(Outcome::END), Err(Error::Reset)].contains(&waited), "{waited:?}");
    let [first, second] = sends.map(|op| end(op).0);
    assert!(first.is_ok());
    assert_eq!(second, Err(Error::Reset));
    drop(ours);
    until(|| world.client.sockets() + world.server.sockets() == 0);
}

#[test]
fn all_operations_end_and_all_buffers_come_back_when_the_peer_dies() {
    let world = World::new();
    let options = Options::default();
    let (ours, theirs) = world.connect::<Messages>(&options, &options);
    let message = octets(3, 100_000);
    let sends: Vec<_> = (0..40).map(|_| send(&world.client, &ours, &message)).collect();
    let receives: Vec<_> = (0..40).map(|_| receive(&world.client, &ours, 100)).collect();
    world.server.device().shutdown(Duration::ZERO);
    for op in sends {
        let (sent, buf) = end(op);
        assert!(sent.is_err() && buf[..] == message, "{sent:?}");
    }
    assert!(receives.into_iter().all(|op| end(op).0 == Err(Error::Reset)));
    assert_eq!(end(send(&world.client, &ours, b"late")).0, Err(Error::Reset));
    drop(theirs);
}

#[test]
fn all_operations_end_and_all_buffers_come_back_when_the_own_device_is_shut_down() {
    let world = World::new();
    let options = Options::default();
    let (ours, theirs) = world.connect::<Messages>(&options, &options);
    let message = octets(4, 100_000);
    let sends: Vec<_> = (0..40).map(|_| send(&world.client, &ours, &message)).collect();
    let receives: Vec<_> = (0..40).map(|_| receive(&world.client, &ours, 100)).collect();
    world.client.device().shutdown(Duration::ZERO);
    for op in sends {
        let (sent, buf) = end(op);
        assert!(sent.is_err() && buf[..] == message, "{sent:?}");
    }
    assert!(receives.into_iter().all(|op| end(op).0 == Err(Error::Reset)));
    drop((ours, theirs));
    until(|| world.client.sockets() + world.server.sockets() == 0);
}

#[test]
fn what_does_not_fit_is_refused_with_its_reason() {
    let world = World::new();
    let options = Options::default();
    let (ours, theirs) = world.connect::<Messages>(&options, &options);
    let buf = world.client.buffer(10).unwrap();
    let (refused, buf) = end(ours.send(buf, 5..11));
    assert_eq!((refused, buf.len()), (Err(Error::Range), 10));
    let receives: Vec<_> = (0..64).map(|_| receive(&world.client, &ours, 1)).collect();
    assert_eq!(end(ours.recv(buf, ..)).0, Err(Error::Full));
    assert_eq!(ours.cancel_all(), 64);
    assert!(receives.into_iter().all(|op| end(op).0 == Err(Error::Canceled)));
    drop(theirs);
}

/// Waits until something is so.
fn until(is_so: impl Fn() -> bool) {
    for _ in 0..PATIENCE.as_millis() / 5 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("it has not come about");
}
