//! Two sessions with a wire between them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod device;
mod model;
mod plain;
mod play;
mod random;
mod scripted;
mod search;
mod streams;
mod vectors;
mod world;
