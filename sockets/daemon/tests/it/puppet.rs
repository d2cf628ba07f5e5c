//! A second process: the test's program once more, which does what the test tells it by lines.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Pid, Signal, kill_process};
use weft_daemon::{Config, Daemon, stop_signals};
use weft_sockets::layout::FINAL;
use weft_sockets::sync::Ordering;
use weft_sockets::{Link, ToDaemon, ToProcess};

use crate::client::{Client, HANG, connected, is_readable};
use crate::run::config;

pub(crate) struct Puppet {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Puppet {
    /// Starts a process and has it register.
    pub(crate) fn new(daemon: &str) -> Self {
        let program = std::env::current_exe().expect("this program");
        Self::start(&mut Command::new(program), daemon)
    }

    pub(crate) fn start(command: &mut Command, daemon: &str) -> Self {
        command.args(["--exact", "puppet::puppet", "--nocapture"]).env(ADDRESS, daemon);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a process");
        let orders = child.stdin.take().expect("a pipe");
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut it = Self { child, orders, answers };
        it.hear("registered");
        it
    }

    /// Has the process do something, and waits until it has.
    pub(crate) fn order(&mut self, order: &str) {
        writeln!(self.orders, "{order}").expect("a process");
        self.hear("done");
    }

    /// Kills the process, and waits for its end.
    pub(crate) fn kill(mut self) {
        self.signal(Signal::KILL);
        self.child.wait().expect("an end");
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("a process");
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn hear(&mut self, word: &str) {
        let mut line = String::new();
        // The harness prints lines of its own, and leaves one unfinished.
        while !line.contains(word) {
            line.clear();
            assert_ne!(self.answers.read_line(&mut line).expect("an answer"), 0, "the puppet has ended");
        }
    }
}

impl Drop for Puppet {
    fn drop(&mut self) {
        let _ended = (self.child.kill(), self.child.wait());
    }
}

/// A daemon in a process of its own.
pub(crate) struct DaemonProcess {
    child: Child,
    pub(crate) address: String,
}

impl DaemonProcess {
    pub(crate) fn new() -> Self {
        Self::start(&mut Command::new(std::env::current_exe().expect("this program"))).expect("a daemon")
    }

    /// A daemon in a namespace of processes of its own, if there can be one.
    pub(crate) fn elsewhere() -> Option<Self> {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child"]);
        Self::start(command.arg(std::env::current_exe().expect("this program")))
    }

    /// A daemon that may have so many descriptors.
    pub(crate) fn with_descriptors(number: u32) -> Self {
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={number}:{number}"));
        Self::start(command.arg(std::env::current_exe().expect("this program"))).expect("a daemon")
    }

