//! The arithmetic of RFC 7306.

use proptest::prelude::*;
use serde_json::Value;
use weft_rdmap::{AtomicOp, AtomicRequest, AtomicResponse, Error, Immediate, ReadRequest, fetch_add};

use crate::vector_file::{load, octets, ulpdus};

#[test]
fn results_are_as_computed() {
    let file = load();
    let number = |row: &Value, key: &str| u64::from_str_radix(row[key].as_str().unwrap(), 16).unwrap();
    let rows = |key: &str| file["atomic-math"][key].as_array().unwrap().clone();
    assert_eq!((rows("fetchadd").len(), rows("cmpswap").len()), (8, 5));
    for row in rows("fetchadd") {
        let op = AtomicOp::FetchAdd { add: number(&row, "add"), mask: number(&row, "mask") };
        assert_eq!(op.apply(number(&row, "orig")), number(&row, "result"), "{row}");
    }
    for row in rows("cmpswap") {
        let op = AtomicOp::CompareSwap {
            swap: number(&row, "swap"),
            swap_mask: number(&row, "smask"),
            compare: number(&row, "cmp"),
            compare_mask: number(&row, "cmask"),
        };
        assert_eq!(op.apply(number(&row, "orig")), number(&row, "result"), "{row}");
    }
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn fetch_add_drops_the_carry_out_of_masked_bits(
        original in any::<u64>(), add in any::<u64>(), mask in any::<u64>(),
    ) {
        // The reference adds bit by bit, like an adder in hardware.
        let (mut carry, mut sum) = (0, 0);
        for bit in 0..64 {
            let ones = (original >> bit & 1) + (add >> bit & 1) + carry;
            sum |= (ones & 1) << bit;
            carry = if mask >> bit & 1 == 1 { 0 } else { ones >> 1 };
        }
        prop_assert_eq!(fetch_add(original, add, mask), sum);
        prop_assert_eq!(fetch_add(original, add, 0), original.wrapping_add(add));
    }

    #[test]
    fn compare_swap_changes_masked_bits_only(
        (original, swap, swap_mask) in any::<(u64, u64, u64)>(), compare_mask in any::<u64>(), flip in 0_u32..64,
    ) {
        let bit = 1_u64 << flip;
        let differ = original ^ bit;
        let op = |compare| AtomicOp::CompareSwap { swap, swap_mask, compare, compare_mask };
        let swapped = op(original).apply(original);
        prop_assert_eq!(swapped & swap_mask, swap & swap_mask);
        prop_assert_eq!(swapped & !swap_mask, original & !swap_mask);
        let expected = if compare_mask & bit != 0 { original } else { swapped };
        prop_assert_eq!(op(differ).apply(original), expected);
    }
}

#[test]
fn unused_fields_are_ignored() {
    let mut header = ulpdus(&load(), "atomic-fadd")[0][18..].to_vec();
    let clean = AtomicRequest::parse(&header).unwrap();
    header[0..3].fill(0xFF);
    header[3] |= 0xF0;
    header[36..52].fill(0x5A);
    assert_eq!(AtomicRequest::parse(&header), Ok(clean));
}

#[test]
fn undefined_operations_are_refused() {
    let mut header = ulpdus(&load(), "atomic-fadd")[0][18..].to_vec();
    for code in 0..=0xF {
        header[3] = code;
        let parsed = AtomicRequest::parse(&header).map(|_| ());
        assert_eq!(parsed, if matches!(code, 0 | 2) { Ok(()) } else { Err(Error::UnexpectedOpcode) });
    }
}

#[test]
fn lengths_must_be_exact() {
    let long = octets(&"00".repeat(60));
    for len in 0..=long.len() {
        let refused = |right: usize| if len == right { None } else { Some(Error::StreamCatastrophic) };
        let message = &long[..len];
        assert_eq!(AtomicRequest::parse(message).err(), refused(52));
        assert_eq!(AtomicResponse::parse(message).err(), refused(12));
        assert_eq!(Immediate::parse(message).err(), refused(8));
        assert_eq!(ReadRequest::parse(message).err(), refused(28));
    }
}
