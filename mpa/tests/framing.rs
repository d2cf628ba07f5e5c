//! Framer and Deframer against a slow reference that builds the stream octet by octet, and against each other.

use proptest::collection::vec;
use proptest::prelude::*;
use weft_mpa::{Crc32c, CrcState, Deframer, Error, Framer, MAX_ULPDU, STAGING_LEN};

const CRC: Option<Crc32c> = Some(Crc32c::ACCELERATED);

/// Follows RFC 5044 4 literally: asks before each octet whether a Marker is due. `position` is that of the whole
/// stream.
fn reference(stream: &mut Vec<u8>, crc: bool, markers: bool, ulpdu: &[u8]) {
    let start = stream.len();
    let mut header = None;
    let due = |stream: &mut Vec<u8>, header: Option<usize>| {
        if markers && stream.len().is_multiple_of(512) {
            let pointer = header.map_or(0, |header| stream.len() - header);
            stream.extend([0, 0]);
            stream.extend(u16::try_from(pointer & 0xFFFF).expect("masked").to_be_bytes());
        }
    };
    let mut content = u16::try_from(ulpdu.len()).expect("16 bits").to_be_bytes().to_vec();
    content.extend(ulpdu);
    content.resize(content.len().next_multiple_of(4), 0);
    for octet in content {
        due(stream, header);
        header.get_or_insert(stream.len());
        stream.push(octet);
    }
    due(stream, header);
    let value = if crc { Crc32c::PORTABLE.checksum(&stream[start..]) } else { 0 };
    stream.extend(value.to_le_bytes());
}

fn frame(framer: &mut Framer, ulpdu: &[u8]) -> Vec<u8> {
    let mut out = vec![0xEE; framer.fpdu_len(ulpdu.len())];
    framer.ulpdu_mut(&mut out, ulpdu.len()).copy_from_slice(ulpdu);
    assert_eq!(framer.seal(&mut out, ulpdu.len()), out.len());
    out
}

/// Does the same by [`Framer::begin`] and [`Framer::seal_with_crc`], like a user that makes the CRC while it copies.
/// The first `head` octets are there at the beginning.
fn frame_with_crc(framer: &mut Framer, ulpdu: &[u8], head: usize) -> Vec<u8> {
    let len = ulpdu.len();
    let mut out = vec![0xEE; framer.fpdu_len(len)];
    framer.ulpdu_mut(&mut out, len)[..head].copy_from_slice(&ulpdu[..head]);
    let begun = framer.begin(&mut out, len, head);
    framer.ulpdu_mut(&mut out, len)[head..].copy_from_slice(&ulpdu[head..]);
    let sealed = match begun {
        Some(crc) => framer.seal_with_crc(&mut out, len, Crc32c::PORTABLE.update(crc, &ulpdu[head..])),
        None => framer.seal(&mut out, len),
    };
    assert_eq!(sealed, out.len());
    out
}

fn deframer(crc: bool, markers: bool) -> Deframer<Vec<u8>> {
    Deframer::new(CRC.filter(|_| crc), markers, vec![0; STAGING_LEN])
}

/// Feeds pieces of the stream whose sizes come from `cuts` in turn. Returns the ULPDUs and the error that ended it,
/// if any.
fn deframe(deframer: &mut Deframer<Vec<u8>>, stream: &[u8], cuts: &[usize]) -> (Vec<Vec<u8>>, Option<Error>) {
    let mut ulpdus = Vec::new();
    let mut rest = stream;
    for cut in cuts.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (mut input, next) = rest.split_at(rest.len().min(*cut));
        rest = next;
        loop {
            match deframer.next(&mut input) {
                Ok(Some(ulpdu)) => ulpdus.push(ulpdu.to_vec()),
                Ok(None) => break,
                Err(error) => return (ulpdus, Some(error)),
            }
        }
        assert!(input.is_empty(), "None means that all was taken");
    }
    (ulpdus, None)
}

/// A Framer whose next FPDU starts `phase` octets behind a Marker's start.
fn framer_at(phase: usize) -> Framer {
    let mut framer = Framer::new(CRC, true);
    // The smallest marked FPDU has 12 octets.
    let octets = if phase < 12 { phase + 512 } else { phase };
    let len = framer.room(octets);
    assert_eq!(frame(&mut framer, &vec![0; len]).len(), octets);
    framer
}

