//! Ends whose other one is on another host. The test plays the daemon.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};

use libc::{POLLOUT, epoll_event, pollfd};
use rustix::event::{EventfdFlags, epoll, eventfd};
use weft_sockets::layout::ALWAYS;
use weft_sockets::{Cause, Gate, Inbound, Outbound, Record, RingPlace, Status, WaiterName};

use super::*;
use crate::call::Call;
use crate::table::{self, Entry};
use crate::{
    buffers, clock, control, epoll as waits, family, life, links, peers, poll, receive, sets, transfer,
};

/// A far end, and what the daemon has of its connection.
pub(crate) struct Far {
    pub(crate) ends: [Stream; 2],
    /// The kernel's socket of the end.
    pub(crate) own: TcpStream,
    /// That of the other end, on the other host.
    pub(crate) other: TcpStream,
    /// By it the daemon writes what comes from there.
    pub(crate) from_there: Outbound<'static>,
    /// By it the daemon reads what goes there.
    pub(crate) to_there: Inbound<'static>,
}

impl Far {
    /// An end that takes octets from a ring, and sends by one.
    pub(crate) fn new(link: u64) -> Self {
        let far = Self::before_a_ring(link);
        far.begin();
        far.to_there.attach();
        let sender = channel::offered_outbound(&far.ends[0]).expect("a channel");
        assert!(Gate::new(&far.ends[0].end.outbound.inside, false).try_close());
        assert_eq!((sender.commit(), sender.begin_leg(ring(65))), (true, Ok(true)));
        assert!(far.to_there.source().is_ok());
        far
    }

    /// An end whose reader has attached. Nobody sends by a ring yet.
    pub(crate) fn before_a_ring(link: u64) -> Self {
        table::open();
        let ends = channel::tests::pair(link);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let other = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
        let own = listener.accept().expect("its other end").0;
        let cookie = rustix::net::sockopt::socket_cookie(&own).expect("a socket");
        ends[0].end.identity.cookie.store(cookie, Ordering::Relaxed);
        ends[0].end.identity.flags.fetch_or(FAR, Ordering::Relaxed);
        table::replace(own.as_raw_fd(), Entry::Stream(ends[0].handle));
        channel::offered_inbound(&ends[0]).expect("a channel").attach();
        assert!(Gate::new(&ends[0].end.inbound.inside, false).try_close());
        let from_there = channel::offered_outbound(&ends[1]).expect("a channel");
        let to_there = channel::offered_inbound(&ends[1]).expect("a channel");
        assert!(from_there.appear());
        Self { ends, own, other, from_there, to_there }
    }

    /// Takes another socket of the kernel's for this end.
    pub(crate) fn take_socket(&mut self, own: TcpStream) {
        table::replace(self.own.as_raw_fd(), Entry::Unknown);
        let cookie = rustix::net::sockopt::socket_cookie(&own).expect("a socket");
        self.ends[0].end.identity.cookie.store(cookie, Ordering::Relaxed);
        table::replace(own.as_raw_fd(), Entry::Stream(self.ends[0].handle));
        self.own = own;
    }

    /// A ring begins on the other host.
    fn begin(&self) {
        assert_eq!((self.from_there.commit(), self.from_there.begin_leg(ring(64))), (true, Ok(true)));
    }

    pub(crate) fn call(&self, flags: c_int) -> Call {
        let descriptor = self.own.as_raw_fd();
        Call { descriptor, stream: self.ends[0], flags: flags | libc::MSG_NOSIGNAL }
    }

    /// The kernel's end of the stream comes.
    pub(crate) fn end_early(&self) {
        self.other.shutdown(Shutdown::Write).expect("a connection");
        while anchor::news(self.own.as_raw_fd()) & POLLRDHUP == 0 {
            std::thread::yield_now();
        }
    }

    pub(crate) fn receive(&self) -> isize {
        receive(&self.call(libc::MSG_DONTWAIT))
    }

