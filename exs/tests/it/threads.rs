//! Many threads, many sockets, and sockets that are dropped in the middle of it.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use weft_exs::{Context, Error, Messages, Mode, Options, Plain, Stream};
use weft_rnic::{Config, Ground, Progress};

use crate::world::{LOCAL, PATIENCE, World, octets};

#[test]
fn eight_threads_share_a_socket_and_each_message_comes_once() {
    const EACH: usize = 200;
    let world = World::new();
    let options = Options { window: 8, send_credits: 5, recv_credits: 5, ..Options::default() };
    let (ours, theirs) = world.connect::<Messages>(&options, &options);
    let (seen, lens) = (Mutex::new(HashSet::new()), [4, 300, 3000, 20_000]);
    thread::scope(|scope| {
        for sender in 0..4 {
            let (ours, client) = (ours.clone(), &world.client);
            scope.spawn(move || {
                let mut buf = client.buffer(20_000).unwrap();
                for number in (0..EACH).map(|number| sender * EACH + number) {
                    let len = lens[number % lens.len()];
                    buf[..len].copy_from_slice(&octets(number, len));
                    buf[..4].copy_from_slice(&u32::try_from(number).unwrap().to_be_bytes());
                    let (sent, back) = ours.send(buf, ..len).wait_timeout(PATIENCE).unwrap();
                    assert_eq!(sent.map(|outcome| outcome.octets as usize), Ok(len));
                    buf = back;
                }
            });
        }
        for _ in 0..4 {
            let (theirs, server, seen) = (theirs.clone(), &world.server, &seen);
            scope.spawn(move || {
                let mut buf = server.buffer(20_000).unwrap();
                for _ in 0..EACH {
                    let (received, back) = theirs.recv(buf, ..).wait_timeout(PATIENCE).unwrap();
                    let len = received.unwrap().octets as usize;
                    let number = u32::from_be_bytes(back[..4].try_into().unwrap());
                    assert!(back[4..len] == octets(number as usize, len)[4..]);
                    assert!(seen.lock().unwrap().insert(number));
                    buf = back;
                }
            });
        }
    });
    assert_eq!(seen.lock().unwrap().len(), 4 * EACH);
}

#[test]
fn records_of_eight_threads_stay_whole_in_a_stream() {
    const EACH: usize = 300;
    const RECORD: usize = 1500;
    let world = World::new();
    let options = Options { window: 8, adverts: 3, ring: 8192, ..Options::default() };
    let (ours, theirs) = world.connect::<Stream>(&options, &options);
    let seen = Mutex::new(HashSet::new());
    thread::scope(|scope| {
        for sender in 0..4 {
            let (ours, client) = (ours.clone(), &world.client);
            scope.spawn(move || {
                for number in (0..EACH).map(|number| sender * EACH + number) {
                    let mut buf = client.buffer(RECORD).unwrap();
                    buf.copy_from_slice(&octets(number, RECORD));
                    buf[..4].copy_from_slice(&u32::try_from(number).unwrap().to_be_bytes());
                    assert!(ours.send(buf, ..).wait_timeout(PATIENCE).unwrap().0.is_ok());
                }
            });
        }
        for _ in 0..4 {
            let (theirs, server, seen) = (theirs.clone(), &world.server, &seen);
            scope.spawn(move || {
                let mut buf = server.buffer(RECORD).unwrap();
                for _ in 0..EACH {
                    let (received, back) = theirs.recv_all(buf, ..).wait_timeout(PATIENCE).unwrap();
                    assert_eq!(received.map(|outcome| outcome.octets as usize), Ok(RECORD));
                    let number = u32::from_be_bytes(back[..4].try_into().unwrap());
                    assert!(back[4..] == octets(number as usize, RECORD)[4..]);
                    assert!(seen.lock().unwrap().insert(number));
                    buf = back;
                }
            });
        }
    });
    assert_eq!(seen.lock().unwrap().len(), 4 * EACH);
}

