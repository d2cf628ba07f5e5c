//! The rights of a peer with an STag, and their duration (RFC 5040 section 8.1.1).

use std::collections::HashSet;

use weft_rnic::{
    Access, CmEvent, ConnParam, Data, Mr, Pd, Qp, QpInit, Region, RegisterError, SendOpcode, Stag, Status,
};
use weft_tests::RawPeer;

use crate::octets::{
    Place, fpdu, pattern, read_request, send_invalidate, tagged, terminate, terminate_read, vector, write,
};
use crate::world::{FILL, ROLES, Role, World, content, filled, whole, work};

const REMOTE_WRITE: Access = Access::REMOTE_WRITE;

/// Makes a Terminate of a code and the segment that it returns.
type Answer = fn(&str, &[u8]) -> Vec<u8>;

/// Makes a stream of `pd` on which the device may send.
fn stream(world: &World, pd: &Pd, role: Role) -> (Qp, RawPeer) {
    let (send_cq, recv_cq) = (&world.side.cq, &world.side.cq);
    let init = QpInit::new(send_cq, recv_cq);
    let qp = world.side.device.create_qp(pd, &init).unwrap();
    let peer = world.establish_with(role, &qp, ConnParam::default());
    peer.send(&vector("write0"));
    (qp, peer)
}

fn place(memory: &Mr) -> Place {
    Place(memory.rkey().0, memory.addr())
}

/// `peer` writes into the memory and reads it again. `msn` is the number of the Read Request.
fn use_it(peer: &RawPeer, Place(stag, to): Place, msn: u32) {
    let octets = [u8::try_from(msn).unwrap(); 8];
    peer.send(
        &[fpdu(&write(stag, to, &octets)), fpdu(&read_request(msn, Place(5, 0), 8, Place(stag, to)))]
            .concat(),
    );
    peer.expect(&fpdu(&tagged("C142", 5, 0, &octets)));
}

/// `peer` sends `bad`, and its stream ends with `answer`.
fn refuse(world: &World, qp: &Qp, peer: &RawPeer, bad: &[u8], answer: &[u8]) {
    peer.send(&fpdu(bad));
    peer.expect(&fpdu(answer));
    peer.expect_fin();
    assert!(matches!(world.event(), CmEvent::Disconnected { qp_num, .. } if qp_num == qp.number()));
}

/// Two domains with a stream and memory each. Each stream works in its own domain and has no access to the other.
// Covers 5040-8.1.1-2.
#[test]
fn domains_are_closed_to_each_other() {
    for role in ROLES {
        for reads in [false, true] {
            for intruder in [0, 1] {
                let world = World::new();
                let pds = [world.side.pd.clone(), world.side.device.alloc_pd()];
                let streams = [stream(&world, &pds[0], role), stream(&world, &pds[1], Role::Passive)];
                let memory = [0, 1].map(|index: usize| pds[index].register(8, Access::ALL).unwrap());
                use_it(&streams[0].1, place(&memory[0]), 1);
                use_it(&streams[1].1, place(&memory[1]), 1);
                let (qp, peer) = &streams[intruder];
                let at = place(&memory[1 - intruder]);
                if reads {
                    let bad = read_request(2, Place(5, 0), 8, at);
                    refuse(&world, qp, peer, &bad, &terminate_read("0103", &bad));
                } else {
                    let bad = write(at.0, at.1, b"intruder");
                    refuse(&world, qp, peer, &bad, &terminate("1102", &bad));
                }
                assert_eq!(content(&memory[1 - intruder]), [1; 8]);
                use_it(&streams[1 - intruder].1, at, 2);
            }
        }
    }
}

