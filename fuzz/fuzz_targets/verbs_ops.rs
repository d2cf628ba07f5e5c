//! Verbs operations in any order, against a model.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _seen = weft_tests::fuzzing::verbs_ops(data);
});
