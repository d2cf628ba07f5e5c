//! Queues of events, waits, cancels and timeouts.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weft_exs::{Buf, Error, Messages, Op, Options, Outcome, Queue, Ready, Stream};

use crate::world::{PATIENCE, World, octets};

/// An operation that has ended, with the handle that it was given.
struct Event {
    handle: u64,
    result: Result<Outcome, Error>,
    buf: Buf,
}

/// Has an operation end as an event.
fn put(op: Op<(Result<Outcome, Error>, Buf)>, queue: &Queue<Event>, handle: u64) {
    op.on(queue.reserve().unwrap(), move |(result, buf)| Event { handle, result, buf });
}

fn is_readable(queue: &Queue<Event>) -> bool {
    let mut fds = [PollFd::new(queue, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
}

#[test]
fn operations_end_as_events_of_a_queue_in_the_order_of_their_starts() {
    let world = World::new();
    let options = Options::default();
    let (ours, theirs) = world.connect::<Messages>(&options, &options);
    let queue = world.server.queue(64).unwrap();
    assert!(queue.next().is_none() && !is_readable(&queue));
    let buffer = |len| world.server.buffer(len).unwrap();
    for handle in 0..20 {
        put(theirs.recv(buffer(3000), ..), &queue, handle);
    }
    let mut out = Vec::new();
    assert_eq!(queue.wait(1, 10, Some(Duration::from_millis(20)), &mut out), 0);
    let mut sends = Vec::new();
    for number in 0..20 {
        let mut buf = world.client.buffer(3000).unwrap();
        buf.copy_from_slice(&octets(number, 3000));
        sends.push(ours.send(buf, ..100 * number));
    }
    assert_eq!(queue.wait(20, 15, Some(PATIENCE), &mut out), 15);
    assert_eq!(queue.wait(5, 64, Some(PATIENCE), &mut out), 5);
    assert!(!is_readable(&queue));
    for (number, event) in out.iter().enumerate() {
        assert_eq!((event.handle, event.result.unwrap().octets as usize), (number as u64, 100 * number));
        assert!(event.buf[..100 * number] == octets(number, 3000)[..100 * number]);
    }
    assert!(sends.into_iter().all(|op| op.wait_timeout(PATIENCE).unwrap().0.is_ok()));
    // An operation that has ended makes its event at once.
    let (refused, buf) = theirs.send(buffer(1), ..2).wait();
    assert_eq!(refused, Err(Error::Range));
    put(theirs.send(buf, ..3), &queue, 99);
    assert!(is_readable(&queue) && queue.len() == 1);
    assert_eq!(queue.next().map(|event| event.handle), Some(99));
    assert!(!is_readable(&queue));
}

#[test]
fn a_queue_takes_no_more_operations_than_it_has_events() {
    let world = World::new();
    let options = Options::default();
    assert_eq!(world.server.queue::<Event>(0).err(), Some(Error::InvalidOption("depth")));
    let (ours, theirs) = world.connect::<Messages>(&options, &options);
    let queue = world.server.queue(2).unwrap();
    let receive = || theirs.recv(world.server.buffer(10).unwrap(), ..);
    put(receive(), &queue, 1);
    let place = queue.reserve().unwrap();
    assert_eq!(queue.reserve().err(), Some(Error::Full));
    // A place that is not used is free again.
    drop(place);
    put(receive(), &queue, 2);
    assert_eq!(queue.reserve().err(), Some(Error::Full));
    assert!(ours.send(world.client.buffer(1).unwrap(), ..).wait_timeout(PATIENCE).unwrap().0.is_ok());
    let mut out = Vec::new();
    // More than the queue has.
    let taken = queue.wait(5, 5, Some(Duration::from_millis(50)), &mut out);
    assert_eq!(taken, 1);
    // Its place is free.
    let last = receive();
    let canceler = last.canceler();
    put(last, &queue, 4);
    assert!(canceler.cancel() && !canceler.cancel());
    assert_eq!(theirs.cancel_all(), 1);
    assert_eq!(queue.wait(2, 5, Some(PATIENCE), &mut out), 2);
    let ended: Vec<_> = out.iter().map(|event| (event.handle, event.result.is_ok())).collect();
    assert_eq!(ended, [(1, true), (4, false), (2, false)]);
}

#[test]
fn a_wait_for_an_operation_ends_in_time_and_the_operation_goes_on() {
    let world = World::new();
    let options = Options::default();
    let (ours, theirs) = world.connect::<Messages>(&options, &options);
    let receiving = theirs.recv(world.server.buffer(10).unwrap(), ..);
    let receiving = receiving.wait_timeout(Duration::from_millis(30)).unwrap_err();
    let sending = ours.send(world.client.buffer(3).unwrap(), ..);
    let (received, _) = receiving.wait_timeout(PATIENCE).unwrap();
    assert_eq!(received.map(|outcome| outcome.octets), Ok(3));
    assert!(sending.wait_timeout(PATIENCE).unwrap().0.is_ok());
}

#[test]
fn a_receive_without_a_message_times_out_and_a_send_that_is_out_ends_the_connection() {
    let world = World::new();
    let brief = Some(Duration::from_millis(100));
    let ours = Options { recv_timeout: brief, send_timeout: brief, ..Options::default() };
    let (ours, theirs) = world.connect::<Messages>(&ours, &Options::default());
    let receiving = ours.recv(world.client.buffer(10).unwrap(), ..);
    assert_eq!(receiving.wait_timeout(PATIENCE).unwrap().0, Err(Error::TimedOut));
    // Nobody receives it.
    let sending = ours.send(world.client.buffer(10).unwrap(), ..);
    assert_eq!(sending.wait_timeout(PATIENCE).unwrap().0, Err(Error::TimedOut));
    assert_eq!(ours.send(world.client.buffer(10).unwrap(), ..).wait().0, Err(Error::TimedOut));
    let receiving = theirs.recv(world.server.buffer(10).unwrap(), ..);
    let _first = receiving.wait_timeout(PATIENCE).unwrap();
    let receiving = theirs.recv(world.server.buffer(10).unwrap(), ..);
    assert_eq!(receiving.wait_timeout(PATIENCE).unwrap().0, Err(Error::Reset));
}

#[test]
fn an_operation_that_is_dropped_goes_on() {
    let world = World::new();
    let options = Options::default();
    let (ours, theirs) = world.connect::<Messages>(&options, &options);
    drop(ours.send(world.client.buffer(100_000).unwrap(), ..));
    drop(theirs.recv(world.server.buffer(100_000).unwrap(), ..));
    let receiving = theirs.recv(world.server.buffer(10).unwrap(), ..);
    drop(ours.send(world.client.buffer(7).unwrap(), ..));
    let (received, _) = receiving.wait_timeout(PATIENCE).unwrap();
    assert_eq!(received.map(|outcome| outcome.octets), Ok(7));
}

#[test]
fn a_context_that_is_dropped_lets_its_sockets_finish() {
    let world = World::new();
    let options = Options::default();
    let (ours, theirs) = world.connect::<Messages>(&options, &options);
    let mut buf = world.client.buffer(100_000).unwrap();
    buf.copy_from_slice(&octets(1, 100_000));
    drop(ours.send(buf, ..));
    drop(ours);
    drop(world.client);
    let receiving = theirs.recv(world.server.buffer(100_000).unwrap(), ..);
    let (received, buf) = receiving.wait_timeout(PATIENCE).unwrap();
    assert_eq!(received.map(|outcome| outcome.octets), Ok(100_000));
    assert!(buf[..] == octets(1, 100_000));
}

const READABLE: Ready = Ready { readable: true, writable: false, ended: false };
const WRITABLE: Ready = Ready { readable: false, writable: true, ended: false };

fn ready(op: Op<Ready>) -> Ready {
    op.wait_timeout(PATIENCE).unwrap()
}

#[test]
fn readiness_is_told_when_it_comes() {
    let world = World::new();
    let options = Options { recv_credits: 1, ..Options::default() };
    let (ours, theirs) = world.connect::<Messages>(&options, &options);
    assert_eq!(ready(ours.poll_ready(Ready { readable: true, ..WRITABLE })), WRITABLE);
    assert_eq!(theirs.ready(), WRITABLE);
    let waiting = theirs.poll_ready(READABLE);
    let waiting = waiting.wait_timeout(Duration::from_millis(20)).unwrap_err();
    let sending = ours.send(world.client.buffer(3).unwrap(), ..);
    assert_eq!(ready(waiting), READABLE);
    // The only credit is used until the message is received.
    assert!(!ours.ready().writable);
    let waiting = ours.poll_ready(WRITABLE);
    let (received, _) = theirs.recv(world.server.buffer(9).unwrap(), ..).wait_timeout(PATIENCE).unwrap();
    assert_eq!(received.map(|outcome| outcome.octets), Ok(3));
    assert_eq!(ready(waiting), WRITABLE);
    assert!(sending.wait_timeout(PATIENCE).unwrap().0.is_ok() && !theirs.ready().readable);
    // A canceled wait ends without anything, and so does none that nobody cancels.
    let (canceled, other) = (theirs.poll_ready(READABLE), theirs.poll_ready(READABLE));
    assert!(canceled.cancel());
    assert_eq!(ready(canceled), Ready::default());
    ours.shutdown();
    assert_eq!(ready(other), READABLE);
    world.client.device().shutdown(Duration::ZERO);
    assert!(ready(theirs.poll_ready(Ready::default())).ended);
}

#[test]
fn a_stream_is_ready_to_be_read_while_octets_wait() {
    let world = World::new();
    let options = Options { ring: 4096, ..Options::default() };
    let (ours, theirs) = world.connect::<Stream>(&options, &options);
    assert_eq!((ours.ready(), theirs.ready()), (WRITABLE, WRITABLE));
    let sending = ours.send(world.client.buffer(5000).unwrap(), ..);
    assert_eq!(ready(theirs.poll_ready(READABLE)), READABLE);
    assert!(!ours.ready().writable);
    let (received, _) =
        theirs.recv_all(world.server.buffer(5000).unwrap(), ..).wait_timeout(PATIENCE).unwrap();
    assert_eq!(received.map(|outcome| outcome.octets), Ok(5000));
    assert!(sending.wait_timeout(PATIENCE).unwrap().0.is_ok());
    assert_eq!(ready(ours.poll_ready(WRITABLE)), WRITABLE);
    assert!(!theirs.ready().readable);
}

#[test]
fn options_of_a_socket_are_those_that_hold_with_the_peer() {
    let world = World::new();
    let ours = Options { small_packet_max: 500, send_credits: 9, recv_credits: 7, ..Options::default() };
    let theirs = Options { small_packet_max: 700, send_credits: 5, recv_credits: 8, ..Options::default() };
    let (client, server) = world.connect::<Messages>(&ours, &theirs);
    assert_eq!(client.options(), Options { send_credits: 8, ..ours });
    assert_eq!(server.options(), Options { small_packet_max: 500, ..theirs });
    let brief = Duration::from_millis(50);
    client.set_recv_timeout(Some(brief));
    let receiving = client.recv(world.client.buffer(1).unwrap(), ..);
    assert_eq!(receiving.wait_timeout(PATIENCE).unwrap().0, Err(Error::TimedOut));
    client.set_linger(brief);
    client.set_send_timeout(Some(brief));
    let times = Options { linger: brief, send_timeout: Some(brief), recv_timeout: Some(brief), ..ours };
    assert_eq!(client.options(), Options { send_credits: 8, ..times });
    // Addresses stay when the connection has ended.
    let [own, peer] = client.addresses().unwrap();
    assert_eq!(server.addresses(), Some([peer, own]));
    world.server.device().shutdown(Duration::ZERO);
    assert!(ready(client.poll_ready(Ready::default())).ended);
    assert_eq!(client.addresses(), Some([own, peer]));
}

/// Nobody has the operations any more, but their events come. Both ends are of one context.
#[test]
fn sockets_come_as_events() {
    let world = World::new();
    let options = Options::default();
    let queue = world.server.queue(2).unwrap();
    let listener =
        world.server.listen::<Stream>(std::net::SocketAddr::new(crate::world::LOCAL, 0), &options).unwrap();
    listener.accept().on(queue.reserve().unwrap(), |socket| (1, socket));
    let connecting = world.server.connect::<Stream>(listener.local_addr(), &options);
    connecting.on(queue.reserve().unwrap(), |socket| (2, socket));
    let mut out = Vec::new();
    assert_eq!(queue.wait(2, 2, Some(PATIENCE), &mut out), 2);
    out.sort_by_key(|(handle, _)| *handle);
    assert!(out.iter().all(|(_, socket)| socket.is_ok()), "{out:?}");
}
