//! Private data with which a daemon opens or answers a lane.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weft_sockets::fuzzing::hello(data);
});