    pub(crate) fn send(&self) -> isize {
        let call = self.call(libc::MSG_DONTWAIT);
        buffers::with_own(&mut [0; 4096], |buffers| transfer::send(&call, buffers))
    }

    pub(crate) fn poll(&self, events: c_short) -> c_short {
        let mut item = [pollfd { fd: self.own.as_raw_fd(), events, revents: 0 }];
        poll::wait(&mut item, Some(clock::span(0)), None);
        item[0].revents
    }

    /// Time passes since the kernel's socket told its end.
    pub(crate) fn wait_in_vain(&self) {
        let early = &self.ends[0].end.inbound.early;
        assert_ne!(early.load(Ordering::Relaxed), 0, "nobody has told the end");
        early.store(ends::milliseconds().wrapping_sub(PATIENCE), Ordering::Relaxed);
    }

    pub(crate) fn forget(self, link: u64) {
        table::replace(self.own.as_raw_fd(), Entry::Unknown);
        channel::tests::forget(link, self.ends);
    }
}

/// The daemon, which sleeps until it has something to carry.
pub(crate) struct Daemon {
    status: Status,
    bell: OwnedFd,
}

impl Daemon {
    /// Names itself in all directions of a connection.
    pub(crate) fn new(link: u64, end: &Stream) -> Self {
        assert!(peers::add_link(link, HOST, true, 1));
        let (page, status) = Status::create().expect("a page");
        peers::add(HOST, NAME.member, page);
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).expect("an eventfd");
        peers::add_bell(HOST, NAME, bell.try_clone().expect("a descriptor"));
        let channel = links::of(link, end.handle.slot).and_then(|link| link.channel(0)).expect("a channel");
        for direction in &channel.directions {
            direction.legs.waiter.store(NAME.to_word(), Ordering::Relaxed);
            direction.reader.waiter.store(NAME.to_word(), Ordering::Relaxed);
        }
        status.page().0[0].asleep.store(ALWAYS, Ordering::Relaxed);
        Self { status, bell }
    }

    /// True if it was woken since the last question.
    pub(crate) fn was_woken(&self) -> bool {
        rustix::io::read(&self.bell, &mut [0; 8]) == Ok(8)
    }

    pub(crate) fn forget(self, link: u64) {
        self.status.page().0[0].asleep.store(0, Ordering::Relaxed);
        peers::remove_link(link);
    }
}

fn ring(unit: u32) -> Carrier {
    Carrier::Ring(RingPlace::new(unit, 16).expect("a place in the link"))
}

fn receive(call: &Call) -> isize {
    buffers::with_own(&mut [0; 8], |buffers| receive::receive(call, buffers))
}

#[test]
fn a_reader_takes_what_comes_behind_the_kernels_end() {
    let _turn = family::turn();
    let far = Far::new(0x6020);
    far.end_early();
    assert_eq!(far.receive(), AGAIN);
    assert_eq!(far.from_there.write(b"abc"), Ok(3));
    assert_eq!((far.receive(), far.receive()), (3, AGAIN), "there may be more");
    far.from_there.write(b"de").expect("room");
    far.from_there.finish().expect("a sound link");
    assert_eq!((far.receive(), far.receive(), far.receive()), (2, 0, 0));
    far.forget(0x6020);
}

#[test]
fn a_call_that_waits_sleeps_until_the_link_tells_the_end() {
    let _turn = family::turn();
    for tells in [true, false] {
        let far = Far::new(0x6021);
        far.end_early();
        let call = far.call(libc::MSG_WAITALL);
        let begin = clock::now();
        let reading = std::thread::spawn(move || [receive(&call), receive(&call)]);
        while far.ends[0].end.counts.sleeps.load(Ordering::Relaxed) == 0 && !reading.is_finished() {
            std::thread::yield_now();
        }
        if tells {
            far.from_there.write(b"abc").expect("room");
            far.from_there.finish().expect("a sound link");
            assert_eq!(reading.join().expect("no panic"), [3, 0]);
        } else {
            // The program hears of the failure once, as from the kernel.
            assert_eq!(reading.join().expect("no panic"), [-(libc::ECONNRESET as isize), 0]);
            assert!(clock::now() - begin >= 1_900 * MILLISECOND);
            // A thread that does not sleep looks more often than that.
            assert!(far.ends[0].end.counts.sleeps.load(Ordering::Relaxed) < 500);
        }
        far.forget(0x6021);
    }
}

