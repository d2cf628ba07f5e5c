//! CRC on and off in all four combinations of the two C bits, and damaged FPDUs in each (RFC 5044 sections 4.4, 6 and
//! 8).

use weft_mpa::Error as Mpa;
use weft_rnic::{Cause, ConnParam, Data, DisconnectReason, QpState, SendOpcode, Status};
use weft_tests::{RawPeer, hex};

use crate::negotiation::{Wish, start};
use crate::octets::{Framing, bare_terminate, crc32c, fpdu, join, pattern, send, vector, write};
use crate::world::{FILL, ROLES, Role, World, content, filled, whole, work};

/// The two C bits: the device's and the peer's.
const COMBINATIONS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

/// A device and a peer that want these CRCs, after a first FPDU that lets a responder send.
fn open(role: Role, ours: bool, theirs: bool) -> (World, RawPeer) {
    let wish = |crc| Wish { markers: false, crc };
    let (world, peer) = start(role, wish(ours), wish(theirs));
    peer.send(&Framing::new(ours || theirs, false).fpdu(&write(0, 0, b"")));
    (world, peer)
}

/// The device refuses `octets` because of their CRC.
fn expect_crc_error(world: &World, peer: &RawPeer, octets: &[u8]) {
    peer.expect(&vector("term-crc"));
    peer.expect_fin();
    let (covered, field) = octets.split_last_chunk::<4>().unwrap();
    let error = Mpa::Crc { expected: crc32c(covered), received: u32::from_le_bytes(*field) };
    assert_eq!(error.code(), 0x02);
    assert_eq!(world.disconnected(), DisconnectReason::LocalTerminate(Cause::Mpa(error)));
    let counters = world.side.device.counters();
    assert_eq!((counters.mpa.crc_errors, counters.mpa.marker_errors), (1, 0));
    assert_eq!(counters.terminates_sent.of(0x2, 0x0, 0x02), 1);
}

/// One bit is wrong, in each octet of ULPDU, padding and CRC field. With CRCs it is found, without them it is not
/// checked.
// Covers 5044-7.1.1-8, 5044-7.1.1-9, 5044-4.4-6, 5044-4.4-19.
#[test]
fn damage_in_every_combination() {
    for (ours, theirs) in COMBINATIONS {
        // Without a CRC only payload, padding and CRC field may be wrong: a wrong STag or offset would be found.
        let first = if ours || theirs { 2 } else { 16 };
        for at in first..28 {
            let (world, peer) = open(ROLES[at % 2], ours, theirs);
            let target = filled(&world.side, 7);
            let mut octets =
                Framing::new(ours || theirs, false).fpdu(&write(target.rkey().0, target.addr(), b"1234567"));
            octets[at] ^= 1 << (at % 8);
            let case = format!("device {ours}, peer {theirs}, octet {at}");
            peer.send(&octets);
            if ours || theirs {
                expect_crc_error(&world, &peer, &octets);
                assert_eq!(content(&target), [FILL; 7], "{case}");
            } else {
                world.expect_no_news();
                assert_eq!(content(&target), octets[16..23], "{case}");
                assert_eq!(world.side.qp.state(), QpState::Rts, "{case}");
            }
        }
    }
}

/// The device's FPDUs have a good CRC if one side wants it, and the field in any case.
// Covers 5044-7.1.1-9, 5044-4.4-12, 5044-4.1-6, 5044-4.4-17.
#[test]
fn every_fpdu_sent_has_a_crc_field() {
    for (ours, theirs) in COMBINATIONS {
        for role in ROLES {
            let (world, peer) = open(role, ours, theirs);
            for (msn, size) in (1..).zip(0..=9_usize) {
                let payload = pattern(size);
                world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Inline(&payload))).unwrap();
                let octets = peer.read_exact((20 + size).next_multiple_of(4) + 4);
                let (covered, field) = octets.split_last_chunk::<4>().unwrap();
                let expected = Framing::new(false, false).fpdu(&send(msn, &payload));
                assert_eq!(covered, &expected[..expected.len() - 4]);
                if ours || theirs {
                    assert_eq!(*field, crc32c(covered).to_le_bytes(), "{role:?} {ours} {theirs} {size}");
                }
            }
            peer.expect_silence();
        }
    }
}

