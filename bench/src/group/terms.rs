//! What the program of a replica is told.

use core::net::Ipv4Addr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// A replica of a chain. The benchmark starts it, and tells it by lines what to do.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReplicaArgs {
    /// The number of the replica in its chain
    #[arg(long)]
    pub(crate) index: usize,
    /// Replicas of the chain
    #[arg(long)]
    pub(crate) replicas: usize,
    /// Slots of a session
    #[arg(long)]
    pub(crate) window: u32,
    /// Octets of a session's range
    #[arg(long)]
    pub(crate) len: usize,
    /// Sessions
    #[arg(long)]
    pub(crate) sessions: usize,
    /// Who does the work of an operation
    #[arg(long, value_enum)]
    pub(crate) mode: Mode,
    /// The address of its device
    #[arg(long)]
    pub(crate) address: Ipv4Addr,
    /// The interface whose frames the device takes; without one it has the kernel's TCP
    #[arg(long)]
    pub(crate) interface: Option<String>,
    /// The file of its memory
    #[arg(long)]
    pub(crate) file: Option<PathBuf>,
    /// The program computes for 1 ms of each 2 ms
    #[arg(long)]
    pub(crate) busy: bool,
}

/// Who does the work of an operation at a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// The device, by queues that refill themselves.
    Cyclic,
    /// The device, by queues that the program refills when all slots are used, as the client asks for it.
    Refilled,
    /// The program, which sleeps in its completion channel.
    Sleep,
    /// The program, which sleeps in poll(2) on the descriptor of its completion channel.
    Poll,
    /// The program, which polls its completion queue without an end.
    Spin,
}

impl Mode {
    /// Returns its name on the command line.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Cyclic => "cyclic",
            Self::Refilled => "refilled",
            Self::Sleep => "sleep",
            Self::Poll => "poll",
            Self::Spin => "spin",
        }
    }
}
