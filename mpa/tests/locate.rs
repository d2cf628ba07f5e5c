//! FPDUs ahead of their turn: what Markers tell in a part of a stream, against where the FPDUs are.

use proptest::collection::vec;
use proptest::prelude::*;
use weft_mpa::{Crc32c, Deframer, Error, Framer, Locator, STAGING_LEN};

const CRC: Crc32c = Crc32c::PORTABLE;

/// A stream with Markers, and where its FPDUs begin and end.
fn stream(lens: &[usize]) -> (Vec<u8>, Vec<(usize, usize)>) {
    let mut framer = Framer::new(Some(CRC), true);
    let (mut stream, mut places) = (Vec::new(), Vec::new());
    for (number, &len) in lens.iter().enumerate() {
        let begin = stream.len();
        let end = begin + framer.fpdu_len(len);
        stream.resize(end, 0);
        let ulpdu = framer.ulpdu_mut(&mut stream[begin..], len);
        ulpdu.iter_mut().enumerate().for_each(|(at, octet)| *octet = octet_of(number, at));
        assert_eq!(framer.seal(&mut stream[begin..], len), end - begin);
        places.push((begin, end));
    }
    (stream, places)
}

/// Returns the octet of a ULPDU at this place.
fn octet_of(number: usize, at: usize) -> u8 {
    u8::try_from((number * 31 + at) % 251).expect("it is below 251")
}

/// Returns where FPDUs are found in a part of the stream.
fn located(stream: &[u8], from: usize, to: usize, begins: bool) -> Vec<(usize, usize)> {
    let found = Locator::new(CRC, from as u64, &stream[from..to], begins);
    let place = |position: u64| usize::try_from(position).expect("it lies in the stream");
    found.map(|one| (place(one.position), place(one.position) + one.fpdu.len())).collect()
}

/// Returns the FPDU of which the first Marker of the part tells that also begins there.
fn first_told(places: &[(usize, usize)], from: usize, to: usize) -> Option<usize> {
    let owner = |marker: usize| places.iter().find(|(begin, end)| (*begin..*end).contains(&marker));
    let markers = (from.next_multiple_of(512)..to.saturating_sub(3)).step_by(512);
    markers.filter_map(owner).map(|(begin, _)| *begin).find(|begin| *begin >= from)
}

proptest! {
    #[test]
    fn every_whole_fpdu_behind_the_first_that_a_marker_tells_of_is_found(
        lens in vec(prop_oneof![0..40_usize, 400..1600_usize], 1..20),
        cuts in any::<[prop::sample::Index; 2]>(),
    ) {
        let (stream, places) = stream(&lens);
        let [one, other] = cuts.map(|cut| cut.index(stream.len()) / 4 * 4);
        let (from, to) = (one.min(other), one.max(other));
        let first = first_told(&places, from, to);
        let whole = |(begin, end): &&(usize, usize)| first.is_some_and(|first| *begin >= first) && *end <= to;
        let expected: Vec<_> = places.iter().filter(whole).copied().collect();
        prop_assert_eq!(located(&stream, from, to, false), expected);
    }

    #[test]
    fn the_chain_goes_on_behind_octets_that_end_with_an_fpdu(lens in vec(0..700_usize, 2..12)) {
        let (stream, places) = stream(&lens);
        let middle = places[lens.len() / 2].0;
        let mut before = Locator::new(CRC, 0, &stream[..middle], true);
        prop_assert_eq!(before.by_ref().count(), lens.len() / 2);
        prop_assert_eq!(before.begins_behind(), Some(middle as u64));
        prop_assert_eq!(located(&stream, middle, stream.len(), true), &places[lens.len() / 2..]);
    }

    #[test]
    fn the_pieces_are_the_ulpdu(len in 0..3000_usize, lead in 0..600_usize) {
        let (stream, places) = stream(&[lead, len]);
        let from = places[1].0;
        let found: Vec<_> = Locator::new(CRC, from as u64, &stream[from..], true).collect();
        prop_assert_eq!(found.len(), 1);
        let ulpdu: Vec<u8> = found[0].pieces().flatten().copied().collect();
        prop_assert_eq!(&ulpdu, &(0..len).map(|at| octet_of(1, at)).collect::<Vec<_>>());
        let split = found[0].split::<14>().map(|(head, rest)| (head.to_vec(), rest.flatten().copied().collect()));
        let expected = ulpdu.split_at_checked(14).map(|(head, rest)| (head.to_vec(), rest.to_vec()));
        prop_assert_eq!(split, expected);
    }

    #[test]
    fn an_fpdu_with_a_changed_octet_ends_the_search(
        lens in vec(100..1200_usize, 2..8), which in any::<prop::sample::Index>(), bit in 0..8_u8,
    ) {
        let (mut stream, places) = stream(&lens);
        let wrong = which.index(stream.len());
        stream[wrong] ^= 1 << bit;
        let good: Vec<_> = places.iter().take_while(|(_, end)| *end <= wrong).copied().collect();
        prop_assert_eq!(located(&stream, 0, stream.len(), true), good);
    }
}

/// The second Marker of an FPDU points elsewhere, and the CRC is right: the peer lies.
#[test]
fn an_fpdu_whose_markers_disagree_is_not_found() {
    let (mut stream, places) = stream(&[1400]);
    stream[1026..1028].copy_from_slice(&8_u16.to_be_bytes());
    let end = places[0].1 - 4;
    let crc = CRC.checksum(&stream[..end]);
    stream[end..].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(located(&stream, 0, stream.len(), false), []);
}

/// A payload contains an FPDU that is good by itself, to which no Marker points.
#[test]
fn octets_that_only_look_like_an_fpdu_are_not_found() {
    let mut framer = Framer::new(Some(CRC), true);
    let (inner, _) = stream(&[60]);
    let mut outer = vec![0; framer.fpdu_len(900)];
    framer.ulpdu_mut(&mut outer, 900)[300..300 + inner.len() - 4].copy_from_slice(&inner[4..]);
    framer.seal(&mut outer, 900);
    assert_eq!(located(&outer, 300, outer.len(), false), []);
}

#[test]
fn an_fpdu_that_is_passed_over_counts_as_taken() {
    let (stream, places) = stream(&[500, 700, 300]);
    let mut deframer = Deframer::new(Some(CRC), true, vec![0; STAGING_LEN]);
    let mut first = &stream[..places[0].1];
    assert!(deframer.next(&mut first).expect("it is good").is_some());
    deframer.pass(places[1].1 - places[1].0).expect("an FPDU begins here");
    let mut last = &stream[places[2].0..];
    assert_eq!(deframer.next(&mut last).expect("its Markers agree").map(<[u8]>::len), Some(300));
}

#[test]
fn an_fpdu_that_begins_within_another_one_is_an_error_for_good() {
    let (stream, _) = stream(&[500, 700]);
    let mut deframer = Deframer::new(Some(CRC), true, vec![0; STAGING_LEN]);
    assert_eq!(deframer.next(&mut &stream[..100]), Ok(None));
    let error = Error::Marker { expected: 96, received: 0 };
    assert_eq!(deframer.pass(200), Err(error));
    assert_eq!(deframer.next(&mut &stream[100..]), Err(error));
}
