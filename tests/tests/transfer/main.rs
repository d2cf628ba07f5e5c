//! Data moves between two devices: every operation, many sizes, all MPA options, with and without faults.

mod operations;
