//! FPDUs ahead of their turn, in octets behind a gap.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weft_mpa::fuzzing::locate(data);
});
