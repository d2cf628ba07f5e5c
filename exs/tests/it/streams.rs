//! Streams: directly into receives, and through the ring.

use weft_exs::{Context, Error, Mode, Op, Options, Outcome, Plain, Socket, Stream};

use crate::world::{PATIENCE, World, octets};

type Ended = (Result<Outcome, Error>, weft_exs::Buf);

fn send(context: &Context, socket: &Socket<Stream>, octets: &[u8]) -> Op<Ended> {
    let mut buf = context.buffer(octets.len().max(1)).unwrap();
    buf[..octets.len()].copy_from_slice(octets);
    socket.send(buf, ..octets.len())
}

fn end(op: Op<Ended>) -> Ended {
    op.wait_timeout(PATIENCE).expect("the operation ends")
}

/// Receives with this length until nothing more comes.
fn receive_all(context: &Context, socket: &Socket<Stream>, len: usize) -> (Vec<u8>, Vec<Mode>) {
    let (mut octets, mut modes) = (Vec::new(), Vec::new());
    loop {
        let (received, buf) = end(socket.recv(context.buffer(len).unwrap(), ..));
        let received = received.unwrap();
        if received.mode == Mode::End {
            return (octets, modes);
        }
        octets.extend_from_slice(&buf[..received.octets as usize]);
        modes.push(received.mode);
    }
}

#[test]
fn a_stream_arrives_octet_by_octet_both_ways_at_a_time() {
    let world = World::new();
    let options = Options { ring: 16 << 10, ..Options::default() };
    let (ours, theirs) = world.connect::<Stream>(&options, &options);
    let lens = [1, 5, 1024, 1025, 70_000, 3, 300_000, 0, 17];
    std::thread::scope(|scope| {
        for (context, socket, of) in [(&world.client, &ours, 0), (&world.server, &theirs, 100)] {
            scope.spawn(move || {
                let sends: Vec<_> = (0..)
                    .zip(lens)
                    .map(|(number, len)| send(context, socket, &octets(of + number, len)))
                    .collect();
                socket.shutdown();
                for (op, len) in sends.into_iter().zip(lens) {
                    assert_eq!(end(op).0.map(|sent| sent.octets as usize), Ok(len));
                }
            });
            scope.spawn(move || {
                let (came, _) = receive_all(context, socket, 4321);
                let from = 100 - of;
                let sent: Vec<u8> =
                    (0..).zip(lens).flat_map(|(number, len)| octets(from + number, len)).collect();
                assert!(came == sent, "{} octets of {}", came.len(), sent.len());
            });
        }
    });
}

#[test]
fn octets_go_directly_into_receives_that_are_there_first() {
    let world = World::new();
    let options = Options::default();
    let (ours, theirs) = world.connect::<Stream>(&options, &options);
    let message = octets(7, 500_000);
    let receiving = theirs.recv_all(world.server.buffer(500_000).unwrap(), ..);
    // Its advert is there before this.
    assert!(end(send(&world.server, &theirs, b"go")).0.is_ok());
    assert_eq!(&end(ours.recv(world.client.buffer(2).unwrap(), ..)).1[..], b"go");
    let sending = send(&world.client, &ours, &message);
    let (received, buf) = end(receiving);
    assert_eq!(received.map(|outcome| (outcome.octets, outcome.mode)), Ok((500_000, Mode::Direct)));
    assert!(buf[..] == message);
    assert_eq!(end(sending).0.map(|outcome| outcome.mode), Ok(Mode::Direct));
}

#[test]
fn octets_that_nobody_awaits_go_through_the_ring() {
    let world = World::new();
    let options = Options { small_packet_max: 100, ..Options::default() };
    let (ours, theirs) = world.connect::<Stream>(&options, &options);
    let message = octets(8, 200_000);
    // The ring takes all of it.
    let (sent, _) = end(send(&world.client, &ours, &message));
    assert_eq!(sent.map(|outcome| outcome.mode), Ok(Mode::Ring));
    let (received, buf) = end(theirs.recv_all(world.server.buffer(200_000).unwrap(), ..));
    assert_eq!(received.map(|outcome| (outcome.octets, outcome.mode)), Ok((200_000, Mode::Ring)));
    assert!(buf[..] == message);
}

