//! Claims of connections, in any order and at any time.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weft_sockets::fuzzing::claims(data);
});
