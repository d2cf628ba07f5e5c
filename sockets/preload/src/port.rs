//! The port: the socket between this process and its daemon.
//!
//! Nothing here waits. A daemon that is away, busy or foreign costs a call that fails, and the connections stay on TCP.
//! Threads and signal handlers may be here at the same time. Only the reading of mail is one thread's at a time, and a
//! thread that finds another one there goes on without.

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::process::{PidfdFlags, geteuid, getpid, pidfd_open};
use rustix::time::{ClockId, clock_gettime};
use weft_sockets::end::Phase;
use weft_sockets::layout::{EVERYBODY, WAITERS};
use weft_sockets::{
    Digests, MESSAGE_DESCRIPTORS, MESSAGE_LEN, Reason, RingPlace, Secret, ToDaemon, ToProcess, VERSION,
    WaiterName,
};

use crate::family;
use crate::own::{Own, Place};
use crate::peers::{self, Woken};
use crate::table::Handle;
use crate::{daemon, links, search};

/// What the daemon says of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A claimed end has a channel.
    Offer(Offer),
    /// A claim came to nothing.
    Dropped { end: Handle, reason: Reason },
    /// The daemon has registered this process, and hears from now on which ends are closed.
    Welcome,
    /// A further ring for what a party sends.
    RingMade { link: u64, channel: u32, party: u32, ring: RingPlace },
}

/// A channel for an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) end: Handle,
    pub(crate) link: u64,
    pub(crate) channel: u32,
    pub(crate) party: u32,
    /// The first ring for what this end sends.
    pub(crate) ring: RingPlace,
    pub(crate) secret: Secret,
}

/// What became of a message to the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It is on its way.
    Yes,
    /// The queue is full.
    Later,
    /// No daemon hears it, for this reason.
    No(Reason),
}

/// Shows the daemon a connection that is worth a ring, and tells what was said first on it. `status` is the memory of this
/// process's status page.
///
/// The answer is an [`Event`]. A claim of the same end before is replaced.
pub(crate) fn claim(end: Handle, digests: Digests, socket: BorrowedFd<'_>, status: BorrowedFd<'_>) -> Sent {
    let Handle { slot, generation } = end;
    open_and_send(status, ToDaemon::Claim { slot, generation, digests }, socket)
}

/// Asks the other host once more for a reader that has no answer. `socket` and `status` as of [`claim`].
pub(crate) fn ask(end: Handle, socket: BorrowedFd<'_>, status: BorrowedFd<'_>) -> Sent {
    let Handle { slot, generation } = end;
    open_and_send(status, ToDaemon::Ask { slot, generation }, socket)
}

/// Takes a claim back. Its answer may be on its way.
pub(crate) fn withdraw(end: Handle) -> Sent {
    let Handle { slot, generation } = end;
    send(ToDaemon::Withdraw { slot, generation }, &[])
}

/// Asks for a larger ring. If there is room, the answer is an [`Event`].
pub(crate) fn want_ring(link: u64, channel: u32, party: u32, log2: u8) -> Sent {
    send(ToDaemon::WantRing { link, channel, party: octet(party), log2 }, &[])
}

/// Gives back a ring that has been read to its end.
pub(crate) fn return_ring(link: u64, channel: u32, party: u32, ring: RingPlace) -> Sent {
    send(ToDaemon::ReturnRing { link, channel, party: octet(party), ring }, &[])
}

/// Says that an end is closed for good, and that its channel is not used any more by this process. The daemon
/// looks after relatives that hold the end still.
pub(crate) fn closed(end: Handle, (link, channel, party): (u64, u32, u32)) -> Sent {
    let is_welcome = IS_WELCOME.load(Ordering::Acquire);
    if !is_welcome && SOCKET.borrow().is_some_and(daemon::is_alive) {
        // The daemon has looked for closed ends when it registered this process, or will hear of this one behind its
        // welcome.
        return Sent::Later;
    }
    if !is_welcome || !peers::is_known(link, EPOCH.load(Ordering::Relaxed)) {
        // No daemon knows it. The last end takes the link along.
        forget_unused(link);
        return Sent::No(Reason::NoDaemon);
    }
    let Handle { slot, generation } = end;
    send(ToDaemon::Closed { slot, generation, link, channel, party: octet(party) }, &[])
}