#[test]
fn a_stream_without_a_ring_waits_for_receives() {
    let world = World::new();
    let options = Options { ring: 0, small_packet_max: 0, ..Options::default() };
    let (ours, theirs) = world.connect::<Stream>(&options, &options);
    let message = octets(9, 50_000);
    let sending = send(&world.client, &ours, &message);
    ours.shutdown();
    let (came, modes) = receive_all(&world.server, &theirs, 7000);
    assert!(came == message);
    assert!(modes.iter().all(|mode| *mode == Mode::Direct), "{modes:?}");
    assert!(end(sending).0.is_ok());
}

#[test]
fn a_receive_that_is_advertised_can_be_canceled_and_loses_nothing() {
    let world = World::new();
    let options = Options::default();
    let (ours, theirs) = world.connect::<Stream>(&options, &options);
    for round in 0..20 {
        let canceled = theirs.recv(world.server.buffer(9000).unwrap(), ..);
        let message = octets(round, 5000);
        let sending = send(&world.client, &ours, &message);
        canceled.cancel();
        let (outcome, buf) = end(canceled);
        let mut came = match outcome {
            Ok(outcome) => buf[..outcome.octets as usize].to_vec(),
            Err(error) => {
                assert_eq!(error, Error::Canceled);
                Vec::new()
            }
        };
        if came.len() < message.len() {
            let rest = message.len() - came.len();
            let (outcome, buf) = end(theirs.recv_all(world.server.buffer(rest).unwrap(), ..));
            assert_eq!(outcome.map(|outcome| outcome.octets as usize), Ok(rest));
            came.extend_from_slice(&buf);
        }
        assert!(came == message, "round {round}");
        assert!(end(sending).0.is_ok());
    }
}

/// Receives that are advertised, that wait behind those, and that are started behind the end of reading.
#[test]
fn receives_end_in_order_when_a_side_stops_reading() {
    let world = World::new();
    for (adverts, plain) in [(1, Plain::Off), (2, Plain::Off), (16, Plain::Off), (16, Plain::Always)] {
        for round in 0..20 {
            let options = Options { adverts, plain, ..Options::default() };
            let (ours, theirs) = world.connect::<Stream>(&options, &options);
            let start = |len| theirs.recv_all(world.server.buffer(len).unwrap(), ..);
            let before = [5000; 3].map(start);
            // In some rounds they hold octets, or these come meanwhile.
            let sending = (round % 4 > 0).then(|| send(&world.client, &ours, &octets(round, round * 400)));
            if round % 2 > 0 {
                assert!(end(sending.unwrap()).0.is_ok());
            }
            theirs.shutdown_receive();
            // When a later one has ended, the others have. An event of one that ends before `on` comes at once.
            let late = [5000, 0].map(start);
            assert!(late.into_iter().all(|op| end(op).0.is_ok_and(|outcome| outcome.octets == 0)));
            let is_over = |op: Op<Ended>| op.wait_timeout(std::time::Duration::ZERO).is_ok();
            assert!(before.into_iter().all(is_over), "{adverts} {plain:?} {round}");
        }
    }
}

#[test]
fn all_operations_of_a_stream_end_when_the_peer_dies() {
    let world = World::new();
    let options = Options { ring: 4 << 10, ..Options::default() };
    let (ours, theirs) = world.connect::<Stream>(&options, &options);
    let message = octets(3, 100_000);
    let sends: Vec<_> = (0..10).map(|_| send(&world.client, &ours, &message)).collect();
    let receives: Vec<_> = (0..10).map(|_| ours.recv(world.client.buffer(100).unwrap(), ..)).collect();
    world.server.device().shutdown(std::time::Duration::ZERO);
    for op in sends {
        let (sent, buf) = end(op);
        assert!(sent.is_err() && buf[..] == message, "{sent:?}");
    }
    assert!(receives.into_iter().all(|op| end(op).0 == Err(Error::Reset)));
    drop(theirs);
}
