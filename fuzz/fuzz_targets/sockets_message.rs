//! Messages between a process and its daemon.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weft_sockets::fuzzing::message(data);
});