fn noise(len: usize, seed: u8) -> Vec<u8> {
    let octet = |at: usize| at.to_le_bytes()[0].wrapping_mul(151).wrapping_add(seed) ^ at.to_le_bytes()[1];
    (0..len).map(octet).collect()
}

/// Lengths around each boundary: tiny, one Marker spacing, several, and the largest.
fn ulpdu_len() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0..64_usize, 4 => 440..560_usize, 2 => 0..3000_usize, 1 => MAX_ULPDU - 8..=MAX_ULPDU]
}

fn ulpdus() -> impl Strategy<Value = Vec<Vec<u8>>> {
    vec((ulpdu_len(), any::<u8>()).prop_map(|(len, seed)| noise(len, seed)), 1..12)
}

fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![1 => Just(vec![1]), 1 => Just(vec![usize::MAX]), 4 => vec(1..2000_usize, 1..8)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 200 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_crcs_agree(data in vec(any::<u8>(), 0..4000), start in any::<u32>(), at in any::<prop::sample::Index>()) {
        prop_assert_eq!(Crc32c::PORTABLE.update(start, &data), Crc32c::ACCELERATED.update(start, &data));
        let (head, tail) = data.split_at(at.index(data.len() + 1));
        let whole = Crc32c::PORTABLE.checksum(&data);
        prop_assert_eq!(Crc32c::PORTABLE.update(Crc32c::PORTABLE.checksum(head), tail), whole);
        prop_assert_eq!(Crc32c::ACCELERATED.update(Crc32c::PORTABLE.checksum(head), tail), whole);
    }

    // Covers 5044-4.1-1, 5044-4.1-3, 5044-4.1-4, 5044-4.4-17.
    #[test]
    fn framer_equals_reference(ulpdus in ulpdus(), crc in any::<bool>(), markers in any::<bool>()) {
        let mut framer = Framer::new(CRC.filter(|_| crc), markers);
        let (mut stream, mut expected) = (Vec::new(), Vec::new());
        for ulpdu in &ulpdus {
            stream.extend(frame(&mut framer, ulpdu));
            reference(&mut expected, crc, markers, ulpdu);
        }
        prop_assert!(stream == expected, "{} octets, {} expected", stream.len(), expected.len());
    }

    // Covers 5044-4.4-17.
    #[test]
    fn a_crc_made_while_copying_is_the_same(
        ulpdus in ulpdus(), crc in any::<bool>(), markers in any::<bool>(), head in any::<prop::sample::Index>(),
    ) {
        let mut framer = Framer::new(CRC.filter(|_| crc), markers);
        let mut other = framer.clone();
        for ulpdu in &ulpdus {
            let head = head.index(ulpdu.len() + 1);
            prop_assert_eq!(other.begin(&mut vec![0; other.fpdu_len(ulpdu.len())], ulpdu.len(), 0).is_some(), crc && !markers);
            prop_assert!(frame_with_crc(&mut other, ulpdu, head) == frame(&mut framer, ulpdu));
        }
        // Without a CRC, or with Markers, `seal_with_crc` ignores the CRC that it is given.
        let ulpdu = &ulpdus[0];
        let mut out = vec![0xEE; other.fpdu_len(ulpdu.len())];
        other.ulpdu_mut(&mut out, ulpdu.len()).copy_from_slice(ulpdu);
        if !crc || markers {
            other.seal_with_crc(&mut out, ulpdu.len(), 0x1234_5678);
            prop_assert!(out == frame(&mut framer, ulpdu));
        }
    }

    // Covers 5044-5.1-5, 5044-4.3-14, 5044-6-2, 5044-A.4-1.
    #[test]
    fn any_cut_gives_the_ulpdus(ulpdus in ulpdus(), crc in any::<bool>(), markers in any::<bool>(), cuts in cuts()) {
        let mut stream = Vec::new();
        ulpdus.iter().for_each(|ulpdu| reference(&mut stream, crc, markers, ulpdu));
        let mut deframer = deframer(crc, markers);
        let (found, error) = deframe(&mut deframer, &stream, &cuts);
        prop_assert_eq!(error, None);
        prop_assert!(found == ulpdus);
        prop_assert!(deframer.is_aligned());
    }

    #[test]
    fn a_staging_lent_only_inside_of_an_fpdu_is_enough(
        ulpdus in ulpdus(), markers in any::<bool>(), cuts in cuts(),
    ) {
        let mut stream = Vec::new();
        ulpdus.iter().for_each(|ulpdu| reference(&mut stream, true, markers, ulpdu));
        let mut deframer = Deframer::new(CRC, markers, Vec::new());
        let (mut lent, mut rest, mut found) = (Some(vec![0; STAGING_LEN]), &stream[..], Vec::new());
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            if let (Some(staging), Some(place)) = (lent.take(), deframer.staging_mut()) {
                prop_assert!(place.is_empty());
                *place = staging;
            }
            let (mut input, next) = rest.split_at(rest.len().min(*cut));
            rest = next;
            while let Some(ulpdu) = deframer.next(&mut input)? {
                found.push(ulpdu.to_vec());
            }
            lent = deframer.staging_mut().map(std::mem::take);
        }
        prop_assert!(found == ulpdus);
        prop_assert!(lent.is_some(), "it comes back between two FPDUs");
    }

    // Covers 5044-4.4-19, 5044-8-2, 5044-8-11, 5044-6-1.
    #[test]
    fn a_damaged_octet_is_a_crc_error(
        ulpdus in ulpdus(), markers in any::<bool>(), cuts in cuts(),
        at in any::<prop::sample::Index>(), bit in 0..8_u32,
    ) {
        let mut framer = Framer::new(CRC, markers);
        let mut stream = Vec::new();
        let ends: Vec<_> = ulpdus.iter().map(|ulpdu| { stream.extend(frame(&mut framer, ulpdu)); stream.len() }).collect();
        let at = at.index(stream.len());
        stream[at] ^= 1 << bit;
        // A damaged length field may announce more than the stream has. The zeros behind it let the CRC check happen.
        stream.resize(stream.len() + STAGING_LEN, 0);
        let mut deframer = deframer(true, markers);
        let (found, error) = deframe(&mut deframer, &stream, &cuts);
        let good = ends.iter().filter(|end| **end <= at).count();
        prop_assert!(found == ulpdus[..good], "the damaged FPDU and all after it are held back");
        prop_assert!(matches!(error, Some(Error::Crc { .. })), "{:?}", error);
        prop_assert_eq!(deframer.next(&mut &stream[..]).err(), error);
        prop_assert!(!deframer.is_aligned());
    }

    #[test]
    fn room_is_the_largest_that_fits(
        before in vec(ulpdu_len(), 0..4), markers in any::<bool>(),
        available in prop_oneof![0..40_usize, 480..560_usize, 0..5000_usize, 64000..70000_usize],
    ) {
        let mut framer = Framer::new(None, markers);
        before.iter().for_each(|len| { frame(&mut framer, &vec![0; *len]); });
        let room = framer.room(available);
        prop_assert!(room <= MAX_ULPDU);
        if framer.fpdu_len(0) > available {
            prop_assert_eq!(room, 0);
        } else {
            prop_assert!(framer.fpdu_len(room) <= available);
            prop_assert!(room == MAX_ULPDU || framer.fpdu_len(room + 1) > available);
        }
    }
}

