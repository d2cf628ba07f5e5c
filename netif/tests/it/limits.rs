//! Limits of half-open, waiting and closing connections.

use weft_netif::Instant;
use weft_netif::{Congestion, Duration, LlpState, Stack, StackConfig, Tcp, Wire, pair};

use crate::bench::{Bench, PORT, V4};

const PEER_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 9];

/// A stack at 10.0.0.1 and the bare other end of its wire, which is 10.0.0.9.
fn lone_stack(configure: impl Fn(&mut StackConfig)) -> (Stack, Wire) {
    let (left, right) = pair(1500);
    let mut config = StackConfig::new("10.0.0.1/24".parse().unwrap());
    configure(&mut config);
    let mut stack = Stack::new(left, config, Instant::ZERO);
    stack.listen(PORT).unwrap();
    (stack, right)
}

fn ones_complement(parts: &[&[u8]]) -> u16 {
    let octets: Vec<u8> = parts.concat();
    let sum: u32 =
        octets.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum();
    let folded = (sum & 0xFFFF) + (sum >> 16);
    !u16::try_from((folded & 0xFFFF) + (folded >> 16)).unwrap()
}

/// Returns a TCP segment without payload from 10.0.0.9, written by hand.
fn segment(stack: &Stack, port: u16, flags: u8, options: &[u8]) -> Vec<u8> {
    let mut tcp = vec![0; 20];
    tcp[0..2].copy_from_slice(&port.to_be_bytes());
    tcp[2..4].copy_from_slice(&PORT.to_be_bytes());
    tcp[4..8].copy_from_slice(&1000_u32.to_be_bytes());
    tcp[12] = u8::try_from((20 + options.len()) / 4 * 16).unwrap();
    tcp[13] = flags;
    tcp[14..16].copy_from_slice(&[0x20, 0]);
    tcp.extend_from_slice(options);
    let addresses = [10, 0, 0, 9, 10, 0, 0, 1];
    let len = u8::try_from(tcp.len()).unwrap();
    let checksum = ones_complement(&[&addresses, &[0, 6, 0, len], &tcp]);
    tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
    let mut ip = vec![0x45, 0, 0, 20 + len, 0, 0, 0x40, 0, 64, 6, 0, 0];
    ip.extend_from_slice(&addresses);
    let checksum = ones_complement(&[&ip]);
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    [&stack.config().mac[..], &PEER_MAC, &[0x08, 0x00], &ip, &tcp].concat()
}

fn deliver(stack: &mut Stack, wire: &mut Wire, frames: impl IntoIterator<Item = Vec<u8>>, now: Instant) {
    for frame in frames {
        wire.send(now, &frame);
        stack.ingress(now);
        stack.egress(now);
        let mut sent = Vec::new();
        while wire.receive(now, &mut sent) {}
    }
}

#[test]
fn half_open_connections_are_bounded_and_expire() {
    let (mut stack, mut wire) = lone_stack(|config| config.backlog = 8);
    let syns: Vec<_> = (1..=20).map(|port| segment(&stack, port, 0x02, &[])).collect();
    deliver(&mut stack, &mut wire, syns, Instant::ZERO);
    assert_eq!((stack.counters().connections, stack.counters().backlog_drops), (8, 12));
    assert_eq!(stack.next_accepted(), None);
    let mut now = Instant::ZERO;
    while let Some(next) = stack.poll_at(now) {
        now = next.max(now);
        stack.ingress(now);
        stack.egress(now);
        assert!(now < Instant::from_secs(20));
    }
    assert_eq!(stack.counters().connections, 0);
    let again = segment(&stack, 99, 0x02, &[]);
    deliver(&mut stack, &mut wire, [again], now);
    assert_eq!((stack.counters().connections, stack.counters().backlog_drops), (1, 12));
}

#[test]
fn a_reset_frees_the_half_open_place() {
    let (mut stack, mut wire) = lone_stack(|config| config.backlog = 1);
    let syn = segment(&stack, 5, 0x02, &[]);
    let mut reset = segment(&stack, 5, 0x02, &[]);
    // The changes are the flag, the sequence number after the SYN, and the checksum by the difference of both.
    reset[47] = 0x04;
    reset[41] += 1;
    let checksum = u16::from_be_bytes([reset[50], reset[51]]) - 2 - 1;
    reset[50..52].copy_from_slice(&checksum.to_be_bytes());
    deliver(&mut stack, &mut wire, [syn], Instant::ZERO);
    assert_eq!(stack.counters().connections, 1);
    deliver(&mut stack, &mut wire, [reset], Instant::ZERO);
    assert_eq!(stack.counters().connections, 0);
}

