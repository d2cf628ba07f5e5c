//! The harness of the tests that span several crates.
//!
//! [`Pair`] is two devices on a memory wire and one virtual clock; [`Side`] is one of them with its objects.

mod pair;

pub use pair::{PORT, Pair, PairConfig, Side};
