//! What a memory region may be used for.

use core::ops::BitOr;

/// A set of access rights (RFC 5040 section 8.1.1, `ibv_access_flags`). Local read is always allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Access(u8);

impl Access {
    /// Only local reads: the source of Sends and Writes.
    pub const LOCAL_READ: Self = Self(0);
    /// The engine may place received data here: receive buffers and sinks of Reads.
    pub const LOCAL_WRITE: Self = Self(0x01);
    /// A peer may write here. Needs [`Self::LOCAL_WRITE`].
    pub const REMOTE_WRITE: Self = Self(0x02);
    /// A peer may read here.
    pub const REMOTE_READ: Self = Self(0x04);
    /// A peer may do Atomics here. Needs [`Self::LOCAL_WRITE`].
    pub const REMOTE_ATOMIC: Self = Self(0x08);
    /// Everything a peer and the engine can do.
    pub const ALL: Self = Self(0x0F);

    /// Whether all rights of `other` are in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the combination makes sense: remote write or Atomics without local write do not, as in `ibv_reg_mr`.
    pub const fn is_valid(self) -> bool {
        let changes = self.contains(Self::REMOTE_WRITE) || self.contains(Self::REMOTE_ATOMIC);
        !changes || self.contains(Self::LOCAL_WRITE)
    }

    /// Whether a peer has any business here.
    pub const fn is_remote(self) -> bool {
        self.0 & !Self::LOCAL_WRITE.0 != 0
    }
}

impl BitOr for Access {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