/// True if the daemon of this process is alive.
pub(crate) fn has_daemon() -> bool {
    SOCKET.borrow().is_some_and(daemon::is_alive)
}

/// True if the port that this process knew is its parent's.
pub(crate) fn is_parents() -> bool {
    SOCKET.borrow().is_none() && IS_CHILDS.load(Ordering::Relaxed)
}

/// Wakes those that sleep at the other end of a link, if they do. `waiter` is what they have left in the link. `is_awake`
/// knows the lines of this process. `status` is its page, for a child that has no port yet. Returns false if they are
/// awake.
pub(crate) fn wake(
    link: u64,
    party: u32,
    waiter: u32,
    is_awake: impl FnOnce(u8) -> bool,
    status: impl FnOnce() -> Option<BorrowedFd<'static>>,
) -> bool {
    let sleeper = WaiterName::from_word(waiter);
    if waiter != EVERYBODY && sleeper.is_none() {
        return false;
    }
    let woken = sleeper.zip(peers::family_of(link)).map_or(Woken::Unknown, |(sleeper, family)| {
        if is_own(family) && Some(sleeper.member) == family::member() {
            return if is_awake(sleeper.line) { Woken::Awake } else { ring_own(sleeper.line) };
        }
        peers::wake(family, sleeper)
    });
    if woken == Woken::Unknown {
        let ask = || send(ToDaemon::Ring { link, party: octet(party), sleeper }, &[]);
        if ask() == Sent::No(Reason::NoDaemon) && status().is_some_and(|status| open(status).is_ok()) {
            let _asked = ask();
        }
    }
    woken != Woken::Awake
}

/// True if the daemon is this user's own. Another one takes no eventfd.
pub(crate) fn is_own_user() -> bool {
    IS_OWN_USER.load(Ordering::Relaxed)
}

/// Tells the daemon of a doorbell that was made for a line of this process's status page.
pub(crate) fn announce_bell(line: u8, bell: Own) {
    let Some(place) = BELLS.get(usize::from(line)) else { return };
    let _before = place.take();
    place.put(bell);
    if SOCKET.borrow().is_some() {
        tell_bell(line, place);
    }
}

/// True if each peer can wake this process's sleepers: by their bells, or through the daemon. Opens the port if there is
/// none, for a child that inherited connections.
pub(crate) fn is_rung(status: BorrowedFd<'_>) -> bool {
    let is_rung = open(status).is_ok() && IS_WELCOME.load(Ordering::Acquire) && show_links();
    RUNG.store(if is_rung { seconds() } else { 0 }, Ordering::Relaxed);
    is_rung
}

/// True if it [was rung](is_rung) earlier in this second, for a thread that sleeps often.
#[inline]
pub(crate) fn was_rung() -> bool {
    RUNG.load(Ordering::Relaxed) == seconds()
}

/// Reads the daemon's mail, if there is any, and calls `hear` for what concerns connections.
#[inline]
pub(crate) fn look_for_mail(hear: impl FnMut(Event)) {
    if has_mail() {
        read_mail(hear);
    }
}

/// Ends the port, for a process that leaves its connections to the kernel.
pub(crate) fn leave() {
    lose();
}

/// In a child of fork: the port is the parent's, and so are the doorbells.
pub(crate) fn leave_to_parent() {
    IS_CHILDS.store(true, Ordering::Relaxed);
    SOCKET.close();
    for bell in &BELLS {
        let _still_open = bell.take();
    }
    IS_WELCOME.store(false, Ordering::Relaxed);
    RUNG.store(0, Ordering::Relaxed);
    READER.store(0, Ordering::Relaxed);
    search::forget();
}

