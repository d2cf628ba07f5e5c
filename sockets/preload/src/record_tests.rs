//! Both sides of a record. The test plays the daemons, and the process at the other end.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;

use libc::POLLOUT;
use weft_sockets::far::Outgoing;
use weft_sockets::layout::Direction;

use super::*;
use crate::overtaken::tests::{Daemon, Far};
use crate::{backlog, clock, closing, control, ends, epoll, family, links, sets, table, watch};

fn far(link: u64) -> Far {
    let far = Far::new(link);
    keep(&far.ends[0], SECRET);
    far
}

/// The words of the direction in which the far end sends.
fn words(far: &Far) -> &'static Direction {
    let (link, channel, party) = ends::place(far.ends[0].end);
    let link = links::of(link, far.ends[0].handle.slot).expect("a link");
    &link.channel(channel).expect("a channel").directions[party as usize]
}

/// Octets of the kernel's stream arrive.
fn arrive(far: &mut Far, octets: &[u8]) {
    far.other.write_all(octets).expect("room");
    let len = u64::try_from(octets.len()).expect("a number");
    while calls::queued(far.own.as_raw_fd(), libc::FIONREAD) != Ok(len) {
        std::thread::yield_now();
    }
}

fn receive(far: &Far) -> Result<Vec<u8>, isize> {
    let mut octets = [0; 64];
    let call = far.call(MSG_DONTWAIT);
    let len = buffers::with_own(&mut octets, |buffers| crate::receive::receive(&call, buffers));
    usize::try_from(len).map(|len| octets[..len].to_vec()).map_err(|_| len)
}

/// Reads what the kernel's stream has for the other end.
fn hear(far: &mut Far, len: usize) -> Vec<u8> {
    let mut octets = vec![0; len];
    far.other.read_exact(&mut octets).expect("octets");
    octets
}

#[test]
fn a_reader_goes_on_by_tcp_behind_a_record_and_drops_what_it_has() {
    let _turn = family::turn();
    let mut far = far(0x6040);
    far.from_there.write(b"abcd").expect("room");
    assert_eq!(receive(&far), Ok(b"abcd".to_vec()));
    far.from_there.write(b"ef").expect("room");
    assert_eq!(far.poll(POLLIN), POLLIN);
    // The sender knows that two octets were taken. The rest of the ring is not read yet.
    let record = Record::new(2).encode(SECRET);
    arrive(&mut far, &[&record[..], b"cdef"].concat());
    assert_eq!(receive(&far), Ok(b"ef".to_vec()), "what has come by the ring");
    assert_eq!((far.poll(POLLIN), receive(&far)), (0, Err(AGAIN)), "it came again");
    arrive(&mut far, b"gh");
    assert_eq!((far.poll(POLLIN), receive(&far)), (POLLIN, Ok(b"gh".to_vec())));
    // Late words of the daemon count no more.
    far.from_there.write(b"ghij").expect("room");
    assert_eq!((far.poll(POLLIN), receive(&far)), (0, Err(AGAIN)));
    assert_eq!(far.ends[0].end.reason(), Some(Reason::Lane));
    far.end_early();
    assert_eq!((far.poll(POLLIN), receive(&far)), (POLLIN, Ok(Vec::new())));
    far.forget(0x6040);
}

#[test]
fn what_was_taken_and_comes_again_later_does_not_make_the_reader_ready() {
    let _turn = family::turn();
    let mut far = far(0x6041);
    far.from_there.write(b"abcdefgh").expect("room");
    assert_eq!(receive(&far).map(|octets| octets.len()), Ok(8));
    let record = Record::new(0).encode(SECRET);
    arrive(&mut far, &record[..10]);
    assert_eq!((far.poll(POLLIN), receive(&far)), (0, Err(AGAIN)), "a piece of a record");
    far.other.write_all(&record[10..]).expect("room");
    while far.poll(POLLIN) != 0 || !is_left(&far) {}
    arrive(&mut far, b"abcdef");
    assert_eq!((far.poll(POLLIN), receive(&far)), (0, Err(AGAIN)));
    arrive(&mut far, b"ghXY");
    assert_eq!((far.poll(POLLIN), receive(&far)), (POLLIN, Ok(b"XY".to_vec())));
    far.forget(0x6041);
}

