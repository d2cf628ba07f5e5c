//! Tests of the whole crate through its public interface.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panic, as tests do")]

mod errors;
mod fields;
mod messages;
mod seeds;
mod vector_file;
mod vectors;

use proptest::test_runner::{Config, RngSeed};

/// Every run has the same cases. A failure prints the smallest one.
fn config() -> Config {
    Config {
        cases: if cfg!(miri) { 2 } else { 256 },
        rng_seed: RngSeed::Fixed(0x5041),
        failure_persistence: None,
        ..Config::default()
    }
}