/// An STag for one of two streams of a domain.
// Covers 5040-8.1.1-3.
#[test]
fn an_stag_for_one_stream_is_unknown_to_others() {
    for role in ROLES {
        for case in 0..3 {
            let world = World::new();
            let (own, own_peer) = stream(&world, &world.side.pd, role);
            let (other, peer) = stream(&world, &world.side.pd, role);
            other.post_recv(&weft_rnic::RecvWr { wr_id: 1, sges: &[] }).unwrap();
            let memory = world.bound(&own, 8);
            use_it(&own_peer, place(&memory), 1);
            let Place(stag, to) = place(&memory);
            let (bad, answer): (_, Answer) = match case {
                0 => (write(stag, to, b"x"), terminate),
                1 => (read_request(1, Place(5, 0), 1, Place(stag, to)), terminate_read),
                _ => (send_invalidate(1, stag, b""), terminate),
            };
            refuse(&world, &other, &peer, &bad, &answer(["1102", "0103", "0109"][case], &bad));
            use_it(&own_peer, place(&memory), 2);
            // The other queue pair's own requests cannot use it either.
            let third = world.new_qp();
            let third_peer = world.establish_with(role, &third, ConnParam::default());
            third_peer.send(&vector("write0"));
            third.post_send(&work(3, SendOpcode::Send, Data::Sges(&[whole(&memory)]))).unwrap();
            third_peer.expect(&vector("term-localcat"));
        }
    }
}

/// Writes, Reads and Read Responses up to both edges, and one octet beyond each. Another STag shows the octets
/// around.
// Covers 5040-8.1.1-4, 5042-6.2.1-1.
#[test]
fn no_octet_outside_of_the_memory_is_accessed() {
    for role in ROLES {
        for before in [false, true] {
            for case in 0..3 {
                let world = World::new();
                let (qp, peer) = stream(&world, &world.side.pd, role);
                let memory = filled(&world.side, 16);
                let Place(stag, to) = place(&memory);
                let start = if before { to - 1 } else { to + 12 };
                match case {
                    0 => {
                        peer.send(
                            &[fpdu(&write(stag, to, b"a")), fpdu(&write(stag, to + 15, b"z"))].concat(),
                        );
                        let bad = write(stag, start, b"12345");
                        refuse(&world, &qp, &peer, &bad, &terminate("1101", &bad));
                        assert_eq!(content(&memory), [&b"a"[..], &[FILL; 14], b"z"].concat());
                    }
                    1 => {
                        peer.send(&fpdu(&read_request(1, Place(5, 0), 16, Place(stag, to))));
                        peer.expect(&fpdu(&tagged("C142", 5, 0, &[FILL; 16])));
                        let bad = read_request(2, Place(5, 0), 5, Place(stag, start));
                        refuse(&world, &qp, &peer, &bad, &terminate_read("0101", &bad));
                    }
                    _ => {
                        // The sink is the middle of the memory.
                        let read = SendOpcode::Read { stag: Stag(1), to: 0 };
                        qp.post_send(&work(1, read, Data::Sges(&[memory.sge(4, 8)]))).unwrap();
                        peer.expect(&fpdu(&read_request(1, Place(stag, to + 4), 8, Place(1, 0))));
                        let bad = tagged("C142", stag, if before { to + 3 } else { to + 4 }, b"123456789");
                        refuse(&world, &qp, &peer, &bad, &terminate("1101", &bad));
                        assert_eq!(content(&memory), [FILL; 16]);
                    }
                }
            }
        }
    }
}

