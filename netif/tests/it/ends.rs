//! The end of a Unix wire: stacks that share it learn of its end one by one. Also peers that read no more.

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use weft_netif::{
    CloseCause, ConnectionId, Duration, Instant, LlpState, Spec, Stack, StackConfig, Wire, queue_of,
};

use crate::unix::{Folder, receive, record};

const NOW: Instant = Instant::ZERO;
const PORT: u16 = 7;

/// Stacks that share a listening socket, and the peer that has connected. Time stands still.
struct World {
    folder: Folder,
    stacks: Vec<Stack>,
    peer: Option<Stack>,
    /// The connection to the last one of the stacks: that stack's end and the peer's.
    near: ConnectionId,
    far: ConnectionId,
}

impl World {
    /// Makes a world in which one call takes at most `burst` frames.
    fn new(name: &str, count: usize, burst: usize) -> Self {
        let folder = Folder::new(name);
        let wire = Wire::open(&Spec::UnixListen(folder.socket()), 1500).unwrap();
        let config = StackConfig {
            ingress_burst: burst,
            egress_burst: burst,
            ..StackConfig::new("10.0.0.1/24".parse().unwrap())
        };
        let wires = Wire::share(vec![wire], count, &config).unwrap();
        let mut stacks: Vec<_> =
            wires.into_iter().map(|wire| Stack::new(wire, config.clone(), NOW)).collect();
        for stack in &mut stacks {
            stack.listen(PORT).unwrap();
        }
        let mut peer = peer(&folder);
        let far = connect(&mut peer, count, 1000);
        work(&mut stacks, &mut peer);
        let (near, _) = stacks[count - 1].next_accepted().unwrap();
        Self { folder, stacks, peer: Some(peer), near, far }
    }

    fn peer(&mut self) -> &mut Stack {
        self.peer.as_mut().unwrap()
    }

    fn last(&mut self) -> &mut Stack {
        self.stacks.last_mut().unwrap()
    }

    /// Shuts the peer's socket down, but leaves it open.
    fn shut_down(&mut self, how: Shutdown) {
        let socket = self.peer().wire().poll_fd().unwrap().try_clone_to_owned().unwrap();
        UnixStream::from(socket).shutdown(how).unwrap();
    }

    fn end(&mut self) -> (LlpState, Option<CloseCause>) {
        let near = self.near;
        let llp = self.last().llp(near).unwrap();
        (llp.state(), llp.cause())
    }
}

fn peer(folder: &Folder) -> Stack {
    let wire = Wire::open(&Spec::Unix(folder.socket()), 1500).unwrap();
    Stack::new(wire, StackConfig::new("10.0.0.2/24".parse().unwrap()), NOW)
}

/// Begins a connection to the last one of `count` stacks, from a port that is not below `first`.
fn connect(peer: &mut Stack, count: usize, first: u16) -> ConnectionId {
    let local = (first..).find(|&port| queue_of([PORT, port], count) == count - 1).unwrap();
    peer.connect(([10, 0, 0, 1], PORT).into(), Some(([0; 4], local).into()), NOW).unwrap()
}

fn work(stacks: &mut [Stack], peer: &mut Stack) {
    for _ in 0..100 {
        for stack in stacks.iter_mut().chain([&mut *peer]) {
            stack.ingress(NOW);
            stack.egress(NOW);
        }
    }
}

const UNREACHABLE: (LlpState, Option<CloseCause>) = (LlpState::Reset, Some(CloseCause::Unreachable));

/// The first stack reads all frames of the peer, and the end. The last stack, to which they were sent, looks later.
#[test]
fn a_stack_learns_of_the_end_behind_the_frames_that_came_before() {
    let mut world = World::new("behind", 2, 1);
    let (near, far) = (world.near, world.far);
    assert_eq!(world.peer().llp(far).unwrap().send_slice(b"farewell"), 8);
    world.peer().egress(NOW);
    world.peer().llp(far).unwrap().shutdown();
    world.peer().egress(NOW);
    world.peer = None;
    for _ in 0..3 {
        world.stacks[0].ingress(NOW);
    }
    assert_eq!(world.stacks[0].wire().has_carrier(), Some(false));
    for _ in 0..4 {
        world.last().ingress(NOW);
    }
    assert_eq!(world.end(), (LlpState::PeerClosed, None));
    assert_eq!(world.last().llp(near).unwrap().readable(), b"farewell");
}

