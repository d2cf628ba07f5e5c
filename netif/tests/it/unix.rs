//! Wires over Unix sockets: framing, and peers that come and go.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration as StdDuration;

use weft_netif::{CloseCause, Duration, Instant, LlpState, Spec, Stack, StackConfig, Wire};

use crate::bench::Talker;

const NOW: Instant = Instant::ZERO;

/// A folder for each test, removed at the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weft-netif-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.0.join("wire")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn open_both(path: &Path) -> [Wire; 2] {
    let listening = Wire::open(&Spec::UnixListen(path.into()), 1500).unwrap();
    [Wire::open(&Spec::Unix(path.into()), 1500).unwrap(), listening]
}

/// Receives a frame within a hundred tries. One would do, since the kernel delivers at once.
pub(crate) fn receive(wire: &mut Wire) -> Option<Vec<u8>> {
    let mut frame = Vec::new();
    (0..100).any(|_| wire.receive(NOW, &mut frame)).then_some(frame)
}

pub(crate) fn record(frame: &[u8]) -> Vec<u8> {
    [&u32::try_from(frame.len()).unwrap().to_be_bytes()[..], frame].concat()
}

#[test]
fn frames_cross_and_are_framed_by_their_length() {
    let folder = Folder::new("cross");
    let [mut left, mut right] = open_both(&folder.socket());
    assert_eq!(receive(&mut right), None);
    left.send(NOW, &[1; 60]);
    left.send(NOW, &[2; 1514]);
    left.send(NOW, &[3; 1515]);
    assert_eq!(receive(&mut right), Some(vec![1; 60]));
    assert!(right.is_readable(), "the second came with the first");
    assert_eq!(receive(&mut right), Some(vec![2; 1514]));
    assert_eq!((receive(&mut right), right.is_readable()), (None, false));
    assert_eq!(left.counters().too_long, 1);
    right.send(NOW, &[4; 70]);
    assert_eq!(receive(&mut left), Some(vec![4; 70]));
    drop(right);
    assert!(!folder.socket().exists(), "the listening side removes it");
}

#[test]
fn partial_reads_are_put_together() {
    let folder = Folder::new("partial");
    let mut wire = Wire::open(&Spec::UnixListen(folder.socket()), 1500).unwrap();
    let mut peer = UnixStream::connect(folder.socket()).unwrap();
    let stream = [record(&[1; 60]), record(&[]), record(&[2; 65_549]), record(&[3; 61])].concat();
    let mut frames = Vec::new();
    // Small records octet by octet, the large one in pieces.
    for piece in stream[..70].chunks(1).chain(stream[70..].chunks(999)) {
        peer.write_all(piece).unwrap();
        frames.extend(std::iter::from_fn(|| receive(&mut wire)));
    }
    assert_eq!(frames, [vec![1; 60], vec![], vec![2; 65_549], vec![3; 61]]);
}

#[test]
fn partial_writes_are_continued_and_a_peer_that_does_not_read_loses_frames() {
    let folder = Folder::new("full");
    let listener = UnixListener::bind(folder.socket()).unwrap();
    let mut wire = Wire::open(&Spec::Unix(folder.socket()), 65_535).unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    peer.set_read_timeout(Some(StdDuration::from_secs(10))).unwrap();
    for number in 0..200_u8 {
        wire.send(NOW, &[number; 30_001]);
    }
    let counters = wire.counters();
    assert!(wire.wants_write() && counters.send_lost > 0 && counters.sent >= 30, "{counters:?}");
    let mut none = Vec::new();
    for number in 0..counters.sent {
        let mut octets = vec![0; 30_005];
        let mut filled = 0;
        while filled < octets.len() {
            filled += peer.read(&mut octets[filled..]).unwrap();
            assert!(!wire.receive(NOW, &mut none));
        }
        assert_eq!(octets, record(&[u8::try_from(number).unwrap(); 30_001]), "{number}");
    }
    assert!(!wire.wants_write());
}

#[test]
fn a_peer_may_go_and_the_next_one_come() {
    let folder = Folder::new("next");
    let [mut first, mut wire] = open_both(&folder.socket());
    first.send(NOW, &[1; 60]);
    assert_eq!(receive(&mut wire), Some(vec![1; 60]));
    let mut second = Wire::open(&Spec::Unix(folder.socket()), 1500).unwrap();
    second.send(NOW, &[2; 60]);
    assert_eq!(receive(&mut wire), None, "one peer at a time");
    drop(first);
    assert_eq!(receive(&mut wire), Some(vec![2; 60]));
    wire.send(NOW, &[3; 60]);
    assert_eq!(receive(&mut second), Some(vec![3; 60]));
    drop(second);
    assert_eq!(receive(&mut wire), None);
    wire.send(NOW, &[4; 60]);
    assert_eq!(wire.counters().send_lost, 1, "there is no peer");
}

