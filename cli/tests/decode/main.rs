//! `weft decode` against foreign captures, hand-written traffic and broken files.

#![allow(clippy::unwrap_used, reason = "a test that fails here has failed")]

mod exs;
mod files;
mod garbage;
mod groups;
mod holes;
mod lanes;
mod siw;
mod streams;
#[path = "../support/mod.rs"]
mod support;
mod trace;
