//! libfabric's `fi_pingpong` over its tcp or its shm provider.

use std::process::Command;

use super::Outcome;
use super::programs::{Programs, Run, Trip, find};

/// The provider that carries libfabric's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Provider {
    /// The kernel's TCP.
    Tcp,
    /// Memory that two processes share.
    Shm,
}

/// Returns messages of `size` octets back and forth, if the program is installed.
pub(super) fn fabric(provider: Provider, size: usize) -> Outcome<Programs> {
    find(PROGRAM, "libfabric-bin")?;
    let command = move |run: &Run| {
        let [provider, endpoint] = match provider {
            Provider::Tcp => ["tcp", "msg"],
            Provider::Shm => ["shm", "rdm"],
        };
        let (size, trips) = (size.to_string(), run.trips.to_string());
        let mut command = Command::new(PROGRAM);
        command.args(["-p", provider, "-e", endpoint, "-S", &size, "-I", &trips]);
        command.args(run.is_client.then_some("127.0.0.1")).args(run.compares.then_some("-c"));
        command
    };
    // The program counts each message as a transfer.
    let trip = Trip { size, transfers: 2, counted: 1 };
    Ok(Programs::new(PROGRAM, trip, command))
}

const PROGRAM: &str = "fi_pingpong";
