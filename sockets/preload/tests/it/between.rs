//! Two hosts, network namespaces that a veth joins, each with a daemon that a test can end.

use std::fs::File;
use std::io::PipeWriter;
use std::os::fd::AsFd;
use std::process::{Command, Output};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use weft_daemon::{Config, Daemon, Drained, Lanes, Operator, Rules};
use weft_sockets::end::Phase;
use weft_sockets::layout::{ASKED, End};
use weft_sockets::sync::Ordering;
use weft_sockets::{Link, Slab};

use crate::program::Script;

/// Two hosts. The first one has the address 10.79.0.1, and the second one 10.79.0.2.
pub(crate) struct Hosts {
    names: [String; 2],
    daemons: [Option<Running>; 2],
}

/// A daemon that runs until its pipe is closed.
struct Running {
    stop: PipeWriter,
    thread: JoinHandle<()>,
}

impl Hosts {
    /// Makes the hosts and starts their daemons, or says why not. `name` tells the hosts of tests apart.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let names = ["one", "two"].map(|place| format!("weft-{name}-{place}-{}", std::process::id()));
        let mut hosts = Self { names, daemons: [None, None] };
        let [one, two] = &hosts.names;
        let mut commands = vec![
            format!("netns add {one}"),
            format!("netns add {two}"),
            format!("-n {one} link add wire type veth peer name wire netns {two}"),
        ];
        for (host, address) in [(one, "10.79.0.1"), (two, "10.79.0.2")] {
            commands.push(format!("-n {host} addr add {address}/24 dev wire"));
            commands.push(format!("-n {host} link set wire up"));
            commands.push(format!("-n {host} link set lo up"));
        }
        if let Some(error) = commands.iter().find_map(|command| ip(command).err()) {
            println!("skipped: no network namespaces: {error}");
            return None;
        }
        [0, 1].into_iter().for_each(|host| hosts.start_daemon(host));
        Some(hosts)
    }

    /// Starts a daemon with lanes in a host that has none.
    pub(crate) fn start_daemon(&mut self, host: usize) {
        let file = File::open(format!("/run/netns/{}", self.names[host])).expect("a namespace");
        let (started, has_started) = channel();
        let (stop_read, stop) = std::io::pipe().expect("a pipe");
        let thread = std::thread::spawn(move || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("root's right");
            let address = NAME.parse().unwrap_or_else(|error| panic!("{error}"));
            // Not `on-link`: `/proc/net/route` is that of the process's first thread.
            let networks = "10.79.0.0/24".parse().unwrap_or_else(|error| panic!("{error}"));
            let (rules, lanes) = (Rules::default(), Some(Lanes { networks, ..Lanes::default() }));
            let config = Config { address, rules, lanes, rdma_always: false, linger: None };
            // The port of a daemon that has just ended may be taken still.
            let daemon = (0..TRIES).find_map(|_| Daemon::start(&config).ok()).expect("a daemon");
            started.send(()).expect("the test waits");
            daemon.run(&stop_read).expect("a daemon that runs");
        });
        has_started.recv().expect("a daemon");
        self.daemons[host] = Some(Running { stop, thread });
    }

    /// Ends the daemon of a host. Its lanes end with it, without a word to its processes.
    pub(crate) fn stop_daemon(&mut self, host: usize) {
        if let Some(Running { stop, thread }) = self.daemons[host].take() {
            drop(stop);
            thread.join().expect("no panic");
        }
        // A thread of its own closes the ports of processes.
        wait_until(|| !self.read(host, "/proc/net/unix").contains(NAME));
    }

    /// Takes the connections of a process in a host back to TCP, by a thread that waits for that.
    pub(crate) fn drain(&self, host: usize, pid: u32) -> JoinHandle<Drained> {
        let file = File::open(format!("/run/netns/{}", self.names[host])).expect("a namespace");
        std::thread::spawn(move || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("root's right");
            let address = NAME.parse().unwrap_or_else(|error| panic!("{error}"));
            let operator = Operator::connect(&address).expect("a socket").expect("a daemon");
            operator.drain(pid).expect("an answer")
        })
    }

    /// Has each host drop what its daemon answers to one that asks for a lane, with `add`, or ends that, with `del`.
    pub(crate) fn hold_lanes(&self, word: &str) {
        for host in &self.names {
            let rule = format!("-n {host} rule {word} ipproto tcp sport {} blackhole", Lanes::PORT);
            ip(&rule).unwrap_or_else(|error| panic!("{error}"));
        }
    }

    /// True if the daemon of a host has asked for a lane, and is not answered.
    pub(crate) fn asks_for_lane(&self, host: usize) -> bool {
        // The peer's address ends with the port, and 02 is SYN-SENT.
        self.read(host, "/proc/net/tcp").contains(&format!(":{:04X} 02 ", Lanes::PORT))
    }

    /// Reads a file as a process in a host sees it.
    fn read(&self, host: usize, file: &str) -> String {
        let mut command = Command::new("ip");
        let output = command.args(["netns", "exec", &self.names[host], "cat", file]).output();
        String::from_utf8_lossy(&output.expect("a file").stdout).into_owned()
    }

    /// Starts a script in a host. `None`: there is no Python.
    pub(crate) fn start(&self, host: usize, text: &str, mode: &str) -> Option<Script> {
        Script::start_in(&self.names[host], text, &[("WEFT_DAEMON", NAME), ("WEFT_SOCKETS", mode)])
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        // A test that fails does not wait for its daemons.
        for name in &self.names {
            let _gone = ip(&format!("netns del {name}"));
        }
    }
}

