//! Records in the kernel's stream, by which a sender goes back to TCP.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weft_sockets::fuzzing::record(data);
});
