//! Data moves between two devices: every operation, many sizes, all MPA options, with and without faults.

#![expect(clippy::unwrap_used, reason = "a test says by a panic what went wrong")]

mod ahead;
mod operations;
