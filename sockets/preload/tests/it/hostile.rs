//! Others that keep no rules: a peer that writes anything into the shared memory, and a daemon of another user.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use weft_sockets::end::Phase;
use weft_sockets::layout::{Direction, End};
use weft_sockets::sync::Ordering::Relaxed;
use weft_sockets::{Carrier, Reason, Slab};

use crate::processes::daemon;
use crate::program::{PYTHON, Script};

/// For each line a new connection goes by rings. Behind the next line both ends send and receive what they can, beside
/// an older connection that goes on.
const TEXT: &str = "
import errno, select, socket, sys
listener = socket.create_server(('127.0.0.1', 0))
def pair():
    a = socket.create_connection(listener.getsockname())
    b, _ = listener.accept()
    for n in range(8): echo(a, b)
    return a, b
def echo(a, b):
    for one, other in (a, b), (b, a):
        one.send(b'octets')
        assert other.recv(6, socket.MSG_WAITALL) == b'octets'
old = pair()
def work(call):
    moved = 0
    while moved < 200000:
        try: done = call()
        except BlockingIOError: return 'fine'
        except OSError as error: return errno.errorcode[error.errno]
        if done == 0: return 'end'
        moved += done
    return 'fine'
for line in sys.stdin:
    a, b = pair()
    print(a.fileno(), flush=True)
    sys.stdin.readline()
    said = []
    for turn in range(2):
        for end in a, b:
            said.append(work(lambda: end.send(bytes(70000), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)))
            said.append(work(lambda: len(end.recv(70000, socket.MSG_DONTWAIT))))
    echo(*old)
    print(*said, flush=True)
    sys.stdin.readline()
    a.close(), b.close()
";

/// A word that breaks a rule, or that a peer may as well leave, and whether the connection ends by it.
type Attack = (&'static str, bool, fn(&Direction));

const ATTACKS: [Attack; 9] = [
    ("a tail far away", true, |direction| direction.producer.tail.store(u64::MAX, Relaxed)),
    ("a tail that goes back", true, |direction| direction.producer.tail.store(1, Relaxed)),
    ("a head far away", true, |direction| direction.consumer.head.store(u64::MAX / 2, Relaxed)),
    ("a leg of no kind", true, |direction| direction.legs.leg.store(u64::MAX, Relaxed)),
    ("a leg that comes too soon", true, |direction| direction.legs.leg.store(9, Relaxed)),
    ("sleepers that there are not", false, |direction| direction.reader.waiter.store(u32::MAX - 1, Relaxed)),
    ("everybody asleep", false, |direction| {
        direction.reader.waiter.store(u32::MAX, Relaxed);
        direction.legs.waiter.store(u32::MAX, Relaxed);
    }),
    ("other octets beside the tail", false, |direction| direction.producer.beside[0].store(7, Relaxed)),
    ("any mode", false, |direction| direction.reader.mode.store(u32::MAX, Relaxed)),
];

#[test]
fn a_peer_that_breaks_a_rule_ends_its_own_connection_only() {
    let variables = [("WEFT_DAEMON", daemon()), ("WEFT_SOCKETS", "eager")];
    let Some(mut script) = Script::start_with(TEXT, &variables) else { return };
    for (name, ends, attack) in ATTACKS {
        // The daemon's answers come beside the octets: some connections may be too short for them.
        let said = (0..TRIES).find_map(|_| talk(&mut script, attack)).expect("a connection by rings");
        let (said, reasons) = said;
        assert_eq!(said.contains("ECONNRESET"), ends, "{name}: {said}");
        assert_eq!(reasons.contains(&Some(Reason::Peer)), ends, "{name}: {reasons:?}");
        assert!(ends || said.split(' ').all(|word| word == "fine"), "{name}: {said}");
    }
}

/// Attacks the direction from the end that accepted, if it goes by a ring. Returns what the program's calls said, and
/// the reasons of both ends.
fn talk(script: &mut Script, attack: fn(&Direction)) -> Option<(String, [Option<Reason>; 2])> {
    script.go_on();
    script.line();
    let (slab, link) = (script.slab(), script.link());
    let ends = newest(&slab);
    // The reader is in the ring, too: it would write over some words when it comes there.
    let legs = ends.map(|end| [end.outbound.leg(), end.inbound.leg()]);
    let is_ring = legs.iter().flatten().all(|leg| leg.carrier != Carrier::Tcp);
    if let (true, Some(link)) = (is_ring, link) {
        let identity = &ends[1].identity;
        let channel = link.channel(identity.channel.load(Relaxed)).expect("a channel");
        attack(&channel.directions[identity.party.load(Relaxed) as usize]);
    }
    script.go_on();
    let said = script.line();
    let reasons = ends.map(End::reason);
    script.go_on();
    is_ring.then_some((said, reasons))
}

/// The ends of the youngest connection. Before them come the listener and the older one.
fn newest(slab: &Slab) -> [&End; 2] {
    let ends = (0..slab.header().ends.load(Relaxed)).filter_map(|slot| slab.end(slot));
    let ends = ends.filter(|end| !matches!(end.state().phase, Phase::Free | Phase::Closed)).skip(3);
    ends.collect::<Vec<_>>().try_into().expect("two ends")
}

/// Says what comes to a socket of its own at this name.
const LISTENER: &str = "
import socket, sys
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind('\\0' + sys.argv[1])
listener.listen()
print('listens', flush=True)
port, _ = listener.accept()
print(len(port.recv(100)), flush=True)
";

#[test]
fn a_daemon_of_another_user_is_told_nothing() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can run programs of another user");
        return;
    }
    let name = format!("weft-test-stranger-{}", std::process::id());
    let mut command = Command::new(PYTHON);
    command.args(["-c", LISTENER, &name]).uid(65_534).gid(65_534).current_dir("/").stdout(Stdio::piped());
    let Ok(mut stranger) = command.spawn() else {
        println!("skipped: {PYTHON} is not installed");
        return;
    };
    let mut lines = BufReader::new(stranger.stdout.take().expect("a pipe")).lines();
    let mut line = || lines.next().expect("a line").expect("text");
    assert_eq!(line(), "listens");
    let address = format!("@{name}");
    let variables = [("WEFT_DAEMON", address.as_str()), ("WEFT_SOCKETS", "eager")];
    let mut script = Script::start_with(TEXT, &variables).expect("python is here");
    script.go_on();
    script.line();
    assert_eq!(line(), "0", "octets that the stranger has got");
    let slab = script.slab();
    assert_eq!(newest(&slab).map(End::reason), [Some(Reason::NoDaemon); 2]);
    script.go_on();
    script.line();
    stranger.wait().expect("an end");
}

/// Connections until one is by rings in both directions.
const TRIES: usize = 200;
