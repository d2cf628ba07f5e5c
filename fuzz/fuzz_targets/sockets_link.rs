//! An end whose other party writes anything into their link, between its calls and in the middle of them.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weft_tests::fuzzing::sockets_link(data);
});