/// A connection of the next peer does not count as one of the lost peer, though its SYN waits when the stack looks.
#[test]
fn a_stack_learns_of_the_end_before_the_frames_of_the_next_peer() {
    let mut world = World::new("before", 2, 64);
    world.peer = None;
    let mut next = peer(&world.folder);
    let id = connect(&mut next, 2, 2000);
    work(&mut world.stacks[..1], &mut next);
    work(&mut world.stacks, &mut next);
    assert_eq!(world.end(), UNREACHABLE);
    assert_eq!(next.llp(id).unwrap().state(), LlpState::Established);
    assert_eq!(world.last().next_accepted().map(|(_, to)| to.port()), Some(PORT));
}

/// While frames of the station to itself wait, one call goes on from the end of the wire to the next peer's frames.
#[test]
fn frames_to_the_own_address_do_not_delay_the_end() {
    let mut world = World::new("looped", 1, 64);
    for _ in 0..5 {
        world.last().connect(([10, 0, 0, 1], PORT).into(), None, NOW).unwrap();
    }
    world.last().egress(NOW);
    // The peer comes again, and knows its neighbor already.
    world.shut_down(Shutdown::Both);
    world.peer().ingress(NOW);
    let later = NOW + Duration::from_secs(1);
    let id = connect(world.peer(), 1, 2000);
    world.peer().egress(later);
    assert_eq!(world.peer().wire().has_carrier(), Some(true));
    for _ in 0..10 {
        world.last().ingress(later);
        world.last().egress(later);
        world.peer().ingress(later);
        world.peer().egress(later);
    }
    assert_eq!(world.end(), UNREACHABLE);
    assert_eq!(world.peer().llp(id).unwrap().state(), LlpState::Established);
}

/// A stack may sleep while another one reads the end.
#[test]
fn the_end_wakes_all_stacks() {
    let mut world = World::new("wakes", 2, 64);
    work(&mut world.stacks, &mut world.peer.take().unwrap());
    assert_ne!(world.last().poll_at(NOW), Some(NOW), "it sleeps");
    world.stacks[0].ingress(NOW);
    assert_eq!(world.last().poll_at(NOW), Some(NOW));
    world.last().ingress(NOW);
    assert_eq!(world.end(), UNREACHABLE);
}

/// The last frames of such a peer are received, and the next peer comes. Meanwhile nothing waits for room at it.
#[test]
fn a_peer_that_reads_no_more_is_lost() {
    for frames in [1, 1000] {
        let folder = Folder::new(&format!("deaf-{frames}"));
        let mut wire = Wire::open(&Spec::UnixListen(folder.socket()), 1500).unwrap();
        let mut peer = UnixStream::connect(folder.socket()).unwrap();
        for number in 1..=2 {
            peer.write_all(&record(&[number; 60])).unwrap();
        }
        assert_eq!(receive(&mut wire), Some(vec![1; 60]));
        for _ in 1..frames {
            wire.send(NOW, &[3; 1514]);
        }
        assert_eq!(wire.wants_write(), frames > 1, "the socket is full");
        peer.shutdown(Shutdown::Read).unwrap();
        wire.send(NOW, &[3; 1514]);
        assert_eq!(receive(&mut wire), Some(vec![2; 60]));
        assert!(!wire.wants_write());
        assert!(wire.is_readable(), "a sleeper would not learn of the loss by the descriptor");
        let mut none = Vec::new();
        assert_eq!((wire.receive(NOW, &mut none), wire.has_carrier()), (false, Some(false)));
        assert!(!wire.is_readable() && !wire.wants_write());
        let mut next = UnixStream::connect(folder.socket()).unwrap();
        next.write_all(&record(&[4; 60])).unwrap();
        assert_eq!(receive(&mut wire), Some(vec![4; 60]));
    }
}

#[test]
fn a_peer_that_reads_no_more_loses_its_connections() {
    let mut world = World::new("deaf-stack", 1, 64);
    let near = world.near;
    world.shut_down(Shutdown::Read);
    assert_eq!(world.last().llp(near).unwrap().send_slice(b"unheard"), 7);
    world.last().egress(NOW);
    assert_eq!(world.last().poll_at(NOW), Some(NOW));
    world.last().ingress(NOW);
    assert_eq!(world.end(), UNREACHABLE);
    world.last().remove(near);
    world.last().egress(NOW);
    assert!(world.last().is_settled());
}
