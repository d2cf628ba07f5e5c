//! Processes whose connections go back to TCP at the word of an operator.

use weft_daemon::{Config, Daemon, Drained, Operator, Rules};
use weft_sockets::end::Phase;
use weft_sockets::layout::End;
use weft_sockets::sync::Ordering;
use weft_sockets::{Carrier, Leg, Reason, Slab};

use crate::processes::daemon;
use crate::program::Script;

/// Sends everything back.
const SERVER: &str = "
import socket
listener = socket.create_server(('127.0.0.1', 0))
print(listener.getsockname()[1])
a, _ = listener.accept()
while octets := a.recv(1 << 16): a.sendall(octets)
print('over')
input()
";

/// The same, by edges of epoll.
const BY_EPOLL: &str = "
import select, socket
listener = socket.create_server(('127.0.0.1', 0))
print(listener.getsockname()[1])
a, _ = listener.accept()
a.setblocking(False)
events = select.epoll()
events.register(a, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
todo, is_over = b'', False
while not is_over:
    events.poll()
    try:
        while True:
            while todo: todo = todo[a.send(todo):]
            todo = a.recv(1 << 16)
            if not todo: is_over = True; break
    except BlockingIOError: pass
print('over')
input()
";

/// Sends octets and compares what comes back: in turns until there is a line, or some turns for each line.
const CLIENT: &str = "
import select, socket, sys
a = socket.create_connection(('127.0.0.1', int(input())))
pattern = bytes(n * 7 % 251 for n in range(251)) * 40
at = 0
def exchange():
    global at
    out = pattern[at % 251:][:5000]
    a.sendall(out)
    got = b''
    while len(got) < len(out):
        octets = a.recv(1 << 16)
        assert octets, at
        got += octets
    assert got == out, at
    at += len(out)
for line in sys.stdin:
    if line == 'turns\\n':
        for n in range(100): exchange()
    elif line == 'flow\\n':
        print('flows')
        while not select.select([0], [], [], 0)[0]: exchange()
    else: break
    print(at)
a.close()
print('over')
";

/// A script, and the ends of its process.
struct Party {
    script: Script,
    slab: Slab,
    daemon: String,
}

/// Both programs, and a stream between them by rings. `None`: there is no Python.
fn talking(server: &str, daemon: &str) -> Option<[Party; 2]> {
    let variables = [("WEFT_DAEMON", daemon), ("WEFT_SOCKETS", "eager")];
    let mut server = Script::start_with(server, &variables)?;
    let mut client = Script::start_with(CLIENT, &variables)?;
    client.say(&server.line());
    turns(&mut client);
    let [server, mut client] = [server, client].map(|script| {
        let slab = script.slab();
        Party { script, slab, daemon: daemon.to_owned() }
    });
    // The daemon's answers come beside the octets.
    while ![&server, &client].iter().all(|party| party.end().is_some_and(is_ring)) {
        turns(&mut client.script);
    }
    Some([server, client])
}

impl Party {
    /// The end of the connection, once it has a channel.
    fn end(&self) -> Option<&End> {
        self.slab.ends().map(|(_, end)| end).find(|end| end.state().phase == Phase::Offered)
    }

    fn try_drain(&self) -> std::io::Result<Drained> {
        let address = self.daemon.parse().unwrap_or_else(|error| panic!("{error}"));
        let operator = Operator::connect(&address).expect("a socket").expect("a daemon");
        operator.drain(self.script.pid())
    }

    fn drain(&self) -> Drained {
        self.try_drain().expect("an answer")
    }
}

/// Has the client go on, and returns how many octets it has compared.
fn turns(client: &mut Script) -> u64 {
    client.say("turns");
    client.line().parse().unwrap_or_else(|_| panic!("the client has failed"))
}

fn carriers(end: &End) -> [Carrier; 2] {
    let words = [end.outbound.leg.load(Ordering::Acquire), end.inbound.leg.load(Ordering::Acquire)];
    words.map(|word| Leg::from_word(word).unwrap_or_default().carrier)
}

fn is_ring(end: &End) -> bool {
    carriers(end).iter().all(|carrier| matches!(carrier, Carrier::Ring(_)))
}

#[test]
fn a_stream_goes_on_by_tcp_when_one_of_its_programs_is_drained() {
    for (text, drained) in [(SERVER, 0), (SERVER, 1), (BY_EPOLL, 0), (BY_EPOLL, 1)] {
        let Some(mut parties) = talking(text, daemon()) else { return };
        parties[1].script.say("flow");
        assert_eq!(parties[1].script.line(), "flows");
        assert_eq!(parties[drained].drain(), Drained { done: 1, left: 0 });
        assert_eq!(parties[drained].end().and_then(End::reason), Some(Reason::Drained));
        // The stream goes on, and no octet of it by a ring.
        parties[1].script.say("turns");
        let before: u64 = parties[1].script.line().parse().expect("a number");
        assert!(parties[1].script.line().parse::<u64>().expect("a number") > before);
        let octets = by_ring(&parties);
        assert!(octets.iter().all(|octets| *octets > 0));
        assert!(turns(&mut parties[1].script) > before);
        for party in &parties {
            assert_eq!(party.end().map(carriers), Some([Carrier::Tcp; 2]));
        }
        assert_eq!(by_ring(&parties), octets, "it does not come up again");
        assert_eq!(parties[0].drain(), Drained { done: 0, left: 0 });
        finish(parties);
    }
}

/// The client waits for its standard input, and hears nothing. The connection stays in its rings, and loses nothing.
#[test]
fn a_connection_whose_other_end_makes_no_call_stays_as_it_is() {
    let Some(mut parties) = talking(SERVER, daemon()) else { return };
    assert_eq!(parties[0].drain(), Drained { done: 0, left: 1 });
    let before = turns(&mut parties[1].script);
    assert!(turns(&mut parties[1].script) > before);
    finish(parties);
}

/// Each daemon takes the place of the one before, while octets go by rings and are compared.
#[test]
fn a_stream_goes_on_by_rings_while_one_daemon_takes_the_place_of_another() {
    let name = format!("@weft-test-replace-{}", std::process::id());
    let address = name.parse().unwrap_or_else(|error| panic!("{error}"));
    let config = Config { address, rules: Rules::default(), lanes: None, rdma_always: false, linger: None };
    let run = |daemon: Daemon| {
        std::thread::spawn(move || {
            let (never, _other) = std::io::pipe().expect("a pipe");
            daemon.run(&never).expect("a daemon that runs");
        })
    };
    let mut running = run(Daemon::start(&config).expect("a daemon"));
    let Some(mut parties) = talking(BY_EPOLL, &name) else { return };
    parties[1].script.say("flow");
    assert_eq!(parties[1].script.line(), "flows");
    for _ in 0..5 {
        let next = run(Daemon::replace(&config).expect("a daemon"));
        running.join().expect("the one before has left");
        running = next;
    }
    parties[1].script.say("turns");
    let before: u64 = parties[1].script.line().parse().expect("a number");
    assert!(parties[1].script.line().parse::<u64>().expect("a number") > before);
    assert!(parties.iter().all(|party| party.end().is_some_and(is_ring)));
    // A process comes to the last one by itself.
    while parties[0].try_drain().is_err() {
        turns(&mut parties[1].script);
    }
    assert!(turns(&mut parties[1].script) > before);
    finish(parties);
    // A connection that begins now has a ring, too.
    if let Some(parties) = talking(SERVER, &name) {
        finish(parties);
    }
}

/// The octets that both ends have sent by rings.
fn by_ring(parties: &[Party; 2]) -> [u64; 2] {
    let octets = |end: &End| end.counts.out_ring.load(Ordering::Relaxed);
    parties.each_ref().map(|party| party.end().map_or(0, octets))
}

fn finish([mut server, mut client]: [Party; 2]) {
    client.script.go_on();
    assert_eq!((client.script.line(), server.script.line()), ("over".to_owned(), "over".to_owned()));
    server.script.end();
}
