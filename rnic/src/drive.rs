//! Who calls an engine: its lock, the driver thread, the leader, sleeping and waking.

pub(crate) mod leader;
pub(crate) mod locked;
pub(crate) mod moving;
pub(crate) mod sleep;
pub(crate) mod sleeps;
pub(crate) mod thread;
