//! What an operator's command asks a daemon that runs.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::thread;

use rustix::net::sockopt::socket_peercred;
use rustix::net::{SendFlags, send};
use rustix::process::{geteuid, getpid};
use weft_daemon::{Drained, Lanes, Operator};
use weft_sockets::end::{DRAIN, STAYS};
use weft_sockets::layout::End;
use weft_sockets::sync::Ordering;
use weft_sockets::{Order, Reason, ToDaemon, ToProcess};

use crate::client::{Client, HANG, connected, is_readable, legs, wait_until};
use crate::death::{Pair, hear, pair};
use crate::run::{Running, config};

fn operator(daemon: &Running) -> Operator {
    Operator::connect(&daemon.address).expect("a socket").expect("a daemon")
}

fn own() -> u32 {
    getpid().as_raw_nonzero().get().cast_unsigned()
}

fn end(pair: &Pair) -> &End {
    pair.client.slab.end(0).expect("an end")
}

#[test]
fn a_daemon_tells_whether_it_has_lanes() {
    assert!(Operator::connect(&config().address).expect("a socket").is_none(), "nobody is there");
    assert!(!operator(&Running::new()).has_lanes().expect("an answer"));
    let free = std::net::TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = free.local_addr().expect("a port").port();
    drop(free);
    let lanes = Some(Lanes { port, ..Lanes::default() });
    let daemon = Running::start(&weft_daemon::Config { lanes, ..config() });
    assert!(operator(&daemon).has_lanes().expect("an answer"));
}

#[test]
fn a_process_is_drained_when_its_ends_are_on_tcp() {
    let daemon = Running::new();
    let pair = pair(&daemon);
    let (words, [ring, tcp]) = (end(&pair), legs());
    words.outbound.leg.store(ring, Ordering::Release);
    pair.client.status.page().0[0].asleep.store(1, Ordering::SeqCst);
    let asking = {
        let operator = operator(&daemon);
        thread::spawn(move || operator.drain(own()))
    };
    assert!(is_readable(&pair.client.bell, HANG), "its sleepers hear of it");
    let told = &pair.client.slab.header().members[0].drain;
    // The bell may have rung for an earlier message.
    wait_until(|| words.has(DRAIN | STAYS) && told.load(Ordering::SeqCst) != 0);
    assert_eq!((words.reason(), asking.is_finished()), (Some(Reason::Drained), false));
    // The same order comes from another command meanwhile.
    let busy = operator(&daemon).drain(own()).expect_err("busy");
    assert!(busy.to_string().contains("busy"), "{busy}");
    // A ring that has octets still has to be drained.
    words.outbound.backlog.store(ring, Ordering::Release);
    words.outbound.leg.store(tcp, Ordering::Release);
    thread::sleep(std::time::Duration::from_millis(50));
    assert!(!asking.is_finished());
    words.outbound.backlog.store(0, Ordering::Release);
    words.identity.flags.fetch_and(!DRAIN, Ordering::Release);
    assert_eq!(asking.join().expect("no panic").expect("an answer"), Drained { done: 1, left: 0 });
    // Nothing is left to do.
    assert_eq!(operator(&daemon).drain(own()).expect("an answer"), Drained { done: 0, left: 0 });
}

#[test]
fn ends_that_do_not_come_along_are_counted() {
    let daemon = Running::new();
    let pair = pair(&daemon);
    let words = end(&pair);
    words.inbound.leg.store(legs()[0], Ordering::Release);
    let asking = {
        let operator = operator(&daemon);
        thread::spawn(move || operator.drain(own()))
    };
    wait_until(|| words.has(DRAIN));
    words.identity.flags.fetch_and(!DRAIN, Ordering::Release);
    assert_eq!(asking.join().expect("no panic").expect("an answer"), Drained { done: 0, left: 1 });
}

#[test]
fn a_process_that_is_unknown_or_ends_is_an_error() {
    let daemon = Running::new();
    let Pair { mut puppet, .. } = pair(&daemon);
    for pid in [1, 0x7fff_ffff, 0] {
        let error = operator(&daemon).drain(pid).expect_err("unknown");
        assert!(error.to_string().contains(&format!("no process {pid} ")), "{error}");
    }
    puppet.order("sleep");
    puppet.order("ring");
    let pid = puppet.pid().as_raw_nonzero().get().cast_unsigned();
    let asking = {
        let operator = operator(&daemon);
        thread::spawn(move || operator.drain(pid))
    };
    puppet.order("rung");
    assert!(!asking.is_finished());
    puppet.kill();
    let error = asking.join().expect("no panic").expect_err("an end");
    assert!(error.to_string().contains("has ended"), "{error}");
}

#[test]
fn what_is_no_order_ends_the_port_and_a_process_gives_none() {
    let daemon = Running::new();
    let address = daemon.address.to_string();
    for octets in [&Order::Drain { pid: 1 }.encode()[..4], &[99][..], &[64, 0]] {
        let client = Client::connect(&address);
        client.send_octets(octets, &[]).expect("sent");
        client.hear_end();
    }
    let client = Client::registered(&address);
    client.send_octets(&Order::HasLanes {}.encode(), &[]).expect("sent");
    client.hear_end();
}

#[test]
fn another_daemon_takes_the_place_without_a_gap() {
    let config = config();
    let first = Running::start(&config);
    let pair = pair(&first);
    let address = first.address.to_string();
    // Programs come all the time. Each is welcome.
    let (is_over, count) = (AtomicBool::new(false), AtomicU32::new(0));
    let second = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let _port = connected(&address);
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        wait_until(|| count.load(Ordering::Relaxed) > 100);
        let second = Running::replace(&config);
        // The first one leaves by itself.
        first.join();
        let before = count.load(Ordering::Relaxed);
        wait_until(|| count.load(Ordering::Relaxed) > before + 100);
        is_over.store(true, Ordering::Relaxed);
        second
    });
    pair.client.hear_end();
    // The link goes on, and both ends find each other at the new daemon.
    let Pair { mut puppet, mut client, file, offer: (link, _, party), .. } = pair;
    client.come_back(&second.address.to_string());
    assert_eq!(socket_peercred(&client.port).expect("credentials").uid, geteuid());
    client.send(ToDaemon::ShowLink { link, party }, &[file.as_fd()]);
    puppet.order("show");
    hear(&client, |mail| matches!(mail, ToProcess::PeerStatus { member: 0, .. }));
    // Nobody is there any more that could be replaced.
    drop(second);
    drop(Running::replace(&config));
}

#[test]
fn a_daemon_goes_on_if_its_successor_does_not_come() {
    for leaves in [true, false] {
        let daemon = Running::new();
        let address = daemon.address.to_string();
        let successor: OwnedFd = connected(&address);
        send(&successor, &Order::Replace {}.encode(), SendFlags::NOSIGNAL).expect("sent");
        assert!(is_readable(&successor, HANG), "the daemon gives its listener away");
        let _kept = (!leaves).then_some(successor);
        let _welcome = Client::registered(&address);
    }
}
