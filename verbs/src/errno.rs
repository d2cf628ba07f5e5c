//! The numbers by which libibverbs tells errors.

use crate::memory::RegisterError;
use crate::work::PostError;

/// An error number, with Linux' value; each error of a call has the one that rdma-core or the kernel would give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Errno {
    /// Not permitted.
    Perm = 1,
    /// No memory, or no room in a queue or table.
    NoMem = 12,
    /// There is no such memory.
    Fault = 14,
    /// In use.
    Busy = 16,
    /// The device is no more.
    NoDev = 19,
    /// An argument makes no sense.
    Inval = 22,
    /// The device does not do that.
    OpNotSupp = 95,
    /// The address is in use.
    AddrInUse = 98,
    /// The address cannot be had here.
    AddrNotAvail = 99,
    /// There is no way to the address.
    NetUnreach = 101,
    /// The peer has gone.
    ConnReset = 104,
    /// There is no connection.
    NotConn = 107,
}

impl Errno {
    /// Returns the number, as `errno` holds it.
    pub const fn code(self) -> i32 {
        self as i32
    }
}

impl PostError {
    /// Returns what `ibv_post_send`, `ibv_post_recv` and `ibv_post_srq_recv` would answer.
    pub const fn errno(self) -> Errno {
        match self {
            Self::QueueFull => Errno::NoMem,
            Self::Unsupported => Errno::OpNotSupp,
            _ => Errno::Inval,
        }
    }
}

impl RegisterError {
    /// Returns what `ibv_reg_mr`, `ibv_dereg_mr` and `ibv_dealloc_pd` would answer.
    pub const fn errno(self) -> Errno {
        match self {
            Self::OutOfMemory | Self::TableFull => Errno::NoMem,
            Self::Fault => Errno::Fault,
            Self::Busy => Errno::Busy,
            _ => Errno::Inval,
        }
    }
}
