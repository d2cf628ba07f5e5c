//! A device with a driver thread. An application thread drives its engine while that waits or polls without a pause.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, epoll, eventfd, poll};
use rustix::io::{read, write};
use rustix::process::Pid;
use weft_netif::Instant;
use weft_rnic::{Access, CmEvent, Data, Mr, Progress, Qp, QpInit, SendWr, Status, Until};

use crate::threads::{Ends, Guard, PATIENCE};
use crate::world::{CAPACITY, WR, outcomes, pattern, post_recv, read_from, write_to};

/// After a wait the driver thread stands by. A peer that writes and reads is served although no thread waits or
/// polls.
#[test]
fn a_peer_is_served_when_no_thread_waits_any_more() {
    let ends = Ends::new(Progress::Manual, Progress::Thread);
    let (qa, qb) = ends.link();
    let far = ends.b.pd.register(100_000, Access::ALL).unwrap();
    for round in 0..20 {
        post_recv(&qb, round, &[far.sge(0, 8)]);
        qa.post_send(&SendWr { signaled: false, data: Data::Inline(b"8 octets"), ..WR }).unwrap();
        // The manual device has to be driven while this thread waits for the other one.
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| ends.b.completion());
            let guard = Guard::new();
            while !waiting.is_finished() {
                assert_eq!(ends.a.cq.poll_one(), None);
                guard.check("a message");
            }
            assert_eq!(waiting.join().unwrap().wr_id, round);
        });
        write_and_read(&ends, &qa, &far, round);
    }
}

/// The driver thread leaves the engine to a program that polls without a pause. When the program does something else,
/// its peer is still served.
#[test]
fn a_peer_is_served_when_no_thread_polls_any_more() {
    let ends = Ends::new(Progress::Manual, Progress::Thread);
    let (qa, _qb) = ends.link();
    let far = ends.b.pd.register(100_000, Access::ALL).unwrap();
    for round in 0..20 {
        poll_in_vain(&ends);
        write_and_read(&ends, &qa, &far, round);
    }
}

/// A thread polls for a while, then asks for an event and sleeps on the descriptor itself. It gets the event,
/// although the device does not know of that sleep.
#[test]
fn a_thread_that_sleeps_after_polling_gets_the_event() {
    let ends = Ends::new(Progress::Thread, Progress::Thread);
    let (qa, qb) = ends.link();
    let memory = ends.b.pd.register(8, Access::ALL).unwrap();
    for round in 0..50 {
        post_recv(&qb, round, &[memory.sge(0, 8)]);
        poll_in_vain(&ends);
        ends.b.cq.request_notification(false);
        qa.post_send(&SendWr { signaled: false, data: Data::Inline(b"8 octets"), ..WR }).unwrap();
        let mut fds = [PollFd::new(&ends.b.channel, PollFlags::IN)];
        assert_eq!(poll(&mut fds, Some(&PATIENCE.try_into().unwrap())), Ok(1), "round {round}");
        assert_eq!(ends.b.channel.next(), Some(ends.b.cq.id()));
        assert_eq!(ends.b.cq.poll_one().map(|done| done.wr_id), Some(round));
    }
}

/// Three threads wait for three queue pairs of one device. When the leader leaves, the others still get their
/// completions.
#[test]
fn followers_are_served_after_the_leader_has_left() {
    let ends = Ends::new(Progress::Thread, Progress::Thread);
    let memory = ends.b.pd.register(8, Access::ALL).unwrap();
    let lanes: Vec<_> = (0..3)
        .map(|_| {
            let channel = ends.b.device.create_comp_channel().unwrap();
            let cq = ends.b.device.create_cq(64, Some(&channel)).unwrap();
            let init = QpInit { capacity: CAPACITY, ..QpInit::new(&cq, &cq) };
            let qb = ends.b.device.create_qp(&ends.b.pd, &init).unwrap();
            (ends.link_to(&qb), qb, cq, channel)
        })
        .collect();
    for round in 0..100 {
        std::thread::scope(|scope| {
            for (qa, qb, cq, channel) in &lanes {
                post_recv(qb, round, &[memory.sge(0, 8)]);
                cq.request_notification(false);
                let waiting = move || {
                    assert_eq!(channel.wait(Some(PATIENCE)), Some(cq.id()), "round {round}");
                    assert_eq!(cq.poll_one().map(|done| done.wr_id), Some(round));
                };
                scope.spawn(waiting);
                let message = SendWr { signaled: false, data: Data::Inline(b"8 octets"), ..WR };
                qa.post_send(&message).unwrap();
            }
        });
    }
}

