//! A process's side of the messages.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::socketpair;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, sendmsg,
    socket_with,
};
use rustix::process::{Pid, PidfdFlags, geteuid, getpid, pidfd_open};
use weft_sockets::end::{Phase, State, allocate};
use weft_sockets::layout::End;
use weft_sockets::sync::Ordering;
use weft_sockets::{
    Carrier, Digests, Leg, MESSAGE_DESCRIPTORS, RingPlace, Slab, Status, ToDaemon, ToProcess, VERSION,
};

pub(crate) struct Client {
    pub(crate) port: OwnedFd,
    pub(crate) slab_file: OwnedFd,
    pub(crate) slab: Slab,
    pub(crate) status_file: OwnedFd,
    pub(crate) status: Status,
    pub(crate) bell: OwnedFd,
    /// What the daemon is given to ring it.
    pub(crate) rope: OwnedFd,
}

/// A message that came, with its descriptors.
pub(crate) struct Mail {
    pub(crate) message: ToProcess,
    pub(crate) descriptors: Vec<OwnedFd>,
}

impl Client {
    pub(crate) fn connect(address: &str) -> Self {
        let slab_file = Slab::create().expect("a slab");
        let slab = Slab::map(&slab_file).expect("a slab");
        let (status_file, status) = Status::create().expect("a status page");
        let port = connected(address);
        let (bell, rope) = if socket_peercred(&port).expect("a daemon").uid == geteuid() {
            let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an eventfd");
            let rope = bell.try_clone().expect("a descriptor");
            (bell, rope)
        } else {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None).expect("a pair")
        };
        Self { port, slab_file, slab, status_file, status, bell, rope }
    }

    /// Connects and registers as member 1 of the family that has this slab, without a doorbell.
    pub(crate) fn relative(slab_file: OwnedFd, address: &str) -> Self {
        let slab = Slab::map(&slab_file).expect("a slab");
        let client = Self { slab_file, slab, ..Self::connect(address) };
        client.register_as(1, VERSION, getpid());
        assert!(matches!(client.mail().message, ToProcess::Welcome { version: VERSION, .. }));
        client
    }

    /// Connects, registers as member 0 with a doorbell on line 0, and hears that it is welcome.
    pub(crate) fn registered(address: &str) -> Self {
        let client = Self::connect(address);
        client.register(VERSION, getpid());
        assert!(matches!(client.mail().message, ToProcess::Welcome { version: VERSION, .. }));
        client.send(ToDaemon::Bell { line: 0 }, &[client.rope.as_fd()]);
        client
    }

    /// Registers once more, by a new port.
    pub(crate) fn come_back(&mut self, address: &str) {
        self.port = connected(address);
        self.register(VERSION, getpid());
        assert!(matches!(self.mail().message, ToProcess::Welcome { .. }));
        self.send(ToDaemon::Bell { line: 0 }, &[self.rope.as_fd()]);
    }

    pub(crate) fn register(&self, version: u16, pid: Pid) {
        self.register_as(0, version, pid);
    }

    fn register_as(&self, member: u16, version: u16, pid: Pid) {
        let words = &self.slab.header().members[usize::from(member)];
        words.pid.store(getpid().as_raw_nonzero().get().cast_unsigned(), Ordering::Release);
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).expect("a pidfd");
        let message = ToDaemon::Register { oldest: version, newest: version, member };
        self.send(message, &[pidfd.as_fd(), self.status_file.as_fd(), self.slab_file.as_fd()]);
    }

    /// Gives the daemon a socket of a network namespace.
    pub(crate) fn tell_network(&self, socket: impl AsFd) {
        self.send(ToDaemon::Network {}, &[socket.as_fd()]);
    }

    /// Claims a connection. Returns its end.
    pub(crate) fn claim(&self, socket: impl AsFd) -> (u32, State) {
        self.claim_with(socket, Digests::default())
    }

    /// As [`claim`](Self::claim), with digests of the first octets.
    pub(crate) fn claim_with(&self, socket: impl AsFd, digests: Digests) -> (u32, State) {
        let (slot, state) = allocate(&self.slab, 0).expect("a place");
        let end = self.slab.end(slot).expect("an end");
        assert!(end.holders.add(0) && end.advance(state, Phase::Claimed));
        let generation = state.generation;
        self.send(ToDaemon::Claim { slot, generation, digests }, &[socket.as_fd()]);
        (slot, state.with(Phase::Claimed))
    }

    /// Notes an offer in the slab, as the library does.
    pub(crate) fn take_offer(&self, offer: ToProcess) -> (u64, u32, u8) {
        let ToProcess::Offer { slot, generation, link, channel, party, .. } = offer else {
            panic!("no offer: {offer:?}")
        };
        let end = self.slab.end(slot).expect("an end");
        end.identity.link.store(link, Ordering::Relaxed);
        end.identity.channel.store(channel, Ordering::Relaxed);
        end.identity.party.store(party.into(), Ordering::Relaxed);
        assert!(end.advance(State { phase: Phase::Claimed, generation }, Phase::Offered));
        (link, channel, party)
    }

    /// Sends by a ring from now on, as its slab says.
    pub(crate) fn send_by_ring(&self) {
        self.slab.end(0).expect("an end").outbound.leg.store(legs()[0], Ordering::Release);
    }

    /// Leaves the end of an offer, and says that it is closed.
    pub(crate) fn close(&self, (link, channel, party): (u64, u32, u8)) {
        let ends = (0..8).filter_map(|slot| Some((slot, self.slab.end(slot)?)));
        let has_place = |(_, end): &(u32, &End)| {
            let identity = &end.identity;
            let words = [&identity.channel, &identity.party].map(|word| word.load(Ordering::Relaxed));
            identity.link.load(Ordering::Relaxed) == link && words == [channel, party.into()]
        };
        let (slot, end) = ends.into_iter().find(has_place).expect("an offer was taken");
        let (state, generation) = (end.state(), end.state().generation);
        if end.holders.remove(0) {
            end.advance(state, Phase::Closed);
        }
        self.send(ToDaemon::Closed { slot, generation, link, channel, party }, &[]);
    }

    /// Leaves an end for good, as a process does that has no port.
    pub(crate) fn leave_silently(&self, slot: u32) {
        let end = self.slab.end(slot).expect("an end");
        assert!(end.holders.remove(0) && end.advance(end.state(), Phase::Free));
    }

    pub(crate) fn send(&self, message: ToDaemon, descriptors: &[BorrowedFd<'_>]) {
        self.send_octets(&message.encode(), descriptors).expect("sent");
    }

    pub(crate) fn send_octets(&self, octets: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<usize, Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
        }
        sendmsg(&self.port, &[IoSlice::new(octets)], &mut control, SendFlags::NOSIGNAL)
    }

    /// Waits for a message.
    pub(crate) fn mail(&self) -> Mail {
        self.next().expect("mail, and not the end of the port")
    }

    /// Waits for a message, or for the end of the port.
    pub(crate) fn next(&self) -> Option<Mail> {
        assert!(is_readable(&self.port, HANG), "no mail came");
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MESSAGE_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut octets = [0; 128];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let mut receive = || recvmsg(&self.port, &mut [IoSliceMut::new(&mut octets)], &mut control, flags);
        let received = match receive() {
            // A daemon that has closed the port without reading all: the kernel tells that first, and once.
            Err(Errno::CONNRESET) => receive(),
            received => received,
        };
        let received = received.ok()?;
        let descriptors: Vec<OwnedFd> = control
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
                _ => None,
            })
            .flatten()
            .collect();
        if received.bytes == 0 {
            return None;
        }
        let message = ToProcess::decode(&octets[..received.bytes]).expect("a message");
        assert_eq!(message.descriptors(), descriptors.len());
        Some(Mail { message, descriptors })
    }

    /// Waits until the daemon has closed the port.
    pub(crate) fn hear_end(&self) {
        while self.next().is_some() {}
    }
}