#[test]
fn the_connecting_side_finds_its_peer_again() {
    let folder = Folder::new("again");
    let [mut wire, listening] = open_both(&folder.socket());
    drop(listening);
    assert_eq!(receive(&mut wire), None);
    let retry = wire.poll_at().unwrap();
    assert_eq!((retry, wire.poll_fd().is_none()), (NOW + Duration::from_secs(1), true));
    let mut listening = Wire::open(&Spec::UnixListen(folder.socket()), 1500).unwrap();
    wire.send(NOW, &[1; 60]);
    assert_eq!(receive(&mut listening), None, "not before its second is over");
    wire.send(retry, &[2; 60]);
    assert_eq!(receive(&mut listening), Some(vec![2; 60]));
    assert_eq!((wire.poll_at(), wire.poll_fd().is_some()), (None, true));
}

/// Frames that a peer sent before its end are received, even if something was sent to it meanwhile.
#[test]
fn the_last_frames_of_a_peer_that_is_gone_arrive() {
    let folder = Folder::new("last");
    let [mut left, mut right] = open_both(&folder.socket());
    left.send(NOW, &[1; 60]);
    assert_eq!(receive(&mut right), Some(vec![1; 60]));
    left.send(NOW, &[2; 60]);
    left.send(NOW, &[3; 60]);
    drop(left);
    right.send(NOW, &[4; 60]);
    assert_eq!((right.counters().send_lost, right.has_carrier()), (1, Some(true)));
    assert_eq!(receive(&mut right), Some(vec![2; 60]));
    assert_eq!(receive(&mut right), Some(vec![3; 60]));
    assert_eq!((receive(&mut right), right.has_carrier()), (None, Some(false)));
}

/// A socket that hangs up ends connections at once: at either end, in either role, with and without octets to send.
/// The next process is another peer. Time stands still.
#[test]
fn connections_end_with_the_wire() {
    for (survivor_listens, survivor_connects, sends, stacks) in [
        (true, true, false, 1),
        (true, false, false, 1),
        (false, true, false, 1),
        (false, false, false, 1),
        (true, false, true, 1),
        (true, false, false, 2),
    ] {
        let folder = Folder::new(&format!("end-{survivor_listens}-{survivor_connects}-{sends}-{stacks}"));
        let [active, listening] = open_both(&folder.socket());
        let [survivor, other] = if survivor_listens { [listening, active] } else { [active, listening] };
        let own = StackConfig::new("10.0.0.1/24".parse().unwrap());
        let survivors = Wire::share(vec![survivor], stacks, &own).unwrap();
        let mut survivors: Vec<_> =
            survivors.into_iter().map(|wire| Stack::new(wire, own.clone(), NOW)).collect();
        let mut peer = Stack::new(other, StackConfig::new("10.0.0.2/24".parse().unwrap()), NOW);
        let mut ids = [None; 2];
        let opened = if survivor_connects { peer.listen(7) } else { survivors[stacks - 1].listen(7) };
        opened.unwrap();
        // If the passive end survives, the connection belongs to the last of its stacks.
        let local = (1000..).find(|port| weft_netif::queue_of([7, *port], stacks) == stacks - 1).unwrap();
        let local = Some(([0, 0, 0, 0], local).into());
        if survivor_connects {
            ids[0] = survivors[0].connect("10.0.0.2:7".parse().unwrap(), None, NOW).ok();
        } else {
            peer.connect("10.0.0.1:7".parse().unwrap(), local, NOW).unwrap();
        }
        for _ in 0..100 {
            for stack in survivors.iter_mut().chain([&mut peer]) {
                stack.ingress(NOW);
                stack.egress(NOW);
            }
            ids[0] = ids[0].or_else(|| survivors[stacks - 1].next_accepted().map(|(id, _)| id));
            ids[1] = ids[1].or_else(|| peer.next_accepted().map(|(id, _)| id));
        }
        let id = ids[0].expect("they are connected");
        assert_eq!(survivors[stacks - 1].llp(id).unwrap().state(), LlpState::Established);
        if sends {
            assert_eq!(survivors[0].llp(id).unwrap().send_slice(b"unanswered"), 10);
        }
        while survivors[stacks - 1].next_ready().is_some() {}
        drop(peer);
        // The first stack finds the end, and the next peer comes before the last stack looks.
        let next = survivor_listens.then(|| Wire::open(&Spec::Unix(folder.socket()), 1500).unwrap());
        for stack in &mut survivors {
            stack.ingress(NOW);
            stack.ingress(NOW);
        }
        let last = &mut survivors[stacks - 1];
        assert_eq!(last.next_ready(), Some(id));
        let llp = last.llp(id).unwrap();
        assert_eq!((llp.state(), llp.cause()), (LlpState::Reset, Some(CloseCause::Unreachable)));
        assert_eq!(next.is_some(), survivors[0].wire().has_carrier() == Some(true), "the next peer is there");
    }
}

