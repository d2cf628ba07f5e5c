//! Several stacks with one address on one wire.

use weft_netif::{
    Capture, ConnectionId, Instant, LlpState, Stack, StackConfig, Transport, Wire, pair, queue_of,
};

const PORT: u16 = 4791;
const STACKS: usize = 3;

/// A peer, and the stacks that share the other end of its wire.
struct World {
    peer: Stack,
    stacks: Vec<Stack>,
    now: Instant,
}

impl World {
    fn new() -> Self {
        let config = |address: &str, seed| StackConfig { seed, ..StackConfig::new(address.parse().unwrap()) };
        let (left, right) = pair(1500);
        let shared = config("10.0.0.2/24", 0);
        let ports = Wire::share(vec![right], STACKS, &shared).unwrap();
        let stack = |(seed, port)| Stack::new(port, StackConfig { seed, ..shared.clone() }, Instant::ZERO);
        let mut stacks: Vec<_> = (1..).zip(ports).map(stack).collect();
        for stack in &mut stacks {
            stack.listen(PORT).unwrap();
        }
        let mut peer = Stack::new(left, config("10.0.0.1/24", 9), Instant::ZERO);
        peer.listen(PORT).unwrap();
        Self { peer, stacks, now: Instant::ZERO }
    }

    /// Lets all stacks work until no work is left at this time, then goes on to the next time.
    fn run(&mut self, until: Instant) {
        loop {
            let now = self.now;
            let all = || self.stacks.iter().chain([&self.peer]);
            let Some(next) = all().filter_map(|stack| stack.poll_at(now)).min() else { return };
            self.now = next.max(now);
            if self.now > until {
                self.now = until;
                return;
            }
            for stack in self.stacks.iter_mut().chain([&mut self.peer]) {
                stack.egress(self.now);
                stack.ingress(self.now);
            }
        }
    }

    fn settle(&mut self) {
        let until = self.now + weft_netif::Duration::from_millis(100);
        self.run(until);
    }

    /// Returns the only stack with a new connection, and that connection.
    fn accepted(&mut self) -> (usize, ConnectionId) {
        let mut found = Vec::new();
        for (index, stack) in self.stacks.iter_mut().enumerate() {
            found.extend(stack.next_accepted().map(|(id, _)| (index, id)));
        }
        assert_eq!(found.len(), 1);
        found[0]
    }

    /// Moves a connection with all octets in its buffers.
    fn shift(&mut self, from: usize, id: ConnectionId, to: usize) -> ConnectionId {
        let moving = self.stacks[from].take_out(id).unwrap();
        self.stacks[to].put_in(moving)
    }
}

/// A capture is taken from any of the stacks, once.
#[test]
fn the_capture_of_a_shared_wire_is_taken_once() {
    let config = StackConfig::new("10.0.0.2/24".parse().unwrap());
    let wire = pair(1500).0.with_capture(Capture::new(Vec::new()));
    let mut ports = Wire::share(vec![wire], STACKS, &config).unwrap();
    assert!(ports[1].take_capture().is_some());
    assert!(ports.iter_mut().all(|port| port.take_capture().is_none()));
}

/// One stack cannot have several queues.
#[test]
fn several_queues_are_no_ground_of_one_transport() {
    let config = StackConfig::new("10.0.0.2/24".parse().unwrap());
    let queues = vec![pair(1500).0, pair(1500).0];
    let refused = Transport::open(queues.into(), &config, Instant::ZERO).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
}

fn send(stack: &mut Stack, id: ConnectionId, octets: &[u8]) {
    assert_eq!(stack.llp(id).unwrap().send_slice(octets), octets.len());
}

fn receive(stack: &mut Stack, id: ConnectionId) -> Vec<u8> {
    let mut llp = stack.llp(id).unwrap();
    let mut octets = Vec::new();
    while !llp.readable().is_empty() {
        let piece = llp.readable().to_vec();
        llp.consume(piece.len());
        octets.extend(piece);
    }
    octets
}

