//! A [redb] database whose storage is a replicated group, and a server that speaks RESP in front of it.
//!
//! ```text
//! backend  a mirror of a group as the storage of a database
//! command  the commands that the server knows
//! input    commands in the octets that a client sends
//! store    commands on a database: those that came together are one transaction
//! server   connections of clients
//! ```
#![forbid(unsafe_code)]

mod backend;
mod command;
mod input;
mod server;
mod store;

pub use backend::RedbBackend;
pub use command::Command;
pub use input::{Input, MAX_COMMAND};
pub use server::{Server, Stopper};
pub use store::{Store, StoreError};