#[test]
fn what_was_taken_and_comes_again_with_the_end_of_the_stream_is_dropped() {
    let _turn = family::turn();
    let mut far = far(0x6050);
    far.from_there.write(b"abc").expect("room");
    assert_eq!(receive(&far), Ok(b"abc".to_vec()));
    arrive(&mut far, &Record::new(0).encode(SECRET));
    assert_eq!((receive(&far), is_left(&far)), (Err(AGAIN), true));
    // The rest and the end come behind the reader's look for octets.
    arrive(&mut far, b"abcd");
    far.end_early();
    let inbound = channel::offered_inbound(&far.ends[0]).expect("a channel");
    assert!(is_settled(far.own.as_raw_fd(), &inbound));
    assert_eq!(inbound.skip(), 0);
    assert_eq!((receive(&far), receive(&far)), (Ok(b"d".to_vec()), Ok(Vec::new())));
    far.forget(0x6050);
}

#[test]
fn a_reader_notes_the_reason_that_the_record_names() {
    let _turn = family::turn();
    let known = [
        (Cause::Lost, Some(Reason::Lane)),
        (Cause::Ended, None),
        (Cause::Drained, Some(Reason::Drained)),
        (Cause::Refused, Some(Reason::Refused)),
    ];
    for (cause, reason) in known {
        let mut far = far(0x604d);
        far.from_there.write(b"abcd").expect("room");
        assert_eq!(receive(&far), Ok(b"abcd".to_vec()));
        assert_eq!(cause_ahead(far.own.as_raw_fd(), &far.ends[0]), None);
        arrive(&mut far, &Record { position: 4, cause }.encode(SECRET));
        assert_eq!(cause_ahead(far.own.as_raw_fd(), &far.ends[0]), Some(cause));
        assert_eq!((far.ends[0].end.reason(), receive(&far)), (None, Err(AGAIN)));
        assert_eq!((is_left(&far), far.ends[0].end.reason()), (true, reason));
        far.forget(0x604d);
    }
}

#[test]
fn a_record_with_an_unknown_cause_breaks_the_connection() {
    let _turn = family::turn();
    let mut far = far(0x604e);
    far.from_there.write(b"abcd").expect("room");
    assert_eq!(receive(&far), Ok(b"abcd".to_vec()));
    let mut record = Record::new(4).encode(SECRET);
    record[23] = 9;
    arrive(&mut far, &record);
    assert_eq!(receive(&far), Err(-(libc::ECONNRESET as isize)));
    assert!(!is_left(&far));
    far.forget(0x604e);
}

#[test]
fn the_other_end_hears_why_a_sender_goes_back() {
    let _turn = family::turn();
    let causes = [
        (Reason::Drained, Cause::Drained),
        (Reason::Exec, Cause::Refused),
        (Reason::Stdio, Cause::Refused),
        (Reason::Lane, Cause::Lost),
    ];
    for (reason, cause) in causes {
        let mut far = far(0x604f);
        assert_eq!(far.send(), 4096);
        far.ends[0].end.stay(reason);
        let outbound = channel::offered_outbound(&far.ends[0]).expect("a channel");
        assert_eq!(outbound.depart(), Ok(true));
        assert_eq!(send(far.own.as_raw_fd(), &far.ends[0], &outbound), None);
        let record = Record { position: 0, cause };
        assert_eq!(hear(&mut far, Record::LEN), record.encode(SECRET), "{reason:?}");
        far.forget(0x604f);
    }
}