#[test]
fn a_syn_with_a_bad_checksum_takes_no_place_and_teaches_no_mss() {
    let (mut stack, mut wire) = lone_stack(|_| {});
    let mut bad = segment(&stack, 5, 0x02, &[2, 4, 1, 0]);
    bad[60 - 4] ^= 1;
    deliver(&mut stack, &mut wire, [bad], Instant::ZERO);
    assert_eq!(stack.counters().connections, 0);
}

#[test]
fn frames_that_no_station_may_send_are_refused() {
    let (mut stack, mut wire) = lone_stack(|_| {});
    let syn = segment(&stack, 5, 0x02, &[]);
    let with = |offset: usize, octets: &[u8]| {
        let mut frame = syn.clone();
        frame[offset..offset + octets.len()].copy_from_slice(octets);
        frame
    };
    let own_mac = stack.config().mac;
    let mut forged_arp = [&[0xFF; 6][..], &PEER_MAC, &[0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 2]].concat();
    forged_arp.extend_from_slice(&[&PEER_MAC[..], &[10, 0, 0, 1], &own_mac, &[10, 0, 0, 1]].concat());
    let frames = vec![
        with(0, &[0x02, 1, 2, 3, 4, 5]), // for another station
        with(0, &[0xFF; 6]),             // TCP by broadcast
        with(12, &[0x86, 0xDD]),         // IPv6 to a stack of IPv4
        with(12, &[0x08, 0x07]),         // no protocol of ours
        with(14, &[0x55]),               // version 5
        with(14, &[0x44]),               // header too short
        with(20, &[0x20, 0x00]),         // more fragments
        with(20, &[0x00, 0x01]),         // a later fragment
        with(26, &[10, 0, 0, 1]),        // from the own address
        with(26, &[127, 0, 0, 1]),       // from the loopback
        with(30, &[10, 0, 0, 7]),        // to another address
        with(46, &[0xF0]),               // options longer than the segment
        syn[..40].to_vec(),
        syn[..13].to_vec(),
        vec![],
        forged_arp,
    ];
    let count = frames.len() as u64;
    deliver(&mut stack, &mut wire, frames, Instant::ZERO);
    assert_eq!((stack.counters().refused, stack.counters().frames_out), (count, 0));
    deliver(&mut stack, &mut wire, [syn], Instant::ZERO);
    assert_eq!(stack.counters().connections, 1, "the unchanged one is good");
}

/// Beyond the backlog the own TCP answers by SYN cookies. Such a connection counts as soon as there is a place.
#[test]
fn connections_beyond_the_backlog_open_by_cookies() {
    let configure = |_: usize, config: &mut StackConfig| (config.backlog, config.tcp) = (2, Tcp::Own);
    let mut bench = Bench::with(V4, 1, configure, |_, wire| wire);
    let listener = bench.stacks[1].listen(PORT).unwrap();
    let remote = (bench.stacks[1].ip().address, PORT).into();
    let ids: Vec<_> = (0..4).map(|_| bench.stacks[0].connect(remote, None, bench.now).unwrap()).collect();
    bench.pass(Duration::from_secs(2));
    let established =
        ids.iter().filter(|id| bench.stacks[0].state(**id) == Some(LlpState::Established)).count();
    assert_eq!((established, bench.stacks[1].counters().backlog_drops), (4, 2));
    assert_eq!(bench.stacks[1].counters().connections, 2);
    for id in &ids {
        bench.stacks[0].llp(*id).unwrap().send_slice(b"hello");
    }
    let mut taken = Vec::new();
    bench.drive(|stacks| {
        taken.extend(std::iter::from_fn(|| stacks[1].next_accepted()));
        taken.len() == 4
    });
    bench.pass(Duration::from_secs(2));
    for (id, of) in &taken {
        assert_eq!((*of, bench.stacks[1].llp(*id).unwrap().readable()), (listener, &b"hello"[..]));
    }
    assert_eq!(bench.stacks[1].tcp_counters().resets_sent, 0);
}

