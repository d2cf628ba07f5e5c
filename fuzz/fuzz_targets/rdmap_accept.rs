//! RDMAP messages to an endpoint that waits for the answer to a Read of its own.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weft_rdmap::fuzzing::accept(data);
});
