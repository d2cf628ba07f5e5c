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
    /// Memory windows may be bound to this region.
    pub const MW_BIND: Self = Self(0x10);
    /// The first octet has the tagged offset 0, whatever its address is.
    pub const ZERO_BASED: Self = Self(0x20);
    /// Everything a peer and the engine can do with the octets.
    pub const ALL: Self = Self(0x0F);

    /// Returns whether all rights of `other` are in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether the combination makes sense: remote write or Atomics without local write do not, as in
    /// `ibv_reg_mr`.
    pub const fn is_valid(self) -> bool {
        !self.is_remotely_writable() || self.contains(Self::LOCAL_WRITE)
    }

    /// Returns whether a peer may access the memory at all.
    pub const fn is_remote(self) -> bool {
        self.0 & REMOTE != 0
    }

    /// Returns whether a memory window can have these rights: remote ones only, counted from 0 or not.
    pub const fn is_for_window(self) -> bool {
        self.0 & !(REMOTE | Self::ZERO_BASED.0) == 0
    }

    /// Returns whether peers may change the octets.
    pub const fn is_remotely_writable(self) -> bool {
        self.contains(Self::REMOTE_WRITE) || self.contains(Self::REMOTE_ATOMIC)
    }

    /// Returns the set as libibverbs numbers its members.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns the set of these bits, or `None` if one of them is not a right.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits & !KNOWN == 0 { Some(Self(bits)) } else { None }
    }
}

impl BitOr for Access {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

const REMOTE: u8 = 0x0E;
const KNOWN: u8 = 0x3F;