#[test]
fn a_sender_that_is_asked_finds_the_cause_in_a_record_that_was_not_read() {
    let _turn = family::turn();
    for (record, reason) in [(None, Reason::Refused), (Some(Cause::Drained), Reason::Drained)] {
        let mut far = far(0x6050);
        assert_eq!(far.send(), 4096);
        if let Some(cause) = record {
            arrive(&mut far, &Record { position: 0, cause }.encode(SECRET));
        }
        far.to_there.ask_back();
        backlog::obey(far.own.as_raw_fd(), &far.ends[0]);
        assert_eq!(far.ends[0].end.reason(), Some(reason));
        far.forget(0x6050);
    }
}

#[test]
fn a_sender_that_is_asked_hears_why_from_a_reader_that_sends_by_no_ring() {
    let _turn = family::turn();
    let reasons = [(Reason::Drained, Reason::Drained), (Reason::Exec, Reason::Refused)];
    for (why, reason) in reasons {
        let far = far(0x6051);
        assert_eq!(far.send(), 4096);
        far.to_there.ask_back_because(Some(why));
        let call = far.call(MSG_DONTWAIT | MSG_NOSIGNAL);
        let sent = buffers::with_own(&mut [7; 8], |buffers| crate::transfer::send(&call, buffers));
        assert!(sent == 8 || sent == AGAIN, "{sent}");
        assert_eq!(far.ends[0].end.reason(), Some(reason));
        far.forget(0x6051);
    }
}

fn is_left(far: &Far) -> bool {
    channel::offered_inbound(&far.ends[0]).expect("a channel").has_left()
}

#[test]
fn a_reader_that_knows_of_no_ring_finds_the_record_in_the_middle_of_the_stream() {
    let _turn = family::turn();
    let mut far = Far::before_a_ring(0x6042);
    keep(&far.ends[0], SECRET);
    let record = Record::new(5).encode(SECRET);
    // What begins as a secret does is an octet like others.
    arrive(&mut far, &[&b"abcd"[..], &record[..1]].concat());
    assert_eq!(receive(&far), Ok([&b"abcd"[..], &record[..1]].concat()));
    arrive(&mut far, &[&record[..], b"fgh"].concat());
    assert_eq!((far.poll(POLLIN), receive(&far)), (POLLIN, Ok(b"fgh".to_vec())));
    far.forget(0x6042);
    let mut far = Far::before_a_ring(0x6042);
    keep(&far.ends[0], SECRET);
    arrive(&mut far, &[&b"abcde"[..], &record, b"fgh"].concat());
    assert_eq!((receive(&far), receive(&far)), (Ok(b"abcdefgh".to_vec()), Err(AGAIN)));
    far.forget(0x6042);
}

#[test]
fn a_receive_takes_no_more_than_was_seen_though_the_sender_has_not_shown_itself() {
    let _turn = family::turn();
    let mut far = Far::before_a_ring(0x604b);
    keep(&far.ends[0], SECRET);
    let (link, channel, party) = ends::place(far.ends[0].end);
    let link = links::of(link, far.ends[0].handle.slot).expect("a link");
    let theirs = &link.channel(channel).expect("a channel").directions[1 - party as usize];
    theirs.legs.present.store(0, Ordering::Relaxed);
    let inbound = channel::offered_inbound(&far.ends[0]).expect("a channel");
    let looked = || most(far.own.as_raw_fd(), &far.ends[0], &inbound);
    assert_eq!(looked(), Ok(None), "a record may be the next to come");
    arrive(&mut far, b"abcde");
    assert_eq!(most(far.own.as_raw_fd(), &far.ends[0], &inbound), Ok(Some(5)));
    far.forget(0x604b);
}