/// The very first FPDU, with many values of the field.
// Covers 5044-4.4-10, 5044-7.1.1-10, 5044-4.1-7.
#[test]
fn without_crc_any_field_is_good() {
    for role in ROLES {
        let wish = Wish { markers: false, crc: false };
        for field in ["00000000", "FFFFFFFF", "DEADBEEF", "B990B10C", "0CB190B9"] {
            let (world, peer) = start(role, wish, wish);
            let memory = world.side.memory(5);
            world.side.post_recv(1, whole(&memory));
            let octets = vector("send-nocrc");
            peer.send(&[&octets[..28], &hex(field)].concat());
            assert_eq!(world.completion().status, Status::Success, "{field}");
            assert_eq!(content(&memory), b"hello");
            world.side.qp.post_send(&work(2, SendOpcode::Send, Data::Sges(&[whole(&memory)]))).unwrap();
            assert_eq!(peer.read_exact(32)[..28], octets[..28]);
        }
    }
}

/// A megabyte in each direction, and one wrong bit at the end of it.
// Covers 5044-4.4-9, 5044-8-2.
#[test]
fn crcs_are_checked_to_the_end_of_the_connection() {
    for (ours, theirs) in [(false, true), (true, false)] {
        for role in ROLES {
            let (world, peer) = open(role, ours, theirs);
            let (memory, target) = (world.side.memory(1400), filled(&world.side, 1400));
            memory.write(0, &pattern(1400)).unwrap();
            let good = fpdu(&write(target.rkey().0, target.addr(), &pattern(1400)));
            for msn in 1..=750 {
                peer.send(&good);
                world.side.qp.post_send(&work(1, SendOpcode::Send, Data::Sges(&[whole(&memory)]))).unwrap();
                peer.expect(&fpdu(&send(msn, &pattern(1400))));
                assert_eq!(world.completion().status, Status::Success);
            }
            world.settle();
            assert!(content(&target) == pattern(1400));
            target.write(0, &[FILL; 1400]).unwrap();
            let mut bad = good;
            bad[1000] ^= 0x10;
            peer.send(&bad);
            expect_crc_error(&world, &peer, &bad);
            assert!(content(&target) == [FILL; 1400]);
        }
    }
}

/// A good Send right behind a bad one, in one segment. The bad one takes no receive. The good one is ignored, since
/// the length of a bad FPDU cannot be trusted. MPA leaves TCP open, so that the Terminate gets out.
// Covers 5044-8-11, 5044-8-12, 5044-6-3, 5044-6-4.
#[test]
fn nothing_behind_a_bad_fpdu_counts() {
    for role in ROLES {
        for damage in [1, 2, 19, 22, 31] {
            let (world, peer) = open(role, true, true);
            let memory = filled(&world.side, 32);
            world.side.post_recv(1, memory.sge(0, 16));
            world.side.post_recv(2, memory.sge(16, 16));
            let mut bad = vector("send5");
            // A shorter length makes another FPDU of the octets. All other damage leaves the length right.
            bad[damage] ^= 0x01;
            peer.send(&[bad, fpdu(&send(1, b"world")), fpdu(&send(2, b"again"))].concat());
            peer.expect(&vector("term-crc"));
            peer.expect_fin();
            assert!(matches!(
                world.disconnected(),
                DisconnectReason::LocalTerminate(Cause::Mpa(Mpa::Crc { .. }))
            ));
            let flushed = Status::WorkRequestFlushed;
            assert_eq!(world.all_completions(), [(1, flushed), (2, flushed)]);
            assert_eq!(content(&memory), [FILL; 32]);
            // The peer closes its own direction, and no reset does.
            peer.send(&fpdu(&send(1, b"later")));
            world.expect_no_news();
            assert_eq!(peer.state(), weft_netif::LlpState::PeerClosed);
            peer.close();
            world.settle();
            assert_eq!(content(&memory), [FILL; 32]);
            world.expect_service();
        }
    }
}