/// A thread that posts while the driver thread sleeps sends the message itself. The peer does not acknowledge it, so
/// that TCP gets a deadline that the driver thread did not know when it fell asleep.
#[test]
fn the_driver_thread_keeps_a_deadline_that_came_up_while_it_slept() {
    let ends = Ends::new(Progress::Thread, Progress::Manual);
    let (qa, _qb) = ends.link();
    let (device, guard) = (&ends.a.device, Guard::new());
    let sent_again = || device.counters().tcp.segments_retransmitted;
    let sleeps_for_ever = || {
        let counted = device.counters().engine;
        let woken =
            [counted.woken_by_doorbell, counted.woken_by_wire, counted.woken_by_event, counted.woken_by_time];
        counted.sleeps == woken.iter().sum::<u64>() + 1 && device.poll_at(Instant::ZERO).is_none()
    };
    while !sleeps_for_ever() {
        assert_eq!(ends.b.cq.poll_one(), None);
        guard.check("the driver thread's sleep");
    }
    let before = sent_again();
    qa.post_send(&SendWr { signaled: false, data: Data::Inline(b"8 octets"), ..WR }).unwrap();
    while sent_again() == before {
        guard.check("the retransmission");
    }
}

/// Polls for a millisecond or two.
fn poll_in_vain(ends: &Ends) {
    for _ in 0..10_000 {
        assert_eq!(ends.b.cq.poll_one(), None);
    }
}

/// Writes octets to the peer's memory, reads them back and compares.
fn write_and_read(ends: &Ends, qa: &Qp, far: &Mr, round: u64) {
    let octets = pattern(100_000, round);
    let near = ends.a.pd.register(200_000, Access::ALL).unwrap();
    near.write(0, &octets).unwrap();
    let (source, sink) = ([near.sge(0, 100_000)], [near.sge(100_000, 100_000)]);
    let write = SendWr { wr_id: 1, opcode: write_to(far, 0), data: Data::Sges(&source), ..WR };
    let read = SendWr { wr_id: 2, opcode: read_from(far, 0), data: Data::Sges(&sink), ..WR };
    qa.post_sends(&[write, read]).unwrap();
    let (guard, mut done) = (Guard::new(), Vec::new());
    while done.len() < 2 {
        done.extend(ends.a.cq.poll_one());
        guard.check("the Read");
    }
    assert_eq!(outcomes(&done), [(1, Status::Success), (2, Status::Success)]);
    let mut back = vec![0; 100_000];
    near.read(100_000, &mut back).unwrap();
    assert!(back == octets, "round {round}");
}

/// A thread that waits in an event channel may become the driver of the engine, and then it works for each message. A
/// thread that is not to work sleeps on the channel's descriptor: then only the driver thread does.
#[test]
fn a_thread_that_sleeps_on_the_descriptor_never_drives() {
    for waits_in_channel in [true, false] {
        let ends = Ends::new(Progress::Thread, Progress::Thread);
        let (qa, qb) = ends.link();
        let (told, thread) = channel();
        let (a, events) = (&ends.a, &ends.b.events);
        let switches = std::thread::scope(|scope| {
            let control = scope.spawn(move || {
                told.send(rustix::thread::gettid()).unwrap();
                if waits_in_channel {
                    events.wait(Some(PATIENCE))
                } else {
                    let mut fds = [PollFd::new(events, PollFlags::IN)];
                    assert_eq!(poll(&mut fds, Some(&PATIENCE.try_into().unwrap())), Ok(1));
                    events.next()
                }
            });
            let thread = thread.recv().unwrap();
            let guard = Guard::new();
            while !is_asleep(thread) {
                guard.check("a sleep");
            }
            let before = switches(thread);
            for round in 0..100 {
                post_recv(&qb, round, &[]);
                qa.post_send(&WR).unwrap();
                assert_eq!(a.completion().status, Status::Success);
                let guard = Guard::new();
                while qb.query().unwrap().counters.messages_received <= round {
                    guard.check("a message");
                }
            }
            let after = switches(thread);
            qa.disconnect().unwrap();
            let event = control.join().unwrap();
            assert!(matches!(event, Some(CmEvent::Disconnected { .. })), "{event:?}");
            after - before
        });
        assert_eq!(switches > 0, waits_in_channel, "{switches} switches");
    }
}

