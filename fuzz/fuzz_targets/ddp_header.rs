//! DDP Segments: headers, ordering, queues.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weft_ddp::fuzzing::header(data);
});