#[inline]
fn has_mail() -> bool {
    mail().is_some_and(|mail| mail != SEEN.load(Ordering::Relaxed))
}

/// The daemon's count of the messages that it has sent.
#[inline]
fn mail() -> Option<u32> {
    let members = &family::family()?.slab.header().members;
    Some(members.get(usize::from(family::member()?))?.mail.load(Ordering::Acquire))
}

#[cold]
fn read_mail(mut hear: impl FnMut(Event)) {
    let Some(reading) = Reading::begin() else { return };
    // Counted first: what comes while this thread reads is looked for again.
    SEEN.store(mail().unwrap_or(0), Ordering::Relaxed);
    while let Some(socket) = SOCKET.borrow() {
        match receive(socket) {
            Ok(Some((message, descriptor))) => handle(message, descriptor, &mut hear),
            Ok(None) => break,
            Err(()) => lose(),
        }
    }
    reading.end();
}

fn handle(message: ToProcess, descriptor: Option<OwnedFd>, hear: &mut impl FnMut(Event)) {
    match (message, descriptor) {
        (ToProcess::Welcome { family, epoch, .. }, _) => {
            FAMILY.store(family, Ordering::Relaxed);
            EPOCH.store(epoch, Ordering::Relaxed);
            IS_WELCOME.store(true, Ordering::Release);
            search::end();
            show_links();
            hear(Event::Welcome);
        }
        (ToProcess::Refused { reason }, _) => {
            lose();
            REFUSED.store(reason as u32, Ordering::Relaxed);
            search::give_up(milliseconds());
        }
        (ToProcess::LinkMade { link, peer, far }, Some(file)) => {
            let daemon = EPOCH.load(Ordering::Relaxed);
            if peers::add_link(link, peer, far != 0, daemon) && !links::add(link, &file) {
                peers::remove_link(link);
            }
            peers::keep_link(link, file);
        }
        (ToProcess::LinkGone { link }, _) => {
            links::remove(link);
            peers::remove_link(link);
        }
        (ToProcess::PeerStatus { family, member }, Some(file)) => peers::add(family, member, file),
        (ToProcess::PeerBell { family, waiter }, Some(bell)) => peers::add_bell(family, waiter, bell),
        (ToProcess::PeerGone { family, member }, _) => peers::remove(family, member),
        (ToProcess::Offer { slot, generation, link, channel, party, ring, secret }, _) => {
            let (end, party) = (Handle { slot, generation }, u32::from(party));
            peers::add_party(link, party);
            hear(Event::Offer(Offer { end, link, channel, party, ring, secret }));
        }
        (ToProcess::RingMade { link, channel, party, ring }, _) => {
            hear(Event::RingMade { link, channel, party: u32::from(party), ring });
        }
        (ToProcess::Dropped { slot, generation, reason }, _) => {
            hear(Event::Dropped { end: Handle { slot, generation }, reason });
        }
        // Decoding has counted the descriptors.
        (ToProcess::LinkMade { .. } | ToProcess::PeerStatus { .. } | ToProcess::PeerBell { .. }, None) => {}
    }
}

/// Receives a message without waiting. An error says that the port is of no use any more.
fn receive(socket: BorrowedFd<'_>) -> Result<Option<(ToProcess, Option<OwnedFd>)>, ()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MESSAGE_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut octets = [0; MESSAGE_LEN + 1];
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let mut receive = || recvmsg(socket, &mut [IoSliceMut::new(&mut octets)], &mut control, flags);
    let received = match receive() {
        // The daemon has closed the port without reading all. The kernel tells that first, and once. Its last mail follows.
        Err(Errno::CONNRESET) => receive(),
        received => received,
    };
    let len = match received {
        Ok(received) => received.bytes,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
        Err(_) => return Err(()),
    };
    let mut descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let descriptor = descriptors.next().and_then(|mut descriptors| descriptors.next());
    let message = octets.get(..len).and_then(ToProcess::decode).ok_or(())?;
    // A process without free descriptors goes without the memory that it cannot take.
    Ok(Some((message, descriptor)))
}

