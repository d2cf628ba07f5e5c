//! Messages as literal octets, both ways, and each octet that a type does not use.

use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

/// A message and its octets.
struct Case {
    body: Body,
    octets: [u8; HEADER_LEN],
    /// Octets of which each bit may be changed: the first of each range, and the end.
    free: &'static [(usize, usize)],
    /// Other bits that may be changed: their octets and values.
    bits: &'static [(usize, u8)],
}

#[rustfmt::skip]
fn cases() -> Vec<Case> {
    let source = Source::Memory { stag: Stag(0x1112_1314), to: 0x2122_2324_2526_2728 };
    let advert = Advert {
        epoch: 7, len: 0x0102_0304, stag: Stag(0x1112_1314), to: 0x2122_2324_2526_2728, first: None, waits_for_all: false,
    };
    let data = Data { position: 0x2122_2324_2526_2728, len: 0x0102_0304, is_inline: false, target: Target::Ring { holds: false } };
    let direct = |is_last| Body::Data(Data { target: Target::Advert { epoch: 7, is_last }, ..data });
    vec![
        Case { body: Body::Credit, bits: &[], free: &[], octets: [
            0x01, 0, 0xab, 0xcd, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0] },
        Case { body: Body::Msg(Msg { id: 0x0506_0708, len: 0x0102_0304, source }), bits: &[], free: &[(4, 8), (8, 24)], octets: [
            0x10, 0, 0xab, 0xcd, 5, 6, 7, 8,  1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14,
            0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28,  0, 0, 0, 0, 0, 0, 0, 0] },
        Case { body: Body::Msg(Msg { id: 1, len: 0, source: Source::Inline }), bits: &[], free: &[(4, 8)], octets: [
            0x10, 1, 0xab, 0xcd, 0, 0, 0, 1,  0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0] },
        Case { body: Body::Ack(Ack { id: 1, extent: Extent::Full }), bits: &[(1, 1)], free: &[(4, 8)], octets: [
            0x11, 0, 0xab, 0xcd, 0, 0, 0, 1,  0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0] },
        Case { body: Body::Ack(Ack { id: 1, extent: Extent::Placed(0x0102_0304) }), bits: &[], free: &[(4, 12)], octets: [
            0x11, 1, 0xab, 0xcd, 0, 0, 0, 1,  1, 2, 3, 4, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0] },
        Case { body: Body::Ack(Ack { id: 1, extent: Extent::NotTaken }), bits: &[(31, 1)], free: &[(4, 8)], octets: [
            0x11, 1, 0xab, 0xcd, 0, 0, 0, 1,  0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 1] },
        Case { body: direct(false), bits: &[(1, 4)], free: &[(4, 12), (16, 24)], octets: [
            0x20, 0, 0xab, 0xcd, 0, 0, 0, 7,  1, 2, 3, 4, 0, 0, 0, 0,
            0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28,  0, 0, 0, 0, 0, 0, 0, 0] },
        Case { body: direct(true), bits: &[(1, 4)], free: &[(4, 12), (16, 24)], octets: [
            0x20, 4, 0xab, 0xcd, 0, 0, 0, 7,  1, 2, 3, 4, 0, 0, 0, 0,
            0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28,  0, 0, 0, 0, 0, 0, 0, 0] },
        Case { body: Body::Data(data), bits: &[(1, 8)], free: &[(8, 12), (16, 24)], octets: [
            0x20, 2, 0xab, 0xcd, 0, 0, 0, 0,  1, 2, 3, 4, 0, 0, 0, 0,
            0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28,  0, 0, 0, 0, 0, 0, 0, 0] },
        Case {
            body: Body::Data(Data { len: 0, is_inline: true, target: Target::Ring { holds: true }, ..data }),
            bits: &[(1, 1), (1, 8)], free: &[(16, 24)], octets: [
            0x20, 0x0b, 0xab, 0xcd, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,
            0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28,  0, 0, 0, 0, 0, 0, 0, 0] },
        Case { body: Body::Advert(advert), bits: &[(1, 1), (1, 2)], free: &[(4, 24)], octets: [
            0x21, 0, 0xab, 0xcd, 0, 0, 0, 7,  1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14,
            0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28,  0, 0, 0, 0, 0, 0, 0, 0] },
        Case {
            body: Body::Advert(Advert { first: Some(0x3132_3334_3536_3738), waits_for_all: true, ..advert }),
            bits: &[(1, 2)], free: &[(4, 32)], octets: [
            0x21, 3, 0xab, 0xcd, 0, 0, 0, 7,  1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14,
            0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28,  0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38] },
        Case { body: Body::Free { read: 0x2122_2324_2526_2728 }, bits: &[], free: &[(16, 24)], octets: [
            0x22, 0, 0xab, 0xcd, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,
            0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28,  0, 0, 0, 0, 0, 0, 0, 0] },
        Case { body: Body::Revoke { epoch: 0x0506_0708 }, bits: &[], free: &[(4, 8)], octets: [
            0x23, 0, 0xab, 0xcd, 5, 6, 7, 8,  0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0] },
        Case { body: Body::Shutdown { end: 0x2122_2324_2526_2728 }, bits: &[], free: &[(16, 24)], octets: [
            0x30, 0, 0xab, 0xcd, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,
            0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28,  0, 0, 0, 0, 0, 0, 0, 0] },
        Case { body: Body::Abort(Fault::NoAdvert), bits: &[(7, 1), (7, 2)], free: &[], octets: [
            0x31, 0, 0xab, 0xcd, 0, 0, 0, 4,  0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0] },
    ]
}