/// A bad CRC in each kind of segment that places octets: no octet is placed, and a Read is not answered.
// Covers 5044-6-1, 5044-6-3.
#[test]
fn an_fpdu_is_verified_before_it_is_handed_on() {
    for role in ROLES {
        let bad = |mut octets: Vec<u8>| {
            let end = octets.len() - 1;
            octets[end] ^= 0x80;
            octets
        };
        let (world, peer) = open(role, true, true);
        let target = filled(&world.side, 8);
        peer.send(&bad(fpdu(&write(target.rkey().0, target.addr(), b"12345678"))));
        peer.expect(&vector("term-crc"));
        peer.expect_fin();
        assert_eq!(content(&target), [FILL; 8]);

        let (world, peer) = open(role, true, true);
        let source = filled(&world.side, 8);
        let place = crate::octets::Place(source.rkey().0, source.addr());
        peer.send(&bad(fpdu(&crate::octets::read_request(1, place, 8, place))));
        peer.expect(&vector("term-crc"));
        peer.expect_fin();
    }
}

/// The application sees the same with and without CRCs.
// Covers 5044-4.4-8, 5044-3-7.
#[test]
fn crcs_do_not_show_above_mpa() {
    for role in ROLES {
        let seen = COMBINATIONS.map(|(ours, theirs)| {
            let (world, peer) = open(role, ours, theirs);
            let crc = ours || theirs;
            let memory = filled(&world.side, 64);
            world.side.post_recv(1, whole(&memory));
            peer.send(&Framing::new(crc, false).fpdu(&send(1, b"hello")));
            let received = world.completion();
            world.side.qp.post_send(&work(2, SendOpcode::Send, Data::Sges(&[whole(&memory)]))).unwrap();
            let sent = world.completion();
            let octets = peer.read_exact(2 + 18 + 64 + 4);
            (received, sent, content(&memory), octets[..84].to_vec())
        });
        assert_eq!((seen[0].0.byte_len, seen[0].1.status), (5, Status::Success));
        // The octet behind the message is neither padding nor CRC.
        assert_eq!(seen[0].2[..6], *b"helloZ");
        assert!(seen.iter().all(|other| *other == seen[0]));
    }
}

/// Only the administrator's setting turns CRCs off. No request of an application does, and the default is on.
// Covers 5044-1.2-2, 5044-4.4-2, 5044-4.4-4, 5044-4.4-5.
#[test]
fn only_the_devices_setting_asks_for_no_crc() {
    let [request, reply] = ["4D504120494420526571204672616D65", "4D504120494420526570204672616D65"];
    let everything = ConnParam {
        private_data: b"\0\0\0\0",
        ird: Some(0),
        ord: Some(0),
        peer_to_peer: Some(true),
        local: None,
        id: 1,
        events: None,
    };
    for param in [ConnParam::default(), everything] {
        for (crc, flag) in [(true, 0x40), (false, 0)] {
            let default = weft_mpa::Config::default();
            let world = if crc { World::new() } else { World::with_mpa(weft_mpa::Config { crc, ..default }) };
            let remote = world.address_of_peer();
            world.side.device.connect(&world.side.events, &world.side.qp, remote, param).unwrap();
            let octets = world.host.accept().read_exact(20);
            assert_eq!((&octets[..16], octets[16] & 0x40), (&hex(request)[..], flag));

            // A peer that does not ask for CRCs gets them too, unless the administrator turned them off.
            let qp = world.new_qp();
            let peer = world.dial();
            peer.send(&join(request, &[&[0, 1, 0, 0]]));
            world.side.device.accept(world.request().id, &qp, param).unwrap();
            let octets = peer.read_exact(20 + param.private_data.len());
            assert_eq!((&octets[..16], octets[16] & 0x40), (&hex(reply)[..], flag));
            peer.send(&Framing::new(crc, false).fpdu(&write(0, 0, b"")));
            qp.post_send(&work(1, SendOpcode::Send, Data::Inline(b"hello"))).unwrap();
            assert_eq!(peer.read_exact(32) == vector("send5"), crc);
        }
    }
}

/// Terminates have CRCs like all other FPDUs, or none.
// Covers 5044-4.4-12.
#[test]
fn terminates_are_framed_like_the_rest() {
    for (ours, theirs) in COMBINATIONS {
        for role in ROLES {
            let (_world, peer) = open(role, ours, theirs);
            let mut framing = Framing::new(ours || theirs, false);
            peer.send(&framing.fpdu(&hex("41")));
            peer.expect(&framing.fpdu(&bare_terminate("1000")));
            peer.expect_fin();
        }
    }
}