/// Sends a message without waiting.
fn send(message: ToDaemon, descriptors: &[BorrowedFd<'_>]) -> Sent {
    let Some(socket) = SOCKET.borrow() else { return Sent::No(Reason::NoDaemon) };
    match try_send(socket, message, descriptors) {
        Ok(()) => Sent::Yes,
        Err(Errno::AGAIN | Errno::INTR | Errno::TOOMANYREFS | Errno::NOBUFS | Errno::NOMEM) => Sent::Later,
        Err(_) => {
            lose();
            Sent::No(Reason::NoDaemon)
        }
    }
}

fn try_send(socket: BorrowedFd<'_>, message: ToDaemon, descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MESSAGE_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(socket, &[IoSlice::new(&message.encode())], &mut control, flags).map(drop)
}

/// Sends a message about a socket to a daemon, which is looked for if there is none.
fn open_and_send(status: BorrowedFd<'_>, message: ToDaemon, socket: BorrowedFd<'_>) -> Sent {
    match open(status) {
        Ok(()) => send(message, &[socket]),
        Err(Some(reason)) => Sent::No(reason),
        Err(None) => Sent::Later,
    }
}

/// Opens the port if there is none. The error is why there is none then, or `None` if another thread is opening it.
fn open(status: BorrowedFd<'_>) -> Result<(), Option<Reason>> {
    if let Some(socket) = SOCKET.borrow() {
        if daemon::is_alive(socket) {
            return Ok(());
        }
        lose();
    }
    if !search::may_try(milliseconds()) {
        return Err(u8::try_from(REFUSED.load(Ordering::Relaxed)).ok().and_then(Reason::from_number));
    }
    REFUSED.store(0, Ordering::Relaxed);
    match daemon::connected().ok_or(Reason::NoDaemon).and_then(|socket| register(socket, status)) {
        Ok(own) => {
            SOCKET.put(own);
            BELLS.iter().zip(0..).for_each(|(bell, line)| tell_bell(line, bell));
            Ok(())
        }
        Err(reason) => {
            REFUSED.store(reason as u32, Ordering::Relaxed);
            Err(Some(reason))
        }
    }
}

/// Says who this process is. The daemon's welcome comes by mail.
fn register(socket: OwnedFd, status: BorrowedFd<'_>) -> Result<Own, Reason> {
    let (family, member) = family::family().zip(family::member()).ok_or(Reason::Limit)?;
    SEEN.store(mail().unwrap_or(0), Ordering::Relaxed);
    let (user, own) = (daemon::owner(&socket).ok_or(Reason::NoDaemon)?, geteuid().as_raw());
    if user != 0 && user != own {
        return Err(Reason::NoDaemon);
    }
    IS_OWN_USER.store(user == own, Ordering::Relaxed);
    let pidfd = pidfd_open(getpid(), PidfdFlags::empty()).map_err(|_| Reason::Kernel)?;
    let slab = family.file.borrow().ok_or(Reason::Limit)?;
    let message = ToDaemon::Register { oldest: VERSION, newest: VERSION, member };
    let socket = Own::new(socket).map_err(|_| Reason::Limit)?;
    let sent = socket.borrow().ok_or(Reason::Limit).and_then(|port| {
        try_send(port, message, &[pidfd.as_fd(), status, slab]).map_err(|_| Reason::NoDaemon)?;
        if let Some(network) = daemon::network() {
            // Without it connections to other network namespaces stay on TCP.
            let _sent = try_send(port, ToDaemon::Network {}, &[network.as_fd()]);
        }
        Ok(())
    });
    if sent.is_err() {
        socket.close();
    }
    sent.map(|()| socket)
}

/// The daemon is gone. Another one may have its place already, or take it soon. One that has not welcomed this process is
/// looked for no sooner than if it were not there.
fn lose() {
    REFUSED.store(Reason::NoDaemon as u32, Ordering::Relaxed);
    SOCKET.close();
    if IS_WELCOME.swap(false, Ordering::Relaxed) {
        search::begin();
    }
    RUNG.store(0, Ordering::Relaxed);
}

/// True if a daemon that this process had is looked for, and it is too early for the next look. Costs a look at the clock.
pub(crate) fn is_between_looks() -> bool {
    SOCKET.borrow().is_none() && search::is_between_looks(milliseconds())
}

/// Rings for a thread of this process.
pub(crate) fn ring_own(line: u8) -> Woken {
    let Some(bell) = BELLS.get(usize::from(line)).and_then(Place::borrow) else { return Woken::Unknown };
    // A full eventfd has been rung often enough.
    let _rung = rustix::io::write(bell, &1_u64.to_ne_bytes());
    Woken::Yes
}

fn tell_bell(line: u8, place: &Place) {
    if let Some(bell) = place.borrow() {
        // Without it peers cannot wake this waiter by themselves, and the daemon cannot either.
        let _sent = send(ToDaemon::Bell { line }, &[bell]);
    }
}

/// Shows the daemon the links that an earlier one made. Returns true if it knows all links by then.
fn show_links() -> bool {
    peers::show_links(EPOCH.load(Ordering::Relaxed), |link, party, file| {
        send(ToDaemon::ShowLink { link, party: octet(party) }, &[file]) == Sent::Yes
    })
}

fn is_own(family: u64) -> bool {
    family == FAMILY.load(Ordering::Relaxed)
}

/// Forgets a link that no end of this family uses.
fn forget_unused(link: u64) {
    let Some(family) = family::family() else { return };
    let mut used = family.slab.ends().filter(|(_, end)| {
        end.state().phase == Phase::Offered && end.identity.link.load(Ordering::Relaxed) == link
    });
    if used.next().is_none() {
        links::remove(link);
        peers::remove_link(link);
    }
}

/// The right to read mail. A thread that was jumped out of its reading loses it behind a while.
struct Reading(u32);

impl Reading {
    fn begin() -> Option<Self> {
        let now = u32::try_from(seconds() & 0xffff_ffff).unwrap_or(0).max(1);
        let found = READER.load(Ordering::Relaxed);
        let is_free = found == 0 || now.wrapping_sub(found) > LATE;
        let taken =
            is_free && READER.compare_exchange(found, now, Ordering::Acquire, Ordering::Relaxed).is_ok();
        taken.then_some(Self(now))
    }

    fn end(self) {
        let _taken_over = READER.compare_exchange(self.0, 0, Ordering::Release, Ordering::Relaxed);
    }
}

fn seconds() -> u64 {
    clock_gettime(ClockId::MonotonicCoarse).tv_sec.cast_unsigned()
}

fn milliseconds() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec.cast_unsigned() * 1000 + now.tv_nsec.cast_unsigned() / 1_000_000
}

