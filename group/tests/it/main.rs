//! Chains of replicas on the host's TCP, and clients that tests play.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod chain;
mod epochs;
mod flush;
mod hostile;
mod hosts;
mod locked;
mod memory;
mod mirrored;
mod model;
mod refusals;
mod registers;
mod repair;
mod sealed;
mod server;
mod transactions;
