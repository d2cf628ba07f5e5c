//! RDMAP messages into an endpoint that is busy itself.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weft_rdmap::fuzzing::accept(data);
});
