//! What processes and commands tell a daemon.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weft_tests::fuzzing::sockets_order(data);
});
