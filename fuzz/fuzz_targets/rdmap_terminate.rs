//! Terminate messages.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weft_rdmap::fuzzing::terminate(data);
});
