//! The sockets of the kernel that are read without a question to epoll.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weft_netif::{CloseCause, ConnectionId, LlpState, Transport};

use crate::host::{Host, V4};

/// A stack with one busy connection and idle ones.
fn with_favourite() -> (Host, ConnectionId, TcpStream) {
    let mut host = Host::new(V4);
    let (id, mut plain) = host.plain_peer();
    keep_busy(&mut host, id, &mut plain);
    (host, id, plain)
}

/// Lets the peer of one connection send octets.
fn keep_busy(host: &mut Host, id: ConnectionId, plain: &mut TcpStream) {
    for round in 0..8 {
        plain.write_all(&[round]).unwrap();
        assert_eq!(host.receive(id, 1), [round]);
    }
}

/// Returns how often epoll is asked in this many polls.
fn questions(host: &mut Host, polls: usize) -> u64 {
    let before = host.stack.host_counters().waits;
    for _ in 0..polls {
        let now = host.now();
        host.stack.ingress(now);
        while host.stack.next_ready().is_some() {}
        host.stack.egress(now);
    }
    host.stack.host_counters().waits - before
}

#[test]
fn a_connection_that_alone_is_busy_is_read_at_once_and_the_others_are_asked_now_and_then() {
    let (mut host, id, mut plain) = with_favourite();
    assert_eq!(questions(&mut host, 256), 4);
    let (other, mut second) = host.plain_peer();
    // As soon as the other connection has news there is no favourite.
    second.write_all(b"here, too").unwrap();
    assert_eq!(host.receive(other, 9), b"here, too");
    plain.write_all(b"and I").unwrap();
    assert_eq!(host.receive(id, 5), b"and I");
    assert_eq!(questions(&mut host, 8), 8);
}

#[test]
fn fin_and_reset_of_the_one_that_is_read_at_once_are_seen() {
    let (mut host, id, plain) = with_favourite();
    plain.shutdown(Shutdown::Write).unwrap();
    host.until_state(id, LlpState::PeerClosed);
    assert!(host.stack.llp(id).unwrap().is_drained());
    assert_eq!(questions(&mut host, 8), 8, "there is nothing to be read any more");
    let (mut host, id, plain) = with_favourite();
    // Unread octets make the peer's close a reset.
    host.stack.llp(id).unwrap().send_slice(b"unread");
    let now = host.now();
    host.stack.egress(now);
    plain.peek(&mut [0; 6]).unwrap();
    drop(plain);
    host.until_state(id, LlpState::Reset);
    assert_eq!(host.stack.llp(id).unwrap().cause(), Some(CloseCause::Reset));
}

#[test]
fn a_connection_that_is_removed_is_read_at_once_no_more() {
    let (mut host, id, plain) = with_favourite();
    host.stack.remove(id);
    assert_eq!(questions(&mut host, 8), 8);
    drop(plain);
    host.until(|stack| (stack.counters().connections == 0).then_some(()));
}

/// Only epoll reports room.
#[test]
fn a_connection_that_waits_for_room_is_not_read_instead_of_asking() {
    let (mut host, id, plain) = with_favourite();
    let now = host.now();
    while host.stack.llp(id).unwrap().send_slice(&[7; 1 << 16]) > 0 {
        host.stack.egress(now);
    }
    assert_eq!(questions(&mut host, 64), 64);
    drop(plain);
}

/// Returns true if the stack would wake a sleeper at once.
fn wakes(transport: &Transport) -> bool {
    let fds = transport.wait_fds().unwrap();
    let mut fds: Vec<_> = fds.iter().map(|(fd, _)| PollFd::new(fd, PollFlags::IN)).collect();
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
}

/// After a sleep the busy connection is read at once. If it has nothing, epoll is asked, since the descriptor stays
/// readable until then.
#[test]
fn after_a_sleep_epoll_is_asked_unless_the_busy_connection_has_news() {
    let (mut host, id, mut plain) = with_favourite();
    let (other, mut second) = host.plain_peer();
    keep_busy(&mut host, id, &mut plain);
    while questions(&mut host, 1) == 0 {}
    let now = host.now();
    let mut transport = Transport::Host(Box::new(host.stack));
    let before = transport.host_counters().waits;
    for round in 0..8 {
        assert!(!wakes(&transport), "round {round}: no octets have come");
        plain.write_all(&[round]).unwrap();
        while !wakes(&transport) {}
        transport.ingress(now);
        assert_eq!(transport.next_ready(), Some(id));
        let mut llp = transport.llp(id).unwrap();
        assert_eq!(llp.readable(), [round]);
        llp.consume(1);
        transport.egress(now);
    }
    assert_eq!(transport.host_counters().waits, before, "no question was needed");
    second.write_all(b"here, too").unwrap();
    while !wakes(&transport) {}
    transport.ingress(now);
    assert_eq!(transport.host_counters().waits - before, 1);
    assert_eq!(transport.next_ready(), Some(other));
    assert_eq!(transport.llp(other).unwrap().readable(), b"here, too");
    assert!(!wakes(&transport));
}

/// A socket with room wakes no sleeper. A socket that had none wakes one when it has room again.
#[test]
fn room_wakes_a_sleeper_only_after_there_was_none() {
    let mut host = Host::new(V4);
    let (id, mut plain) = host.plain_peer();
    let now = host.now();
    while questions(&mut host, 1) == 0 {}
    let mut transport = Transport::Host(Box::new(host.stack));
    transport.egress(now);
    assert!(!wakes(&transport));
    let mut sent = 0;
    loop {
        let taken = transport.llp(id).unwrap().send_slice(&[7; 1 << 16]);
        sent += taken;
        transport.egress(now);
        if taken == 0 {
            break;
        }
    }
    while wakes(&transport) {
        transport.ingress(now);
        transport.egress(now);
    }
    let mut octets = vec![0; sent];
    plain.read_exact(&mut octets[..sent / 2]).unwrap();
    while !wakes(&transport) {}
    let before = transport.host_counters().octets_sent;
    transport.ingress(now);
    transport.egress(now);
    assert!(transport.host_counters().octets_sent > before);
    plain.read_exact(&mut octets[sent / 2..]).unwrap();
    assert!(octets.iter().all(|&octet| octet == 7));
}