/// Each operation ends, whichever side goes first, and nothing is left.
#[test]
fn sockets_that_are_dropped_in_the_middle_end_all_operations_of_both_sides() {
    let world = World::new();
    let options = Options { window: 8, recv_credits: 4, ..Options::default() };
    for round in 0..30 {
        let (ours, theirs) = world.connect::<Messages>(&options, &options);
        let (ended, all) = (AtomicUsize::new(0), 40);
        let work = |socket: &weft_exs::Socket<Messages>, context: &Context| {
            for number in 0..all {
                let buf = context.buffer(5000).unwrap();
                let op =
                    if number % 2 == 0 { socket.send(buf, ..number * 100) } else { socket.recv(buf, ..) };
                let (outcome, buf) = op.wait_timeout(PATIENCE).unwrap();
                assert_eq!(buf.len(), 5000);
                ended.fetch_add(usize::from(outcome.is_err()), Ordering::Relaxed);
            }
        };
        thread::scope(|scope| {
            let (left, right) = (ours.clone(), theirs.clone());
            let (client, server, work) = (&world.client, &world.server, &work);
            scope.spawn(move || work(&left, client));
            scope.spawn(move || work(&right, server));
            // A thread that goes on has a handle of its own, so that the socket has to be closed.
            let first = if round % 2 == 0 { ours } else { theirs };
            thread::sleep(std::time::Duration::from_micros(50 * round));
            drop(first.close());
        });
        until(|| world.client.sockets() + world.server.sockets() == 0);
    }
}

/// Both sides close at once, right behind their last messages: nobody hears of a reset.
#[test]
fn closes_that_cross_are_clean() {
    let world = World::new();
    let options = Options { window: 8, ..Options::default() };
    for round in 0..60 {
        let (ours, theirs) = world.connect::<Messages>(&options, &options);
        thread::scope(|scope| {
            for (socket, context) in [(ours, &world.client), (theirs, &world.server)] {
                scope.spawn(move || {
                    let sends: Vec<_> = (0..6)
                        .map(|_| socket.send(context.buffer(3000).unwrap(), ..1500 * (round % 3)))
                        .collect();
                    socket.shutdown();
                    for _ in 0..6 {
                        let receiving = socket.recv(context.buffer(3000).unwrap(), ..);
                        assert!(receiving.wait_timeout(PATIENCE).unwrap().0.is_ok(), "round {round}");
                    }
                    let closing = socket.close();
                    for sending in sends {
                        assert!(sending.wait_timeout(PATIENCE).unwrap().0.is_ok(), "round {round}");
                    }
                    assert_eq!(closing.wait_timeout(PATIENCE).unwrap(), Ok(()));
                });
            }
        });
        until(|| world.client.sockets() + world.server.sockets() == 0);
    }
}

#[test]
fn a_context_has_a_thousand_sockets() {
    const SOCKETS: usize = 1000;
    let (left, right) = weft_netif::pair(9000);
    let open = |wire, ip: &str, seed| {
        let config = Config { progress: Progress::Thread, ..Config::new(ip.parse().unwrap(), seed) };
        Context::open(wire, config).unwrap()
    };
    let (client, server) = (open(left, "10.0.0.1/24", 1), open(right, "10.0.0.2/24", 2));
    let small =
        Options { window: 8, recv_credits: 1, small_packet_max: 64, backlog: SOCKETS, ..Options::default() };
    let listener = server.listen::<Messages>(5000, &small).unwrap();
    let peer = server.device().address(5000);
    let connecting: Vec<_> = (0..SOCKETS).map(|_| client.connect::<Messages>(peer, &small)).collect();
    let ours: Vec<_> = connecting.into_iter().map(|op| op.wait_timeout(PATIENCE).unwrap().unwrap()).collect();
    let theirs: Vec<_> =
        (0..SOCKETS).map(|_| listener.accept().wait_timeout(PATIENCE).unwrap().unwrap()).collect();
    assert_eq!((client.sockets(), server.sockets()), (SOCKETS, SOCKETS));
    let receives: Vec<_> = theirs.iter().map(|socket| socket.recv(server.buffer(100).unwrap(), ..)).collect();
    let sends: Vec<_> = (0..)
        .zip(&ours)
        .map(|(number, socket)| {
            let mut buf = client.buffer(100).unwrap();
            buf.copy_from_slice(&octets(number, 100));
            // Half of them are immediate.
            socket.send(buf, ..50 + number % 2 * 50)
        })
        .collect();
    let mut modes = HashSet::new();
    for (sending, receiving) in sends.into_iter().zip(receives) {
        let (received, buf) = receiving.wait_timeout(PATIENCE).unwrap();
        let outcome = received.unwrap();
        modes.insert(outcome.mode == Mode::Read);
        assert!(buf[..outcome.octets as usize].iter().any(|octet| *octet != 0));
        assert!(sending.wait_timeout(PATIENCE).unwrap().0.is_ok());
    }
    assert_eq!(modes.len(), 2);
    drop((ours, theirs));
    until(|| client.sockets() + server.sockets() == 0);
}

