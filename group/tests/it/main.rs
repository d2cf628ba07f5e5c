//! Chains of replicas on the host's TCP, and a client that a test plays.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod chain;