/// The end of the wire leaves two kinds of connections alone: those of the station to itself, and those that have not
/// heard of their peer. The latter reach the next peer. Removed connections end at once.
#[test]
fn the_end_of_the_wire_ends_the_connections_across_it() {
    let folder = Folder::new("across");
    let [far, near] = open_both(&folder.socket());
    let config = |address: &str| StackConfig::new(address.parse().unwrap());
    let mut peer = Stack::new(far, config("10.0.0.2/24"), NOW);
    let mut stack = Stack::new(near, config("10.0.0.1/24"), NOW);
    stack.listen(7).unwrap();
    peer.listen(7).unwrap();
    let connect = |stack: &mut Stack, to: &str| stack.connect(to.parse().unwrap(), None, NOW).unwrap();
    let itself = connect(&mut stack, "10.0.0.1:7");
    let [across, removed, finished] = [(); 3].map(|()| connect(&mut stack, "10.0.0.2:7"));
    // The stack asks for the neighbor once a second.
    for tick in 0..40 {
        let now = NOW + Duration::from_millis(100 * tick);
        for stack in [&mut stack, &mut peer] {
            stack.ingress(now);
            stack.egress(now);
        }
    }
    let now = NOW + Duration::from_secs(4);
    for id in [itself, across, removed, finished] {
        assert_eq!(stack.llp(id).unwrap().state(), LlpState::Established);
    }
    let opening = stack.connect("10.0.0.2:8".parse().unwrap(), None, now).unwrap();
    let accepted: Vec<_> = std::iter::from_fn(|| peer.next_accepted()).map(|(id, _)| id).collect();
    let far_end = accepted.into_iter().find(|&id| peer.peer_addr(id) == stack.local_addr(finished)).unwrap();
    peer.llp(far_end).unwrap().shutdown();
    peer.egress(now);
    stack.ingress(now);
    assert_eq!(stack.llp(finished).unwrap().state(), LlpState::PeerClosed);
    stack.remove(removed);
    stack.remove(finished);
    stack.egress(now);
    assert_eq!(stack.counters().lingering, 2);
    drop(peer);
    for _ in 0..4 {
        stack.ingress(now);
        stack.egress(now);
    }
    let states = [itself, across, opening].map(|id| stack.llp(id).unwrap().state());
    assert_eq!(states, [LlpState::Established, LlpState::Reset, LlpState::Connecting]);
    assert_eq!(stack.counters().lingering, 0, "their FINs cannot be answered");
    let wire = Wire::open(&Spec::Unix(folder.socket()), 1500).unwrap();
    let mut next = Stack::new(wire, config("10.0.0.2/24"), now);
    next.listen(8).unwrap();
    for second in 1..10 {
        let now = now + Duration::from_secs(second);
        for _ in 0..10 {
            for stack in [&mut stack, &mut next] {
                stack.egress(now);
                stack.ingress(now);
            }
        }
    }
    assert_eq!(stack.llp(opening).unwrap().state(), LlpState::Established, "its SYN is repeated");
}

/// Of the wires that share a Unix socket, the first one tells whether a peer is there.
#[test]
fn one_of_several_wires_has_the_carrier() {
    let folder = Folder::new("carrier");
    let [peer, listening] = open_both(&folder.socket());
    let config = StackConfig::new("10.0.0.1/24".parse().unwrap());
    let mut wires = Wire::share(vec![listening], 2, &config).unwrap();
    assert_eq!(receive(&mut wires[1]), None);
    assert_eq!([0, 1].map(|index| wires[index].has_carrier()), [Some(true), None]);
    drop(peer);
    assert_eq!(receive(&mut wires[1]), None);
    assert_eq!([0, 1].map(|index| wires[index].has_carrier()), [Some(false), None]);
}

