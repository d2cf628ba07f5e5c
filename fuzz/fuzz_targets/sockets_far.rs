//! What another daemon and a process of this host do to a connection that a daemon carries.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weft_tests::fuzzing::sockets_far(data);
});
