//! A drained process moves to another host, with its connection, by TCP_REPAIR. The hosts are network namespaces.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Command, Output};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use weft_daemon::{Config, Daemon, Drained, Lanes, Operator, Rules};

use crate::program::Script;

/// Sends everything back. At a word it tells what the kernel knows of the connection, and ends without a word to it.
const SERVER: &str = "
import fcntl, json, os, select, socket, struct, sys, termios
listener = socket.create_server(('10.78.0.1', 7000))
print('listens')
a, _ = listener.accept()
while True:
    ready, _, _ = select.select([a, 0], [], [])
    if 0 in ready: break
    a.sendall(a.recv(1 << 16))
# All that was sent has to be acknowledged, and all that came is read.
while struct.unpack('i', fcntl.ioctl(a, termios.TIOCOUTQ, bytes(4)))[0]: pass
option = lambda *name: a.getsockopt(socket.SOL_TCP, *name)
a.setsockopt(socket.SOL_TCP, 19, 1)
seqs = []
for queue in 1, 2:
    a.setsockopt(socket.SOL_TCP, 20, queue)
    seqs.append(option(21))
info = option(socket.TCP_INFO, 16)
print(json.dumps([a.getsockname(), a.getpeername(), seqs, option(socket.TCP_MAXSEG), info[5], info[6],
                  option(24), list(option(29, 20))]), flush=True)
os._exit(0)
";

/// The same, from where the other one has come.
const MOVED: &str = "
import json, socket, struct
own, peer, seqs, mss, options, scales, stamp, window = json.loads(input())
a = socket.socket()
option = lambda name, value: a.setsockopt(socket.SOL_TCP, name, value)
a.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
option(19, 1)
for queue in 1, 2:
    option(20, queue)
    option(21, struct.pack('I', seqs[queue - 1] & 0xffffffff))
a.bind(tuple(own))
a.connect(tuple(peer))
given = [(2, mss)]
if options & 4: given.append((3, (scales & 15) | (scales >> 4) << 16))
if options & 2: given.append((4, 0))
if options & 1: given.append((8, 0))
option(22, b''.join(struct.pack('II', *one) for one in given))
option(24, struct.pack('I', stamp & 0xffffffff))
option(29, bytes(window))
option(19, 0)
print('goes on')
while octets := a.recv(1 << 16): a.sendall(octets)
a.close()
print('over')
";

/// Sends octets and compares what comes back, in turns.
const CLIENT: &str = "
import socket, sys
a = socket.create_connection(('10.78.0.1', 7000))
pattern = bytes(n * 7 % 251 for n in range(251)) * 40
at = 0
for line in sys.stdin:
    if line != 'turns\\n': break
    for n in range(100):
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

/// Three hosts at one switch: two that have the same address, one after the other, and their peer.
struct Hosts([String; 3]);

impl Hosts {
    /// Makes the hosts, or says why not.
    fn new() -> Option<Self> {
        let names = ["old", "new", "peer"].map(|name| format!("weft-migrate-{name}-{}", std::process::id()));
        let hosts = Self(names);
        let [old, new, peer] = &hosts.0;
        let commands = [
            format!("netns add {old}"),
            format!("netns add {new}"),
            format!("netns add {peer}"),
            format!("-n {peer} link add switch type bridge"),
            format!("-n {peer} link add to-old type veth peer name wire netns {old}"),
            format!("-n {peer} link add to-new type veth peer name wire netns {new}"),
            format!("-n {peer} link set to-old master switch up"),
            format!("-n {peer} link set to-new master switch up"),
            format!("-n {peer} addr add 10.78.0.2/24 dev switch"),
            format!("-n {peer} link set switch up"),
            format!("-n {old} link set wire address 02:00:00:00:00:01 up"),
            format!("-n {new} link set wire address 02:00:00:00:00:01"),
            format!("-n {old} addr add 10.78.0.1/24 dev wire"),
        ];
        match commands.iter().find_map(|command| ip(command).err()) {
            None => Some(hosts),
            Some(error) => {
                println!("skipped: no network namespaces: {error}");
                None
            }
        }
    }

