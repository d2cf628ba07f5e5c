//! What the memory of a group survives.

/// What flushed octets survive. A group is as good as the weakest of its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// The failure of all members but one.
    Volatile,
    /// The end of all processes and the loss of power: persistent memory.
    Pmem,
    /// The same: memory with a copy in a file.
    File,
}

impl Durability {
    /// Returns whether a device has to do something to flush memory.
    pub(crate) const fn takes_sync(self) -> bool {
        match self {
            Self::Volatile => false,
            Self::Pmem | Self::File => true,
        }
    }
}
