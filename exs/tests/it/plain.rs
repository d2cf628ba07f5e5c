//! Peers over plain TCP: programs of the system, and other contexts.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use weft_exs::{
    Buf, Context, Error, Kind, Listener, Messages, Mode, Op, Options, Outcome, Plain, Ready, Socket, Stream,
};

use crate::world::{LOCAL, PATIENCE, World, context, octets};

type Ended = (Result<Outcome, Error>, Buf);

fn options(plain: Plain) -> Options {
    Options { plain, ..Options::default() }
}

fn listen<K: Kind>(context: &Context, options: &Options) -> Listener<K> {
    context.listen(SocketAddr::new(LOCAL, 0), options).unwrap()
}

fn end<T>(op: Op<T>) -> T {
    op.wait_timeout(PATIENCE).expect("the operation ends")
}

fn send(context: &Context, socket: &Socket<Stream>, octets: &[u8]) -> Op<Ended> {
    let mut buf = context.buffer(octets.len().max(1)).unwrap();
    buf[..octets.len()].copy_from_slice(octets);
    socket.send(buf, ..octets.len())
}

fn receive(context: &Context, socket: &Socket<Stream>, len: usize) -> Op<Ended> {
    socket.recv_all(context.buffer(len).unwrap(), ..)
}

fn result<T>(op: Op<(Result<Outcome, Error>, T)>) -> Result<(usize, Mode), Error> {
    end(op).0.map(|outcome| (outcome.octets as usize, outcome.mode))
}

/// Returns whether the other side has closed the connection, or ended it.
fn is_ended(peer: &mut TcpStream) -> bool {
    match peer.read(&mut [0; 1]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

/// A socket of a context, and its peer, a program of the system.
struct Pair {
    context: Context,
    socket: Socket<Stream>,
    peer: TcpStream,
}

impl Pair {
    /// The peer has said this when the socket is accepted.
    fn accepted(options: &Options, said: &[u8]) -> Self {
        let context = context(3);
        let listener = listen::<Stream>(&context, options);
        let accepting = listener.accept();
        let mut peer = TcpStream::connect(listener.local_addr()).unwrap();
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        peer.write_all(said).unwrap();
        let socket = end(accepting).unwrap();
        Self { context, socket, peer }
    }

    fn connected(options: &Options) -> Self {
        let context = context(4);
        let listener = TcpListener::bind((LOCAL, 0)).unwrap();
        let connecting = context.connect::<Stream>(listener.local_addr().unwrap(), options);
        let (peer, _) = listener.accept().unwrap();
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket: end(connecting).unwrap(), context, peer }
    }

    fn send(&self, octets: &[u8]) -> Op<Ended> {
        send(&self.context, &self.socket, octets)
    }

    fn receive(&self, len: usize) -> Op<Ended> {
        receive(&self.context, &self.socket, len)
    }

    /// Reads what the socket sends until its end.
    fn read(&mut self) -> Vec<u8> {
        let mut came = Vec::new();
        self.peer.read_to_end(&mut came).unwrap();
        came
    }
}

#[test]
fn octets_go_both_ways_at_a_time() {
    for pair in [Pair::accepted(&options(Plain::Always), b""), Pair::connected(&options(Plain::Always))] {
        let (there, back) = (octets(1, 3_000_000), octets(2, 2_000_000));
        let Pair { context, socket, peer } = pair;
        let ends = [peer.peer_addr().unwrap(), peer.local_addr().unwrap()];
        std::thread::scope(|scope| {
            let sends: Vec<_> = there.chunks(300_001).map(|part| send(&context, &socket, part)).collect();
            socket.shutdown();
            let receiving = receive(&context, &socket, back.len() + 1);
            scope.spawn(|| {
                let mut writer = &peer;
                writer.write_all(&back).unwrap();
                peer.shutdown(Shutdown::Write).unwrap();
            });
            let mut came = Vec::new();
            (&peer).read_to_end(&mut came).unwrap();
            assert!(came == there);
            for (op, part) in sends.into_iter().zip(there.chunks(300_001)) {
                assert_eq!(result(op), Ok((part.len(), Mode::Plain)));
            }
            let (received, buf) = end(receiving);
            assert_eq!(received.unwrap().octets as usize, back.len());
            assert!(buf[..back.len()] == back);
        });
        assert_eq!(result(receive(&context, &socket, 1)), Ok((0, Mode::End)));
        assert_eq!(end(socket.close()), Ok(()));
        let stats = socket.stats();
        assert_eq!((stats.sent.plain, stats.received.plain), (3_000_000, 2_000_000));
        assert_eq!(socket.addresses(), Some(ends));
    }
}

#[test]
fn peers_with_and_without_exs_come_to_one_port() {
    let world = World::new();
    let listener = listen::<Stream>(&world.server, &options(Plain::Accept));
    for round in 0..3 {
        let accepting = listener.accept();
        let mut peer = TcpStream::connect(listener.local_addr()).unwrap();
        peer.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let plain = end(accepting).unwrap();
        assert_eq!(result(receive(&world.server, &plain, 18)), Ok((18, Mode::Plain)));

        let accepting = listener.accept();
        let ours = end(world.client.connect::<Stream>(listener.local_addr(), &Options::default())).unwrap();
        let theirs = end(accepting).unwrap();
        let message = octets(round, 100_000);
        let receiving = receive(&world.server, &theirs, message.len());
        assert!(result(send(&world.client, &ours, &message)).is_ok());
        let (received, buf) = end(receiving);
        assert!(received.unwrap().mode != Mode::Plain && buf[..] == message);

        // Over TCP alone, from a context.
        let accepting = listener.accept();
        let connecting = world.client.connect::<Stream>(listener.local_addr(), &options(Plain::Always));
        let ours = end(connecting).unwrap();
        let sending = send(&world.client, &ours, &message);
        let theirs = end(accepting).unwrap();
        assert_eq!(result(receive(&world.server, &theirs, message.len())), Ok((100_000, Mode::Plain)));
        assert_eq!(result(sending), Ok((100_000, Mode::Plain)));
        let (one, other) = (ours.close(), theirs.close());
        assert_eq!((end(one), end(other)), (Ok(()), Ok(())));
    }
}

#[test]
fn a_peer_that_says_nothing_is_spoken_to() {
    let mut pair = Pair::accepted(&options(Plain::Accept), b"");
    assert_eq!(result(pair.send(b"220 ready\r\n")), Ok((11, Mode::Plain)));
    let mut greeting = [0; 11];
    pair.peer.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting, b"220 ready\r\n");
    pair.peer.write_all(b"QUIT").unwrap();
    assert_eq!(&end(pair.receive(4)).1[..], b"QUIT");
}

