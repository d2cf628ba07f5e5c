//! The use of an STag, and its users (RFC 5042 sections 6.1 to 6.3).

use weft_netif::Duration;
use weft_rnic::{
    Access, CmEvent, ConnParam, Data, DisconnectReason, Mr, Pd, Qp, QpInit, QpState, SendOpcode,
};
use weft_tests::RawPeer;

use crate::atomics::fetch_add;
use crate::octets::{
    Place, fpdu, pattern, read_request, send_invalidate, tagged, terminate, terminate_read, vector, write,
};
use crate::world::{FILL, Role, World, content, exchange, filled, whole, work};

/// Makes a queue pair of `pd` on a connection, and its peer, which has sent its first FPDU.
fn stream(world: &World, pd: &Pd, role: Role) -> (Qp, RawPeer) {
    let init =
        QpInit { capacity: weft_rnic::QpCapacity::default(), ..QpInit::new(&world.side.cq, &world.side.cq) };
    let qp = world.side.device.create_qp(pd, &init).unwrap();
    let peer = world.establish_with(role, &qp, ConnParam::default());
    peer.send(&vector("write0"));
    (qp, peer)
}

fn fill(memory: Mr) -> Mr {
    memory.write(0, &vec![FILL; memory.len()]).unwrap();
    memory
}

fn place(memory: &Mr) -> Place {
    Place(memory.rkey().0, memory.addr())
}

/// The stream of `qp` has been terminated by this device, and no other one.
fn expect_terminated(world: &World, qp: &Qp) {
    let CmEvent::Disconnected { qp_num, reason } = world.event() else { panic!("no end") };
    assert_eq!(qp_num, qp.number());
    assert!(matches!(reason, DisconnectReason::LocalTerminate(_)), "{reason:?}");
    assert_eq!(world.side.events.next(), None);
}

