//! What another daemon says it has received.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weft_sockets::fuzzing::session(data);
});