#[test]
fn a_peer_that_begins_like_a_request_loses_no_octet() {
    // The first octets of the key alone, then others; and others at once.
    for (said, then) in
        [(&b"MPA ID Req"[..], &b" Fr\0ame"[..]), (b"MPA ID Rep Frame", b"..."), (b"M", b"PA ID Req Frame")]
    {
        let mut pair = Pair::accepted(&options(Plain::Accept), said);
        pair.peer.write_all(then).unwrap();
        let (received, buf) = end(pair.receive(said.len() + then.len()));
        assert_eq!(received.unwrap().mode, Mode::Plain);
        assert_eq!(buf[..], [said, then].concat());
    }
}

#[test]
fn a_request_that_is_none_gives_its_place_back() {
    let context = context(5);
    let listener = listen::<Stream>(&context, &Options { backlog: 1, ..options(Plain::Accept) });
    for _ in 0..3 {
        let mut peer = TcpStream::connect(listener.local_addr()).unwrap();
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        // A length of private data that no Request has.
        peer.write_all(b"MPA ID Req Frame\x40\x01\xff\xff").unwrap();
        assert!(is_ended(&mut peer));
    }
    // The one place is there.
    let accepting = listener.accept();
    let mut peer = TcpStream::connect(listener.local_addr()).unwrap();
    peer.write_all(b"hello").unwrap();
    let socket = end(accepting).unwrap();
    assert_eq!(&end(receive(&context, &socket, 5)).1[..], b"hello");
}

#[test]
fn each_direction_is_shut_down_by_itself() {
    let mut pair = Pair::accepted(&options(Plain::Always), b"first");
    pair.peer.shutdown(Shutdown::Write).unwrap();
    assert_eq!(&end(pair.receive(5)).1[..], b"first");
    assert_eq!(result(pair.receive(1)), Ok((0, Mode::End)));
    // The other direction is open.
    let message = octets(6, 500_000);
    let sending = pair.send(&message);
    pair.socket.shutdown();
    assert_eq!(result(pair.send(b"late")), Err(Error::Shutdown));
    assert!(pair.read() == message);
    assert_eq!(result(sending), Ok((500_000, Mode::Plain)));
    // Both sides have ended, and all has been acknowledged.
    let ended = end(pair.socket.poll_ready(Ready::default()));
    assert!(ended.ended);
    assert_eq!(end(pair.socket.close()), Ok(()));
}