/// The sockets of a device are shared out among its engines, and those of both kinds work on each.
#[test]
fn sockets_use_all_engines_of_a_device() {
    let open = |seed| {
        let config = Config { engines: 2, ..Config::host(LOCAL, seed) };
        Context::open(Ground::Host, config).unwrap()
    };
    let world = World { client: open(1), server: open(2) };
    let options = Options::default();
    for number in 0..4 {
        let (ours, theirs) = world.connect::<Messages>(&options, &options);
        let streams = world.connect::<Stream>(&options, &options);
        // An odd number of sockets: the next ones are on the other engines.
        drop(world.connect::<Stream>(&options, &options));
        for len in [100, 100_000] {
            let mut bufs = [(); 2].map(|()| world.client.buffer(len).unwrap());
            bufs.iter_mut().for_each(|buf| buf.copy_from_slice(&octets(number + len, len)));
            let [message, stream] = bufs;
            let sends = [ours.send(message, ..), streams.0.send(stream, ..)];
            let receive = |_| world.server.buffer(len).unwrap();
            let [message, stream] = [0, 1].map(receive);
            for op in [theirs.recv(message, ..), streams.1.recv_all(stream, ..)] {
                let (received, buf) = op.wait_timeout(PATIENCE).unwrap();
                assert!(received.unwrap().octets as usize == len && buf[..] == octets(number + len, len));
            }
            assert!(sends.into_iter().all(|op| op.wait_timeout(PATIENCE).unwrap().0.is_ok()));
        }
    }
    for engine in 0..2 {
        for side in [&world.client, &world.server] {
            let counters = side.device().engine_counters(engine).unwrap();
            let octets = counters.mpa.octets_sent + counters.mpa.octets_received;
            assert!(octets > 400_000, "engine {engine}: {octets} octets");
        }
    }
}

/// Connections over TCP alone have no queue pair that chooses an engine.
#[test]
fn sockets_over_plain_tcp_use_all_engines_of_a_device() {
    const ENGINES: usize = 3;
    const LEN: usize = 100_000;
    let open = |seed| {
        let config = Config { engines: ENGINES, ..Config::host(LOCAL, seed) };
        Context::open(Ground::Host, config).unwrap()
    };
    let world = World { client: open(1), server: open(2) };
    let options = Options { plain: Plain::Always, ..Options::default() };
    for number in 0..2 * ENGINES {
        let (ours, theirs) = world.connect::<Stream>(&options, &options);
        for (from, to, contexts) in [
            (&ours, &theirs, [&world.client, &world.server]),
            (&theirs, &ours, [&world.server, &world.client]),
        ] {
            let mut buf = contexts[0].buffer(LEN).unwrap();
            buf.copy_from_slice(&octets(number, LEN));
            let sending = from.send(buf, ..);
            let receiving = to.recv_all(contexts[1].buffer(LEN).unwrap(), ..);
            let (received, buf) = receiving.wait_timeout(PATIENCE).unwrap();
            assert!(received.unwrap().octets as usize == LEN && buf[..] == octets(number, LEN));
            assert!(sending.wait_timeout(PATIENCE).unwrap().0.is_ok());
        }
    }
    for (side, engine) in [&world.client, &world.server]
        .into_iter()
        .flat_map(|side| (0..ENGINES).map(move |engine| (side, engine)))
    {
        let host = side.device().engine_counters(engine).unwrap().host;
        assert_eq!(
            (host.octets_sent, host.octets_received),
            (2 * LEN as u64, 2 * LEN as u64),
            "engine {engine}"
        );
    }
}

#[test]
fn a_context_is_dropped_by_another_thread_than_its_own() {
    let world = World::new();
    let options = Options::default();
    let listener = world.server.listen::<Messages>(SocketAddr::new(LOCAL, 0), &options).unwrap();
    let accepting = listener.accept();
    let (client, peer) = (world.client, listener.local_addr());
    thread::scope(|scope| {
        scope.spawn(move || drop(client.connect::<Messages>(peer, &options)));
    });
    // Nobody wanted the socket any more when it came.
    let theirs = accepting.wait_timeout(PATIENCE).unwrap().unwrap();
    let receiving = theirs.recv(world.server.buffer(1).unwrap(), ..);
    let ended = receiving.wait_timeout(PATIENCE).unwrap().0;
    assert!(
        ended.is_err_and(|error| error == Error::Reset)
            || ended.is_ok_and(|outcome| outcome.mode == Mode::End)
    );
}

fn until(is_there: impl Fn() -> bool) {
    for _ in 0..PATIENCE.as_millis() {
        if is_there() {
            return;
        }
        thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("it does not come")
}
