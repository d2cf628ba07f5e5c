//! A database on a group, as a store and behind RESP.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../../../tests/it/hosts.rs"]
#[expect(dead_code, reason = "other tests use it")]
mod hosts;
#[path = "../../../tests/it/memory.rs"]
#[expect(dead_code, reason = "other tests use it")]
mod memory;
mod resp;
mod store;