/// The memory of a script that has one connection.
pub(crate) struct Sight {
    slab: Slab,
    link: Link,
}

impl Sight {
    /// Returns `None` if the script's process has no link yet.
    pub(crate) fn of(script: &Script) -> Option<Self> {
        Some(Self { link: script.link()?, slab: script.slab() })
    }

    /// The end, once its process has taken its channel.
    pub(crate) fn end(&self) -> Option<&End> {
        self.slab.ends().map(|(_, end)| end).find(|end| end.state().phase == Phase::Offered)
    }

    /// What the other end's reader has decided: [`Reader::attached`](weft_sockets::layout::Reader::attached).
    pub(crate) fn attached_there(&self) -> u32 {
        self.word(0, |reader| reader.attached.load(Ordering::Acquire))
    }

    /// As [`attached_there`](Self::attached_there), of this end's reader.
    pub(crate) fn attached(&self) -> u32 {
        self.word(1, |reader| reader.attached.load(Ordering::Acquire))
    }

    /// What is wanted of this end's sender: [`Reader::please`](weft_sockets::layout::Reader::please).
    pub(crate) fn please(&self) -> u32 {
        self.word(0, |reader| reader.please.load(Ordering::Acquire))
    }

    /// True if this end's reader asks for TCP.
    pub(crate) fn asks(&self) -> bool {
        self.word(1, |reader| reader.please.load(Ordering::Acquire)) == ASKED
    }

    /// A word of the reader of what this end sends, or with 1, of what it receives.
    fn word(&self, other: u32, read: impl FnOnce(&weft_sockets::layout::Reader) -> u32) -> u32 {
        let Some(end) = self.end() else { return 0 };
        let identity = &end.identity;
        let (channel, party) =
            (identity.channel.load(Ordering::Relaxed), identity.party.load(Ordering::Relaxed));
        let words = self.link.channel(channel).expect("a channel");
        read(&words.directions[usize::from(party ^ other == 1)].reader)
    }
}

/// Waits for something that nothing announces. The limit only turns a hang into a failure.
#[expect(clippy::disallowed_methods, reason = "turns a hang into a failure")]
pub(crate) fn wait_until(is_so: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !is_so() {
        assert!(start.elapsed() < HANG, "it never comes");
        std::thread::yield_now();
    }
}

/// Runs `ip`.
pub(crate) fn ip(words: &str) -> Result<(), String> {
    let output = Command::new("ip").args(words.split(' ')).output();
    let Output { status, stderr, .. } = output.map_err(|error| format!("ip: {error}"))?;
    if status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&stderr).trim().to_owned()) }
}

/// The address of the daemons, each in a namespace of its own.
const NAME: &str = "@weft-test-between";
const HANG: Duration = Duration::from_secs(60);
/// Attempts to take the place of a daemon that has just ended.
const TRIES: u32 = 100_000;
