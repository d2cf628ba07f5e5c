//! A connection whose address goes away while it leaves TCP, and comes back.

use weft_sockets::Carrier;
use weft_sockets::end::Phase;
use weft_sockets::layout::End;
use weft_sockets::sync::Ordering;

use crate::processes::start_daemon;
use crate::program::Script;
use crate::programs::scratch;

/// Both ends are in one thread, in a network namespace of its own. A line tells the octets that `a` has sent, and the
/// kernel's count of them, in which each failed transmission counts.
const TEXT: &str = "
import ctypes, os, socket, struct, subprocess, sys
libc = ctypes.CDLL(None)
uid = os.geteuid()
if libc.unshare(0x40000000) != 0:
    if libc.unshare(0x50000000) != 0: sys.exit(print('no namespace'))
    with open('/proc/self/uid_map', 'w') as file: file.write(f'0 {uid} 1')
def ip(*words):
    return subprocess.run(['ip', *words], stderr=subprocess.DEVNULL).returncode
try:
    if ip('link', 'set', 'lo', 'up') or ip('address', 'add', '10.9.9.1/32', 'dev', 'lo'):
        sys.exit(print('no addresses'))
except FileNotFoundError:
    sys.exit(print('no ip of iproute2'))
listener = socket.create_server(('10.9.9.1', 0))
a = socket.create_connection(listener.getsockname())
b, _ = listener.accept()
octets = bytes(n * 7 % 251 for n in range(251)) * 100
sent = 0
def send(len):
    global sent
    assert a.send(octets[sent:sent + len]) == len
    sent += len
def told():
    info = a.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 216)
    not_sent, = struct.unpack_from('I', info, 144)
    segments, again = (struct.unpack_from('Q', info, at)[0] for at in (200, 208))
    print(sent, segments - again + not_sent)
    input()
for n in range(4):
    send(250)
    assert len(b.recv(250, socket.MSG_WAITALL)) == 250
# The reader leaves TCP behind a receive, so something is left to be received.
send(2000)
while len(b.recv(2000, socket.MSG_PEEK)) < 2000: pass
told()
ip('address', 'del', '10.9.9.1/32', 'dev', 'lo')
send(2000)
told()
received = b''
while True:
    received += b.recv(1)
    send(1)
    print('here')
    if input(): break
ip('address', 'add', '10.9.9.1/32', 'dev', 'lo')
while len(received) < sent - 1000: received += b.recv(1 << 16)
print(received == octets[1000:sent])
input()
";

#[test]
fn a_route_that_vanishes_moves_no_switch() {
    let daemon = scratch(&format!("route-{}", std::process::id()));
    let daemon = daemon.to_str().expect("a path of text");
    start_daemon(daemon);
    let Some(mut script) = Script::start_with(TEXT, &[("WEFT_DAEMON", daemon)]) else { return };
    let first = script.line();
    if first.starts_with("no ") {
        println!("skipped: {first}");
        return;
    }
    assert_eq!(first, "3000 3000");
    let slab = script.slab();
    let ends: Vec<&End> = (1..3).filter_map(|slot| slab.end(slot)).collect();
    assert!(ends.iter().all(|end| end.state().phase != Phase::Plain), "claimed while all is well");
    script.go_on();
    let (sent, counted) = {
        let line = script.line();
        let (sent, counted) = line.split_once(' ').expect("two numbers");
        (sent.parse::<u64>().expect("a number"), counted.parse::<u64>().expect("a number"))
    };
    assert_eq!(sent, 5000);
    assert!(counted > sent, "each try counts: {counted}");
    script.go_on();
    let is_ring = |end: &End| end.outbound.leg().carrier != Carrier::Tcp;
    // The daemon's offers come beside the octets.
    for _ in 0..TURNS {
        assert_eq!(script.line(), "here");
        if is_ring(ends[0]) {
            break;
        }
        script.go_on();
    }
    assert!(is_ring(ends[0]), "the sender stays on TCP: {:?}", ends[0].reason());
    let start = ends[0].outbound.starts[1].load(Ordering::Relaxed);
    assert!(start > sent, "the ring begins at {start}, behind what the kernel could not send");
    script.say("on");
    assert_eq!(script.line(), "True");
    script.end();
    std::fs::remove_file(daemon).expect("the daemon's path");
}

/// The reader has octets for more turns.
const TURNS: usize = 1900;
