//! Bodies of the fuzz targets that need whole devices. The tests run them over the seeds of `fuzz/seeds`.

mod act;
mod again;
mod input;
mod ledger;
mod opponent;
mod reached;
mod settings;
mod sockets;
mod startup;
mod stream;
mod ulpdu;
mod verbs;

pub use act::Op;
pub use reached::{Milestone, Reached};
pub use sockets::{sockets_calls, sockets_far, sockets_letter, sockets_link, sockets_order};
pub use stream::stream;
pub use verbs::verbs_ops;