#[test]
fn a_side_that_reads_no_more_still_sends() {
    let pair = Pair::accepted(&options(Plain::Always), b"");
    let waiting = pair.receive(10);
    pair.socket.shutdown_receive();
    assert_eq!(result(waiting), Ok((0, Mode::End)));
    assert_eq!(result(pair.receive(10)), Ok((0, Mode::End)));
    assert_eq!(result(pair.send(b"still here")), Ok((10, Mode::Plain)));
    let mut came = [0; 10];
    (&pair.peer).read_exact(&mut came).unwrap();
    assert_eq!(&came, b"still here");
}

#[test]
fn a_close_with_unread_octets_resets_the_connection() {
    let mut pair = Pair::accepted(&options(Plain::Always), b"unread");
    assert!(end(pair.socket.poll_ready(Ready { readable: true, ..Ready::default() })).readable);
    assert_eq!(end(pair.socket.close()), Ok(()));
    let error = pair.peer.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_close_waits_for_the_peer_as_long_as_it_lingers() {
    let linger = Duration::from_millis(50);
    let mut pair = Pair::accepted(&Options { linger, ..options(Plain::Always) }, b"");
    let receiving = pair.receive(3);
    assert_eq!(result(pair.send(b"bye")), Ok((3, Mode::Plain)));
    // The peer does not close.
    assert_eq!(end(pair.socket.close()), Err(Error::TimedOut));
    assert_eq!(result(receiving), Err(Error::Canceled));
    // It sees FIN or RST, whichever it reads first; then nobody is there.
    let mut came = Vec::new();
    let _fin_or_rst = pair.peer.read_to_end(&mut came);
    assert_eq!(came, b"bye");
    assert!(pair.peer.write_all(b"?").and_then(|()| pair.peer.write_all(b"?")).is_err());
}

/// A peer that has not all octets when the program ends sees no clean end.
#[test]
fn a_context_that_is_closed_resets_plain_peers_that_miss_octets() {
    let mut pair = Pair::accepted(&options(Plain::Always), b"");
    let sending = pair.send(&octets(9, 20_000_000));
    assert_eq!(pair.context.close_all(Duration::from_millis(50)), 1);
    assert_eq!(result(sending), Err(Error::Canceled));
    let error = pair.peer.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);

    // Here only the peer's own end is missing.
    let mut pair = Pair::accepted(&options(Plain::Always), b"");
    assert_eq!(result(pair.send(b"bye")), Ok((3, Mode::Plain)));
    assert_eq!(pair.context.close_all(Duration::from_millis(50)), 1);
    assert_eq!(pair.read(), b"bye");
}

#[test]
fn a_reset_ends_all_operations_with_their_memory() {
    let pair = Pair::accepted(&options(Plain::Always), b"");
    let message = octets(7, 20_000_000);
    let (sends, receives) = ([pair.send(&message), pair.send(b"x")], [pair.receive(3), pair.receive(4)]);
    // A socket with unread octets is closed by RST.
    pair.peer.peek(&mut [0; 1]).unwrap();
    let ready = pair.socket.poll_ready(Ready::default());
    let Pair { peer, socket, context } = pair;
    drop(peer);
    for op in sends {
        let (sent, buf) = end(op);
        assert_eq!(sent.map(|outcome| outcome.mode), Err(Error::Reset));
        assert!(buf.len() == 1 || buf[..] == message);
    }
    for op in receives {
        assert_eq!(result(op), Err(Error::Reset));
    }
    assert!(end(ready).ended);
    assert_eq!(result(send(&context, &socket, b"late")), Err(Error::Reset));
    assert_eq!(result(receive(&context, &socket, 1)), Err(Error::Reset));
    assert_eq!(end(socket.close()), Ok(()));
}

#[test]
fn a_receive_that_ends_early_loses_no_octet() {
    let mut pair = Pair::accepted(&options(Plain::Always), b"");
    for round in 0..20 {
        let (canceled, message) = (pair.receive(9000), octets(round, 5000));
        pair.peer.write_all(&message).unwrap();
        canceled.cancel();
        let (outcome, buf) = end(canceled);
        let mut came = match outcome {
            Ok(outcome) => buf[..outcome.octets as usize].to_vec(),
            Err(error) => {
                assert_eq!(error, Error::Canceled);
                Vec::new()
            }
        };
        let rest = message.len() - came.len();
        if rest > 0 {
            came.extend_from_slice(&end(pair.receive(rest)).1);
        }
        assert!(came == message, "round {round}");
    }
    pair.socket.set_recv_timeout(Some(Duration::from_millis(20)));
    assert_eq!(result(pair.receive(10)), Err(Error::TimedOut));
    pair.peer.write_all(b"half").unwrap();
    let mut came = Vec::new();
    while came.len() < 4 {
        match end(pair.receive(10)) {
            (Ok(outcome), buf) => came.extend_from_slice(&buf[..outcome.octets as usize]),
            (Err(error), _) => assert_eq!(error, Error::TimedOut),
        }
    }
    assert_eq!(came, b"half");
}

