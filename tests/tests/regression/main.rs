//! Defects of the past.

mod foreign_objects;
mod lifetimes;