/// An STag and its offsets, which may be any, belong to a buffer from its registration to its end. The next
/// registration of the same size has another STag, and other contents.
// Covers 5040-8.1.1-5.
#[test]
fn buffer_stag_and_offsets_are_tied_and_untied() {
    for role in ROLES {
        for ends in 0..2 {
            let world = World::new();
            let (qp, peer) = stream(&world, &world.side.pd, role);
            let far = 0xFFFF_FFFF_0000_0000;
            let memory = world.side.pd.register_at(Region::owned(8).unwrap(), Access::ALL, far).unwrap();
            assert_eq!(memory.addr(), far);
            use_it(&peer, place(&memory), 1);
            let mut seen = [0; 8];
            memory.read(0, &mut seen).unwrap();
            assert_eq!(seen, [1; 8]);
            let at = place(&memory);
            let kept = if ends == 0 {
                drop(memory);
                None
            } else {
                memory.invalidate();
                Some(memory)
            };
            let next = filled(&world.side, 8);
            assert_ne!(next.rkey().0, at.0);
            let bad = write(at.0, at.1, b"too late");
            refuse(&world, &qp, &peer, &bad, &terminate("1100", &bad));
            assert_eq!(content(&next), [FILL; 8]);
            assert!(kept.is_none_or(|memory| content(&memory) == [1; 8]));
        }
    }
}

/// Rights to read, to write, to both and to none, each until it is revoked.
// Covers 5040-8.1.1-6.
#[test]
fn rights_are_given_and_taken_one_by_one() {
    let rights = [
        (Access::LOCAL_WRITE | REMOTE_WRITE, true, false),
        (Access::LOCAL_READ | Access::REMOTE_READ, false, true),
        (Access::LOCAL_WRITE | REMOTE_WRITE | Access::REMOTE_READ, true, true),
        (Access::LOCAL_WRITE, false, false),
    ];
    for role in ROLES {
        for (access, may_write, may_read) in rights {
            for reads in [false, true] {
                let world = World::new();
                let (qp, peer) = stream(&world, &world.side.pd, role);
                let memory = world.side.pd.register(8, access).unwrap();
                memory.write(0, &[FILL; 8]).unwrap();
                let Place(stag, to) = place(&memory);
                let asked = if reads {
                    read_request(1, Place(5, 0), 8, Place(stag, to))
                } else {
                    write(stag, to, b"12345678")
                };
                let may = if reads { may_read } else { may_write };
                if !may {
                    let answer = if reads { terminate_read } else { terminate };
                    refuse(&world, &qp, &peer, &asked, &answer("0102", &asked));
                    assert_eq!(content(&memory), [FILL; 8]);
                    continue;
                }
                peer.send(&fpdu(&asked));
                if reads {
                    peer.expect(&fpdu(&tagged("C142", 5, 0, &[FILL; 8])));
                }
                peer.expect_silence();
                assert_eq!(content(&memory) == b"12345678", !reads);
                memory.invalidate();
                let again = if reads { read_request(2, Place(5, 0), 8, Place(stag, to)) } else { asked };
                if reads {
                    refuse(&world, &qp, &peer, &again, &terminate_read("0100", &again));
                } else {
                    refuse(&world, &qp, &peer, &again, &terminate("1100", &again));
                }
            }
        }
    }
    let world = World::new();
    // Meaningless rights are refused.
    assert_eq!(world.side.pd.register(8, REMOTE_WRITE).err(), Some(RegisterError::Access));
}

/// The right is revoked while a long Write, or the answer to an own Read, arrives. From the return of the call on no
/// octet changes, whatever was under way.
// Covers 5040-8.1.1-7.
#[test]
fn revoked_memory_stays_as_it_is() {
    for role in ROLES {
        for is_answer in [false, true] {
            let world = World::new();
            let (qp, peer) = stream(&world, &world.side.pd, role);
            let memory = filled(&world.side, 100_000);
            let Place(stag, to) = place(&memory);
            if is_answer {
                let read = SendOpcode::Read { stag: Stag(1), to: 0 };
                qp.post_send(&work(1, read, Data::Sges(&[whole(&memory)]))).unwrap();
                peer.expect(&fpdu(&read_request(1, Place(stag, to), 100_000, Place(1, 0))));
            }
            let octets = pattern(100_000);
            let mut before = None;
            for (index, part) in octets.chunks(1000).enumerate() {
                let head = match (is_answer, index) {
                    (false, 99) => "C140",
                    (false, _) => "8140",
                    (true, 99) => "C142",
                    (true, _) => "8142",
                };
                peer.send(&fpdu(&tagged(head, stag, to + 1000 * index as u64, part)));
                if index == 20 {
                    world.settle();
                    assert_eq!(content(&memory)[..21_000], octets[..21_000]);
                }
                if index == 40 {
                    // Some more of it is on its way.
                    world.host.settle(weft_netif::Duration::from_micros(1));
                    memory.invalidate();
                    before = Some(content(&memory));
                }
            }
            world.settle();
            assert_eq!(Some(content(&memory)), before);
            assert!(content(&memory).ends_with(&[FILL; 59_000]));
            let Some(CmEvent::Disconnected { .. }) = world.side.events.next() else { panic!("no end") };
        }
    }
}

