//! Markers at every possible place, in both directions, and the effect of an altered Marker (RFC 5044 4.2, 4.3).

use weft_mpa::Error as Mpa;
use weft_rnic::{Cause, Data, DisconnectReason, SendOpcode, Status};
use weft_tests::RawPeer;

use crate::negotiation::{Wish, start};
use crate::octets::{Framing, bare_terminate, crc32c, pattern, send, vector, write};
use crate::world::{FILL, ROLES, Role, World, content, filled, whole, work};

const CRC: Wish = Wish { markers: false, crc: true };
const MARKED: Wish = Wish { markers: true, crc: true };
/// Payload of a Send whose FPDU has a header, payload and three octets of padding: 44 octets, with a CRC from octet 40
/// on.
const SIZE: usize = 17;
/// The places of a Marker in it: before the length field, in the header, the payload, the padding, before the CRC.
const PLACES: std::ops::RangeInclusive<usize> = 0..=40;

/// Returns the length of a Send's payload after which a stream is `place` octets before a Marker.
fn filler(framing: &Framing, place: usize) -> usize {
    let ends_there = |size: &usize| {
        let mut after = framing.clone();
        after.fpdu(&send(1, &vec![0; *size]));
        (after.position.expect("Markers") + place).is_multiple_of(512)
    };
    (0..1100).find(ends_there).expect("some length fits")
}

/// A peer that goes on in the middle of a stream with Markers, right before one.
struct Approach {
    world: World,
    peer: RawPeer,
    framing: Framing,
}

impl Approach {
    /// The peer's next FPDU will have a Marker `place` octets behind its start.
    fn new(role: Role, place: usize, crc: bool) -> Self {
        let (world, peer) = start(role, Wish { markers: true, crc }, Wish { markers: false, crc });
        let mut framing = Framing::new(crc, true);
        let memory = world.side.memory(1200);
        world.side.post_recv(1, whole(&memory));
        let size = filler(&framing, place);
        peer.send(&framing.fpdu(&send(1, &pattern(size))));
        assert_eq!(world.completion().status, Status::Success);
        assert_eq!(content(&memory)[..size], pattern(size));
        Self { world, peer, framing }
    }

    /// Returns the next FPDU, which is as long as those that Markers pass through in these tests.
    fn fpdu(&self, memory: &weft_rnic::Mr, change: impl Fn(u16) -> u16) -> Vec<u8> {
        // Four octets more of payload make up for the shorter header.
        let ulpdu = write(memory.rkey().0, memory.addr(), &pattern(SIZE + 4));
        self.framing.clone().fpdu_with_markers(&ulpdu, change)
    }

    /// The device takes `octets`, an FPDU that writes to `memory`.
    fn expect_taken(&self, octets: &[u8], memory: &weft_rnic::Mr) {
        self.peer.send(octets);
        self.world.expect_no_news();
        assert_eq!(content(memory), pattern(SIZE + 4));
    }

    /// The device refuses `octets`, with this Terminate and a FIN, and places nothing.
    fn expect_refused(&self, octets: &[u8], memory: &weft_rnic::Mr, code: &str) -> Mpa {
        self.peer.send(octets);
        let crc = self.framing.crc;
        self.peer.expect(&Framing::new(crc, false).fpdu(&bare_terminate(code)));
        self.peer.expect_fin();
        assert!(content(memory).iter().all(|octet| *octet == FILL), "something was placed");
        match self.world.disconnected() {
            DisconnectReason::LocalTerminate(Cause::Mpa(error)) => error,
            reason => panic!("{reason:?}"),
        }
    }
}

/// Makes the CRC of an FPDU good again.
fn repair(octets: &mut [u8]) {
    let (covered, field) = octets.split_last_chunk_mut::<4>().unwrap();
    *field = crc32c(covered).to_le_bytes();
}

/// Both directions at once, each with Markers or without. One has the places in rising order, the other in falling
/// order.
// Covers 5044-4.3-3, 5044-4.2-4, 5044-7.1.1-6, 5044-7.1.1-7.
#[test]
fn a_marker_at_every_place_of_an_fpdu() {
    for role in ROLES {
        for (inward, outward) in [(true, false), (false, true), (true, true)] {
            for crc in [true, false] {
                let wish = |markers| Wish { markers, crc };
                let (world, peer) = start(role, wish(inward), wish(outward));
                let mut run =
                    Run::new(world, peer, [inward, outward].map(|marked| Framing::new(crc, marked)));
                let rising: Vec<_> = PLACES.step_by(4).collect();
                for (to_device, to_peer) in rising.iter().zip(rising.iter().rev()) {
                    run.exchange([*to_device, *to_peer]);
                }
            }
        }
    }
}

