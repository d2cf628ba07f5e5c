//! What carries the octets of programs: the kernel's sockets, or rings.

use core::net::Ipv4Addr;
use std::ffi::OsStr;
use std::process::Command;
use std::sync::Arc;

use super::daemon::{Daemons, Wire, own_program};
use super::hosts::Hosts;
use crate::case::Side;
use crate::figure::Compared;
use crate::process::Outcome;

/// What carries the octets of programs, and between which hosts.
#[derive(Clone)]
pub(crate) struct Carrier {
    hosts: Hosts,
    /// The library; without it the octets go by the kernel's sockets.
    library: Option<Library>,
}

/// The library and its daemons.
#[derive(Clone)]
struct Library {
    /// They end with their last program.
    daemons: Arc<Daemons>,
    /// The client has the library, too.
    both: bool,
    /// Each connection leaves TCP at once.
    is_eager: bool,
}

/// Returns a program on each carrier, in the order of the columns.
pub(super) fn compare(
    carriers: [Outcome<Carrier>; 2],
    start: impl Fn(&Carrier) -> Outcome<Box<dyn Side>>,
) -> Compared {
    carriers.into_iter().map(|carrier| carrier.and_then(|carrier| start(&carrier))).collect()
}

impl Carrier {
    /// The kernel's sockets, inside this host.
    pub(crate) const KERNEL: Self = Self { hosts: Hosts::One, library: None };

    /// Returns the kernel's sockets, between two hosts.
    pub(super) fn kernel_between() -> Outcome<Self> {
        Ok(Self { hosts: Hosts::two()?, library: None })
    }

    /// Starts a daemon for programs that have the library.
    pub(super) fn ours() -> Outcome<Self> {
        Self::here(true, false)
    }

    /// Starts a daemon for programs whose connections leave TCP at once.
    pub(super) fn eager() -> Outcome<Self> {
        Self::here(true, true)
    }

    /// Starts a daemon for servers that have the library, and whose clients have not.
    pub(super) fn server_only() -> Outcome<Self> {
        Self::here(false, false)
    }

    /// Starts daemons on two hosts, for programs that have the library.
    pub(super) fn lanes(wire: Wire) -> Outcome<Self> {
        Self::between(wire, false)
    }

    /// Starts daemons on two hosts, for programs whose connections leave TCP at once.
    pub(super) fn eager_lanes() -> Outcome<Self> {
        Self::between(Wire::Kernel, true)
    }

    /// Returns ours and the kernel's sockets, between two hosts or inside this one.
    pub(super) fn both(is_far: bool) -> [Outcome<Self>; 2] {
        if is_far {
            [Self::lanes(Wire::Kernel), Self::kernel_between()]
        } else {
            [Self::ours(), Ok(Self::KERNEL)]
        }
    }

    fn here(both: bool, is_eager: bool) -> Outcome<Self> {
        let library = Library { daemons: Arc::new(Daemons::here()?), both, is_eager };
        Ok(Self { hosts: Hosts::One, library: Some(library) })
    }

    fn between(wire: Wire, is_eager: bool) -> Outcome<Self> {
        let hosts = Hosts::two()?;
        let library = Library { daemons: Arc::new(Daemons::joined(hosts, wire)?), both: true, is_eager };
        Ok(Self { hosts, library: Some(library) })
    }

    /// Returns the address of servers.
    pub(super) const fn address(&self) -> Ipv4Addr {
        self.hosts.address(true)
    }

    /// Returns where the programs run.
    pub(super) const fn hosts(&self) -> Hosts {
        self.hosts
    }

    /// Returns a command that runs a program as users run it.
    pub(super) fn command(&self, serves: bool, program: &OsStr) -> Outcome<Command> {
        match &self.library {
            Some(Library { daemons, both, is_eager }) if serves || *both => {
                let mut command = self.hosts.command(serves, own_program()?.as_ref());
                command.args(["sockets", "--daemon", daemons.name(serves)]);
                command.args(is_eager.then_some("--eager")).arg("--").arg(program);
                Ok(command)
            }
            _ => Ok(self.hosts.command(serves, program)),
        }
    }

    /// Returns the daemons if both ends have the library.
    pub(super) fn daemons(&self) -> Option<&Arc<Daemons>> {
        self.library.as_ref().filter(|library| library.both).map(|library| &library.daemons)
    }
}
