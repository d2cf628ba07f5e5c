//! What one daemon tells another.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weft_tests::fuzzing::sockets_letter(data);
});