#[test]
fn a_record_of_octets_that_were_never_sent_or_that_ends_early_is_a_failure() {
    let _turn = family::turn();
    let mut far = far(0x6043);
    far.from_there.write(b"abcd").expect("room");
    assert_eq!(receive(&far).map(|octets| octets.len()), Ok(4));
    arrive(&mut far, &Record::new(5).encode(SECRET));
    assert_eq!(receive(&far), Err(-(libc::ECONNRESET as isize)));
    far.forget(0x6043);
    let mut far = self::far(0x6043);
    far.from_there.write(b"abcd").expect("room");
    assert_eq!(receive(&far).map(|octets| octets.len()), Ok(4));
    arrive(&mut far, &[&Record::new(0).encode(SECRET)[..], b"ab"].concat());
    far.end_early();
    assert_eq!(receive(&far), Err(-(libc::ECONNRESET as isize)), "octets are missing");
    far.forget(0x6043);
}

#[test]
fn a_sender_whose_daemon_asks_sends_what_is_not_read_behind_a_record() {
    let _turn = family::turn();
    let mut far = far(0x6044);
    assert_eq!(far.send(), 4096);
    assert_eq!(far.to_there.discard(1000), Ok(1000));
    far.to_there.republish();
    let daemon = Daemon::new(0x6044, &far.ends[0]);
    let sleepers = Outgoing::lower(words(&far));
    assert_eq!(sleepers, Some(weft_sockets::Sleepers::Everybody));
    assert_eq!(far.send(), 4096);
    let all = hear(&mut far, Record::LEN + 3096 + 4096);
    assert_eq!(all[..Record::LEN], Record::new(1000).encode(SECRET));
    assert!(words(&far).producer.flags.load(Ordering::Relaxed) & weft_sockets::layout::LOWERED != 0);
    // It has gone for good, and the kernel tells of room.
    assert_eq!((far.poll(POLLOUT), far.send()), (POLLOUT, 4096));
    assert_eq!(hear(&mut far, 4096).len(), 4096);
    daemon.forget(0x6044);
    far.forget(0x6044);
}

/// A sender that has gone back to TCP, whose reader may know of no ring, and the number of octets from before the ring. The
/// other end takes none, so that some of them do not arrive.
fn with_an_early_record(link: u64) -> (Far, usize) {
    let far = far(link);
    let outbound = channel::offered_outbound(&far.ends[0]).expect("a channel");
    words(&far).consumer.adopted.store(0, Ordering::Relaxed);
    assert_eq!(far.send(), 4096);
    let descriptor = far.own.as_raw_fd();
    let fill = || {
        let flags = MSG_DONTWAIT | MSG_NOSIGNAL;
        buffers::with_own(&mut [7; 4096], |buffers| buffers.window(0, u64::MAX).send(descriptor, flags))
    };
    let mut filled = 0;
    while let Ok(octets) = usize::try_from(fill()) {
        filled += octets;
    }
    assert_eq!((outbound.depart(), send(descriptor, &far.ends[0], &outbound)), (Ok(true), Some(AGAIN)));
    assert!(backlog::owes(&outbound));
    (far, filled)
}

#[test]
fn a_sender_whose_reader_may_know_of_no_ring_waits_until_all_before_it_has_arrived() {
    let _turn = family::turn();
    let (mut far, filled) = with_an_early_record(0x6045);
    let outbound = channel::offered_outbound(&far.ends[0]).expect("a channel");
    let descriptor = far.own.as_raw_fd();
    far.other.set_nonblocking(true).expect("a socket");
    let (mut octets, mut some) = (Vec::new(), [0; 65_536]);
    while send(descriptor, &far.ends[0], &outbound).is_some() || octets.len() < filled + Record::LEN {
        let len = far.other.read(&mut some).unwrap_or(0);
        octets.extend(&some[..len]);
    }
    assert!(octets.ends_with(&Record::new(0).encode(SECRET)));
    far.forget(0x6045);
}

/// Takes so many octets of the kernel's stream in a thread.
fn take(far: &Far, mut octets: usize) -> std::thread::JoinHandle<()> {
    let mut other = far.other.try_clone().expect("a descriptor");
    std::thread::spawn(move || {
        let mut some = [0; 65_536];
        while octets > 0 {
            octets = octets.saturating_sub(other.read(&mut some).expect("octets"));
        }
    })
}