/// Returns messages by which a peer may try to reach foreign memory, and the answers. The codes are those of RFCs
/// 5040 and 5041 for an STag that is not associated with the stream.
fn intrusions(at: Place) -> [(&'static str, Vec<u8>, Vec<u8>); 4] {
    let Place(stag, to) = at;
    let write = write(stag, to, b"intruder");
    let read = read_request(1, Place(9, 0), 8, at);
    let invalidate = send_invalidate(1, stag, b"");
    let atomic = fetch_add(1, 7, at, 1);
    [
        ("Write", terminate("1102", &write), write),
        ("Read", terminate_read("0103", &read), read),
        ("Send with Invalidate", terminate("0109", &invalidate), invalidate),
        ("FetchAdd", terminate("0103", &atomic), atomic),
    ]
    .map(|(what, answer, intrusion)| (what, fpdu(&intrusion), fpdu(&answer)))
}

/// The memory is unchanged, and its rightful peer can still use it.
fn expect_good(memory: &Mr, peer: &RawPeer) {
    assert_eq!(content(memory), vec![FILL; memory.len()]);
    assert!(!memory.is_invalidated());
    let Place(stag, to) = place(memory);
    peer.send(&fpdu(&write(stag, to, b"rightful")));
    peer.send(&fpdu(&read_request(1, Place(9, 0), 8, place(memory))));
    peer.expect(&fpdu(&tagged("C142", 9, 0, b"rightful")));
}

/// The peer of `intruder` tries one of the [`intrusions`] on `memory`, and its stream ends with the matching answer.
fn intrude(world: &World, memory: &Mr, index: usize, (intruder, peer): (&Qp, &RawPeer)) {
    intruder.post_recv(&weft_rnic::RecvWr { wr_id: 1, sges: &[] }).expect("room");
    let (what, intrusion, answer) = &intrusions(place(memory))[index];
    println!("{what}");
    peer.send(intrusion);
    peer.expect(answer);
    peer.expect_fin();
    expect_terminated(world, intruder);
}

/// Each stream has its own domain. Memory of one is unknown to the other, whatever its peer tries.
// Covers 5042-3-3, 5042-6.1.1-1, 5042-6.1.1-2, 5042-A-4.
#[test]
fn an_stag_of_another_protection_domain() {
    for role in [Role::Passive, Role::Active] {
        for index in 0..4 {
            let world = World::new();
            let pds = [world.side.device.alloc_pd(), world.side.device.alloc_pd()];
            let memory = fill(pds[0].register(64, Access::ALL).unwrap());
            let (rightful, rightful_peer) = stream(&world, &pds[0], role);
            let (intruder, peer) = stream(&world, &pds[1], role);
            intrude(&world, &memory, index, (&intruder, &peer));
            expect_good(&memory, &rightful_peer);
            assert_eq!(rightful.state(), QpState::Rts);
        }
    }
}

/// Streams of one domain, and an STag for one of them alone. The others can neither use nor invalidate it.
// Covers 5042-6.1.1-3, 5042-6.4.5-1, 5042-A-4.
#[test]
fn an_stag_of_another_stream_of_the_same_domain() {
    for role in [Role::Passive, Role::Active] {
        for index in 0..4 {
            let world = World::new();
            let pd = world.side.device.alloc_pd();
            let (rightful, rightful_peer) = stream(&world, &pd, role);
            let (intruder, peer) = stream(&world, &pd, role);
            let memory = fill(pd.register_for(&rightful, 64, Access::ALL).unwrap());
            intrude(&world, &memory, index, (&intruder, &peer));
            expect_good(&memory, &rightful_peer);
            assert_eq!(rightful.state(), QpState::Rts);
        }
    }
}

/// One octet before, one behind, and all between: a region ends at its registered bounds, to the octet.
// Covers 5042-6.2.1-1, 5042-A-5.
#[test]
fn writes_end_at_the_bounds() {
    let inside = [(0, 1), (63, 1), (0, 64), (1, 63), (31, 2)];
    let outside = [(-1, 1), (-1, 2), (-1, 66), (0, 65), (63, 2), (64, 1), (65, 1), (-4096, 8), (1 << 40, 8)];
    for role in [Role::Passive, Role::Active] {
        for (offset, len) in inside.into_iter().chain(outside) {
            let world = World::new();
            // Neighbours in the allocator's memory.
            let regions: Vec<Mr> = (0..5).map(|_| filled(&world.side, 64)).collect();
            let target = &regions[2];
            let (qp, peer) = stream(&world, &world.side.pd, role);
            let to = target.addr().wrapping_add_signed(offset);
            let segment = write(target.rkey().0, to, &vec![0xEE; len]);
            peer.send(&fpdu(&segment));
            let mut expected = vec![FILL; 64];
            if inside.contains(&(offset, len)) {
                peer.expect_silence();
                let first = usize::try_from(offset).unwrap();
                expected[first..first + len].fill(0xEE);
            } else {
                peer.expect(&fpdu(&terminate("1101", &segment)));
                peer.expect_fin();
                expect_terminated(&world, &qp);
            }
            for (index, memory) in regions.iter().enumerate() {
                let untouched = vec![FILL; 64];
                let expected = if index == 2 { &expected } else { &untouched };
                assert_eq!(content(memory), *expected, "{len} octets at {offset}");
            }
        }
    }
}

/// The same for Reads, which return octets of the region or none at all.
// Covers 5042-6.3.1-1, 5042-A-5.
#[test]
fn reads_end_at_the_bounds() {
    let inside = [(0, 1), (63, 1), (0, 64), (1, 63)];
    let outside = [(-1, 1), (-1, 66), (0, 65), (63, 2), (64, 1), (-4096, 8), (0, u32::MAX), (1 << 40, 1)];
    for role in [Role::Passive, Role::Active] {
        for (offset, size) in inside.into_iter().chain(outside) {
            let world = World::new();
            let octets = pattern(64);
            let regions: Vec<Mr> = (0..5).map(|_| filled(&world.side, 64)).collect();
            regions[2].write(0, &octets).unwrap();
            let (qp, peer) = stream(&world, &world.side.pd, role);
            let source = Place(regions[2].rkey().0, regions[2].addr().wrapping_add_signed(offset));
            let request = read_request(1, Place(9, 0), size, source);
            peer.send(&fpdu(&request));
            if inside.contains(&(offset, size)) {
                let first = usize::try_from(offset).unwrap();
                let expected = &octets[first..first + usize::try_from(size).unwrap()];
                peer.expect(&fpdu(&tagged("C142", 9, 0, expected)));
                peer.expect_silence();
            } else {
                // Only the Terminate comes.
                peer.expect(&fpdu(&terminate_read("0101", &request)));
                peer.expect_fin();
                expect_terminated(&world, &qp);
            }
        }
    }
}

/// The way in which an application revokes memory.
type Revoke = fn(&mut Option<Mr>);

/// Octets of a peer are under way to the memory when the application revokes it. From then on it does not change.
// Covers 5042-6.2.2-2, 5042-A-1.
#[test]
fn revoked_memory_does_not_change_any_more() {
    for role in [Role::Passive, Role::Active] {
        let world = World::new();
        let memory = filled(&world.side, 4096);
        let (qp, peer) = stream(&world, &world.side.pd, role);
        let segment = |octet: u8| write(memory.rkey().0, memory.addr(), &[octet; 1400]);
        for octet in 1..=5 {
            peer.send(&fpdu(&segment(octet)));
        }
        world.settle();
        assert_eq!(content(&memory)[..1400], [5; 1400]);
        // These are in TCP and on the wire.
        peer.send(&(6..=40).flat_map(|octet| fpdu(&segment(octet))).collect::<Vec<_>>());
        memory.invalidate();
        assert!(memory.is_invalidated());
        let before = content(&memory);
        // The application changes it in turn, and nothing overwrites that.
        memory.write(700, b"mine again").unwrap();
        world.settle();
        assert_eq!(content(&memory)[..700], before[..700]);
        assert_eq!(content(&memory)[700..710], *b"mine again");
        assert_eq!(content(&memory)[710..], before[710..]);
        peer.expect(&fpdu(&terminate("1100", &segment(6))));
        peer.expect_fin();
        expect_terminated(&world, &qp);
    }
}

/// By each way of revoking: no Write, no Read, no invalidation and no local access reaches the memory any more.
// Covers 5042-6.2.2-2.
#[test]
fn revoked_memory_cannot_be_reached() {
    let ways: [Revoke; 2] = [|memory| memory.as_ref().unwrap().invalidate(), |memory| drop(memory.take())];
    for revoke in ways {
        for index in 0..4 {
            let world = World::new();
            let (qp, peer) = stream(&world, &world.side.pd, Role::Passive);
            qp.post_recv(&weft_rnic::RecvWr { wr_id: 1, sges: &[] }).unwrap();
            let mut memory = Some(fill(world.side.pd.register_for(&qp, 64, Access::ALL).unwrap()));
            let at = place(memory.as_ref().unwrap());
            let sge = whole(memory.as_ref().unwrap());
            revoke(&mut memory);
            let write = write(at.0, at.1, b"too late");
            let read = read_request(1, Place(9, 0), 8, at);
            let invalidate = send_invalidate(1, at.0, b"");
            let answer = match index {
                0 => (terminate("1100", &write), write),
                1 => (terminate_read("0100", &read), read),
                2 => (terminate("0109", &invalidate), invalidate),
                _ => {
                    qp.post_send(&work(2, SendOpcode::Send, Data::Sges(&[sge]))).unwrap();
                    peer.expect(&vector("term-localcat"));
                    continue;
                }
            };
            peer.send(&fpdu(&answer.1));
            peer.expect(&fpdu(&answer.0));
            peer.expect_fin();
            expect_terminated(&world, &qp);
            assert!(memory.is_none_or(|memory| content(&memory) == [FILL; 64]));
        }
    }
}

/// The sinks of a Read Response and of a Send are revoked on the way.
// Covers 5042-6.2.2-2.
#[test]
fn revoked_sinks_do_not_change_any_more() {
    for is_read in [true, false] {
        let world = World::new();
        let sink = filled(&world.side, 64);
        let (qp, peer) = stream(&world, &world.side.pd, Role::Active);
        let segment = if is_read {
            let read = SendOpcode::Read { stag: weft_rnic::Stag(0x100), to: 0x1000 };
            qp.post_send(&work(1, read, Data::Sges(&[whole(&sink)]))).unwrap();
            let _request = peer.read_exact(52);
            tagged("C142", sink.lkey().0, sink.addr(), &[0xEE; 64])
        } else {
            qp.post_recv(&weft_rnic::RecvWr { wr_id: 1, sges: &[whole(&sink)] }).unwrap();
            crate::octets::send(1, &[0xEE; 64])
        };
        sink.invalidate();
        peer.send(&fpdu(&segment));
        peer.expect(&if is_read { fpdu(&terminate("1100", &segment)) } else { vector("term-localcat") });
        peer.expect_fin();
        assert_eq!(content(&sink), [FILL; 64]);
    }
}

/// Each right by itself: granted operations are done, and all others refused.
// Covers 5042-6.3.5-1, 5042-A-5.
#[test]
fn a_peer_can_do_what_was_granted_and_no_more() {
    let local = Access::LOCAL_WRITE;
    for (access, can_write, can_read) in [
        (local | Access::REMOTE_WRITE, true, false),
        (Access::REMOTE_READ, false, true),
        (local | Access::REMOTE_READ, false, true),
        (local | Access::REMOTE_WRITE | Access::REMOTE_READ, true, true),
        (local, false, false),
        (Access::LOCAL_READ, false, false),
    ] {
        for role in [Role::Passive, Role::Active] {
            for is_write in [true, false] {
                let world = World::new();
                let memory = fill(world.side.pd.register(8, access).unwrap());
                let (_qp, peer) = stream(&world, &world.side.pd, role);
                let at = place(&memory);
                let segment = if is_write {
                    write(at.0, at.1, b"12345678")
                } else {
                    read_request(1, Place(9, 0), 8, at)
                };
                peer.send(&fpdu(&segment));
                match (is_write, if is_write { can_write } else { can_read }) {
                    (true, true) => peer.expect_silence(),
                    (false, true) => peer.expect(&fpdu(&tagged("C142", 9, 0, &[FILL; 8]))),
                    (true, false) => peer.expect(&fpdu(&terminate("0102", &segment))),
                    (false, false) => peer.expect(&fpdu(&terminate_read("0102", &segment))),
                }
                let expected = if is_write && can_write { *b"12345678" } else { [FILL; 8] };
                assert_eq!(content(&memory), expected, "{access:?}");
            }
        }
    }
}

// Covers 5042-6.3.5-3.
#[test]
fn empty_reads_need_no_memory() {
    for role in [Role::Passive, Role::Active] {
        let world = World::new();
        let write_only = world.side.pd.register(8, Access::LOCAL_WRITE | Access::REMOTE_WRITE).unwrap();
        let gone = filled(&world.side, 8);
        let (_qp, peer) = stream(&world, &world.side.pd, role);
        gone.invalidate();
        let sources = [place(&write_only), place(&gone), Place(0, 0), Place(u32::MAX, u64::MAX)];
        for (msn, source) in (1..).zip(sources) {
            peer.send(&fpdu(&read_request(msn, Place(9, u64::from(msn)), 0, source)));
            peer.expect(&fpdu(&tagged("C142", 9, u64::from(msn), b"")));
        }
        peer.expect_silence();
    }
}

/// The device allocates memory, and never twice: memory that one peer may write has no second STag for another.
// Covers 5042-6.3.6-1.
#[test]
fn no_two_stags_name_the_same_memory() {
    let world = World::new();
    let (_qp, peer) = stream(&world, &world.side.pd, Role::Passive);
    let regions: Vec<Mr> = (0..200).map(|index| filled(&world.side, 1 + index % 70)).collect();
    let mut ranges: Vec<_> = regions.iter().map(|memory| (memory.addr(), memory.len() as u64)).collect();
    ranges.sort_unstable();
    assert!(ranges.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
    for (index, memory) in regions.iter().enumerate().step_by(9) {
        let Place(stag, to) = place(memory);
        peer.send(&fpdu(&write(stag, to, &vec![0xEE; memory.len()])));
        world.settle();
        for (other, memory) in regions.iter().enumerate() {
            let octet = if other <= index && other % 9 == 0 { 0xEE } else { FILL };
            assert_eq!(content(memory), vec![octet; memory.len()]);
        }
    }
}

/// Octets of a freed buffer are not in the next one, which a peer may read at once.
// Covers 5042-A-2.
#[test]
fn fresh_memory_has_no_old_octets() {
    let world = World::new();
    let (_qp, peer) = stream(&world, &world.side.pd, Role::Passive);
    let mut addresses = std::collections::HashMap::new();
    for msn in 1..=200 {
        let memory = world.side.memory(512);
        *addresses.entry(memory.addr()).or_insert(0) += 1;
        peer.send(&fpdu(&read_request(msn, Place(9, 0), 512, place(&memory))));
        peer.expect(&fpdu(&tagged("C142", 9, 0, &[0; 512])));
        memory.write(0, &[0xEE; 512]).unwrap();
    }
    assert!(addresses.values().any(|times| *times > 1), "the allocator hands nothing out again");
}

/// A peer has guessed the next STag. It does not reach memory that is not registered yet, and its message has no
/// later effect.
#[test]
fn an_stag_is_invalid_before_its_registration() {
    let next = place(&World::new().side.memory(64));
    let world = World::new();
    let (qp, peer) = stream(&world, &world.side.pd, Role::Passive);
    let segment = write(next.0, next.1, b"too soon");
    peer.send(&fpdu(&segment));
    peer.expect(&fpdu(&terminate("1100", &segment)));
    expect_terminated(&world, &qp);
    let memory = world.side.memory(64);
    assert_eq!(memory.rkey().0, next.0, "the same seed gives the same STags");
    world.settle();
    assert_eq!(content(&memory), [0; 64]);
}

/// From one STag a peer learns none of the others. Each guess costs it a connection and fails.
// Covers 5042-6.1.1-4, 5042-6.1.1-5.
#[test]
fn guesses_from_a_known_stag_fail() {
    let world = World::new();
    let regions: Vec<Mr> = (0..50).map(|_| filled(&world.side, 64)).collect();
    let known = place(&regions[0]);
    let steps = [1, u32::MAX, 2, 0x100, 0x100_u32.wrapping_neg(), 0x200, 0x1_0000, 0x100_0000, 0x8000_0000];
    let guesses = steps.map(|step| known.0.wrapping_add(step));
    for stag in guesses.into_iter().chain(0..8).chain([0x100, 0x200, 0x300, !known.0, known.0.swap_bytes()]) {
        let (qp, peer) = stream(&world, &world.side.pd, Role::Passive);
        let segment = write(stag, known.1, b"a guess!");
        // Later segments are ignored, although they would be valid.
        let second = fpdu(&write(known.0, known.1, b"too late"));
        peer.send(&[fpdu(&segment), second.clone()].concat());
        peer.expect(&fpdu(&terminate("1100", &segment)));
        peer.expect_fin();
        expect_terminated(&world, &qp);
        peer.send(&second);
        world.settle();
        assert!(regions.iter().all(|memory| content(memory) == [FILL; 64]), "STag {stag:#x}");
        peer.close();
        world.host.settle(Duration::from_secs(1));
        assert_eq!(qp.state(), QpState::Error);
    }
    let qp = world.new_qp();
    let peer = world.establish_with(Role::Passive, &qp, ConnParam::default());
    exchange(&world, &qp, &peer, 1);
}