fn octet(party: u32) -> u8 {
    u8::from(party != 0)
}

static SOCKET: Place = Place::new();
/// Fork has made this process.
static IS_CHILDS: AtomicBool = AtomicBool::new(false);
/// The doorbells of this process's waiters.
static BELLS: [Place; WAITERS] = [const { Place::new() }; WAITERS];
static FAMILY: AtomicU64 = AtomicU64::new(0);
/// The daemon is of this process's user. A process that changes its user leaves all connections to the kernel.
static IS_OWN_USER: AtomicBool = AtomicBool::new(false);
static EPOCH: AtomicU64 = AtomicU64::new(0);
static IS_WELCOME: AtomicBool = AtomicBool::new(false);
/// The second in which [`is_rung`] was last true, or 0.
static RUNG: AtomicU64 = AtomicU64::new(0);
/// Why the last try came to nothing: a [`Reason`], or 0 during a try.
static REFUSED: AtomicU32 = AtomicU32::new(0);
/// How much mail has been read.
static SEEN: AtomicU32 = AtomicU32::new(0);
/// The second in which a thread began to read mail, or 0.
static READER: AtomicU32 = AtomicU32::new(0);
/// Seconds behind which a reader of mail does not come back.
const LATE: u32 = 2;

#[cfg(test)]
pub(crate) mod tests {
    use std::os::fd::AsRawFd;

