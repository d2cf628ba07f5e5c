//! The search for neighbors' MAC addresses.

use std::net::{Ipv4Addr, SocketAddr};

use weft_netif::{Instant, LlpState, Stack, StackConfig, Wire, pair};

use crate::bench::{Bench, PORT, V4, V6};

const ROUTER_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 0xFE];

fn lone_stack(address: &str) -> (Stack, Wire) {
    let (left, right) = pair(1500);
    (Stack::new(left, StackConfig::new(address.parse().unwrap()), Instant::ZERO), right)
}

/// Returns a port of the own address.
fn from(port: u16) -> Option<SocketAddr> {
    Some((Ipv4Addr::UNSPECIFIED, port).into())
}

fn sent(stack: &mut Stack, wire: &mut Wire, now: Instant) -> Vec<Vec<u8>> {
    stack.ingress(now);
    stack.egress(now);
    let mut frames = Vec::new();
    let mut frame = Vec::new();
    while wire.receive(now, &mut frame) {
        frames.push(frame.clone());
    }
    frames
}

#[test]
fn the_router_gets_frames_for_addresses_outside_the_net() {
    let setting = "10.0.0.1/24,gw 10.0.0.254,route 192.168.0.0/16 via 10.0.0.9";
    for (remote, router) in [("8.8.8.8:7", [10, 0, 0, 254]), ("192.168.1.1:7", [10, 0, 0, 9])] {
        let (mut stack, mut wire) = lone_stack(setting);
        stack.connect(remote.parse().unwrap(), from(1000), Instant::ZERO).unwrap();
        let frames = sent(&mut stack, &mut wire, Instant::ZERO);
        let own = stack.config().mac;
        let request =
            [&[0, 1, 0x08, 0x00, 6, 4, 0, 1][..], &own, &[10, 0, 0, 1], &[0xFF; 6], &router].concat();
        assert_eq!(frames.len(), 1);
        assert_eq!((&frames[0][..6], &frames[0][12..14]), (&[0xFF; 6][..], &[0x08, 0x06][..]));
        assert_eq!((&frames[0][14..32], &frames[0][38..42]), (&request[..18], &request[24..]));

        let reply =
            [&own[..], &ROUTER_MAC, &[0x08, 0x06, 0, 1, 0x08, 0x00, 6, 4, 0, 2], &ROUTER_MAC, &router, &own];
        let reply = [&reply.concat()[..], &[10, 0, 0, 1]].concat();
        wire.send(Instant::ZERO, &reply);
        // A connection that waited for the answer sends at once.
        let frames = sent(&mut stack, &mut wire, Instant::ZERO);
        assert_eq!(frames.len(), 1, "{remote}");
        assert_eq!((&frames[0][..6], &frames[0][12..14]), (&ROUTER_MAC[..], &[0x08, 0x00][..]));
        let remote: std::net::SocketAddrV4 = remote.parse().unwrap();
        assert_eq!(frames[0][30..34], remote.ip().octets());
        assert_eq!(frames[0][47], 0x02, "a SYN");
    }
}

#[test]
fn an_unanswered_question_is_asked_again_every_second_until_the_time_is_over() {
    for (address, remote) in [("10.0.0.1/24", "10.0.0.7:7"), ("fd00::1/64", "[fd00::7]:7")] {
        let (mut stack, mut wire) = lone_stack(address);
        let id = stack.connect(remote.parse().unwrap(), None, Instant::ZERO).unwrap();
        let (mut now, mut asked) = (Instant::ZERO, 0);
        while stack.llp(id).unwrap().state() == LlpState::Connecting {
            asked += sent(&mut stack, &mut wire, now).len();
            now = stack.poll_at(now).unwrap_or(now).max(now);
            assert!(now < Instant::from_secs(31));
        }
        assert!((29..=31).contains(&asked), "{asked}");
        assert!(now >= Instant::from_secs(30));
        while let Some(next) = stack.poll_at(now) {
            now = next.max(now);
            assert!(now < Instant::from_secs(40), "it is not asked for ever");
            sent(&mut stack, &mut wire, now);
        }
    }
}

