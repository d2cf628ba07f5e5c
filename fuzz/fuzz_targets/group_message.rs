//! Messages of a client, to a replica.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _arrived = weft_group::fuzzing::message(data);
});
