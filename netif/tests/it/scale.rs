//! Many connections.

use weft_netif::{ConnectionId, Duration, Stack};

use crate::bench::{Bench, PORT, V4};

const COUNT: usize = 1000;

fn polls(bench: &Bench) -> u64 {
    bench.stacks.iter().map(|stack| stack.counters().socket_polls).sum()
}

/// Makes a round trip of 100 octets on one connection. Returns the number of calls into smoltcp that it took.
fn round_trip(bench: &mut Bench, id: ConnectionId, peer: ConnectionId) -> u64 {
    let before = polls(bench);
    let octets = |stack: &mut Stack, id| stack.llp(id).unwrap().readable().len();
    bench.stacks[0].llp(id).unwrap().send_slice(&[1; 100]);
    bench.pass(Duration::from_millis(100));
    assert_eq!(octets(&mut bench.stacks[1], peer), 100);
    let mut llp = bench.stacks[1].llp(peer).unwrap();
    llp.consume(100);
    llp.send_slice(&[2; 100]);
    bench.pass(Duration::from_millis(100));
    assert_eq!(octets(&mut bench.stacks[0], id), 100);
    bench.stacks[0].llp(id).unwrap().consume(100);
    bench.pass(Duration::from_millis(100));
    polls(bench) - before
}

fn many(count: usize) -> (Bench, Vec<ConnectionId>, Vec<ConnectionId>) {
    let small = |_, config: &mut weft_netif::StackConfig| config.tcp_buffer = 4096;
    let mut bench = Bench::with(V4, 9, small, |_, wire| wire);
    bench.stacks[1].listen(PORT).unwrap();
    let remote = (bench.stacks[1].ip().address, PORT).into();
    let (mut ids, mut peers) = (Vec::new(), Vec::new());
    while ids.len() < count {
        for _ in 0..100.min(count - ids.len()) {
            ids.push(bench.stacks[0].connect(remote, None, bench.now).unwrap());
        }
        bench.drive(|stacks| {
            peers.extend(std::iter::from_fn(|| stacks[1].next_accepted()).map(|(id, _)| id));
            peers.len() == ids.len()
        });
    }
    bench.pass(Duration::from_secs(5));
    bench.stacks.iter_mut().for_each(|stack| while stack.next_ready().is_some() {});
    (bench, ids, peers)
}

fn peer_of(bench: &Bench, id: ConnectionId, peers: &[ConnectionId]) -> ConnectionId {
    let local = bench.stacks[0].local_addr(id);
    *peers.iter().find(|peer| bench.stacks[1].peer_addr(**peer) == local).unwrap()
}

#[test]
fn a_thousand_idle_connections_cost_no_polls() {
    let (mut lone, ids, peers) = many(1);
    let alone = round_trip(&mut lone, ids[0], peers[0]);
    let (mut crowd, ids, peers) = many(COUNT);
    assert_eq!(crowd.stacks[0].counters().connections, COUNT as u64);
    for place in [0, COUNT / 2, COUNT - 1] {
        let peer = peer_of(&crowd, ids[place], &peers);
        let crowded = round_trip(&mut crowd, ids[place], peer);
        assert_eq!(crowded, alone, "connection {place} of {COUNT}");
    }
    let before = polls(&crowd);
    crowd.pass(Duration::from_secs(1000));
    assert_eq!(polls(&crowd), before, "idle connections have no deadline");
    for stack in &mut crowd.stacks {
        stack.ingress(crowd.now);
        stack.egress(crowd.now);
    }
    assert_eq!(polls(&crowd), before);
}
