//! FPDUs with and without Markers and CRC, out of a stream cut anywhere.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weft_mpa::fuzzing::deframe(data);
});
