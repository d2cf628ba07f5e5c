//! Tests of the whole crate through its public interface.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panic, as tests do")]

mod atomics;
mod end;
mod errors;
mod extensions;
mod loopback;
mod seeds;
mod terminates;
mod turns;
#[path = "../../../ddp/tests/ddp/vector_file.rs"]
mod vector_file;
mod vectors;
mod words;
mod write_immediate;

use proptest::test_runner::{Config, RngSeed};

/// Every run has the same cases. A failure prints the smallest one.
fn config() -> Config {
    Config {
        cases: if cfg!(miri) { 2 } else { 256 },
        rng_seed: RngSeed::Fixed(0x5040),
        failure_persistence: None,
        ..Config::default()
    }
}
