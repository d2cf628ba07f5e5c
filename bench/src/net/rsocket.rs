//! rsocket, the sockets of librdmacm on RDMA: its `rstream` under `weft run`, on the kernel's TCP.

use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};

use super::Outcome;
use super::programs::{Programs, Run, Trip, find};
use super::work::Kind;
use crate::case::Trouble;
use crate::sockets::daemon::own_program;

/// Returns octets of a stream in sends of `size`, there and back, if the program is installed.
pub(super) fn rsocket(size: usize, kind: Kind) -> Outcome<Programs> {
    let weft = own_program()?;
    if weft.file_name().is_none_or(|name| name != "weft") {
        return Err(Trouble::Skipped("only the program weft can start others under itself".into()));
    }
    find(PROGRAM, "rdmacm-utils")?;
    let (sends, counted) = match kind {
        Kind::RoundTrips => (1, 1),
        Kind::Stream => (SENDS, 2 * SENDS),
    };
    // The port of an earlier run may be in use still.
    static PORT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + u16::try_from(std::process::id() % 8192).unwrap_or(0);
    let command = move |run: &Run| {
        // The server is started first, and each trial of a client has its port.
        let offset = if run.is_client {
            PORT.load(Ordering::Relaxed)
        } else {
            PORT.fetch_add(1, Ordering::Relaxed) + 1
        };
        let port = (first + offset % 4096).to_string();
        let (size, trips, sends) = (size.to_string(), run.trips.to_string(), sends.to_string());
        let mut command = Command::new(&weft);
        command.args(["run", "--", PROGRAM, "-p", &port, "-S", &size, "-I", &trips, "-C", &sends, "-T", "b"]);
        if run.is_client {
            command.args(["-s", "127.0.0.1"]);
        }
        if run.compares {
            command.args(["-T", "v"]);
        }
        command
    };
    let trip = Trip { size, transfers: 2 * sends, counted };
    Ok(Programs::new(PROGRAM, trip, command))
}

const PROGRAM: &str = "rstream";
/// Sends one behind the other before it is the other side's turn.
const SENDS: u64 = 64;