#[test]
fn a_peer_that_never_reads_holds_its_own_connection_alone() {
    let context = context(6);
    let listener = listen::<Stream>(&context, &options(Plain::Always));
    let idle = TcpStream::connect(listener.local_addr()).unwrap();
    let held = end(listener.accept()).unwrap();
    let message = octets(8, 50_000_000);
    let (first, behind) = (send(&context, &held, &message), send(&context, &held, b"behind"));

    let mut peer = TcpStream::connect(listener.local_addr()).unwrap();
    let socket = end(listener.accept()).unwrap();
    for _ in 0..100 {
        peer.write_all(b"ping").unwrap();
        assert_eq!(&end(receive(&context, &socket, 4)).1[..], b"ping");
        assert_eq!(result(send(&context, &socket, b"pong")), Ok((4, Mode::Plain)));
        peer.read_exact(&mut [0; 4]).unwrap();
    }
    assert!(!held.ready().writable);
    // TCP has some of the first one, and nothing of the second one.
    assert!(behind.cancel() && !first.cancel());
    assert_eq!(result(behind), Err(Error::Canceled));
    held.set_send_timeout(Some(Duration::from_millis(10)));
    assert_eq!(result(send(&context, &held, b"late")), Err(Error::TimedOut));
    // Its end ends the first one.
    held.set_linger(Duration::ZERO);
    assert_eq!(end(held.close()), Err(Error::Canceled));
    let (sent, buf) = end(first);
    assert_eq!(sent.map(|outcome| outcome.octets), Err(Error::Canceled));
    assert!(buf[..] == message);
    drop(idle);
}

#[test]
fn parts_follow_one_another_and_a_send_on_the_wire_that_times_out_ends_the_connection() {
    let options = Options { send_timeout: Some(Duration::from_millis(50)), ..options(Plain::Always) };
    let mut pair = Pair::connected(&options);
    let message = octets(9, 1000);
    let parts = message.chunks(300).map(|part| {
        let mut buf = pair.context.buffer(302).unwrap();
        buf[1..=part.len()].copy_from_slice(part);
        (buf, 1..part.len() + 1)
    });
    assert_eq!(result(pair.socket.send_vectored(parts.collect())), Ok((1000, Mode::Plain)));
    let mut came = vec![0; 1000];
    pair.peer.read_exact(&mut came).unwrap();
    assert!(came == message);
    assert_eq!(result(pair.send(&octets(10, 50_000_000))), Err(Error::TimedOut));
    assert_eq!(result(pair.receive(1)), Err(Error::TimedOut));
}

#[test]
fn all_operations_end_when_the_device_is_shut_down() {
    let pair = Pair::accepted(&options(Plain::Always), b"");
    let (sending, receiving) = (pair.send(&octets(11, 50_000_000)), pair.receive(1));
    pair.context.device().shutdown(Duration::ZERO);
    assert_eq!((result(sending), result(receiving)), (Err(Error::Reset), Err(Error::Reset)));
}

#[test]
fn a_listener_that_is_dropped_ends_those_of_whom_nothing_is_known() {
    let context = context(7);
    let listener = listen::<Stream>(&context, &options(Plain::Accept));
    let mut peer = TcpStream::connect(listener.local_addr()).unwrap();
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    let accepting = listener.accept();
    drop(listener);
    assert!(matches!(end(accepting), Err(Error::Canceled) | Ok(_)));
    assert!(is_ended(&mut peer));
    assert_eq!(context.sockets(), 0);
}

#[test]
fn nobody_is_there_and_messages_need_exs() {
    let context = context(8);
    let free = TcpListener::bind((LOCAL, 0)).unwrap().local_addr().unwrap();
    let refused = end(context.connect::<Stream>(free, &options(Plain::Always)));
    assert!(matches!(refused, Err(Error::Connect(weft_rnic::ConnectFailure::Refused))), "{refused:?}");
    for plain in [Plain::Accept, Plain::Always] {
        let at = SocketAddr::new(LOCAL, 0);
        assert_eq!(
            context.listen::<Messages>(at, &options(plain)).unwrap_err(),
            Error::InvalidOption("plain")
        );
        let connecting = context.connect::<Messages>(free, &options(plain));
        assert_eq!(end(connecting).unwrap_err(), Error::InvalidOption("plain"));
    }
}