// Covers 5044-4.3-4, 5044-4.3-5, 5044-4.2-4, 5044-4.4-15.
#[test]
fn every_place_of_a_marker() {
    // No FPDU starts at 4: a Marker there is either before its length field or has its CRC behind it.
    for phase in (0..512).step_by(4).filter(|phase| *phase != 4) {
        let first = framer_at(phase);
        // Up to the second Marker, past it, and each remainder modulo 4.
        for len in (0..40).chain(490..530) {
            let ulpdu = noise(len, 1);
            let mut framer = first.clone();
            let mut expected = vec![0; phase];
            reference(&mut expected, true, true, &ulpdu);
            let fpdu = frame(&mut framer, &ulpdu);
            assert!(fpdu == expected[phase..], "phase {phase}, ULPDU {len}");
        }
    }
}

#[test]
fn whole_unmarked_ulpdus_are_not_copied() {
    for markers in [false, true] {
        let mut stream = Vec::new();
        for len in [100, 0, 37] {
            reference(&mut stream, true, markers, &noise(len, 2));
        }
        let mut deframer: Deframer<[u8; 0]> = Deframer::new(CRC, markers, []);
        let mut input = &stream[..];
        for len in [100, 0, 37] {
            let ulpdu = deframer.next(&mut input).expect("good").expect("whole");
            assert_eq!(ulpdu, noise(len, 2));
            assert!(stream.as_ptr_range().contains(&ulpdu.as_ptr()));
        }
        assert_eq!(deframer.next(&mut input), Ok(None), "nothing is left, nothing needs staging");
        let error = Error::TooLong { len: 2, capacity: 0 };
        assert_eq!(deframer.next(&mut &stream[..1]), Err(error));
    }
}

