//! Calls, completions and cuts of two sessions of Extended Sockets that are connected.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _completed = weft_exs_core::fuzzing::pair(data);
});