#[test]
fn octets_of_a_ring_that_begins_late_are_read() {
    let _turn = family::turn();
    for tells in [true, false] {
        let mut far = Far::before_a_ring(0x6022);
        assert!(far.from_there.commit());
        far.other.write_all(b"tcp").expect("room");
        far.end_early();
        assert_eq!((far.poll(POLLIN), far.receive()), (POLLIN, 3));
        assert_eq!((far.poll(POLLIN | POLLRDHUP), far.receive()), (0, AGAIN));
        if tells {
            far.ends[1].end.outbound.count(3);
            far.begin();
            far.from_there.write(b"ring").expect("room");
            far.from_there.finish().expect("a sound link");
            assert_eq!((far.poll(POLLIN), far.receive(), far.receive()), (POLLIN, 4, 0));
        } else {
            far.wait_in_vain();
            assert_eq!((far.poll(POLLIN), far.receive()), (POLLIN, -(libc::ECONNRESET as isize)));
        }
        far.forget(0x6022);
    }
}

/// A sender that has not heard of the channel has begun no ring: the kernel's end is that of the stream.
#[test]
fn the_end_counts_at_once_if_the_sender_is_not_known() {
    let _turn = family::turn();
    let mut far = Far::before_a_ring(0x6022);
    assert!(far.from_there.commit());
    let link = links::of(0x6022, far.ends[0].handle.slot).expect("a link");
    link.channel(0).expect("a channel").directions[1].legs.present.store(0, Ordering::Relaxed);
    far.other.write_all(b"tcp").expect("room");
    far.end_early();
    assert_eq!((far.receive(), far.poll(POLLIN | POLLRDHUP)), (3, POLLIN | POLLRDHUP));
    assert_eq!(far.receive(), 0);
    far.forget(0x6022);
}

#[test]
fn octets_by_tcp_wait_for_the_word_that_they_follow_the_ring() {
    let _turn = family::turn();
    let mut far = Far::new(0x6023);
    far.from_there.write(b"ring").expect("room");
    far.other.write_all(b"tcp").expect("room");
    while anchor::news(far.own.as_raw_fd()) & POLLIN == 0 {
        std::thread::yield_now();
    }
    assert_eq!((far.receive(), far.receive(), far.poll(POLLIN)), (4, AGAIN, 0));
    assert_eq!(far.from_there.begin_leg(Carrier::Tcp), Ok(true));
    assert_eq!((far.poll(POLLIN), far.receive()), (POLLIN, 3));
    // Nothing can come behind the kernel's end any more.
    far.end_early();
    assert_eq!((far.poll(POLLIN | POLLRDHUP), far.receive()), (POLLIN | POLLRDHUP, 0));
    far.forget(0x6023);
}

#[test]
fn an_end_that_was_reset_on_the_other_host_ends_as_in_this_one() {
    let _turn = family::turn();
    let far = Far::new(0x6024);
    far.end_early();
    assert_eq!(far.receive(), AGAIN);
    far.from_there.reset();
    assert_eq!(far.receive(), 0, "it has read all");
    far.forget(0x6024);
    let far = Far::new(0x6024);
    assert_eq!(far.send(), 4096);
    far.end_early();
    far.from_there.reset();
    assert_eq!(far.receive(), -(libc::ECONNRESET as isize), "it has left octets unread");
    far.forget(0x6024);
}