/// An STag of a whole domain: the peer of one stream cannot invalidate it, not even if that is the only stream so
/// far.
// Covers 5040-8.1.1-8, 5042-6.4.5-1.
#[test]
fn a_shared_stag_is_not_the_peers_to_invalidate() {
    for role in ROLES {
        for solicited in [false, true] {
            let world = World::new();
            let (qp, peer) = stream(&world, &world.side.pd, role);
            let (_other, other_peer) = stream(&world, &world.side.pd, Role::Passive);
            let (shared, own) = (filled(&world.side, 8), world.bound(&qp, 8));
            let inbox = filled(&world.side, 8);
            for wr_id in [1, 2] {
                qp.post_recv(&weft_rnic::RecvWr { wr_id, sges: &[whole(&inbox)] }).unwrap();
            }
            use_it(&other_peer, place(&shared), 1);
            // The peer can invalidate its own STag.
            peer.send(&fpdu(&send_invalidate(1, own.rkey().0, b"mine")));
            assert_eq!(world.completion().invalidated, Some(own.rkey().0));
            let mut bad = send_invalidate(2, shared.rkey().0, b"all");
            bad[1] = if solicited { 0x46 } else { 0x44 };
            refuse(&world, &qp, &peer, &bad, &terminate("0109", &bad));
            assert!(!shared.is_invalidated());
            assert_eq!(world.all_completions(), [(2, Status::WorkRequestFlushed)]);
            assert_eq!(content(&inbox)[..4], *b"mine", "the message was not placed");
            use_it(&other_peer, place(&shared), 2);
        }
    }
}

/// Ten thousand STags of one device: no two are the same, and hardly two have the same distance. All 256 first octets
/// are about equally frequent. Another seed gives others.
// Covers 5040-8.1.1-9, 5040-8.1.1-10.
#[test]
fn stags_are_hard_to_guess() {
    let stags = |seed| {
        let world = World::with(&weft_tests::PairConfig { seed, ..weft_tests::PairConfig::default() });
        let memory: Vec<_> = (0..10_000).map(|_| world.side.memory(1)).collect();
        memory.iter().map(|memory| memory.rkey().0).collect::<Vec<_>>()
    };
    let all = stags(1);
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), 10_000);
    let steps: HashSet<_> = all.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
    assert!(steps.len() > 9_900, "{} different steps", steps.len());
    for shift in [24, 16, 8, 0] {
        let mut counts = [0; 256];
        all.iter().for_each(|stag| counts[(stag >> shift & 0xFF) as usize] += 1);
        // The average is 39; the standard deviation of a fair choice is 6.
        assert!(counts.iter().all(|count| (8..80).contains(count)), "bits {shift} and up: {counts:?}");
    }
    // Each bit changes from one STag to the next with a probability of one half.
    for bit in 0..32 {
        let changes = all.windows(2).filter(|pair| (pair[0] ^ pair[1]) >> bit & 1 == 1).count();
        assert!((4_700..5_300).contains(&changes), "bit {bit} changes {changes} times");
    }
    let others: HashSet<_> = stags(2).into_iter().collect();
    assert!(all.iter().filter(|stag| others.contains(stag)).count() < 10);
}
