//! Rings that grow.

use weft_sockets::Carrier;
use weft_sockets::layout::OwnOutbound;
use weft_sockets::sync::Ordering;

use crate::processes::daemon;
use crate::program::Script;

/// A sender fills the ring again and again, and the reader takes it all, in one thread.
const TEXT: &str = "
import os, select, socket, sys
listener = socket.create_server(('127.0.0.1', 0))
if 'WIDE' in os.environ: listener.setsockopt(socket.SOL_SOCKET, getattr(socket, os.environ['WIDE']), 4 << 20)
a = socket.create_connection(listener.getsockname())
b, _ = listener.accept()
a.setblocking(False)
period = bytes(n * 7 % 251 for n in range(251))
pattern = memoryview(period * 5000)
place = bytearray(1 << 20)
sent = received = 0
def exchange():
    global sent, received
    try:
        while True: sent += a.send(pattern[sent % 251:][:1_000_000])
    except BlockingIOError: pass
    while received < sent:
        count = b.recv_into(place)
        # The next octets have to come soon, so that the ring is full again within a millisecond.
        for at in 0, count - 1: assert place[at] == pattern[(received + at) % 251], received
        received += count
for line in sys.stdin:
    select.select([], [a], [])
    for n in range(20): exchange()
    print('here')
";

#[test]
fn a_ring_that_is_often_full_grows_to_a_mebibyte() {
    grows(&[], 20);
}

/// Sockets that are accepted have the listener's options. Here it is the reader's, and the sender hears of it.
#[test]
fn it_grows_to_four_for_a_program_that_wants_large_buffers() {
    grows(&[("WIDE", "SO_RCVBUF")], 22);
    grows(&[("WIDE", "SO_SNDBUF")], 22);
}

fn grows(variables: &[(&str, &str)], log2: u8) {
    let variables = [&[("WEFT_DAEMON", daemon()), ("WEFT_SOCKETS", "eager")], variables].concat();
    let Some(mut script) = Script::start_with(TEXT, &variables) else { return };
    // The ring before has been given back.
    let is_left = |own: &OwnOutbound| own.ring.load(Ordering::Relaxed) == 0;
    let size = |own: &OwnOutbound| match own.leg().carrier {
        Carrier::Ring(place) => place.log2,
        Carrier::Tcp => 0,
    };
    // The daemon's answers come beside the octets.
    let sizes: Vec<_> = (0..200)
        .map(|_| {
            script.go_on();
            assert_eq!(script.line(), "here");
            let slab = script.slab();
            let ends = (0..2).filter_map(|slot| slab.end(slot));
            ends.filter(|end| is_left(&end.outbound)).map(|end| size(&end.outbound)).max().unwrap_or(0)
        })
        .collect();
    assert_eq!(sizes.iter().max(), Some(&log2), "{sizes:?}");
}
