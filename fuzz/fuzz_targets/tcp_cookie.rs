//! SYNs, and answers to SYN cookies, true and forged.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weft_tcp::fuzzing::cookie(data);
});
