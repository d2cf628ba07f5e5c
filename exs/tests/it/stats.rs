//! What sockets count.

use weft_exs::{ByWay, Messages, Options, Ready, Stats, Stream};

use crate::world::{PATIENCE, World};

#[test]
fn messages_are_counted_by_their_way_and_waits_for_credits() {
    let world = World::new();
    let options = Options { recv_credits: 2, ..Options::default() };
    let (ours, theirs) = world.connect::<Messages>(&options, &options);
    assert_eq!(ours.stats(), Stats::default());
    let sends: Vec<_> =
        [100, 5000, 200, 0].map(|len| ours.send(world.client.buffer(5000).unwrap(), ..len)).into();
    for _ in 0..4 {
        let receiving = theirs.recv(world.server.buffer(50).unwrap(), ..);
        assert!(receiving.wait_timeout(PATIENCE).unwrap().0.is_ok());
    }
    assert!(sends.into_iter().all(|op| op.wait_timeout(PATIENCE).unwrap().0.is_ok()));
    let octets = ByWay { direct: 5000, ring: 0, inline: 300, plain: 0 };
    let (sent, received) = (ours.stats(), theirs.stats());
    assert_eq!((sent.sent, received.received), (octets, octets));
    assert_eq!((sent.received, received.sent), (ByWay::default(), ByWay::default()));
    assert!(sent.advert_stalls >= 1, "{sent:?}");
    assert_eq!((sent.window_stalls, received.advert_stalls), (0, 0));
}

#[test]
fn octets_of_a_stream_are_counted_by_their_way_and_waits_for_the_ring() {
    const PIECE: usize = 100_000;
    let world = World::new();
    let options = Options { ring: 8192, small_packet_max: 100, ..Options::default() };
    let (ours, theirs) = world.connect::<Stream>(&options, &options);
    let send = |len| ours.send(world.client.buffer(len).unwrap(), ..);
    let receive = |len: usize| theirs.recv_all(world.server.buffer(len).unwrap(), ..);
    // Nothing is advertised: it goes through the ring, and waits for it.
    let sending = send(10_000);
    let readable = Ready { readable: true, ..Ready::default() };
    assert_eq!(theirs.poll_ready(readable).wait_timeout(PATIENCE).unwrap(), readable);
    assert!(receive(10_000).wait_timeout(PATIENCE).unwrap().0.is_ok());
    assert!(sending.wait_timeout(PATIENCE).unwrap().0.is_ok());
    let first = ours.stats();
    assert!(first.sent.ring >= 8192 && first.sent.inline == 0 && first.ring_stalls >= 1, "{first:?}");
    // A receive is advertised before the octets come.
    // At first its advert may still be on its way, since a ring has room as well.
    let mut most = 0;
    let mut ahead = Some(receive(PIECE));
    for _ in 0..20 {
        let next = receive(PIECE);
        let before = ours.stats().sent.direct;
        assert!(send(PIECE).wait_timeout(PATIENCE).unwrap().0.is_ok());
        assert!(ahead.replace(next).unwrap().wait_timeout(PATIENCE).unwrap().0.is_ok());
        most = most.max(ours.stats().sent.direct - before);
    }
    assert_eq!(most, PIECE as u64, "{:?}", ours.stats());
    assert!(send(50).wait_timeout(PATIENCE).unwrap().0.is_ok());
    assert!(send(PIECE - 50).wait_timeout(PATIENCE).unwrap().0.is_ok());
    assert!(ahead.unwrap().wait_timeout(PATIENCE).unwrap().0.is_ok());
    let (sent, received) = (ours.stats(), theirs.stats());
    assert_eq!(sent.sent.inline, 50);
    let ByWay { direct, ring, inline, plain: _ } = sent.sent;
    assert_eq!(direct + ring + inline, 10_000 + 21 * PIECE as u64);
    assert_eq!(received.received, sent.sent);
}