/// A thread sleeps on a descriptor of its own, which becomes readable when another thread makes it so, and when the
/// device has an event. It drives the engine meanwhile.
#[test]
fn a_thread_waits_on_a_descriptor_of_its_own() {
    for progress in [Progress::Thread, Progress::Manual] {
        let ends = Ends::new(Progress::Thread, progress);
        let (qa, qb) = ends.link();
        let own = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let all = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        for fd in [own.as_fd(), ends.b.channel.as_fd()] {
            epoll::add(&all, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN).unwrap();
        }
        let (b, said) = (&ends.b, AtomicBool::new(false));
        let look = || {
            while b.channel.next().is_some() {}
            b.cq.request_notification(false);
            let word = said.swap(false, Ordering::AcqRel).then_some(WORD);
            word.or_else(|| b.cq.poll_one().map(|done| done.wr_id))
        };
        let wait = || b.device.wait_until(all.as_fd(), Until::Time(PATIENCE), || b.channel.hold(), look);
        for round in 0..20 {
            post_recv(&qb, round, &[]);
            std::thread::scope(|scope| {
                let waiting = scope.spawn(wait);
                qa.post_send(&SendWr { signaled: false, ..WR }).unwrap();
                assert_eq!(waiting.join().unwrap(), Some(round), "a message");
                let waiting = scope.spawn(wait);
                said.store(true, Ordering::Release);
                write(&own, &1_u64.to_ne_bytes()).unwrap();
                assert_eq!(waiting.join().unwrap(), Some(WORD), "a word of another thread");
                read(&own, &mut [0; 8]).unwrap();
            });
        }
        let nothing = b.device.wait_until(own.as_fd(), Until::Time(Duration::ZERO), || (), || None::<u64>);
        assert_eq!(nothing, None);
    }
}

/// While a thread takes the events itself, another one that sleeps on the channel's descriptor sleeps on.
#[test]
fn a_held_channel_wakes_no_sleeper() {
    let ends = Ends::new(Progress::Thread, Progress::Manual);
    let (qa, qb) = ends.link();
    let (told, thread) = channel();
    let (b, is_over) = (&ends.b, AtomicBool::new(false));
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            told.send(rustix::thread::gettid()).unwrap();
            let mut fds = [PollFd::new(&b.channel, PollFlags::IN)];
            assert_eq!(poll(&mut fds, Some(&PATIENCE.try_into().unwrap())), Ok(1));
            assert!(is_over.load(Ordering::Acquire), "an event was told by the descriptor");
        });
        let (thread, guard) = (thread.recv().unwrap(), Guard::new());
        while !is_asleep(thread) {
            guard.check("a sleep");
        }
        let own = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let before = switches(thread);
        for round in 0..100 {
            post_recv(&qb, round, &[]);
            b.cq.request_notification(false);
            qa.post_send(&SendWr { signaled: false, ..WR }).unwrap();
            let look = || b.channel.next().and_then(|_| b.cq.poll_one());
            let done = b.device.wait_until(own.as_fd(), Until::Time(PATIENCE), || b.channel.hold(), look);
            assert_eq!(done.map(|done| done.wr_id), Some(round));
        }
        assert_eq!(switches(thread), before, "the sleeper was woken");
        is_over.store(true, Ordering::Release);
        // An event that is left makes the descriptor readable as soon as no thread holds the channel.
        let hold = b.channel.hold();
        post_recv(&qb, 0, &[]);
        b.cq.request_notification(false);
        qa.post_send(&SendWr { signaled: false, ..WR }).unwrap();
        let guard = Guard::new();
        while b.cq.poll_one().is_none() {
            guard.check("a message");
        }
        assert!(!sleeper.is_finished());
        drop(hold);
        sleeper.join().unwrap();
    });
}

/// How often a thread has gone to sleep.
fn switches(thread: Pid) -> u64 {
    let value = status_of(thread, "voluntary_ctxt_switches:");
    value.trim().parse().unwrap()
}

fn is_asleep(thread: Pid) -> bool {
    status_of(thread, "State:").trim().starts_with('S')
}

fn status_of(thread: Pid, field: &str) -> String {
    let path = format!("/proc/self/task/{}/status", thread.as_raw_nonzero());
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().find_map(|line| line.strip_prefix(field)).unwrap().to_owned()
}

/// What stands for a word of another thread; no request is called so.
const WORD: u64 = u64::MAX;
