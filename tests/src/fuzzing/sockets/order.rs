//! What processes and commands tell a daemon.

use core::mem::MaybeUninit;
use core::time::Duration;
use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::dup;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    recv, sendmsg, socketpair,
};
use weft_daemon::simulated::{Daemon, Process};
use weft_sockets::{Claim, Digests, Link, MESSAGE_LEN, Order, Slab, Status, ToDaemon, ToProcess, Tuple};

/// Reads `data` as steps: a sender, a file, a length, and so many octets, which the sender sends to a daemon with the
/// file. Senders are processes and commands. Two honest processes get their channel afterwards.
///
/// # Panics
/// If a message that is read is written otherwise, or is an order, too; if the daemon keeps the port of a sender that
/// sends neither; or if the honest processes get no channel.
pub fn sockets_order(data: &[u8]) {
    let mut scene = Scene::new();
    let mut rest = data;
    while let Some((&[sender, file, len], behind)) = rest.split_first_chunk() {
        let octets = &behind[..behind.len().min(len.into())];
        rest = &behind[octets.len()..];
        check_codec(octets);
        scene.step(sender, file, octets);
    }
    scene.check_honest();
}

fn check_codec(octets: &[u8]) {
    let (message, order) = (ToDaemon::decode(octets), Order::decode(octets));
    assert!(message.is_none() || order.is_none(), "a message of processes that is an order, too");
    if let Some(message) = message {
        assert_eq!(&*message.encode(), octets);
    }
    if let Some(order) = order {
        assert_eq!(&*order.encode(), octets);
    }
}

/// A daemon, two processes and a command that say anything, and two honest processes.
struct Scene {
    daemon: Daemon,
    now: Duration,
    senders: [Sender; 3],
    honest: [Sender; 2],
    /// What comes with messages.
    files: Vec<OwnedFd>,
}

/// Somebody with a port.
struct Sender {
    port: OwnedFd,
    id: u64,
    pid: i32,
    is_process: bool,
}

impl Scene {
    fn new() -> Self {
        let mut daemon = Daemon::new(7).expect("a daemon");
        let honest = [1, 2].map(|pid| Sender::process(&mut daemon, pid));
        let senders = [
            Sender::process(&mut daemon, 3),
            Sender::process(&mut daemon, 4),
            Sender::command(&mut daemon, 5),
        ];
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an eventfd");
        let (page, _) = Status::create().expect("memory");
        let (pair, _) = pair();
        let files = vec![
            bell,
            Link::create().expect("memory"),
            Slab::create().expect("memory"),
            page,
            pair,
            std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket").into(),
            std::net::TcpListener::bind("127.0.0.1:0").expect("a socket").into(),
        ];
        let mut it = Self { daemon, now: Duration::ZERO, senders, honest, files };
        it.turn(Duration::ZERO);
        it.senders.iter().chain(&it.honest).for_each(|sender| drop(sender.hear()));
        it
    }

    fn step(&mut self, sender: u8, file: u8, octets: &[u8]) {
        self.turn(Duration::from_millis(u64::from(sender >> 2) * 20));
        let Some(sender) = self.senders.get(usize::from(sender & 3)) else { return };
        let count =
            ToDaemon::decode(octets).map_or_else(|| usize::from(file >> 6), |message| message.descriptors());
        let files = (usize::from(file)..).map(|at| self.files[at % self.files.len()].as_fd()).take(count);
        let (files, is_process) = (files.collect::<Vec<_>>(), sender.is_process);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let is_sent = sendmsg(&sender.port, &[IoSlice::new(octets)], &mut control, flags).is_ok();
        self.daemon.read(sender.id, self.now);
        let is_order = !is_process && count == 0 && Order::decode(octets).is_some();
        let is_known = is_order || ToDaemon::decode(octets).is_some();
        assert!(!is_sent || is_known || !self.daemon.has_port(sender.id), "the daemon keeps such a port");
        self.turn(Duration::ZERO);
        for sender in &mut self.senders {
            drop(sender.hear());
            if !self.daemon.has_port(sender.id) {
                // Somebody else comes in its place.
                self.daemon.bury(sender.id, self.now);
                *sender = match sender.is_process {
                    true => Sender::process(&mut self.daemon, sender.pid),
                    false => Sender::command(&mut self.daemon, sender.pid),
                };
            }
        }
    }

    fn turn(&mut self, pause: Duration) {
        self.now += pause;
        self.daemon.expire(self.now);
        self.daemon.flush();
    }

    /// Nothing that was said concerns the honest processes.
    fn check_honest(&mut self) {
        let told: Vec<_> = self.honest.iter().flat_map(Sender::hear).collect();
        assert!(told.is_empty(), "a stranger has told them something: {told:?}");
        // A user may claim so often in a second.
        self.turn(Duration::from_secs(2));
        for (at, sender) in self.honest.iter().enumerate() {
            assert!(self.daemon.claim(sender.id, (0, 1), claim(at == 0), self.now));
        }
        self.turn(Duration::ZERO);
        for sender in &self.honest {
            let told = sender.hear();
            assert!(told.iter().any(|told| matches!(told, ToProcess::Offer { slot: 0, .. })), "{told:?}");
        }
    }
}

impl Sender {
    /// A process that has registered.
    fn process(daemon: &mut Daemon, pid: i32) -> Self {
        let (port, theirs) = pair();
        let life = eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
        let (status, _) = Status::create().expect("memory");
        let slab = Slab::create().expect("memory");
        let process =
            Process { pid, member: 0, port: theirs, life, status, slab: dup(&slab).expect("memory") };
        let id = daemon.register(process, Duration::ZERO).expect("a process");
        Self { port, id, pid, is_process: true }
    }

    /// A command, or a process that has not registered.
    fn command(daemon: &mut Daemon, pid: i32) -> Self {
        let (port, theirs) = pair();
        let id = daemon.connect(theirs, pid).expect("a port");
        Self { port, id, pid, is_process: false }
    }

    /// Takes what the daemon has said.
    fn hear(&self) -> Vec<ToProcess> {
        let octets = core::iter::from_fn(|| {
            let mut octets = [0; MESSAGE_LEN];
            let (len, _) = recv(&self.port, &mut octets, RecvFlags::DONTWAIT).ok()?;
            (len > 0).then(|| octets[..len].to_vec())
        });
        // A command gets answers, which are no messages of processes.
        octets.filter_map(|octets| ToProcess::decode(&octets)).collect()
    }
}

/// A connection of the honest processes, as one of its ends knows it.
fn claim(is_first: bool) -> Claim {
    let (one, other) = (([10, 0, 0, 1], 80).into(), ([10, 0, 0, 2], 5000).into());
    let (local, peer) = if is_first { (one, other) } else { (other, one) };
    Claim {
        tuple: Tuple::new(1, local, peer),
        window_scales: (7, 7),
        options: 7,
        written: 100,
        consumed: 100,
        digests: Digests::default(),
        is_far: false,
    }
}

fn pair() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("a pair")
}
