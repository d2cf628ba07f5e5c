//! The daemon of the sockets floor. Programs show it their connections, and it gives a piece of shared memory to the two
//! ends of each. It does not take part in what they exchange.
//!
//! One thread serves all processes, and sleeps while none has anything to say. A thread for each user closes what its
//! processes have sent, since a close may wait. Nothing that a process sends or does can stop it: every call is
//! non-blocking, every number is checked, and every user has limits.

mod across;
mod address;
mod adopt;
mod bell;
mod containers;
mod drains;
mod foreign;
mod hosts;
mod janitor;
mod kernel;
mod key;
mod lanes;
mod limits;
mod link;
mod matcher;
mod network;
mod networks;
mod operator;
mod orders;
mod pending;
mod port;
mod remote;
mod routes;
mod rules;
mod serve;
#[doc(hidden)]
pub mod simulated;
mod stat;
mod state;
mod sums;
mod wake;

pub use address::Address;
pub use kernel::{keep_signals, leave_parent, stop_signals};
pub use key::Key;
pub use lanes::{Lanes, Wire};
pub use network::Network;
pub use networks::Networks;
pub use operator::{Drained, Operator};
pub use rules::Rules;
pub use serve::{Config, Daemon};
