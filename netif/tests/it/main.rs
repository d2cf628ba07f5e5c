//! Two stacks on one wire and one virtual clock, and the devices against each other.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test, wherever the helper stands")]

mod bench;
mod connections;
mod counters;
mod ends;
mod faults;
mod host;
mod host_reading;
mod kernel;
mod limits;
mod neighbors;
mod rates;
mod scale;
mod scripted;
mod shared;
mod socket;
mod streams;
mod unix;
