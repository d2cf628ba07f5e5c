//! Messages that are handed out where they came.

use weft_exs::{Context, Error, InPlace, Messages, Mode, Options, Received, Socket};

use crate::world::{PATIENCE, World, octets};

fn receive(context: &Context, socket: &Socket<Messages>, len: usize) -> (Received, weft_exs::Buf) {
    let op = socket.recv_in_place(context.buffer(len).unwrap(), ..);
    let (received, buf) = op.wait_timeout(PATIENCE).unwrap();
    (received.unwrap(), buf)
}

fn send(context: &Context, socket: &Socket<Messages>, octets: &[u8]) -> weft_exs::Op<Ended> {
    let mut buf = context.buffer(octets.len().max(1)).unwrap();
    buf[..octets.len()].copy_from_slice(octets);
    socket.send(buf, ..octets.len())
}

type Ended = (Result<weft_exs::Outcome, Error>, weft_exs::Buf);

#[test]
fn messages_in_place_are_read_where_they_are_and_the_sender_hears_when_they_are_recycled() {
    let world = World::new();
    let options = Options { recv_credits: 3, ..Options::default() };
    let (ours, theirs) = world.connect::<Messages>(&options, &options);
    // More messages than slots, so that each is used again.
    for round in 0..40 {
        let messages: Vec<Vec<u8>> = (0..3).map(|part| octets(3 * round + part, 300 * part)).collect();
        let mut sends: Vec<_> = messages.iter().map(|octets| send(&world.client, &ours, octets)).collect();
        let held: Vec<InPlace> = (0..3)
            .map(|part| {
                let (received, buf) = receive(&world.server, &theirs, 10);
                let outcome = received.outcome;
                assert!(matches!(outcome.mode, Mode::InPlace { .. }) && !outcome.is_truncated());
                assert_eq!(outcome.octets as usize, 300 * part);
                assert!(buf.iter().all(|octet| *octet == 0), "nothing was copied");
                received.in_place.unwrap()
            })
            .collect();
        // All credits are used: another message waits at the sender.
        let late = send(&world.client, &ours, b"late");
        assert!(theirs.ready() == weft_exs::Ready { writable: true, ..weft_exs::Ready::default() });
        let first = sends.remove(0).wait_timeout(std::time::Duration::from_millis(2)).unwrap_err();
        for (octets, message) in messages.iter().zip(held) {
            assert!(message[..] == octets[..]);
        }
        assert!(first.wait_timeout(PATIENCE).unwrap().0.is_ok());
        assert!(sends.into_iter().all(|op| op.wait_timeout(PATIENCE).unwrap().0.is_ok()));
        assert_eq!(&receive(&world.server, &theirs, 4).0.in_place.unwrap()[..], b"late");
        assert!(late.wait_timeout(PATIENCE).unwrap().0.is_ok());
    }
}

#[test]
fn a_message_that_is_read_is_in_the_memory_and_the_end_is_told() {
    let world = World::new();
    let options = Options::default();
    let (ours, theirs) = world.connect::<Messages>(&options, &options);
    let message = octets(7, 4000);
    let sending = send(&world.client, &ours, &message);
    let (received, buf) = receive(&world.server, &theirs, 5000);
    assert!(received.in_place.is_none() && received.outcome.mode == Mode::Read);
    assert!(buf[..4000] == message && sending.wait_timeout(PATIENCE).unwrap().0.is_ok());
    ours.shutdown();
    let (received, _) = receive(&world.server, &theirs, 1);
    assert!(received.in_place.is_none() && received.outcome.mode == Mode::End);
}

#[test]
fn octets_in_place_outlive_their_socket_and_an_outcome_that_nobody_takes_is_recycled() {
    let world = World::new();
    let options = Options { recv_credits: 1, ..Options::default() };
    let (ours, theirs) = world.connect::<Messages>(&options, &options);
    // Nobody hears of the first. If its slot were not given back, the second could not come.
    drop(theirs.recv_in_place(world.server.buffer(1).unwrap(), ..));
    let first = send(&world.client, &ours, b"unheard");
    assert!(first.wait_timeout(PATIENCE).unwrap().0.is_ok());
    let second = send(&world.client, &ours, b"second");
    let (received, _) = receive(&world.server, &theirs, 1);
    // A slot that is held is unread data.
    drop(theirs);
    assert_eq!(second.wait_timeout(PATIENCE).unwrap().0, Err(Error::Reset));
    drop((ours, world));
    assert_eq!(&received.in_place.unwrap()[..], b"second");
}

/// What makes an event is called without a lock: it may drop a slot or the socket, and start the next operation.
#[test]
fn what_makes_an_event_may_use_the_socket() {
    let world = World::new();
    let options = Options { recv_credits: 2, ..Options::default() };
    let (ours, theirs) = world.connect::<Messages>(&options, &options);
    let queue = world.server.queue(64).unwrap();
    for round in 0..40_u8 {
        let (socket, place) = (theirs.clone(), queue.reserve().unwrap());
        let memory = world.server.buffer(8).unwrap();
        theirs.recv_in_place(memory, ..).on(place, move |(received, memory)| {
            let octets = received.unwrap().in_place.map(|octets| octets[0]);
            assert!(socket.recv(memory, ..).cancel());
            octets
        });
        assert!(send(&world.client, &ours, &[round]).wait_timeout(PATIENCE).unwrap().0.is_ok());
        let mut events = Vec::new();
        assert_eq!(queue.wait(1, 1, Some(PATIENCE), &mut events), 1);
        assert_eq!(events, [Some(round)]);
    }
    // The last handle, in the event of its own close.
    let closing = theirs.close();
    closing.on(queue.reserve().unwrap(), move |closed| {
        drop(theirs);
        closed.err().map(|_| 0)
    });
    ours.shutdown();
    let mut events = Vec::new();
    assert_eq!(queue.wait(1, 1, Some(PATIENCE), &mut events), 1);
    assert_eq!(events, [None]);
}