/// smoltcp asks for one neighbor a second. An absent neighbor must not keep others from being found.
#[test]
fn neighbors_are_asked_for_in_turn() {
    let (mut stack, mut wire) = lone_stack("10.0.0.1/24");
    let mut connect =
        |remote: &str, now| stack.connect(remote.parse().unwrap(), None, now).map(|_| ()).unwrap();
    for remote in ["10.0.0.7:7", "10.0.0.7:8", "10.0.0.8:7"] {
        connect(remote, Instant::ZERO);
    }
    connect("10.0.0.9:7", Instant::from_millis(1));
    // Questions of another neighbor tell nothing about the wanted ones.
    let own = stack.config().mac;
    let question =
        [&own[..], &ROUTER_MAC, &[0x08, 0x06, 0, 1, 0x08, 0x00, 6, 4, 0, 1], &ROUTER_MAC, &[10, 0, 0, 254]];
    let question = [&question.concat()[..], &[0; 6], &[10, 0, 0, 1]].concat();
    let (mut now, mut asked) = (Instant::ZERO, [0; 3]);
    while now < Instant::from_secs(15) {
        wire.send(now, &question);
        for frame in sent(&mut stack, &mut wire, now) {
            if frame[20..22] == [0, 1] {
                asked[usize::from(frame[41]) - 7] += 1;
            }
        }
        now = stack.poll_at(now).unwrap().max(now);
    }
    assert!(asked.iter().all(|&times| times >= 4), "{asked:?}");
}

#[test]
fn a_segment_before_the_own_syn_is_out_does_no_harm() {
    // The SYN waits for ARP while the peer, by chance or malice, opens the same connection.
    for addresses in [V4, V6] {
        let mut bench = Bench::new(addresses);
        let left = bench.stacks[0].ip().address;
        let right = bench.stacks[1].ip().address;
        bench.stacks[0].connect((right, 7).into(), from(8), bench.now).unwrap();
        bench.stacks[1].connect((left, 8).into(), from(7), bench.now).unwrap();
        bench.pass(weft_netif::Duration::from_secs(5));
    }
}

#[test]
fn both_open_at_once_and_meet() {
    let mut bench = Bench::new(V4);
    let warm = bench.connect();
    let left = bench.stacks[0].ip().address;
    let right = bench.stacks[1].ip().address;
    let ids = [
        bench.stacks[0].connect((right, 7).into(), from(8), bench.now).unwrap(),
        bench.stacks[1].connect((left, 8).into(), from(7), bench.now).unwrap(),
    ];
    for stack in &mut bench.stacks {
        stack.egress(bench.now);
    }
    bench.drive(|stacks| {
        (0..2).all(|side| stacks[side].llp(ids[side]).unwrap().state() == LlpState::Established)
    });
    assert_ne!(warm, ids);
}

#[test]
fn echo_requests_are_answered() {
    let (mut stack, mut wire) = lone_stack("10.0.0.1/24");
    let own = stack.config().mac;
    let arp =
        [&own[..], &ROUTER_MAC, &[0x08, 0x06, 0, 1, 0x08, 0x00, 6, 4, 0, 1], &ROUTER_MAC, &[10, 0, 0, 9]];
    wire.send(Instant::ZERO, &[&arp.concat()[..], &[0; 6], &[10, 0, 0, 1]].concat());
    let reply = sent(&mut stack, &mut wire, Instant::ZERO);
    assert_eq!((reply.len(), &reply[0][20..22]), (1, &[0, 2][..]));
    // Both checksums by hand: each is the complement of the sum of its 16-bit words.
    let ip = [0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0x66, 0xD8, 10, 0, 0, 9, 10, 0, 0, 1];
    let echo = [8, 0, 0xF7, 0xFC, 0, 1, 0, 2];
    wire.send(Instant::ZERO, &[&own[..], &ROUTER_MAC, &[0x08, 0x00], &ip, &echo].concat());
    let reply = sent(&mut stack, &mut wire, Instant::ZERO);
    assert_eq!(reply.len(), 1);
    assert_eq!((reply[0][34], &reply[0][38..42]), (0, &[0, 1, 0, 2][..]));
    assert!(stack.listen(PORT).is_ok());
}
