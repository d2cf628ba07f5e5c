//! The fuzz bodies over inputs that are the same in every run.

use proptest::prelude::*;
use weft_ddp::fuzzing;

use crate::vector_file::{fpdu_names, load, ulpdus};

#[test]
fn vectors_cut_short_and_with_one_octet_changed() {
    let file = load();
    for name in fpdu_names(&file) {
        for mut ulpdu in ulpdus(&file, &name) {
            for len in 0..=ulpdu.len().min(24) {
                fuzzing::header(&ulpdu[..len]);
            }
            for index in 0..ulpdu.len().min(18) {
                let right = ulpdu[index];
                for wrong in 0..=u8::MAX {
                    ulpdu[index] = wrong;
                    fuzzing::header(&ulpdu);
                }
                ulpdu[index] = right;
            }
        }
    }
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn noise(data in prop::collection::vec(any::<u8>(), 0..64)) {
        fuzzing::header(&data);
    }
}
