//! Segments as they lie on the wire.

mod header;
mod interval;
mod options;
mod reset;
mod segment;

pub use header::Template;
pub use interval::{Interval, SackBlocks};
pub use options::{Options, Timestamps};
pub use segment::{Ecn, Flags, Malformed, Segment};
