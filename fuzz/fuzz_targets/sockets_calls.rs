//! Calls of both ends of a connection, over all its carriers, against a model.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weft_tests::fuzzing::sockets_calls(data);
});