/// Makes the kernel's socket writable, though the record may not go out.
fn make_room(far: &Far) {
    let size = rustix::net::sockopt::socket_send_buffer_size(&far.own).expect("a socket");
    rustix::net::sockopt::set_socket_send_buffer_size(&far.own, 4 * size).expect("a larger buffer");
    let descriptor = far.own.as_raw_fd();
    let mut item = [libc::pollfd { fd: descriptor, events: POLLOUT, revents: 0 }];
    calls::look(&mut item);
    assert_eq!(item[0].revents, POLLOUT, "the kernel's word means nothing");
    assert_ne!(calls::queued(descriptor, libc::TIOCOUTQ), Ok(0));
}

#[test]
fn a_call_that_waits_for_the_time_of_a_record_sleeps() {
    let _turn = family::turn();
    let (far, filled) = with_an_early_record(0x6049);
    make_room(&far);
    let (call, sleeps) = (far.call(0), &far.ends[0].end.counts.sleeps);
    let before = sleeps.load(Ordering::Relaxed);
    let sending = std::thread::spawn(move || {
        buffers::with_own(&mut [0; 4096], |buffers| crate::transfer::send(&call, buffers))
    });
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(!sending.is_finished());
    let slept = sleeps.load(Ordering::Relaxed) - before;
    assert!((1..400).contains(&slept), "{slept}");
    let taking = take(&far, filled + Record::LEN + 2 * 4096);
    assert_eq!(sending.join().expect("no panic"), 4096);
    taking.join().expect("no panic");
    far.forget(0x6049);
}

#[test]
fn waits_tell_no_room_until_a_record_may_go_out() {
    let _turn = family::turn();
    for modes in [0, libc::EPOLLET] {
        let (far, filled) = with_an_early_record(0x604a);
        make_room(&far);
        let set = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC).expect("a set");
        let (own, number) = (far.own.as_raw_fd(), set.as_raw_fd());
        sets::enter(number);
        let wanted = (libc::EPOLLOUT | modes).cast_unsigned();
        assert_eq!(control::control(number, libc::EPOLL_CTL_ADD, own, Some((wanted, 7))), 0);
        let wait = |milliseconds: u64| {
            let mut events = [libc::epoll_event { events: 0, u64: 0 }; 4];
            epoll::wait(number, &mut events, Some(clock::span(milliseconds * 1_000_000)), None)
        };
        assert_eq!((far.poll(POLLOUT), wait(20)), (0, 0));
        let taking = take(&far, filled);
        // The limit only turns a hang into a failure.
        assert_eq!(wait(60_000), 1);
        assert_eq!((far.poll(POLLOUT), far.send()), (POLLOUT, 4096));
        take(&far, Record::LEN + 2 * 4096).join().expect("no panic");
        taking.join().expect("no panic");
        sets::forget(own, far.ends[0].handle);
        table::replace(number, table::Entry::Unknown);
        far.forget(0x604a);
    }
}

#[test]
fn a_sender_goes_back_when_no_heartbeat_came_for_five_seconds() {
    let _turn = family::turn();
    let mut far = far(0x6046);
    let daemon = Daemon::new(0x6046, &far.ends[0]);
    let (end, descriptor) = (far.ends[0].end, far.own.as_raw_fd());
    let beat = || {
        let link = links::of(ends::place(end).0, far.ends[0].handle.slot).expect("a link");
        link.header().heartbeat.fetch_add(1, Ordering::Relaxed);
    };
    let look = || watch::look_at(descriptor, &far.ends[0], ends::milliseconds());
    assert_eq!(look(), watch::QUIET);
    assert_eq!(far.send(), 4096);
    let _rung = daemon.was_woken();
    assert_eq!((look(), daemon.was_woken()), (watch::UNDER_WAY, true));
    let age = |by: u32| {
        let pulse = &end.counts.pulse;
        let word = pulse.load(Ordering::Relaxed);
        let since = pulse::low_half(word).wrapping_sub(by);
        pulse.store(word & 0xffff_ffff_0000_0000 | u64::from(since), Ordering::Relaxed);
    };
    beat();
    age(5000);
    assert_eq!(look(), watch::UNDER_WAY, "the daemon is alive");
    age(5000);
    look();
    let record = hear(&mut far, Record::LEN);
    assert_eq!(record, Record::new(0).encode(SECRET));
    assert_eq!(hear(&mut far, 4096).len(), 4096);
    assert_eq!(far.ends[0].end.reason(), Some(Reason::Lane));
    daemon.forget(0x6046);
    far.forget(0x6046);
}