/// Sends in both directions, one of them right behind the other.
struct Run {
    world: World,
    peer: RawPeer,
    framings: [Framing; 2],
    msns: [u32; 2],
}

impl Run {
    const fn new(world: World, peer: RawPeer, framings: [Framing; 2]) -> Self {
        Self { world, peer, framings, msns: [0; 2] }
    }

    /// Sends in each direction an FPDU that leads up to the Marker, and one with the Marker at its place.
    fn exchange(&mut self, places: [usize; 2]) {
        let [inward, outward] = [0, 1].map(|way| {
            let framing = &self.framings[way];
            framing.position.map_or(3, |_| filler(framing, places[way]))
        });
        self.receive(inward, None);
        self.receive(SIZE, self.framings[0].position.map(|_| places[0]));
        self.transmit(outward, None);
        self.transmit(SIZE, self.framings[1].position.map(|_| places[1]));
    }

    /// Returns the next FPDU of one direction.
    fn next(&mut self, way: usize, size: usize, place: Option<usize>) -> Vec<u8> {
        self.msns[way] += 1;
        let octets = self.framings[way].fpdu(&send(self.msns[way], &pattern(size)));
        expect_marker(&octets, place);
        octets
    }

    fn receive(&mut self, size: usize, place: Option<usize>) {
        let memory = self.world.side.memory(1200);
        self.world.side.post_recv(1, whole(&memory));
        let octets = self.next(0, size, place);
        self.peer.send(&octets);
        let received = self.world.completion();
        assert_eq!((received.status, received.byte_len as usize), (Status::Success, size), "{place:?}");
        assert_eq!(content(&memory)[..size], pattern(size), "{place:?}");
    }

    fn transmit(&mut self, size: usize, place: Option<usize>) {
        let octets = self.next(1, size, place);
        let memory = self.world.side.memory(1200);
        memory.write(0, &pattern(size)).unwrap();
        let sges = [memory.sge(0, u32::try_from(size).unwrap())];
        self.world.side.qp.post_send(&work(2, SendOpcode::Send, Data::Sges(&sges))).unwrap();
        self.peer.expect(&octets);
        assert_eq!(self.world.completion().status, Status::Success, "{place:?}");
    }
}

/// Checks that the octets of the peer have their one Marker at the intended place.
fn expect_marker(octets: &[u8], place: Option<usize>) {
    if let Some(place) = place {
        assert_eq!(octets.len(), 48);
        let pointer = u16::try_from(place).unwrap().to_be_bytes();
        assert_eq!(octets[place..place + 4], [0, 0, pointer[0], pointer[1]]);
    }
}

/// With a CRC that covers the change, and without CRC, the Marker is refused.
// Covers 5044-8-3, 5044-8-6, 5044-5.2-2, 5044-4.2-1.
#[test]
fn a_wrong_fpduptr_at_every_place() {
    for place in PLACES.step_by(4) {
        let right = u16::try_from(place).unwrap();
        for (index, wrong) in [right ^ 4, right + 512, 0xFFFC, 0x8000 | right].into_iter().enumerate() {
            let approach = Approach::new(ROLES[index % 2], place, (index + place / 4) % 2 == 0);
            let memory = filled(&approach.world.side, SIZE + 4);
            let octets = approach.fpdu(&memory, |pointer| {
                assert_eq!(pointer, right);
                wrong
            });
            let error = approach.expect_refused(&octets, &memory, "2003");
            assert_eq!(error, Mpa::Marker { expected: right, received: wrong });
            assert_eq!(error.code(), 0x03);
        }
    }
}

/// Each of the Markers in one FPDU is checked.
// Covers 5044-8-8.
#[test]
fn one_wrong_marker_of_several() {
    for (index, wrong) in [508, 1020, 1532].into_iter().enumerate() {
        let (world, peer) = start(ROLES[index % 2], MARKED, CRC);
        let memory = filled(&world.side, 1600);
        let ulpdu = write(memory.rkey().0, memory.addr(), &pattern(1600));
        let good = Framing::new(true, true).fpdu(&ulpdu);
        let bad = Framing::new(true, true).fpdu_with_markers(&ulpdu, |pointer| {
            assert!([0, 508, 1020, 1532].contains(&pointer));
            if pointer == wrong { pointer - 4 } else { pointer }
        });
        assert_ne!(good, bad);
        peer.send(&bad);
        if index % 2 == 0 {
            // A responder that has not seen a good FPDU may not send, not even a Terminate.
            peer.expect_fin();
        } else {
            peer.expect(&vector_of_terminate("2003"));
            peer.expect_fin();
        }
        let error = Mpa::Marker { expected: wrong, received: wrong - 4 };
        assert_eq!(world.disconnected(), DisconnectReason::LocalTerminate(Cause::Mpa(error)));
        let counters = world.side.device.counters();
        assert_eq!((counters.mpa.crc_errors, counters.mpa.marker_errors), (0, 1));
        assert_eq!(content(&memory), [FILL; 1600]);
    }
}

