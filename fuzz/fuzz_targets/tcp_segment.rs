//! Segments, calls, refusals of the device and time, to a connection.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _reached = weft_tcp::fuzzing::segment(data);
});
