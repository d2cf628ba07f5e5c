//! Options of TCP, beside smoltcp.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weft_tcp::fuzzing::options(data);
});
