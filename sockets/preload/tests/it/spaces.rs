//! Network namespaces as hosts, each with a daemon in a process of its own, and scripts that talk between them.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use weft_daemon::{Config, Daemon, Lanes, Rules};

use crate::program::Script;

/// Sends everything back.
const SERVER: &str = "
import socket
address, port, *_ = input().split()
listener = socket.create_server((address, int(port)))
print('listens')
a, _ = listener.accept()
while octets := a.recv(1 << 16): a.sendall(octets)
a.close()
print('over')
";

/// Sends octets and compares what comes back, in turns.
const CLIENT: &str = "
import socket, sys
address, port, *own = input().split()
a = socket.create_connection((address, int(port)), source_address=('', int(own[0])) if own else None)
pattern = bytes(n * 7 % 251 for n in range(251)) * 40
at = 0
for line in sys.stdin:
    if line != 'turns\\n': break
    for n in range(50):
        out, got = pattern[at % 251:][:5000], b''
        a.sendall(out)
        while len(got) < len(out):
            octets = a.recv(1 << 16)
            assert octets, at
            got += octets
        assert got == out, at
        at += len(out)
    print(at)
a.shutdown(socket.SHUT_WR)
assert a.recv(1) == b''
print('over')
";

/// Namespaces. They are removed with this value.
pub(crate) struct Spaces(Vec<String>);

impl Spaces {
    /// Makes namespaces and runs commands of `ip` in which `{0}`, `{1}` and so on stand for their names. Or says why
    /// not.
    pub(crate) fn new(name: &str, number: usize, commands: &[String]) -> Option<Self> {
        let names = (0..number).map(|at| format!("weft-{name}-{at}-{}", std::process::id()));
        let spaces = Self(names.collect());
        let named = |command: &String| {
            let names = spaces.0.iter().enumerate();
            names.fold(command.clone(), |text, (at, name)| text.replace(&format!("{{{at}}}"), name))
        };
        let made = spaces.0.iter().map(|name| format!("netns add {name}"));
        let lo = spaces.0.iter().map(|name| format!("-n {name} link set lo up"));
        match made.chain(lo).chain(commands.iter().map(named)).find_map(|command| ip(&command).err()) {
            None => Some(spaces),
            Some(error) => {
                println!("skipped: no network namespaces: {error}");
                None
            }
        }
    }

    /// Returns a command in a namespace.
    pub(crate) fn command(&self, space: usize, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0[space]]).arg(program);
        command
    }

    /// Starts a daemon with lanes to these networks: this program, for the test `daemon` alone.
    pub(crate) fn daemon(&self, space: usize, networks: &str) -> DaemonProcess {
        let mut command = self.command(space, std::env::current_exe().expect("this program"));
        command.args(["--exact", "spaces::daemon", "--nocapture"]).env(DAEMON, networks);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a process");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let daemon = DaemonProcess(child);
        assert!(lines.map_while(Result::ok).any(|line| line.contains("listens")), "no daemon");
        daemon
    }

    /// A connection of a client in one namespace with a server in another one, at this address and port. Its first
    /// octets have gone there and back.
    pub(crate) fn talk(&self, [client, server]: [usize; 2], place: &str) -> Option<Talk> {
        let mut server = self.start(server, SERVER, place)?;
        assert_eq!(server.line(), "listens");
        let client = self.start(client, CLIENT, place)?;
        let mut talk = Talk { server, client };
        assert!(talk.turns() > 0);
        Some(talk)
    }

    fn start(&self, space: usize, text: &str, place: &str) -> Option<Script> {
        let variables = [("WEFT_DAEMON", NAME), ("WEFT_SOCKETS", "eager")];
        let mut script = Script::start_in(&self.0[space], text, &variables)?;
        script.say(place);
        Some(script)
    }
}

impl Drop for Spaces {
    fn drop(&mut self) {
        for name in &self.0 {
            // Some may not have come into being.
            let _gone = ip(&format!("netns del {name}"));
        }
    }
}

/// A daemon in a process of its own. It ends with this value.
pub(crate) struct DaemonProcess(Child);

impl DaemonProcess {
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("a process");
    }
}

impl Drop for DaemonProcess {
    fn drop(&mut self) {
        let _ended = (self.0.kill(), self.0.wait());
    }
}

/// A connection between two hosts.
pub(crate) struct Talk {
    pub(crate) server: Script,
    pub(crate) client: Script,
}

impl Talk {
    /// Sends octets there and back. Returns how many there were so far.
    pub(crate) fn turns(&mut self) -> u64 {
        self.client.say("turns");
        self.client.line().parse().unwrap_or_else(|_| panic!("octets are lost, or come twice"))
    }

    pub(crate) fn rings(&self) -> [[bool; 2]; 2] {
        [self.server.rings(), self.client.rings()]
    }

    /// Sends octets until both directions go by rings. The daemons find each other beside them.
    pub(crate) fn come_to_rings(&mut self) {
        while self.turns() > 0 && self.rings() != [[true; 2]; 2] {}
    }

    /// Ends the connection as programs do.
    pub(crate) fn end(mut self) {
        self.client.go_on();
        assert_eq!((self.client.line(), self.server.line()), ("over".to_owned(), "over".to_owned()));
    }
}

/// Runs `ip`.
fn ip(words: &str) -> Result<(), String> {
    let output = Command::new("ip").args(words.split(' ')).output();
    let Output { status, stderr, .. } = output.map_err(|error| format!("ip: {error}"))?;
    if status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&stderr).trim().to_owned()) }
}

/// Does nothing, unless a test has started this program as a daemon.
#[test]
fn daemon() {
    let Ok(networks) = std::env::var(DAEMON) else { return };
    let address = NAME.parse().unwrap_or_else(|error| panic!("{error}"));
    let networks = networks.parse().unwrap_or_else(|error| panic!("{error}"));
    let (rules, lanes) = (Rules::default(), Some(Lanes { networks, ..Lanes::default() }));
    let config = Config { address, rules, lanes, rdma_always: false, linger: None };
    let daemon = Daemon::start(&config).expect("a daemon");
    println!("listens");
    daemon.run(std::io::stdin()).expect("a daemon that runs");
}

/// The address of the daemons, each in a namespace of its own.
const NAME: &str = "@weft-test-spaces";
/// The variable that makes a daemon of this program. It names the networks of its lanes.
const DAEMON: &str = "WEFT_TEST_LANES";