#[test]
fn waits_tell_the_end_once_the_link_does_or_the_time_is_over() {
    let _turn = family::turn();
    for (tells, modes) in [(true, 0), (false, 0), (true, libc::EPOLLET), (false, libc::EPOLLET)] {
        let far = Far::new(0x6025);
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a set");
        sets::enter(set.as_raw_fd());
        let wanted = (libc::EPOLLIN | libc::EPOLLRDHUP | modes).cast_unsigned();
        let (own, set_number) = (far.own.as_raw_fd(), set.as_raw_fd());
        assert_eq!(control::control(set_number, libc::EPOLL_CTL_ADD, own, Some((wanted, 7))), 0);
        let asked = || {
            let mut events = [epoll_event { events: 0, u64: 0 }; 4];
            match waits::wait(set_number, &mut events, Some(clock::span(0)), None) {
                1 => (far.poll(POLLIN | POLLRDHUP), events[0].events),
                0 => (far.poll(POLLIN | POLLRDHUP), 0),
                other => panic!("{other}"),
            }
        };
        assert_eq!(asked(), (0, 0));
        far.end_early();
        assert_eq!((asked(), asked()), ((0, 0), (0, 0)));
        assert!(sets::of(set_number).expect("a set").catch_up() <= 2_000 * MILLISECOND);
        if tells {
            far.from_there.finish().expect("a sound link");
        } else {
            far.wait_in_vain();
        }
        let both = (libc::EPOLLIN | libc::EPOLLRDHUP).cast_unsigned();
        assert_eq!(asked(), (POLLIN | POLLRDHUP, both), "{tells}, {modes:x}");
        sets::forget(own, far.ends[0].handle);
        table::replace(set_number, Entry::Unknown);
        far.forget(0x6025);
    }
}

#[test]
fn a_set_tells_octets_by_tcp_once_the_link_does() {
    let _turn = family::turn();
    for modes in [0, libc::EPOLLET] {
        let mut far = Far::new(0x602c);
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a set");
        let (own, set_number) = (far.own.as_raw_fd(), set.as_raw_fd());
        sets::enter(set_number);
        let wanted = (libc::EPOLLIN | modes).cast_unsigned();
        assert_eq!(control::control(set_number, libc::EPOLL_CTL_ADD, own, Some((wanted, 7))), 0);
        let asked = || {
            let mut events = [epoll_event { events: 0, u64: 0 }; 4];
            let count = waits::wait(set_number, &mut events, Some(clock::span(0)), None);
            (count, if count == 1 { events[0].events } else { 0 })
        };
        far.other.write_all(b"tcp").expect("room");
        while anchor::news(own) & POLLIN == 0 {
            std::thread::yield_now();
        }
        assert_eq!((asked(), asked()), ((0, 0), (0, 0)), "octets of the ring may come before them");
        assert_eq!(far.from_there.begin_leg(Carrier::Tcp), Ok(true));
        assert_eq!((asked(), far.receive()), ((1, libc::EPOLLIN.cast_unsigned()), 3));
        sets::forget(own, far.ends[0].handle);
        table::replace(set_number, Entry::Unknown);
        far.forget(0x602c);
    }
}

