//! Sends of several parts.

use core::ops::Range;

use weft_exs::{Buf, Error, Kind, Memory, Messages, Options, Outcome, Socket, Stream};

use crate::world::{PATIENCE, World, octets};

/// Cuts octets into parts, each in a buffer of its own between others.
fn parts(world: &World, octets: &[u8], lens: &[usize]) -> Vec<(Buf, Range<usize>)> {
    let mut at = 0;
    let part = |len: &usize| {
        let mut buf = world.client.buffer(len + 7).unwrap();
        buf[3..3 + len].copy_from_slice(&octets[at..at + len]);
        at += len;
        (buf, 3..3 + len)
    };
    lens.iter().map(part).collect()
}

fn send<K: Kind>(socket: &Socket<K>, parts: Vec<(Buf, Range<usize>)>) -> Result<Outcome, Error> {
    let given: Vec<_> = parts.iter().map(|(buf, range)| (buf.to_vec(), range.clone())).collect();
    let (outcome, back) = socket.send_vectored(parts).wait_timeout(PATIENCE).unwrap();
    let back: Vec<_> = back.into_iter().map(|(buf, range)| (buf.to_vec(), range)).collect();
    assert!(back == given, "the parts come back");
    outcome
}

const LENS: [&[usize]; 6] = [&[5], &[0], &[100, 0, 200, 1], &[0, 0], &[3000, 1, 70_000, 9], &[33; 31]];

#[test]
fn the_parts_of_a_message_arrive_as_one() {
    let world = World::new();
    let options = Options::default();
    let (ours, theirs) = world.connect::<Messages>(&options, &options);
    for (number, lens) in LENS.into_iter().enumerate() {
        let len = lens.iter().sum();
        let message = octets(number, len);
        let receiving = theirs.recv(world.server.buffer(100_000).unwrap(), ..);
        let sent = send(&ours, parts(&world, &message, lens)).unwrap();
        let (received, buf) = receiving.wait_timeout(PATIENCE).unwrap();
        assert_eq!((received.unwrap().octets as usize, sent.octets as usize), (len, len));
        assert!(buf[..len] == message && buf[len..].iter().all(|octet| *octet == 0), "{lens:?}");
    }
}

#[test]
fn the_parts_of_a_stream_follow_one_another_directly_and_through_the_ring() {
    let world = World::new();
    let options = Options { small_packet_max: 200, ring: 8192, ..Options::default() };
    let (ours, theirs) = world.connect::<Stream>(&options, &options);
    for is_ahead in [false, true] {
        for (number, lens) in LENS.into_iter().enumerate().filter(|(_, lens)| lens.iter().sum::<usize>() > 0)
        {
            let len: usize = lens.iter().sum();
            let stream = octets(number, len);
            let receive = || theirs.recv_all(world.server.buffer(len).unwrap(), ..);
            let ahead = is_ahead.then(receive);
            let sending = ours.send_vectored(parts(&world, &stream, lens));
            let receiving = ahead.unwrap_or_else(receive);
            let (received, buf) = receiving.wait_timeout(PATIENCE).unwrap();
            assert_eq!(received.unwrap().octets as usize, len);
            assert!(buf[..] == stream, "{lens:?}");
            assert!(sending.wait_timeout(PATIENCE).unwrap().0.is_ok());
        }
    }
}

#[test]
fn no_parts_too_many_and_too_long_ones_are_refused() {
    let world = World::new();
    let options = Options::default();
    let (ours, _theirs) = world.connect::<Messages>(&options, &options);
    assert_eq!(send(&ours, Vec::new()), Err(Error::Range));
    assert_eq!(send(&ours, parts(&world, &[0; 32], &[1; 32])), Err(Error::MessageSize));
    let mut beyond = parts(&world, &[0; 2], &[1, 1]);
    beyond[1].1.end = 99;
    assert_eq!(send(&ours, beyond), Err(Error::Range));
    let foreign: Vec<(Memory, Range<usize>)> = vec![(world.server.memory(4).unwrap(), 0..4)];
    assert_eq!(ours.send_vectored(foreign).wait().0, Err(Error::ForeignMemory));
}
