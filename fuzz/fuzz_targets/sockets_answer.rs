//! What a daemon tells a process or a command.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weft_sockets::fuzzing::answers(data);
});
