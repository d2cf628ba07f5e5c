//! Private data and messages of a peer, and calls of the user, to a session of Extended Sockets.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _completed = weft_exs_core::fuzzing::message(data);
});