#[test]
fn staging_holds_the_longest_length_field_and_no_less() {
    let ulpdu = noise(0xFFFF, 3);
    let mut stream = Vec::new();
    reference(&mut stream, true, true, &ulpdu);
    assert_eq!(stream.len(), STAGING_LEN);
    assert!(deframe(&mut deframer(true, true), &stream, &[4099]) == (vec![ulpdu.clone()], None));
    assert!(deframe(&mut deframer(true, true), &stream, &[usize::MAX]) == (vec![ulpdu], None));
    let mut small = Deframer::new(CRC, true, vec![0; STAGING_LEN - 4]);
    let (found, error) = deframe(&mut small, &stream, &[4099]);
    assert!(found.is_empty());
    assert_eq!(error, Some(Error::TooLong { len: STAGING_LEN, capacity: STAGING_LEN - 4 }));
}

#[test]
fn a_staging_too_small_for_a_broken_ulpdu_is_an_error() {
    let mut stream = Vec::new();
    reference(&mut stream, true, true, &noise(600, 4));
    let mut small = Deframer::new(CRC, true, vec![0; 599]);
    assert_eq!(small.next(&mut &stream[..]), Err(Error::TooLong { len: 600, capacity: 599 }));
    let mut enough = Deframer::new(CRC, true, vec![0; 600]);
    assert_eq!(enough.next(&mut &stream[..]), Ok(Some(&noise(600, 4)[..])));
}

// Covers 5044-4.1-5.
#[test]
fn pad_is_ignored_but_covered_by_the_crc() {
    let mut fpdu = frame(&mut Framer::new(CRC, false), b"hello");
    fpdu[7] = 0xFF;
    assert!(matches!(deframer(true, false).next(&mut &fpdu[..]), Err(Error::Crc { .. })));
    let crc = Crc32c::PORTABLE.checksum(&fpdu[..8]);
    fpdu[8..].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(deframer(true, false).next(&mut &fpdu[..]), Ok(Some(&b"hello"[..])));
}

/// Returns an FPDU with Markers at 0 and 512, altered at one octet. With `repair` it has a good CRC again.
fn altered(at: usize, mask: u8, repair: bool) -> Vec<u8> {
    let mut fpdu = frame(&mut Framer::new(CRC, true), &noise(600, 5));
    fpdu[at] ^= mask;
    let covered = fpdu.len() - 4;
    if repair {
        let crc = Crc32c::PORTABLE.checksum(&fpdu[..covered]);
        fpdu[covered..].copy_from_slice(&crc.to_le_bytes());
    }
    fpdu
}

// Covers 5044-4.2-3, 5044-4.2-6, 5044-4.3-13, 5044-8-3.
#[test]
fn markers_are_checked_but_for_their_reserved_bits() {
    // The CRC covers the reserved half and the two low bits of FPDUPTR. Their values mean nothing.
    for (at, mask) in [(0, 0xFF), (1, 0x01), (3, 0x03), (512, 0xFF), (513, 0x80), (515, 0x03)] {
        for (repair, is_good) in [(true, true), (false, false)] {
            let fpdu = altered(at, mask, repair);
            assert_eq!(deframer(true, true).next(&mut &fpdu[..]).is_ok(), is_good, "{at}");
            assert!(deframer(false, true).next(&mut &fpdu[..]).is_ok(), "{at}");
        }
    }
    for (at, mask, expected, received) in
        [(3, 0x04, 0, 4), (2, 0x80, 0, 0x8000), (515, 0x10, 0x1FC, 0x1EC), (514, 0x01, 0x1FC, 0xFC)]
    {
        let error = Err(Error::Marker { expected, received });
        let fpdu = altered(at, mask, true);
        assert_eq!(deframer(true, true).next(&mut &fpdu[..]), error);
        assert_eq!(deframer(false, true).next(&mut &fpdu[..]), error);
        // The CRC is checked first, so damage on the way is a CRC error.
        let fpdu = altered(at, mask, false);
        assert!(matches!(deframer(true, true).next(&mut &fpdu[..]), Err(Error::Crc { .. })));
    }
}