#[test]
fn not_taken_connections_count_against_the_backlog_and_unlisten_resets_them() {
    let configure = |_: usize, config: &mut StackConfig| (config.backlog, config.tcp) = (2, Tcp::Smoltcp);
    let mut bench = Bench::with(V4, 1, configure, |_, wire| wire);
    let listener = bench.stacks[1].listen(PORT).unwrap();
    let remote = (bench.stacks[1].ip().address, PORT).into();
    let ids: Vec<_> = (0..4).map(|_| bench.stacks[0].connect(remote, None, bench.now).unwrap()).collect();
    bench.pass(Duration::from_secs(2));
    let states = |stack: &mut Stack| ids.iter().map(|id| stack.llp(*id).unwrap().state()).collect::<Vec<_>>();
    let established =
        states(&mut bench.stacks[0]).iter().filter(|state| **state == LlpState::Established).count();
    assert_eq!(established, 2);
    assert!(bench.stacks[1].next_accepted().is_some());
    bench.pass(Duration::from_secs(8));
    let established =
        states(&mut bench.stacks[0]).iter().filter(|state| **state == LlpState::Established).count();
    assert_eq!(established, 3, "the SYN sent again found the place that became free");
    bench.stacks[1].unlisten(listener);
    bench.pass(Duration::from_secs(30));
    let reset = states(&mut bench.stacks[0]).iter().filter(|state| **state == LlpState::Reset).count();
    assert_eq!(reset, 3, "two not taken, one never answered");
    assert_eq!((bench.stacks[1].counters().connections, bench.stacks[1].next_accepted()), (1, None));
}

#[test]
fn removed_connections_close_by_themselves_and_are_bounded() {
    let mut bench = Bench::with(V4, 1, |_, config| config.lingering = 4, |_, wire| wire);
    let ends: Vec<_> = (0..10).map(|_| bench.connect()).collect();
    for [left, _] in &ends {
        bench.stacks[0].llp(*left).unwrap().send_slice(b"goodbye");
        bench.stacks[0].remove(*left);
        bench.stacks[0].remove(*left);
        bench.step();
    }
    assert_eq!(bench.stacks[0].counters().lingering, 4);
    bench.pass(Duration::from_secs(1));
    // The peers of the last four got all octets and a FIN, and answer with their FIN.
    for [_, right] in &ends[6..] {
        let mut llp = bench.stacks[1].llp(*right).unwrap();
        assert_eq!((llp.state(), llp.readable()), (LlpState::PeerClosed, &b"goodbye"[..]));
        llp.consume(7);
        llp.shutdown();
    }
    bench.pass(Duration::from_secs(15));
    assert_eq!(bench.stacks[0].counters().connections, 0);
}

#[test]
fn a_removed_connection_whose_peer_never_closes_is_given_up() {
    let mut bench = Bench::new(V4);
    let [left, right] = bench.connect();
    bench.stacks[0].remove(left);
    bench.stacks[1].llp(right).unwrap().send_slice(&[1; 200_000]);
    bench.pass(Duration::from_secs(50));
    assert_eq!(bench.stacks[1].llp(right).unwrap().unsent(), 0, "unread octets are acknowledged, too");
    assert_eq!(bench.stacks[1].llp(right).unwrap().state(), LlpState::PeerClosed);
    assert_eq!(bench.stacks[0].counters().lingering, 1);
    bench.pass(Duration::from_secs(15));
    assert_eq!(bench.stacks[0].counters().connections, 0);
    assert_eq!(bench.stacks[1].llp(right).unwrap().state(), LlpState::Reset);
}

/// Removed connections, which only the stack knows, are reset too. A connection that has ended at both ends is left
/// alone.
#[test]
fn all_remaining_connections_can_be_reset() {
    let mut bench = Bench::new(V4);
    let [[held, held_peer], [removed, removed_peer], [ended, ended_peer]] = [(); 3].map(|()| bench.connect());
    bench.stacks[0].remove(removed);
    bench.stacks[0].remove(ended);
    bench.stacks[1].llp(ended_peer).unwrap().shutdown();
    bench.pass(Duration::from_secs(1));
    bench.stacks[0].reset_all();
    bench.stacks[0].remove(held);
    assert!(!bench.stacks[0].is_settled());
    bench.pass(Duration::from_secs(1));
    assert!(bench.stacks[0].is_settled());
    let states = [held_peer, removed_peer, ended_peer].map(|peer| bench.stacks[1].llp(peer).unwrap().state());
    assert_eq!(states, [LlpState::Reset, LlpState::Reset, LlpState::Closed]);
}

#[test]
fn a_connection_without_rivals_sends_more_in_a_turn() {
    let configure = |_: usize, config: &mut StackConfig| {
        config.mtu = 576;
        config.congestion = Congestion::None;
    };
    let mut bench = Bench::with(V4, 1, configure, |_, wire| wire);
    let ids = [bench.connect()[0], bench.connect()[0]];
    bench.pass(Duration::from_secs(1));
    let (now, sender) = (bench.now, &mut bench.stacks[0]);
    let (few, many) = (sender.config().egress_burst, sender.config().lone_burst());
    assert!(few < many);
    assert_eq!(sender.llp(ids[0]).unwrap().send_slice(&[7; 60_000]), 60_000);
    assert_eq!(sender.egress(now), many);
    assert_eq!(sender.llp(ids[1]).unwrap().send_slice(&[7; 60_000]), 60_000);
    assert_eq!(sender.egress(now), 2 * few);
}
