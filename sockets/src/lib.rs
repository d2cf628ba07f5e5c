//! Sockets over shared memory, the pure core: what lies in the memory that two programs share, and the rules by which
//! they write and read it.
//!
//! Nothing here intercepts calls, reads a clock or sleeps. `preload/` does that in programs, and `daemon/` brings two
//! programs together. System calls and unsafe code are in `memory.rs` only.

mod claim;
pub mod end;
mod gate;
pub mod layout;
mod leg;
#[cfg(not(loom))]
mod matching;
#[cfg(not(loom))]
mod memory;
mod message;
mod reason;
pub mod record;
pub mod sync;
mod totals;
mod waiter;

pub use claim::{Claim, Tuple};
pub use gate::Gate;
pub use leg::{Carrier, Leg, MAX_LOG2, MIN_LOG2, RingPlace};
#[cfg(not(loom))]
pub use matching::{Claimant, Claims, Outcome};
#[cfg(not(loom))]
pub use memory::{Link, Mapping, Octets, Slab, Status};
pub use message::{Encoded, MESSAGE_DESCRIPTORS, MESSAGE_LEN, ToDaemon, ToProcess, VERSION};
pub use reason::Reason;
pub use waiter::WaiterName;