fn vector_of_terminate(code: &str) -> Vec<u8> {
    Framing::new(true, false).fpdu(&bare_terminate(code))
}

/// The reserved half and the two low bits of FPDUPTR mean nothing, but the CRC covers them.
// Covers 5044-4.2-3, 5044-4.2-6, 5044-4.3-13, 5044-4.3-1.
#[test]
fn reserved_bits_of_markers() {
    for place in PLACES.step_by(4) {
        for (index, (at, mask)) in [(0, 0xFF), (1, 0x01), (3, 0x01), (3, 0x03)].into_iter().enumerate() {
            for is_covered in [true, false] {
                let approach = Approach::new(ROLES[(index + place / 4) % 2], place, true);
                let memory = filled(&approach.world.side, SIZE + 4);
                let mut octets = approach.fpdu(&memory, |pointer| pointer);
                octets[place + at] ^= mask;
                if is_covered {
                    repair(&mut octets);
                    approach.expect_taken(&octets, &memory);
                } else {
                    let error = approach.expect_refused(&octets, &memory, "2002");
                    assert!(matches!(error, Mpa::Crc { .. }), "{error:?}");
                }
            }
        }
    }
}

/// This holds for FPDUPTR too, since the CRC is checked before the Marker.
// Covers 5044-4.4-18, 5044-8-2.
#[test]
fn every_damaged_bit_of_a_marker_is_a_crc_error() {
    for place in [0, 20, 36, 40] {
        for bit in 0..32 {
            let approach = Approach::new(ROLES[bit % 2], place, true);
            let memory = filled(&approach.world.side, SIZE + 4);
            let mut octets = approach.fpdu(&memory, |pointer| pointer);
            octets[place + bit / 8] ^= 1 << (bit % 8);
            let error = approach.expect_refused(&octets, &memory, "2002");
            assert!(matches!(error, Mpa::Crc { .. }), "{place} {bit} {error:?}");
        }
    }
}

/// A CRC that leaves out the Marker before the length field, or the one before the CRC itself, is wrong.
// Covers 5044-4.3-8, 5044-4.4-15, 5044-4.4-16.
#[test]
fn a_crc_that_leaves_out_a_marker_is_wrong() {
    for place in PLACES.step_by(4) {
        for role in ROLES {
            let approach = Approach::new(role, place, true);
            let memory = filled(&approach.world.side, SIZE + 4);
            let mut octets = approach.fpdu(&memory, |pointer| pointer);
            let without = [&octets[..place], &octets[place + 4..44]].concat();
            octets[44..].copy_from_slice(&crc32c(&without).to_le_bytes());
            approach.expect_refused(&octets, &memory, "2002");
        }
    }
}

/// The Marker behind an FPDU that ends there belongs to the next one, and the device does not wait for it.
// Covers 5044-4.3-7, 5044-4.4-16.
#[test]
fn a_marker_between_two_fpdus_comes_with_the_second() {
    for role in ROLES {
        let (world, peer) = start(role, MARKED, MARKED);
        let (memory, stream) = (world.side.memory(484), vector("m-between"));
        world.side.post_recv(1, whole(&memory));
        peer.send(&stream[..512]);
        assert_eq!(world.completion().byte_len, 484);
        memory.write(0, &(0..484).map(|i: usize| i.to_le_bytes()[0]).collect::<Vec<_>>()).unwrap();
        world.side.qp.post_send(&work(2, SendOpcode::Send, Data::Sges(&[whole(&memory)]))).unwrap();
        peer.expect(&stream[..512]);
        peer.expect_silence();
        assert_eq!(world.completion().wr_id, 2);
        world.side.post_recv(3, whole(&memory));
        peer.send(&stream[512..516]);
        world.expect_no_news();
        peer.send(&stream[516..]);
        assert_eq!(world.completion().wr_id, 3);
        world.side.qp.post_send(&work(4, SendOpcode::Send, Data::Inline(b""))).unwrap();
        peer.expect(&stream[512..]);
    }
}
