//! What was wrong once.

mod foreign_objects;
mod lifetimes;
