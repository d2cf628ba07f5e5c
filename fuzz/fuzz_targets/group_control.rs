//! Messages of the control plane, and private data, of a group.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weft_group::fuzzing::control(data);
});