#[test]
fn the_last_octets_of_a_stream_go_by_tcp_too() {
    let _turn = family::turn();
    for is_taken in [false, true] {
        let mut far = far(0x6047);
        assert_eq!(far.send(), 4096);
        if is_taken {
            assert_eq!(far.to_there.discard(4096), Ok(4096));
        }
        assert!(closing::will_shut_down(far.own.as_raw_fd(), libc::SHUT_WR));
        far.own.shutdown(std::net::Shutdown::Write).expect("a connection");
        let mut octets = Vec::new();
        far.other.read_to_end(&mut octets).expect("the end");
        let record = Record { position: 0, cause: Cause::Ended }.encode(SECRET);
        let all = if is_taken { Vec::new() } else { [&record[..], &[0; 4096]].concat() };
        assert_eq!(octets, all);
        far.forget(0x6047);
    }
}

/// A far end that has filled a ring of that size, and its octets. Its reader has taken none.
fn with_a_full_ring(link: u64, unit: u32, log2: u8) -> (Far, usize) {
    let far = far(link);
    let outbound = channel::offered_outbound(&far.ends[0]).expect("a channel");
    let ring = weft_sockets::RingPlace::new(unit, log2).expect("a place in the link");
    assert_eq!(outbound.begin_leg(Carrier::Ring(ring)), Ok(true));
    assert!(far.to_there.source().is_ok());
    let mut octets = 0;
    while let Ok(some) = usize::try_from(far.send()) {
        octets += some;
    }
    (far, octets)
}

/// What the other end reads by the kernel's stream once this one has shut down what it sends.
fn read_behind_the_end(far: &Far) -> Vec<u8> {
    let (descriptor, own) = (far.own.as_raw_fd(), far.own.try_clone().expect("a descriptor"));
    let ending = std::thread::spawn(move || {
        assert!(closing::will_shut_down(descriptor, libc::SHUT_WR));
        own.shutdown(std::net::Shutdown::Write).expect("a connection");
    });
    let mut octets = Vec::new();
    (&far.other).read_to_end(&mut octets).expect("the end");
    ending.join().expect("no panic");
    octets
}

#[test]
fn the_end_of_a_stream_makes_the_kernels_buffer_large_enough() {
    let _turn = family::turn();
    let (far, octets) = with_a_full_ring(0x604b, 66, 16);
    rustix::net::sockopt::set_socket_send_buffer_size(&far.own, 4096).expect("a smaller buffer");
    far.ends[0].set_nonblocking(true);
    let begin = clock::now();
    assert_eq!(read_behind_the_end(&far).len(), Record::LEN + octets);
    assert!(clock::now() - begin < 1_000_000_000, "the socket does not block");
    far.forget(0x604b);
}

#[test]
fn the_end_of_a_stream_waits_while_too_much_is_under_way() {
    let _turn = family::turn();
    // There is no daemon.
    let (far, octets) = with_a_full_ring(0x604c, 128, 22);
    assert_eq!(octets, 4 << 20);
    assert_eq!(read_behind_the_end(&far).len(), Record::LEN + octets);
    far.forget(0x604c);
}

const SECRET: Secret = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];
const AGAIN: isize = -(libc::EAGAIN as isize);