    fn start(command: &mut Command) -> Option<Self> {
        let address = config().address.to_string();
        command.args(["--exact", "puppet::daemon", "--nocapture"]).env(DAEMON, &address);
        let mut child = command.stdout(Stdio::piped()).spawn().ok()?;
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let is_there = lines.any(|line| line.is_ok_and(|line| line.contains("listens")));
        is_there.then_some(Self { child, address })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for DaemonProcess {
    fn drop(&mut self) {
        let _ended = (self.child.kill(), self.child.wait());
    }
}

/// Does nothing, unless a test has started this program as its daemon.
#[test]
fn daemon() {
    let Ok(address) = std::env::var(DAEMON) else { return };
    let config = Config { address: address.parse().expect("an address"), ..config() };
    let daemon = Daemon::start(&config).expect("a daemon");
    println!("listens");
    daemon.run(stop_signals().expect("signals")).expect("a daemon that runs");
}

/// Does nothing, unless a test has started this program as its puppet.
#[test]
fn puppet() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let mut client = Client::registered(&address);
    println!("registered");
    let (mut streams, mut ports) = (Vec::new(), Vec::new());
    let mut link: Option<(Link, OwnedFd)> = None;
    let mut channel = (0, 0, 0);
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("an order");
        let (order, value) = line.split_once(' ').unwrap_or((&line, ""));
        match order {
            "connect" => {
                let to: SocketAddr = value.parse().expect("an address");
                streams.push(TcpStream::connect(to).expect("a connection"));
            }
            "claim" => {
                client.claim(streams.last().expect("a stream"));
            }
            "offer" => loop {
                let mail = client.mail();
                match mail.message {
                    ToProcess::LinkMade { .. } => {
                        let file = mail.descriptors.into_iter().next().expect("memory");
                        link = Some((Link::map(&file).expect("a link"), file));
                    }
                    ToProcess::Offer { .. } => {
                        channel = client.take_offer(mail.message);
                        break;
                    }
                    _ => {}
                }
            },
            "final" => {
                let (link, _) = link.as_ref().expect("a link");
                let words = link.channel(channel.1).expect("a channel");
                words.directions[usize::from(channel.2)].producer.flags.store(FINAL, Ordering::Release);
            }
            // Another process, by its number and start time, holds the end as well.
            "relative" => add_relative(&client, value),
            // The puppet is a member of another process's family from now on.
            "join" => client = join(value, &address),
            "want" => want(&client, value),
            // A doorbell that can be made to block.
            "eventfd" => {
                let bell = eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
                client.send(ToDaemon::Bell { line: 1 }, &[bell.as_fd()]);
                client.hear_end();
            }
            "ring" => client.send_by_ring(),
            "sleep" => client.status.page().0[0].asleep.store(1, Ordering::SeqCst),
            "rung" => assert!(is_readable(&client.bell, HANG)),
            // The daemon is another one.
            "show" => {
                client.come_back(&address);
                let (_, file) = link.as_ref().expect("a link");
                client.send(ToDaemon::ShowLink { link: channel.0, party: channel.2 }, &[file.as_fd()]);
            }
            "close" => client.close(channel),
            // For both parties of a link that others have: the port ends.
            "speak" => {
                let link = value.parse().expect("a number");
                client.send(ToDaemon::Ring { link, party: 0, sleeper: None }, &[]);
                // The daemon may have closed the port by then.
                let again = ToDaemon::Ring { link, party: 1, sleeper: None };
                let _closed = client.send_octets(&again.encode(), &[]);
                let told = client.next().map(|mail| mail.message);
                assert_eq!(told, None, "a stranger is told something");
            }
            "ports" => ports.extend((0..value.parse().expect("a number")).map(|_| connected(&address))),
            other => panic!("unknown order {other}"),
        }
        println!("done");
    }
}

fn add_relative(client: &Client, value: &str) {
    let (pid, started) = value.split_once(' ').expect("two numbers");
    let member = &client.slab.header().members[1];
    member.started.store(started.parse().expect("a number"), Ordering::Relaxed);
    member.pid.store(pid.parse().expect("a number"), Ordering::Release);
    assert!(client.slab.end(0).expect("an end").holders.add(1));
}

fn join(slab: &str, address: &str) -> Client {
    let slab = std::fs::File::options().read(true).write(true).open(slab).expect("a slab");
    Client::relative(slab.into(), address)
}

/// Asks for a ring, and waits for it.
fn want(client: &Client, value: &str) {
    let numbers: Vec<u64> = value.split(' ').map(|number| number.parse().expect("a number")).collect();
    let [link, channel, party] = numbers[..] else { panic!("{value}") };
    let (channel, party) = (channel.try_into().expect("small"), party.try_into().expect("small"));
    client.send(ToDaemon::WantRing { link, channel, party, log2: 17 }, &[]);
    while !matches!(client.mail().message, ToProcess::RingMade { .. }) {}
}

/// The variable that makes a puppet of this program.
const ADDRESS: &str = "WEFT_TEST_PUPPET";
/// The variable that makes a daemon of it.
const DAEMON: &str = "WEFT_TEST_DAEMON";
