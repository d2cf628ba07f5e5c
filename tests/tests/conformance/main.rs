//! A device against a peer that speaks octets: what it sends is compared octet by octet, and nothing of what it gets was
//! made by the code under test.

#![expect(clippy::unwrap_used, reason = "helpers of tests panic like the tests")]

mod ending;
mod errors;
mod memory_errors;
mod negotiation;
mod octets;
mod operation;
mod scene;
mod startup_active;
mod startup_passive;
mod world;