#[test]
fn a_wait_for_a_set_in_a_list_or_in_a_set_hears_of_an_end_that_the_link_does_not_tell() {
    let _turn = family::turn();
    for is_in_a_set in [false, true] {
        let far = Far::new(0x602b);
        let [inner, outer] = [(); 2].map(|()| epoll::create(epoll::CreateFlags::CLOEXEC).expect("a set"));
        let [inner_number, outer_number] = [&inner, &outer].map(|set| {
            sets::enter(set.as_raw_fd());
            set.as_raw_fd()
        });
        let add = |set, descriptor, events: c_int| {
            let event = Some((events.cast_unsigned(), 7));
            assert_eq!(control::control(set, libc::EPOLL_CTL_ADD, descriptor, event), 0);
        };
        let own = far.own.as_raw_fd();
        add(inner_number, own, libc::EPOLLIN | libc::EPOLLRDHUP);
        add(outer_number, inner_number, libc::EPOLLIN);
        let wait = |milliseconds: u64| {
            let span = Some(clock::span(milliseconds * MILLISECOND));
            if is_in_a_set {
                let mut events = [epoll_event { events: 0, u64: 0 }];
                waits::wait(outer_number, &mut events, span, None)
            } else {
                poll::wait(&mut [pollfd { fd: inner_number, events: POLLIN, revents: 0 }], span, None)
            }
        };
        let look = || {
            waits::wait(inner_number, &mut [epoll_event { events: 0, u64: 0 }], Some(clock::span(0)), None)
        };
        // The first look may find a doorbell that is new.
        let _rung = wait(0);
        far.end_early();
        assert_eq!((look(), wait(0)), (0, 0));
        let early = &far.ends[0].end.inbound.early;
        early.store(ends::milliseconds().wrapping_sub(PATIENCE - 100), Ordering::Relaxed);
        let begin = clock::now();
        assert_eq!((wait(20_000), look()), (1, 1));
        assert!(clock::now() - begin < 15_000 * MILLISECOND);
        sets::forget(own, far.ends[0].handle);
        for set in [inner_number, outer_number] {
            table::replace(set, Entry::Unknown);
        }
        far.forget(0x602b);
    }
}

/// What the daemon tells a sender with a full ring behind the kernel's end of the other stream.
#[derive(Clone, Copy, PartialEq)]
enum Told {
    HalfClose,
    Death,
    LostLane,
}

#[test]
fn a_sender_goes_on_behind_the_kernels_end_until_the_link_tells_more() {
    let _turn = family::turn();
    for told in [Told::HalfClose, Told::Death, Told::LostLane] {
        let mut far = Far::new(0x6026);
        while far.send() > 0 {}
        far.end_early();
        assert_eq!((far.send(), far.receive(), far.poll(POLLOUT)), (AGAIN, AGAIN, 0));
        // A lane may be away for longer than a reader waits for what it tells.
        far.wait_in_vain();
        assert_eq!((far.send(), far.poll(POLLOUT)), (AGAIN, 0));
        let channel = links::of(0x6026, 0).and_then(|link| link.channel(0)).expect("a channel");
        let party = ends::place(far.ends[0].end).2 as usize;
        match told {
            Told::HalfClose => {
                // It goes on reading, though this kernel knows of no process there that has the socket.
                far.other = far.own.try_clone().expect("a descriptor");
                while !crate::orphan::is_deserted(far.own.as_raw_fd()) {
                    std::thread::yield_now();
                }
                far.from_there.finish().expect("a sound link");
                assert_eq!((far.send(), far.poll(POLLOUT)), (AGAIN, 0));
                far.from_there.reset();
                assert_eq!(far.send(), 4096, "nobody has it any more, and the kernel has the answer");
            }
            Told::Death => {
                let flags = &channel.directions[1 - party].producer.flags;
                flags.fetch_or(weft_sockets::layout::KILLED, Ordering::Relaxed);
                assert_eq!((far.poll(POLLOUT), far.send()), (POLLOUT, -(libc::ECONNRESET as isize)));
            }
            Told::LostLane => {
                record::keep(&far.ends[0], [3, 5]);
                weft_sockets::far::Outgoing::lower(&channel.directions[party]);
                assert_eq!(far.send(), 4096, "by TCP, behind a record and what was in the ring");
                let mut octets = [0; Record::LEN];
                far.other.read_exact(&mut octets).expect("octets");
                assert_eq!(Record::decode(&octets, [3, 5]), Ok(Some(Record::new(0))));
            }
        }
        far.forget(0x6026);
    }
}