pub(crate) fn connected(address: &str) -> OwnedFd {
    let name = SocketAddrUnix::new_abstract_name(address.trim_start_matches('@').as_bytes()).expect("a name");
    let port = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let port = port.expect("a socket");
    connect(&port, &name).expect("a daemon");
    port
}

/// A word for a leg by a ring, and one for the leg by TCP behind it.
pub(crate) fn legs() -> [u64; 2] {
    let ring = Leg { number: 1, carrier: Carrier::Ring(RingPlace::new(64, 16).expect("a place")) };
    [ring.to_word(), ring.next(Carrier::Tcp).to_word()]
}

/// A connection of the kernel: the end that connected and the one that accepted.
pub(crate) fn tcp() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
    (client, listener.accept().expect("a connection").0)
}

/// Waits until a descriptor can be read.
pub(crate) fn is_readable(descriptor: impl AsFd, limit: Duration) -> bool {
    let mut set = [PollFd::new(&descriptor, PollFlags::IN)];
    let limit = Timespec::try_from(limit).expect("a time");
    poll(&mut set, Some(&limit)).expect("poll") > 0
}

/// Waits for something that nothing announces.
#[expect(clippy::disallowed_methods, reason = "turns a hang into a failure")]
pub(crate) fn wait_until(mut is_so: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !is_so() {
        assert!(start.elapsed() < HANG, "it never comes");
        std::thread::yield_now();
    }
}

/// Turns a hang into a failure.
pub(crate) const HANG: Duration = Duration::from_secs(60);
