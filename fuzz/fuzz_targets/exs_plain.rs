//! Calls, and answers of TCP, to a socket of Extended Sockets over TCP alone.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _completed = weft_exs_core::fuzzing::plain(data);
});