#[test]
fn a_sender_whose_connection_was_reset_hears_of_it_though_another_call_has_heard() {
    let _turn = family::turn();
    let mut far = Far::new(0x602c);
    while far.send() > 0 {}
    rustix::net::sockopt::set_socket_linger(&far.other, Some(core::time::Duration::ZERO)).expect("a socket");
    far.other = far.own.try_clone().expect("a descriptor");
    while !anchor::has_failed(far.own.as_raw_fd()) {
        std::thread::yield_now();
    }
    assert_eq!(anchor::take_error(far.own.as_raw_fd()), Some(libc::ECONNRESET));
    assert_eq!(far.send(), -(libc::EPIPE as isize));
    far.forget(0x602c);
}

#[test]
fn a_sender_goes_on_behind_the_end_of_a_stream_that_its_reader_has_ended_behind_a_record() {
    let _turn = family::turn();
    let mut far = Far::new(0x602d);
    record::keep(&far.ends[0], [3, 5]);
    while far.send() > 0 {}
    let record = Record { position: 0, cause: Cause::Ended }.encode([3, 5]);
    far.other.write_all(&[&record[..], b"ab"].concat()).expect("room");
    far.end_early();
    assert_eq!([far.receive(), far.receive()], [2, 0]);
    // The other end takes nothing for a while. It may read on.
    assert_eq!((far.send(), far.poll(POLLOUT)), (AGAIN, 0));
    far.ends[0]
        .end
        .inbound
        .early
        .store(ends::milliseconds().wrapping_sub(PATIENCE).max(1), Ordering::Relaxed);
    assert_eq!((far.send(), far.poll(POLLOUT)), (AGAIN, 0));
    while far.to_there.discard(65_536).expect("a ring") > 0 {}
    assert_eq!((far.poll(POLLOUT), far.send()), (POLLOUT, 4096));
    far.forget(0x602d);
}

#[test]
fn a_sender_whose_reader_has_ended_its_stream_behind_a_record_hears_at_once_that_it_is_gone() {
    let _turn = family::turn();
    let mut far = Far::new(0x6030);
    record::keep(&far.ends[0], [3, 5]);
    while far.send() > 0 {}
    let record = Record { position: 0, cause: Cause::Ended }.encode([3, 5]);
    far.other.write_all(&record).expect("room");
    far.end_early();
    assert_eq!((far.receive(), far.send(), far.poll(POLLOUT)), (0, AGAIN, 0));
    // Its daemon says that it is closed, and has not read all.
    let channel = links::of(0x6030, 0).and_then(|link| link.channel(0)).expect("a channel");
    let party = ends::place(far.ends[0].end).2 as usize;
    channel.directions[1 - party].producer.flags.fetch_or(weft_sockets::layout::KILLED, Ordering::Relaxed);
    assert_eq!((far.poll(POLLOUT), far.send()), (POLLOUT, -(libc::ECONNRESET as isize)));
    far.forget(0x6030);
}

#[test]
fn inside_a_host_the_kernels_end_counts_at_once() {
    let _turn = family::turn();
    let far = Far::new(0x6027);
    far.ends[0].end.identity.flags.fetch_and(!FAR, Ordering::Relaxed);
    far.end_early();
    assert_eq!((far.poll(POLLIN | POLLRDHUP), far.receive()), (POLLIN | POLLRDHUP, 0));
    assert_eq!(far.ends[0].end.inbound.early.load(Ordering::Relaxed), 0);
    far.forget(0x6027);
}

#[test]
fn the_daemon_hears_when_a_reader_comes_to_a_leg_or_wants_larger_ones() {
    let _turn = family::turn();
    let far = Far::new(0x6028);
    let daemon = Daemon::new(0x6028, &far.ends[0]);
    assert_eq!((far.receive(), daemon.was_woken()), (AGAIN, true), "the reader has come to the first ring");
    assert_eq!((far.receive(), daemon.was_woken()), (AGAIN, false));
    assert_eq!(far.from_there.begin_leg(ring(66)), Ok(true));
    assert_eq!((far.poll(POLLIN), daemon.was_woken()), (0, true));
    assert_eq!((far.poll(POLLIN), daemon.was_woken()), (0, false));
    life::widened(far.own.as_raw_fd());
    assert!(daemon.was_woken());
    // A sender in this host looks by itself.
    far.ends[0].end.identity.flags.fetch_and(!FAR, Ordering::Relaxed);
    life::widened(far.own.as_raw_fd());
    assert!(!daemon.was_woken());
    daemon.forget(0x6028);
    far.forget(0x6028);
}