// Covers 5044-4.1-6, 5044-4.1-7, 5044-4.4-12.
#[test]
fn without_crc_the_field_is_zero_and_ignored() {
    let mut fpdu = frame(&mut Framer::new(None, false), b"hello");
    assert_eq!(fpdu[8..], [0; 4]);
    fpdu[8..].copy_from_slice(b"\xDE\xAD\xBE\xEF");
    assert_eq!(deframer(false, false).next(&mut &fpdu[..]), Ok(Some(&b"hello"[..])));
}

#[test]
fn aligned_is_between_fpdus_only() {
    for markers in [false, true] {
        let fpdu = frame(&mut Framer::new(CRC, markers), b"hello");
        let mut deframer = deframer(true, markers);
        assert!(deframer.is_aligned());
        for (count, octet) in fpdu.iter().enumerate() {
            let aligned = count == 0 || (markers && count == 4);
            assert_eq!(deframer.is_aligned(), aligned, "{count}");
            deframer.next(&mut core::slice::from_ref(octet)).expect("good");
        }
        assert!(deframer.is_aligned());
    }
}

#[test]
fn inspect_goes_on_after_a_bad_crc() {
    let mut framer = Framer::new(CRC, true);
    let mut stream = Vec::new();
    for ulpdu in [&b"first"[..], b"second", b"third"] {
        stream.extend(frame(&mut framer, ulpdu));
    }
    // First FPDU: Marker 4, length 2, ULPDU 5, pad 1, CRC 4. The damage is in the second one's ULPDU.
    stream[16 + 3] ^= 0x01;
    let mut deframer = deframer(true, true);
    let mut input = &stream[..];
    let mut verdicts = Vec::new();
    while let Some(fpdu) = deframer.inspect(&mut input).expect("only the CRC is bad") {
        verdicts.push((fpdu.ulpdu.len(), fpdu.len, fpdu.crc == CrcState::Good));
    }
    assert_eq!(verdicts, [(5, 16, true), (6, 12, false), (5, 12, true)]);
}

#[test]
fn a_length_field_of_65535_waits_for_more_octets() {
    let mut deframer = deframer(true, false);
    assert_eq!(deframer.next(&mut &[0xFF, 0xFF, 1, 2, 3][..]), Ok(None));
    assert!(!deframer.is_aligned());
}

// Covers 5044-3-5.
#[test]
#[should_panic(expected = "over the limit")]
fn the_framer_refuses_a_ulpdu_over_the_limit() {
    let mut framer = Framer::new(None, false);
    let mut out = vec![0; framer.fpdu_len(MAX_ULPDU + 1)];
    framer.seal(&mut out, MAX_ULPDU + 1);
}

/// An FPDU without CRC and Markers has the same octets, sent from several places or from one.
#[test]
fn an_fpdu_around_a_payload_from_elsewhere() {
    let mut framer = Framer::new(None, false);
    assert!(framer.is_plain());
    assert!(!Framer::new(None, true).is_plain() && !Framer::new(Some(Crc32c::default()), false).is_plain());
    for len in 18..40 {
        let ulpdu: Vec<u8> = (1..).take(len).collect();
        let mut whole = [0xAA; 64];
        framer.ulpdu_mut(&mut whole, len).copy_from_slice(&ulpdu);
        let octets = framer.seal(&mut whole, len);
        let mut around = [0xBB; 64];
        around[2..16].copy_from_slice(&ulpdu[..14]);
        let (before, all) = framer.seal_around(&mut around, len, 14);
        let joined = [&around[..before], &ulpdu[14..], &around[before..all]].concat();
        assert_eq!(joined, whole[..octets]);
    }
}