/// If the peer has sent FIN before the wire ended, the connection stays, and the octets that have come can be read.
#[test]
fn octets_before_a_fin_are_read_after_the_wire_ended() {
    let folder = Folder::new("finished");
    let [left, right] = open_both(&folder.socket());
    let config = |address: &str| StackConfig::new(address.parse().unwrap());
    let mut left = Stack::new(left, config("10.0.0.1/24"), NOW);
    let mut right = Stack::new(right, config("10.0.0.2/24"), NOW);
    right.listen(7).unwrap();
    let id = left.connect("10.0.0.2:7".parse().unwrap(), None, NOW).unwrap();
    let peer = loop {
        for stack in [&mut left, &mut right] {
            stack.egress(NOW);
            stack.ingress(NOW);
        }
        if let Some((peer, _)) = right.next_accepted() {
            break peer;
        }
    };
    assert_eq!(left.llp(id).unwrap().send_slice(b"farewell"), 8);
    left.egress(NOW);
    left.llp(id).unwrap().shutdown();
    left.egress(NOW);
    drop(left);
    for _ in 0..4 {
        right.ingress(NOW);
    }
    assert_eq!(right.wire().has_carrier(), Some(false));
    let mut llp = right.llp(peer).unwrap();
    assert_eq!((llp.state(), llp.readable()), (LlpState::PeerClosed, &b"farewell"[..]));
}

#[test]
fn a_peer_that_breaks_the_framing_is_dropped() {
    let folder = Folder::new("broken");
    let mut wire = Wire::open(&Spec::UnixListen(folder.socket()), 1500).unwrap();
    let mut peer = UnixStream::connect(folder.socket()).unwrap();
    peer.write_all(&[0, 1, 0, 14, 1, 2, 3]).unwrap();
    assert_eq!(receive(&mut wire), None);
    peer.set_read_timeout(Some(StdDuration::from_secs(10))).unwrap();
    // The stream has unread octets, so that it ends by a reset or an end of file.
    assert!(!matches!(peer.read(&mut [0; 8]), Ok(1..)));
    let mut next = UnixStream::connect(folder.socket()).unwrap();
    next.write_all(&record(&[7; 60])).unwrap();
    assert_eq!(receive(&mut wire), Some(vec![7; 60]));
}

#[test]
fn a_socket_left_behind_is_replaced_and_any_other_file_is_not() {
    let folder = Folder::new("stale");
    drop(UnixListener::bind(folder.socket()).unwrap());
    assert!(folder.socket().exists());
    let wire = Wire::open(&Spec::UnixListen(folder.socket()), 1500).unwrap();
    let error = Wire::open(&Spec::UnixListen(folder.socket()), 1500).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse, "a process listens there");
    drop(wire);
    std::fs::write(folder.socket(), "precious").unwrap();
    let error = Wire::open(&Spec::UnixListen(folder.socket()), 1500).unwrap_err();
    assert!(error.to_string().starts_with("unix-listen:"), "{error}");
    assert_eq!(std::fs::read_to_string(folder.socket()).unwrap(), "precious");
}

#[test]
fn two_stacks_stream_over_the_socket() {
    let folder = Folder::new("stacks");
    let [left, right] = open_both(&folder.socket());
    let config = |address: &str| StackConfig::new(address.parse().unwrap());
    let mut left = Stack::new(left, config("fd00::1/64"), NOW);
    let mut right = Stack::new(right, config("fd00::2/64"), NOW);
    right.listen(7).unwrap();
    let id = left.connect("[fd00::2]:7".parse().unwrap(), None, NOW).unwrap();
    let mut talkers = Talker::pair(1 << 20);
    let (mut now, mut peer) = (NOW, None);
    for _ in 0..1_000_000 {
        for stack in [&mut left, &mut right] {
            stack.ingress(now);
            stack.egress(now);
        }
        peer = peer.or_else(|| right.next_accepted().map(|(id, _)| id));
        let ready = left.llp(id).unwrap().state() == LlpState::Established;
        if let Some(peer) = peer.filter(|_| ready) {
            let done = [talkers[0].talk(&mut left, id), talkers[1].talk(&mut right, peer)];
            if done == [true, true] {
                return;
            }
        }
        now += Duration::from_micros(10);
    }
    panic!("{talkers:?}");
}
