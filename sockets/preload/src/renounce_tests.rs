//! A connection between two hosts whose session ends before the sender has begun a ring. The test plays the daemons.

use std::io::Write;
use std::net::Shutdown;
use std::os::fd::AsRawFd;

use libc::{POLLIN, POLLRDHUP};
use weft_sockets::far::Outgoing;
use weft_sockets::layout::Direction;
use weft_sockets::{Record, RingPlace};

use super::*;
use crate::overtaken::tests::Far;
use crate::{anchor, closing, links};

/// A sender and its reader, which has attached. Five octets went by TCP.
struct Hosts {
    link: u64,
    sender: Far,
    reader: Far,
}

impl Hosts {
    fn new(link: u64) -> Self {
        let sender = Far::before_a_ring(link);
        let mut reader = Far::before_a_ring(link + 1);
        // Both have one connection of the kernel's.
        reader.take_socket(sender.other.try_clone().expect("a descriptor"));
        for far in [&sender, &reader] {
            record::keep(&far.ends[0], [1, 2]);
        }
        let end = sender.ends[0].end;
        let ring = packed(Carrier::Ring(RingPlace::new(65, 16).expect("a place in the link")));
        end.outbound.ring.store(ring, Ordering::Relaxed);
        let kernel = Evidence::of(sender.own.as_raw_fd()).expect("the kernel's counts").written;
        end.outbound.kernel.store(kernel, Ordering::Relaxed);
        sender.to_there.attach();
        let hosts = Self { link, sender, reader };
        hosts.send(b"abcde");
        assert_eq!(hosts.reader.receive(), 5);
        hosts
    }

    /// The sender's octets arrive.
    fn send(&self, octets: &[u8]) {
        (&self.sender.own).write_all(octets).expect("room");
        self.sender.ends[0].end.outbound.count(octets.len() as u64);
        self.wait_for(POLLIN);
        while calls::queued(self.descriptor(), libc::TIOCOUTQ) != Ok(0) {
            std::thread::yield_now();
        }
    }

    fn wait_for(&self, news: core::ffi::c_short) {
        while anchor::news(self.reader.own.as_raw_fd()) & news == 0 {
            std::thread::yield_now();
        }
    }

    fn descriptor(&self) -> c_int {
        self.sender.own.as_raw_fd()
    }

    /// The sender's daemon lets go of the connection.
    fn lose(&self) {
        assert_eq!(Outgoing::lower(self.words()), None, "it sends by no ring");
    }

    /// The words of the sender's direction.
    fn words(&self) -> &'static Direction {
        let stream = &self.sender.ends[0];
        let (link, channel, party) = ends::place(stream.end);
        let link = links::of(link, stream.handle.slot).expect("a link");
        &link.channel(channel).expect("a channel").directions[party as usize]
    }

    /// The sender ends its stream.
    fn finish(&self) {
        closing::will_shut_down(self.descriptor(), libc::SHUT_WR);
        self.sender.own.shutdown(Shutdown::Write).expect("a connection");
        self.wait_for(POLLRDHUP);
    }

    fn forget(self) {
        self.sender.forget(self.link);
        self.reader.forget(self.link + 1);
    }
}

#[test]
fn a_reader_that_waits_for_a_ring_hears_the_end_though_the_session_has_ended() {
    let _turn = family::turn();
    // The lane is lost, and the sender makes a call since then or not. Or its daemon is dead.
    for (is_lost, calls) in [(true, true), (true, false), (false, false)] {
        let hosts = Hosts::new(0x6070);
        if is_lost {
            hosts.lose();
        }
        if calls {
            step(&hosts.sender.ends[0], hosts.descriptor());
            hosts.send(b"fgh");
            assert_eq!(hosts.reader.receive(), 3);
        }
        hosts.finish();
        let told = (hosts.reader.poll(POLLIN | POLLRDHUP), hosts.reader.receive());
        assert_eq!(told, (POLLIN | POLLRDHUP, 0), "{is_lost}, {calls}");
        hosts.forget();
    }
}

#[test]
fn a_ring_of_which_the_reader_never_hears_loses_nothing_when_the_daemon_is_dead() {
    let _turn = family::turn();
    for octets in [0, 3] {
        let hosts = Hosts::new(0x6072);
        step(&hosts.sender.ends[0], hosts.descriptor());
        let outbound = channel::outbound(&hosts.sender.ends[0]).expect("a ring");
        assert_eq!(outbound.write(&[7; 3][..octets]), Ok(octets));
        hosts.finish();
        let told = if octets > 0 { hosts.reader.receive() } else { 0 };
        assert_eq!((told, hosts.reader.receive()), (octets.cast_signed(), 0));
        hosts.forget();
    }
}

#[test]
fn the_word_that_no_ring_comes_waits_until_all_before_it_has_arrived() {
    let _turn = family::turn();
    let hosts = Hosts::new(0x6074);
    hosts.lose();
    let (stream, descriptor) = (hosts.sender.ends[0], hosts.descriptor());
    // Nobody takes them: the last ones stay in the sender's kernel.
    hosts.sender.own.set_nonblocking(true).expect("a socket");
    while let Ok(octets) = (&hosts.sender.own).write(&[7; 65_536]) {
        stream.end.outbound.count(octets as u64);
    }
    assert!(!renounce(&stream, descriptor, false));
    assert!(!Gate::new(&stream.end.outbound.inside, false).is_closed());
    let count = || usize::try_from(written(&stream)).expect("a number");
    let mut taken = 5;
    while taken < count() || !renounce(&stream, descriptor, false) {
        taken += hosts.reader.receive().max(0).cast_unsigned();
    }
    hosts.finish();
    assert_eq!((hosts.reader.receive(), taken), (0, count()));
    hosts.forget();
}

#[test]
fn a_reader_that_stays_on_tcp_gets_no_word_of_rings() {
    let _turn = family::turn();
    for (is_asked, is_lost) in [(false, true), (true, true), (true, false)] {
        let hosts = Hosts::new(0x6076);
        if is_asked {
            hosts.words().reader.please.store(weft_sockets::layout::ASKED, Ordering::Relaxed);
        } else {
            hosts.sender.to_there.decline();
        }
        if is_lost {
            hosts.lose();
            step(&hosts.sender.ends[0], hosts.descriptor());
        }
        hosts.finish();
        let octets = calls::queued(hosts.reader.own.as_raw_fd(), libc::FIONREAD);
        assert_eq!(octets, Ok(0), "{} octets of a record", Record::LEN);
        hosts.forget();
    }
}

#[test]
fn a_sender_whose_octets_this_library_does_not_know_sends_no_record() {
    let _turn = family::turn();
    let hosts = Hosts::new(0x6078);
    hosts.lose();
    (&hosts.sender.own).write_all(b"x").expect("room");
    while calls::queued(hosts.descriptor(), libc::TIOCOUTQ) != Ok(0) {
        std::thread::yield_now();
    }
    step(&hosts.sender.ends[0], hosts.descriptor());
    hosts.finish();
    assert_eq!(calls::queued(hosts.reader.own.as_raw_fd(), libc::FIONREAD), Ok(1));
    hosts.forget();
}