#[test]
fn an_end_on_another_host_runs_on_no_cpu_of_this_one_and_by_another_clock() {
    let _turn = family::turn();
    let far = Far::new(0x602a);
    far.from_there.note_cpu(calls::cpu());
    assert!(!channel::is_on_this_cpu(&far.ends[0]));
    far.from_there.stamp(|| 77);
    far.from_there.write(b"abc").expect("room");
    assert_eq!(far.receive(), 3);
    let set = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a set");
    let (own, number) = (far.own.as_raw_fd(), set.as_raw_fd());
    for is_far in [true, false] {
        if !is_far {
            far.ends[0].end.identity.flags.fetch_and(!FAR, Ordering::Relaxed);
        }
        sets::enter(number);
        let added =
            control::control(number, libc::EPOLL_CTL_ADD, own, Some((libc::EPOLLIN.cast_unsigned(), 7)));
        let member = sets::of(number).and_then(|set| set.member(own)).expect("a member");
        assert_eq!((added, member.rank(70) == 0), (0, is_far));
        assert_eq!(control::control(number, libc::EPOLL_CTL_DEL, own, None), 0);
        let _purged = sets::of(number).map(|set| set.with(|| set.purge()));
    }
    table::replace(number, Entry::Unknown);
    far.forget(0x602a);
}

/// The daemon's name in a link.
const NAME: WaiterName = WaiterName { member: 0, line: 0 };
/// The family that stands for the other host.
const HOST: u64 = 0x0005_0000_0005;
const AGAIN: isize = -(libc::EAGAIN as isize);

#[test]
fn a_reset_by_the_daemon_counts_though_the_kernels_socket_lives() {
    let _turn = family::turn();
    let far = Far::new(0xfa20);
    far.from_there.reset();
    assert_eq!((far.poll(POLLIN), far.receive()), (POLLIN, -(libc::ECONNRESET as isize)));
    assert_eq!((far.receive(), far.send()), (0, -(libc::EPIPE as isize)));
    far.forget(0xfa20);
    let far = Far::new(0xfa21);
    far.from_there.reset();
    assert_eq!(far.send(), -(libc::ECONNRESET as isize));
    far.forget(0xfa21);
}

#[test]
fn a_set_tells_a_reset_by_the_daemon_though_the_kernels_socket_lives() {
    let _turn = family::turn();
    for modes in [0, libc::EPOLLET] {
        let far = Far::new(0xfa22);
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a set");
        let (own, number) = (far.own.as_raw_fd(), set.as_raw_fd());
        sets::enter(number);
        let wanted = (libc::EPOLLIN | modes).cast_unsigned();
        assert_eq!(control::control(number, libc::EPOLL_CTL_ADD, own, Some((wanted, 7))), 0);
        let asked = || {
            let mut events = [epoll_event { events: 0, u64: 0 }; 4];
            let count = waits::wait(number, &mut events, Some(clock::span(0)), None);
            (count, if count == 1 { events[0].events } else { 0 })
        };
        assert_eq!(asked(), (0, 0));
        far.from_there.reset();
        assert_eq!(asked(), (1, libc::EPOLLIN.cast_unsigned()), "{modes:x}");
        assert_eq!((far.receive(), far.receive()), (-(libc::ECONNRESET as isize), 0));
        sets::forget(own, far.ends[0].handle);
        table::replace(number, Entry::Unknown);
        far.forget(0xfa22);
    }
}