    /// Starts a daemon with lanes in a host.
    fn start_daemon(&self, host: usize) {
        let file = File::open(format!("/run/netns/{}", self.0[host])).expect("a namespace");
        let (started, has_started) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("root's right");
            let address = NAME.parse().unwrap_or_else(|error| panic!("{error}"));
            // Not `on-link`: `/proc/net/route` is that of the process's first thread.
            let networks = "10.78.0.0/24".parse().unwrap_or_else(|error| panic!("{error}"));
            let (rules, lanes) = (Rules::default(), Some(Lanes { networks, ..Lanes::default() }));
            let daemon = Daemon::start(&Config { address, rules, lanes, rdma_always: false, linger: None })
                .expect("a daemon");
            started.send(()).expect("the test waits");
            let (never, _other) = std::io::pipe().expect("a pipe");
            daemon.run(&never).expect("a daemon that runs");
        });
        has_started.recv().expect("a daemon");
    }

    fn start(&self, host: usize, text: &str) -> Option<Script> {
        Script::start_in(&self.0[host], text, &[("WEFT_DAEMON", NAME), ("WEFT_SOCKETS", "eager")])
    }

    /// Takes the connections of a process in a host back to TCP.
    fn drain(&self, host: usize, pid: u32) -> Drained {
        let file = File::open(format!("/run/netns/{}", self.0[host])).expect("a namespace");
        let asking = std::thread::spawn(move || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("root's right");
            let address = NAME.parse().unwrap_or_else(|error| panic!("{error}"));
            let operator = Operator::connect(&address).expect("a socket").expect("a daemon");
            operator.drain(pid).expect("an answer")
        });
        asking.join().expect("no panic")
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.0 {
            // Some may not have come into being.
            let _gone = ip(&format!("netns del {name}"));
        }
    }
}

/// Runs `ip`.
fn ip(words: &str) -> Result<(), String> {
    let output = Command::new("ip").args(words.split(' ')).output();
    let Output { status, stderr, .. } = output.map_err(|error| format!("ip: {error}"))?;
    if status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&stderr).trim().to_owned()) }
}

#[test]
fn a_drained_process_moves_to_another_host_with_its_connection() {
    let Some(hosts) = Hosts::new() else { return };
    hosts.start_daemon(0);
    hosts.start_daemon(2);
    let Some(mut server) = hosts.start(0, SERVER) else { return };
    assert_eq!(server.line(), "listens");
    let mut client = hosts.start(2, CLIENT).expect("Python is there");
    let turns = |client: &mut Script| -> u64 {
        client.say("turns");
        client.line().parse().unwrap_or_else(|_| panic!("the client has failed"))
    };
    // The daemons find each other beside the octets.
    while turns(&mut client) > 0 && server.rings() != [true; 2] {}
    // The client makes calls meanwhile.
    (0..TURNS).for_each(|_| client.say("turns"));
    assert_eq!(hosts.drain(0, server.pid()), Drained { done: 1, left: 0 });
    (0..TURNS).for_each(|_| assert!(!client.line().is_empty()));
    assert_eq!(server.rings(), [false; 2]);
    server.say("");
    let state = server.line();
    server.end_by_itself();
    let [old, new, _] = &hosts.0;
    for command in [
        format!("-n {old} link set wire down"),
        format!("-n {new} addr add 10.78.0.1/24 dev wire"),
        format!("-n {new} link set wire up"),
    ] {
        ip(&command).expect("an address that moves");
    }
    let mut moved = hosts.start(1, MOVED).expect("Python is there");
    moved.say(&state);
    assert_eq!(moved.line(), "goes on");
    let before = turns(&mut client);
    assert!(turns(&mut client) > before);
    client.go_on();
    assert_eq!((client.line(), moved.line()), ("over".to_owned(), "over".to_owned()));
}

/// Turns that take longer than the way back.
const TURNS: u32 = 200;
/// The address of the daemons, each in a namespace of its own.
const NAME: &str = "@weft-test-migrate";
