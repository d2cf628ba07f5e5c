//! The project's own benchmark: ours beside references, turn by turn in one run.
//!
//! ```text
//!   cases.rs      the list of all cases; each is one file in cases/ and one line there
//!   case.rs       a case: its sides, which take turns, its references and its targets
//!   harness.rs    A B A B: at least five turns of each, one row for each reference
//!   watch.rs      wall and CPU time of the timed parts of a turn
//!   figure.rs     a table or figure of a paper, measured anew; process.rs: programs that the benchmark starts
//!   report.rs     rows as a table, as JSON, one object a line; markdown.rs: the tables of docs/performance.md
//!   matrix.rs     `weft bench run`: any operation, size and setting
//!   sweep.rs      `weft bench sweep`: RDMA Write against plain TCP over size
//!   sockets/      `weft bench sockets`: programs on sockets, with the library and without it
//!   group/        `weft bench group`: replicas whose devices do the work, beside replicas whose programs do it
//!   exs/          `weft bench exs`: Extended Sockets beside verbs and the kernel's TCP
//!   loss/         `weft bench loss`: paths that lose, delay and reorder frames, beside the kernel's TCP
//!   choice.rs     cases and figures of these four
//!
//!   ours/         two devices of ours, and their transfers
//!   raw/          the same with smoltcp alone, on the very same wire; copies.rs: memory alone
//!   net/          the host's network: two threads with a device each, beside kernel TCP, smoltcp alone and libfabric
//!   plot.rs       curves over size; draw.rs draws them by plotters
//! ```
//!
//! **A turn** is made of rounds. A round moves a few megabytes at most, and is timed. Then, outside of the timed part,
//! every octet is compared at the sink and overwritten there. So a missing transfer never looks like a finished one. A
//! turn goes on until its timed parts are as long as [`Effort::turn`].
//!
//! The ratio of a row is the median of the ratios of neighbouring turns: the speed of a machine and of its shared
//! caches changes from one minute to the next.
//!
//! The engines' clocks run on real time by a factor ([`Case::clock_scale`]) and never jump.

mod args;
mod case;
mod cases;
mod choice;
mod copies;
mod cores;
mod exs;
mod figure;
mod group;
mod harness;
mod hog;
mod loss;
mod machine;
mod markdown;
mod matrix;
mod net;
mod octets;
mod ours;
pub mod plot;
mod process;
mod progress;
mod raw;
mod report;
mod run;
mod setting;
mod sizes;
mod sockets;
mod sweep;
mod watch;

pub use args::Args;
pub use case::{Better, Case, Effort, Quantity, Reference, Sample, Side, Sides, Target, Trouble};
pub use harness::{Outcome, Row, Spread, measure};
pub use net::isolate;
pub use run::run;

#[cfg(test)]
mod tests;