#[test]
fn the_octets_are_those_of_the_tables() {
    for Case { body, octets, .. } in cases() {
        let message = Message { limit: 0xabcd, body };
        assert_eq!(message.encode(), octets, "{body:?}");
        assert_eq!(Message::parse(&octets), Ok((message, &[][..])), "{body:?}");
    }
}

#[test]
fn each_bit_that_a_type_does_not_use_makes_a_message_malformed() {
    for Case { body, octets, free, bits } in cases() {
        for bit in 8..8 * HEADER_LEN {
            let (place, mask) = (bit / 8, 1 << (bit % 8));
            let is_free = place == 2
                || place == 3
                || free.iter().any(|(start, end)| (*start..*end).contains(&place))
                || bits.contains(&(place, mask));
            let mut changed = octets;
            changed[place] ^= mask;
            match Message::parse(&changed) {
                Ok((message, _)) => {
                    assert!(is_free, "{body:?}: bit {mask:#04x} of octet {place} is not looked at");
                    assert_eq!(message.encode(), changed);
                }
                Err(fault) => {
                    assert!(!is_free, "{body:?}: bit {mask:#04x} of octet {place} is {fault}");
                    assert_eq!(fault, Fault::Malformed);
                }
            }
        }
    }
}

#[test]
fn other_types_are_malformed() {
    let known = [0x01, 0x10, 0x11, 0x20, 0x21, 0x22, 0x23, 0x30, 0x31];
    for Case { octets, .. } in cases() {
        for kind in (0..=u8::MAX).filter(|kind| !known.contains(kind)) {
            let mut changed = octets;
            changed[0] = kind;
            assert_eq!(Message::parse(&changed), Err(Fault::Malformed));
        }
    }
}

#[test]
fn values_that_mean_nothing_are_malformed() {
    let refused = |place: usize, octet: u8, body: Body| {
        let mut octets = Message { limit: 0, body }.encode();
        octets[place] = octet;
        assert_eq!(Message::parse(&octets), Err(Fault::Malformed), "{body:?}");
    };
    let advert = Advert { epoch: 1, len: 1, stag: Stag(0), to: 0, first: None, waits_for_all: false };
    refused(7, 0, Body::Advert(advert));
    refused(11, 0, Body::Advert(advert));
    refused(7, 0, Body::Revoke { epoch: 1 });
    let data =
        Data { position: 0, len: 1, is_inline: false, target: Target::Advert { epoch: 1, is_last: true } };
    refused(7, 0, Body::Data(data));
    refused(11, 0, Body::Msg(Msg { id: 0, len: 1, source: Source::Memory { stag: Stag(0), to: 0 } }));
    refused(31, 2, Body::Ack(Ack { id: 0, extent: Extent::NotTaken }));
    refused(11, 1, Body::Ack(Ack { id: 0, extent: Extent::NotTaken }));
    refused(7, 12, Body::Abort(Fault::WrongState));
    refused(7, 0, Body::Abort(Fault::WrongState));
}

#[test]
fn immediate_data_is_as_long_as_the_message_says() {
    let msg = Body::Msg(Msg { id: 0, len: 3, source: Source::Inline });
    let ring = Target::Ring { holds: false };
    let data = Body::Data(Data { position: 0, len: 3, is_inline: true, target: ring });
    for message in [msg, data].map(|body| Message { limit: 1, body }) {
        let with = |payload: &[u8]| [&message.encode(), payload].concat();
        assert_eq!(Message::parse(&with(b"abc")), Ok((message, &b"abc"[..])));
        assert_eq!(
            [&b""[..], b"ab", b"abcd"].map(|payload| Message::parse(&with(payload)).err()),
            [Some(Fault::Malformed); 3]
        );
    }
    let credit = Message { limit: 1, body: Body::Credit }.encode();
    assert_eq!(Message::parse(&[&credit[..], &[0]].concat()), Err(Fault::Malformed));
    assert!((0..HEADER_LEN).all(|len| Message::parse(&credit[..len]) == Err(Fault::Malformed)));
}

proptest! {
    #[test]
    fn what_is_read_is_what_is_written(case in 0..16_usize, changes in prop::collection::vec((0..HEADER_LEN, any::<u8>()), 0..4)) {
        let mut octets = cases()[case].octets;
        for (place, octet) in changes {
            octets[place] = octet;
        }
        if let Ok((message, payload)) = Message::parse(&octets) {
            prop_assert_eq!(message.encode(), octets);
            prop_assert!(payload.is_empty() && message.payload_len() == 0);
        }
    }
}
