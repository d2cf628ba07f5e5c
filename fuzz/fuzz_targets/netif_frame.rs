//! Ethernet frames into a stack with connections.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weft_netif::fuzzing::frame(data);
});
