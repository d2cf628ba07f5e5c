//! Network namespaces, each a host of its own: a thread enters one, and what it starts stays there.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Command, Stdio};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A network namespace. It goes with the last socket and thread in it.
pub(crate) struct Space {
    file: File,
    /// The address of the host on the wire between both.
    pub(crate) ip: &'static str,
}

impl Space {
    /// Returns two hosts that a wire joins, the interface `w` of each. `None`, and a line that says why, without the right
    /// to make them.
    pub(crate) fn two() -> Option<[Self; 2]> {
        let made = ["10.77.0.1", "10.77.0.2"].map(Self::new);
        let [Some(one), Some(other)] = made else {
            println!("skipped: only root may make network namespaces");
            return None;
        };
        one.join("w", one.ip, &other);
        Some([one, other])
    }

    /// Returns a further host, which a wire joins to this one. Its address there is lower than this one's.
    pub(crate) fn stranger(&self) -> Self {
        let other = Self::new("10.77.1.3").expect("a namespace");
        self.join("x", "10.77.1.9", &other);
        other
    }

    /// Makes a wire to another host: an interface with this name at both.
    pub(crate) fn join(&self, name: &str, ip: &str, other: &Self) {
        self.link(name, other);
        for (space, ip) in [(self, ip), (other, other.ip)] {
            space.command(&["ip", "addr", "add", &format!("{ip}/24"), "dev", name]);
            space.command(&["ip", "link", "set", name, "up"]);
            space.command(&["ip", "link", "set", "lo", "up"]);
        }
    }

    /// Makes an interface with this name at both hosts, without addresses, and a wire between them.
    pub(crate) fn link(&self, name: &str, other: &Self) {
        let path = format!("/proc/{}/fd/{}", std::process::id(), other.file.as_raw_fd());
        self.command(&["ip", "link", "add", name, "type", "veth", "peer", "name", name, "netns", &path]);
    }

    pub(crate) fn new(ip: &'static str) -> Option<Self> {
        let mut command = Command::new("unshare");
        command.args(["--net", "--", "sh", "-c", "echo made; read end"]).stderr(Stdio::null());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        let mut line = String::new();
        let is_made = BufReader::new(child.stdout.take()?).read_line(&mut line).is_ok() && line == "made\n";
        let file = File::open(format!("/proc/{}/ns/net", child.id())).ok().filter(|_| is_made);
        let _ended = child.stdin.take().map(|mut stdin| stdin.write_all(b"end\n"));
        child.wait().ok()?;
        file.map(|file| Self { file, ip })
    }

    /// Does something in the namespace, by a thread.
    pub(crate) fn run<R: Send>(&self, act: impl FnOnce() -> R + Send) -> R {
        let entered = || {
            move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("a namespace");
            act()
        };
        std::thread::scope(|scope| match scope.spawn(entered).join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }

    pub(crate) fn command(&self, words: &[&str]) {
        let output = self.run(|| Command::new(words[0]).args(&words[1..]).output()).expect("a program");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Connections of the kernel's TCP that are established and have this port at one end.
    pub(crate) fn established(&self, port: u16) -> usize {
        let port = format!(":{port:04X}");
        let text = self.run(|| std::fs::read_to_string("/proc/thread-self/net/tcp")).expect("a table");
        let has_port = |line: &&str| line.split(' ').filter(|word| word.ends_with(&port)).count() > 0;
        text.lines().filter(|line| line.contains(" 01 ")).filter(has_port).count()
    }
}

/// A connection of the kernel between two hosts: the end that connected, and the one that accepted.
pub(crate) fn tcp_between(from: &Space, to: &Space) -> (TcpStream, TcpStream) {
    let listener = to.run(|| TcpListener::bind(SocketAddr::new(to.ip.parse().expect("an address"), 0)));
    let listener = listener.expect("a listener");
    let address = listener.local_addr().expect("an address");
    let client = from.run(|| TcpStream::connect(address)).expect("a connection");
    (client, listener.accept().expect("a connection").0)
}
