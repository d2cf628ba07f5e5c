//! A whole device with an arbitrary peer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _reached = weft_tests::fuzzing::stream(data);
});
