//! Rings that grow.

use weft_sockets::Carrier;
use weft_sockets::layout::{End, OwnOutbound};
use weft_sockets::sync::Ordering;

use crate::processes::daemon;
use crate::program::Script;

/// A sender fills the ring again and again, and the reader takes it all, in one thread.
const TEXT: &str = "
import select, socket, sys
listener = socket.create_server(('127.0.0.1', 0))
a = socket.create_connection(listener.getsockname())
b, _ = listener.accept()
a.setblocking(False)
period = bytes(n * 7 % 251 for n in range(251))
pattern = memoryview(period * 5000)
sent = received = 0
def exchange():
    global sent, received
    try:
        while True: sent += a.send(pattern[sent % 251:][:25_000])
    except BlockingIOError: pass
    while received < sent:
        data = b.recv(1 << 20)
        assert data == pattern[received % 251:][:len(data)], received
        received += len(data)
for line in sys.stdin:
    select.select([], [a], [])
    for n in range(20): exchange()
    print('here')
";

#[test]
fn a_ring_that_is_often_full_grows_to_a_mebibyte() {
    let Some(mut script) = Script::start_with(TEXT, &[("WEFT_DAEMON", daemon()), ("WEFT_SOCKETS", "eager")])
    else {
        return;
    };
    let is_grown = |own: &OwnOutbound| match own.leg().carrier {
        // The ring before has been given back.
        Carrier::Ring(place) => place.log2 == 20 && own.ring.load(Ordering::Relaxed) == 0,
        Carrier::Tcp => false,
    };
    // The daemon's answers come beside the octets.
    let has_grown = (0..200).any(|_| {
        script.go_on();
        assert_eq!(script.line(), "here");
        let slab = script.slab();
        let mut ends = (0..2).filter_map(|slot| slab.end(slot));
        ends.any(|end: &End| is_grown(&end.outbound))
    });
    assert!(has_grown, "the ring stays small");
}
