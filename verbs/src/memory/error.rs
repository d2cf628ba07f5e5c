//! Why memory is refused.

/// Why an access is refused. The caller turns it into DDP's or RDMAP's error or into a local status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// No such STag, or it was invalidated.
    InvalidStag,
    /// The STag is of another protection domain.
    WrongPd,
    /// The STag is for another stream of this protection domain.
    WrongStream,
    /// Offset plus length wraps around 2^64.
    Wrap,
    /// Not inside the region.
    Bounds,
    /// The region does not grant this right.
    Access,
    /// A window is bound already, or windows are bound to the region.
    Bound,
    /// The target of an Atomic is not aligned to 8 octets.
    Unaligned,
    /// The program has unmapped the memory, or cut the file in it, without deregistering it.
    Gone,
}

impl core::fmt::Display for Violation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::InvalidStag => "the STag names no registered memory",
            Self::WrongPd => "the STag belongs to another protection domain",
            Self::WrongStream => "the STag belongs to another stream",
            Self::Wrap => "offset plus length wraps around 2^64",
            Self::Bounds => "the access is outside of the memory region",
            Self::Access => "the memory region does not grant this access",
            Self::Bound => "the STag is valid already, or memory windows are bound to the region",
            Self::Unaligned => "the target of an Atomic is not aligned to 8 octets",
            Self::Gone => "the program has taken the memory away before it was deregistered",
        })
    }
}

impl core::error::Error for Violation {}

/// Why memory cannot be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterError {
    /// Remote write and Atomics need local write.
    Access,
    /// The tagged offsets would wrap around 2^64.
    Wrap,
    /// The queue pair is of another device or protection domain.
    ForeignQp,
    /// There is not that much memory.
    OutOfMemory,
    /// All 2^24 STags are in use, or as many as the device allows.
    TableFull,
    /// Memory windows are bound to the region, or the object is in use otherwise (EBUSY).
    Busy,
    /// Some of the memory is not there, or cannot be used as the rights say (EFAULT).
    Fault,
}

impl core::fmt::Display for RegisterError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Access => "remote write and atomic access need local write access as well",
            Self::Wrap => "the tagged offsets of the region would wrap around 2^64",
            Self::ForeignQp => "the queue pair belongs to another device or protection domain",
            Self::OutOfMemory => "not enough memory for a region of that length",
            Self::TableFull => "all STags are in use",
            Self::Busy => "the object is in use: memory windows are bound to it, or others were made with it",
            Self::Fault => "some of the memory is not there, or cannot be written",
        })
    }
}

impl core::error::Error for RegisterError {}
