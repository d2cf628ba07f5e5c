//! Capture files and packets into the decoder.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _records = weft_cli::fuzzing::capture(data);
});
