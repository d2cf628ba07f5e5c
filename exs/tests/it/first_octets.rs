//! How a listener finds out what a peer speaks, in the time of a context that this thread drives.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::task::{Poll, Waker};

use weft_exs::{Context, Error, Op, Options, Plain, Socket, Stream};
use weft_netif::{Duration, Instant};
use weft_rnic::{Config, Ground, Progress};

use crate::world::LOCAL;

type Accepting = Op<Result<Socket<Stream>, Error>>;

/// Drives the context at a time, for longer than octets take between two sockets of the system. Returns the socket if
/// there is one.
fn drive(context: &Context, accepting: &mut Accepting, millis: u64) -> Option<Socket<Stream>> {
    let mut task = std::task::Context::from_waker(Waker::noop());
    for _ in 0..200 {
        context.drive(Instant::ZERO + Duration::from_millis(millis));
        if let Poll::Ready(socket) = Future::poll(std::pin::Pin::new(accepting), &mut task) {
            return Some(socket.unwrap());
        }
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
    None
}

#[test]
fn the_key_may_come_in_pieces_and_silence_has_its_time() {
    let config = Config { progress: Progress::External, ..Config::host(LOCAL, 9) };
    let context = Context::open(Ground::Host, config).unwrap();
    let options = Options { plain: Plain::Accept, ..Options::default() };
    let listener = context.listen::<Stream>(SocketAddr::new(LOCAL, 0), &options).unwrap();
    let mut accepting = listener.accept();

    // All of the key, and then what is no Request: MPA closes the connection.
    let mut peer = TcpStream::connect(listener.local_addr()).unwrap();
    for piece in [&b"M"[..], b"PA ID Req Fram", b"e\x40\x01\xff\xff"] {
        assert!(drive(&context, &mut accepting, 0).is_none());
        peer.write_all(piece).unwrap();
    }
    peer.set_nonblocking(true).unwrap();
    let is_closed = |peer: &mut TcpStream| match peer.read(&mut [0; 1]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    };
    while !is_closed(&mut peer) {
        assert!(drive(&context, &mut accepting, 0).is_none());
    }

    // Some of the key, and nothing, for 200 ms.
    for (begin, said) in [(0, &b"MPA ID"[..]), (1000, b"")] {
        let mut peer = TcpStream::connect(listener.local_addr()).unwrap();
        peer.write_all(said).unwrap();
        assert!(drive(&context, &mut accepting, begin).is_none());
        assert!(drive(&context, &mut accepting, begin + 199).is_none());
        assert!(drive(&context, &mut accepting, begin + 200).is_some());
        accepting = listener.accept();
    }
}