    use rustix::event::{EventfdFlags, eventfd};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use weft_sockets::end::allocate;
    use weft_sockets::{Link, Prefixes, Status};

    use super::*;
    use crate::{calls, ends};

    /// Runs something while a daemon is there that says nothing.
    pub(crate) fn beside_a_daemon<R>(run: impl FnOnce() -> R) -> R {
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let (own, _daemon) = pair.expect("a pair");
        SOCKET.put(Own::new(own).expect("a descriptor"));
        let result = run();
        SOCKET.close();
        result
    }

    /// The daemon's end of the port.
    struct Daemon(OwnedFd);

    impl Daemon {
        fn hear(&self) -> (ToDaemon, usize) {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MESSAGE_DESCRIPTORS))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut octets = [0; MESSAGE_LEN];
            let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
            let received = recvmsg(&self.0, &mut [IoSliceMut::new(&mut octets)], &mut control, flags);
            let len = received.expect("a message").bytes;
            let descriptors = control.drain().map(|message| match message {
                RecvAncillaryMessage::ScmRights(descriptors) => descriptors.count(),
                _ => 0,
            });
            let descriptors = descriptors.sum();
            (ToDaemon::decode(&octets[..len]).expect("a message"), descriptors)
        }

        fn say(&self, message: ToProcess, descriptor: Option<&OwnedFd>) {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let descriptors = descriptor.map(|descriptor| [descriptor.as_fd()]);
            if let Some(descriptors) = &descriptors {
                assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
            }
            let octets = message.encode();
            sendmsg(&self.0, &[IoSlice::new(&octets)], &mut control, SendFlags::NOSIGNAL).expect("sent");
            let members = &family::family().expect("a slab").slab.header().members;
            let place = family::member().expect("a place");
            members[usize::from(place)].mail.fetch_add(1, Ordering::Release);
        }

        fn welcome(&self, family: u64, epoch: u64) {
            self.say(ToProcess::Welcome { version: VERSION, family, epoch }, None);
            assert_eq!(mail(), [Event::Welcome]);
        }
    }

    fn port(status: BorrowedFd<'_>) -> Daemon {
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let (own, other) = pair.expect("a pair");
        SOCKET.put(register(own, status).expect("a port"));
        let daemon = Daemon(other);
        let (message, descriptors) = daemon.hear();
        let place = family::member().expect("a place");
        assert_eq!(message, ToDaemon::Register { oldest: VERSION, newest: VERSION, member: place });
        assert_eq!(descriptors, 3);
        daemon
    }

    fn is_readable(socket: &OwnedFd) -> bool {
        let mut item = [libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
        calls::look(&mut item) != 0
    }

    fn mail() -> Vec<Event> {
        let mut events = Vec::new();
        look_for_mail(|event| events.push(event));
        events
    }

    #[test]
    fn a_port_claims_hears_and_rings() {
        let _turn = family::turn();
        family::opened();
        let (status, _page) = Status::create().expect("a page");
        let end = Handle { slot: 5, generation: 6 };
        let (link, old) = (0x7777_0000_0001, 0x6666_0000_0001);
        let daemon = port(status.as_fd());
        daemon.welcome(9, 0x7777);
        let (socket, _other) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let digests = Digests { written: Prefixes::of(&[1; 256]), received: Prefixes::of(&[2; 20]) };
        assert_eq!(claim(end, digests, socket.as_fd(), status.as_fd()), Sent::Yes);
        assert_eq!(daemon.hear(), (ToDaemon::Claim { slot: 5, generation: 6, digests }, 1));

        // What concerns the process stays here, and what concerns a connection is handed out.
        let (memory, ring) = (Link::create().expect("a link"), RingPlace::new(64, 16).expect("a place"));
        daemon.say(ToProcess::LinkMade { link, peer: 10, far: 0 }, Some(&memory));
        let offer =
            ToProcess::Offer { slot: 5, generation: 6, link, channel: 3, party: 1, ring, secret: [7, 8] };
        daemon.say(offer, None);
        daemon.say(ToProcess::Dropped { slot: 7, generation: 8, reason: Reason::Rules }, None);
        let dropped = Event::Dropped { end: Handle { slot: 7, generation: 8 }, reason: Reason::Rules };
        let offer = Event::Offer(Offer { end, link, channel: 3, party: 1, ring, secret: [7, 8] });
        assert_eq!(mail(), [offer, dropped]);
        assert_eq!(mail(), []);
        assert_eq!(peers::family_of(link), Some(10));
        assert!(is_rung(status.as_fd()));

        // A sleeper whose bell is unknown is rung by the daemon, and later directly.
        let sleeper = WaiterName { member: 0, line: 2 };
        assert!(wake(link, 1, sleeper.to_word(), |_| true, || None));
        assert_eq!(daemon.hear(), (ToDaemon::Ring { link, party: 1, sleeper: Some(sleeper) }, 0));
        let (page, peer) = Status::create().expect("a page");
        peer.page().0[2].asleep.store(1, Ordering::Relaxed);
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).expect("an eventfd");
        daemon.say(ToProcess::PeerStatus { family: 10, member: 0 }, Some(&page));
        daemon.say(ToProcess::PeerBell { family: 10, waiter: sleeper }, Some(&bell));
        assert_eq!(mail(), []);
        assert!(wake(link, 1, sleeper.to_word(), |_| true, || None));
        assert_eq!(rustix::io::read(&bell, &mut [0; 8]), Ok(8));
        peer.page().0[2].asleep.store(0, Ordering::Relaxed);
        assert!(!wake(link, 1, sleeper.to_word(), |_| true, || None));
        assert!(wake(link, 1, EVERYBODY, |_| true, || None));
        assert_eq!(daemon.hear(), (ToDaemon::Ring { link, party: 1, sleeper: None }, 0));
        assert!(!wake(link, 1, 0, |_| true, || None) && !wake(link, 1, EVERYBODY - 1, |_| true, || None));

        // A daemon that ends takes the port along. The next one is shown what it does not know.
        drop(daemon);
        assert!(SOCKET.borrow().is_some_and(|socket| !daemon::is_alive(socket)));
        assert_eq!(withdraw(end), Sent::No(Reason::NoDaemon));
        assert!(SOCKET.borrow().is_none());
        let daemon = port(status.as_fd());
        assert!(peers::add_link(old, 10, false, 0x6666));
        assert_eq!(
            closed(end, (link, 3, 1)),
            Sent::Later,
            "it may know the end from before, or from a relative"
        );
        daemon.welcome(20, 0x8888);
        assert_eq!(daemon.hear(), (ToDaemon::ShowLink { link, party: 1 }, 1));
        assert!(!is_rung(status.as_fd()), "the memory of one link is not at hand");
        assert_eq!(closed(end, (old, 3, 1)), Sent::No(Reason::NoDaemon));
        assert!(is_rung(status.as_fd()), "its last end has taken it along");
        assert_eq!(closed(end, (link, 3, 1)), Sent::Yes);
        let told = ToDaemon::Closed { slot: 5, generation: 6, link, channel: 3, party: 1 };
        assert_eq!(daemon.hear(), (told, 0));
        daemon.say(ToProcess::LinkMade { link, peer: 30, far: 1 }, Some(&memory));
        assert_eq!(mail(), []);
        assert_eq!((peers::family_of(link), peers::is_far(link)), (Some(30), true));

        drop(daemon);
        lose();
        assert_eq!(closed(end, (link, 3, 1)), Sent::No(Reason::NoDaemon));

        // A child has no port until it opens its own.
        leave_to_parent();
        assert_eq!(want_ring(link, 3, 1, 18), Sent::No(Reason::NoDaemon));
    }

    #[test]
    fn a_refusal_is_heard_though_the_daemon_has_not_read_all() {
        let _turn = family::turn();
        family::opened();
        let (status, _page) = Status::create().expect("a page");
        let (socket, _other) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let end = Handle { slot: 5, generation: 6 };
        let daemon = port(status.as_fd());
        search::give_up(milliseconds());
        assert_eq!(withdraw(end), Sent::Yes);
        daemon.say(ToProcess::Refused { reason: Reason::User }, None);
        drop(daemon);
        assert_eq!(mail(), []);
        // The reason stays until the daemon is asked again.
        let refused = claim(end, Digests::default(), socket.as_fd(), status.as_fd());
        assert_eq!(refused, Sent::No(Reason::User));
        leave_to_parent();
    }

    #[test]
    fn the_daemon_hears_of_what_a_dead_relative_leaves_to_others() {
        let _turn = family::turn();
        family::opened();
        let (status, _page) = Status::create().expect("a page");
        let (daemon, link) = (port(status.as_fd()), 0x7777_0000_0002);
        daemon.say(ToProcess::Welcome { version: VERSION, family: 9, epoch: 0x7777 }, None);
        let memory = Link::create().expect("a link");
        daemon.say(ToProcess::LinkMade { link, peer: 10, far: 0 }, Some(&memory));
        assert_eq!(mail(), [Event::Welcome]);
        // It is shown the links of other tests.
        while is_readable(&daemon.0) {
            daemon.hear();
        }
        let (slot, state) = allocate(&family::opened().slab, 200).expect("a place");
        let words = family::opened().slab.end(slot).expect("an end");
        words.identity.link.store(link, Ordering::Relaxed);
        assert!(words.advance(state, Phase::Offered) && words.holders.add(9) && words.holders.add(10));
        let me = family::member().expect("a place");
        assert!(words.holders.add(me));
        ends::leave_for(9);
        assert!(!is_readable(&daemon.0), "the daemon would take it for this process's word");
        words.holders.remove(me);
        assert!(words.holders.add(9));
        ends::leave_for(9);
        let closed = ToDaemon::Closed { slot, generation: state.generation, link, channel: 0, party: 0 };
        assert_eq!(daemon.hear(), (closed, 0));
        words.holders.remove(10);
        assert!(words.advance(state.with(Phase::Offered), Phase::Free));
        lose();
    }

    #[test]
    fn a_daemon_that_was_lost_is_looked_for_at_once_and_then_ever_less() {
        let _turn = family::turn();
        // Without one there is a look in five seconds.
        search::forget();
        assert!(
            search::may_try(1000) && !search::may_try(5999) && search::may_try(6000) && !is_between_looks()
        );
        IS_WELCOME.store(true, Ordering::Relaxed);
        lose();
        let looks: Vec<u64> = (7000..27_000).filter(|now| search::may_try(*now)).collect();
        let pauses: Vec<u64> = looks.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!((looks[0], &pauses[..3], pauses.last()), (7000, &[16, 32, 64][..], Some(&5000)));
        assert!(looks.len() < 15, "{}", looks.len());
        // A process that was turned away had no welcome, or comes back later.
        search::forget();
        lose();
        assert!(search::may_try(1000) && !search::may_try(1016));
        search::forget();
    }
}
