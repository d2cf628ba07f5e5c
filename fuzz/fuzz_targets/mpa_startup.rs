//! MPA Request and Reply Frames, and the negotiation over them.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weft_mpa::fuzzing::startup(data);
});
