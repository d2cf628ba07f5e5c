//! Sockets over shared memory, the pure core: what lies in the memory that two programs share, and the rules by which
//! they write and read it.
//!
//! Nothing here intercepts calls, reads a clock or sleeps. `preload/` does that in programs, and `daemon/` brings two
//! programs together. System calls and unsafe code are in `memory.rs` only.

mod broken;
mod claim;
mod digest;
pub mod end;
#[cfg(not(loom))]
pub mod far;
#[cfg(not(loom))]
#[doc(hidden)]
pub mod fuzzing;
mod gate;
mod hello;
mod inbound;
mod interest;
pub mod layout;
mod leg;
mod lock;
#[cfg(test)]
#[cfg(loom)]
mod loom_tests;
mod lowering;
#[cfg(not(loom))]
mod matching;
#[cfg(not(loom))]
mod memory;
#[cfg(loom)]
#[path = "memory/model.rs"]
mod memory;
mod message;
#[cfg(not(loom))]
mod order;
mod outbound;
mod pace;
mod reason;
#[cfg(not(loom))]
mod record;
mod ring;
#[cfg(test)]
#[cfg(not(loom))]
mod stream_tests;
pub mod sync;
mod totals;
mod waiter;

pub use broken::Broken;
pub use claim::{Claim, Tuple};
pub use digest::{Digests, PREFIXES, Prefixes};
pub use gate::Gate;
pub use hello::{Hello, LaneKind, NONCE_LEN, PROOF_LEN, Proof};
pub use inbound::{Barrier, Inbound, Quiet, Source};
pub use interest::{Interest, Look};
pub use leg::{Carrier, Leg, MAX_LOG2, MIN_LOG2, RingPlace};
pub use lock::{Holder, Level, Lock, Owner};
#[cfg(not(loom))]
pub use matching::{Claimant, Claims, Outcome};
#[cfg(not(loom))]
pub use memory::{Link, Mapping, Octets, Slab, Status};
pub use message::{Encoded, MESSAGE_DESCRIPTORS, MESSAGE_LEN, ToDaemon, ToProcess, VERSION};
#[cfg(not(loom))]
pub use order::{Answer, Denial, Order};
pub use outbound::{Outbound, Sink};
pub use pace::{LONGEST, Pace, Situation, Step, Wait};
pub use reason::Reason;
#[cfg(not(loom))]
pub use record::{Cause, Record, Secret};
pub use waiter::{Sleep, Sleepers, WaiterName};
