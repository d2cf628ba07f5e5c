//! Two stacks on one wire and one virtual clock, and the devices against each other.

mod bench;
mod connections;
mod faults;
mod limits;
mod neighbors;
mod scale;
mod streams;
mod unix;