#[test]
fn a_peers_connections_go_to_the_stacks_that_their_ports_choose() {
    let mut world = World::new();
    let mut seen = [false; STACKS];
    for port in 2000..2032 {
        let from = Some(([0; 4], port).into());
        let id = world.peer.connect(([10, 0, 0, 2], PORT).into(), from, world.now).unwrap();
        world.settle();
        let (stack, accepted) = world.accepted();
        assert_eq!(stack, queue_of([port, PORT], STACKS));
        seen[stack] = true;
        send(&mut world.peer, id, b"ping");
        send(&mut world.stacks[stack], accepted, b"pong");
        world.settle();
        assert_eq!(receive(&mut world.stacks[stack], accepted), b"ping");
        assert_eq!(receive(&mut world.peer, id), b"pong");
    }
    assert_eq!(seen, [true; STACKS]);
}

#[test]
fn each_stack_finds_its_neighbors_and_connects() {
    let mut world = World::new();
    for index in 0..STACKS {
        let id = world.stacks[index].connect(([10, 0, 0, 1], PORT).into(), None, world.now).unwrap();
        world.settle();
        let (accepted, _) = world.peer.next_accepted().unwrap();
        let port = world.stacks[index].local_addr(id).unwrap().port();
        assert_eq!(queue_of([port, PORT], STACKS), index);
        send(&mut world.peer, accepted, b"ping");
        world.settle();
        assert_eq!(receive(&mut world.stacks[index], id), b"ping");
    }
}

/// Octets that wait in either direction, and later ones, are not lost.
#[test]
fn a_connection_goes_on_in_another_stack() {
    let mut world = World::new();
    let from = Some(([0; 4], 2000).into());
    let target = ([10, 0, 0, 2], PORT).into();
    let id = world.peer.connect(target, from, world.now).unwrap();
    world.settle();
    let (home, mut accepted) = world.accepted();
    let mut at = home;
    for turn in 1..=STACKS {
        send(&mut world.peer, id, b"before ");
        send(&mut world.stacks[at], accepted, b"unsent ");
        // The frames of the peer are under way to the stack that loses the connection.
        world.peer.egress(world.now);
        world.stacks[(home + 1) % STACKS].ingress(world.now);
        let to = (home + turn) % STACKS;
        accepted = world.shift(at, accepted, to);
        at = to;
        send(&mut world.peer, id, b"after");
        world.settle();
        assert_eq!(receive(&mut world.stacks[at], accepted), b"before after");
        assert_eq!(receive(&mut world.peer, id), b"unsent ");
        assert_eq!(world.peer.tcp_counters().resets_received, 0);
    }
    assert_eq!(at, home, "it has been everywhere");
    accepted = world.shift(at, accepted, (home + 1) % STACKS);
    at = (home + 1) % STACKS;
    // The connection ends there. The next one between the same ports begins at the first stack.
    world.stacks[at].remove(accepted);
    world.peer.llp(id).unwrap().shutdown();
    world.settle();
    assert_eq!(world.peer.state(id), Some(LlpState::Closed));
    world.peer.remove(id);
    let later = world.now + weft_netif::Duration::from_secs(60);
    world.run(later);
    assert!(world.stacks.iter().all(|stack| stack.counters().connections == 0));
    world.peer.connect(target, from, world.now).unwrap();
    world.settle();
    assert_eq!(world.accepted().0, home);
}

#[test]
fn both_ends_of_a_connection_to_the_own_address_may_be_in_different_stacks() {
    let mut world = World::new();
    let id = world.stacks[0].connect(([10, 0, 0, 2], PORT).into(), None, world.now).unwrap();
    world.settle();
    let (stack, accepted) = world.accepted();
    assert_eq!(stack, 0);
    let accepted = world.shift(0, accepted, 2);
    for _ in 0..3 {
        send(&mut world.stacks[0], id, b"there");
        send(&mut world.stacks[2], accepted, b"back");
        world.settle();
        assert_eq!(receive(&mut world.stacks[2], accepted), b"there");
        assert_eq!(receive(&mut world.stacks[0], id), b"back");
    }
    assert_eq!(world.peer.counters().frames_in, 0, "its frames were not on the wire");
}

#[test]
fn wires_that_do_not_fit_the_stacks_are_refused() {
    let config = StackConfig::new("10.0.0.2/24".parse().unwrap());
    let wires = || (0..2).map(|_| pair(1500).0).collect::<Vec<_>>();
    assert!(Wire::share(wires(), 2, &config).is_ok());
    assert!(Wire::share(wires(), 3, &config).is_err());
    assert!(Wire::share(Vec::new(), 1, &config).is_err());
}
