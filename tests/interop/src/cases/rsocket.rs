//! rsocket's programs: librdmacm's sockets on siw in the guest, and those of this machine on Weft, by `weft run`.

use std::time::Duration;

use crate::bench::{Bench, Role, tried_until_heard};
use crate::job::Output;
use crate::program::Program;

pub(crate) fn run(bench: &Bench<'_>) -> Result<(), String> {
    let more: &[&str] = if bench.role == Role::Active { &RUNS_FROM_GUEST } else { &[] };
    RUNS.iter().chain(more).try_for_each(|command| {
        let talked = match bench.role {
            Role::Passive => to_guest(bench, command),
            Role::Active => from_guest(bench, command),
        };
        talked.map_err(|error| format!("{command}: {error}"))
    })
}

fn to_guest(bench: &Bench<'_>, command: &str) -> Result<(), String> {
    let server = bench.guest.start(&format!("{command} -b 10.0.0.1 -p {PORT}"))?;
    bench.guest.wait_listening(PORT)?;
    let client = on_weft(bench, &format!("{command} -s 10.0.0.1 -p {PORT}"))?;
    check("this machine's side", &client.wait(PATIENCE)?)?;
    check("the guest's side", &server.wait(PATIENCE)?)
}

fn from_guest(bench: &Bench<'_>, command: &str) -> Result<(), String> {
    let server = on_weft(bench, &format!("{command} -p {PORT}"))?;
    // The server does not tell when it listens.
    let client = tried_until_heard(&format!("{command} -s 10.0.0.2 -p {PORT}"), "^rconnect:");
    let client = bench.guest.start(&client)?.wait(PATIENCE)?;
    check("the guest's side", &client)?;
    check("this machine's side", &server.wait(PATIENCE)?)
}

fn on_weft(bench: &Bench<'_>, command: &str) -> Result<Program, String> {
    let wire = format!("unix:{}", bench.guest.wire().display());
    bench.weft_run(&["--transport", &wire, "--ip", "10.0.0.2/24"], command)
}

/// Checks that each side printed at its end how long the run took.
fn check(side: &str, output: &Output) -> Result<(), String> {
    if output.status == 0 && output.lines.iter().any(|line| line.starts_with("custom ")) {
        return Ok(());
    }
    Err(format!("{side}: status {}: {}", output.status, output.lines.join(" / ")))
}

/// Both sides check the received octets. riostream writes into memory by its offset, and waits there for the octets.
const RUNS: [&str; 4] = [
    "rstream -T v -S 64 -C 50 -I 5",
    "rstream -T v -T n -S 3000 -C 20 -I 2",
    "rstream -T v -T b -S 1000000 -B 8000000 -C 2 -I 2",
    "riostream -T v -S 3000 -C 3 -I 3",
];
/// A closing server on siw can lose octets that it has sent. If the client sends a grant for read buffers meanwhile,
/// TCP resets the connection. So runs with many grants have their server on Weft.
const RUNS_FROM_GUEST: [&str; 3] = [
    "rstream -T v -S 1000000 -C 2 -I 2",
    "rstream -T v -S 20000 -B 4096 -i 0 -C 5 -I 5",
    "riostream -T v -S 100000 -C 2 -I 3",
];
const PORT: u16 = 7471;
const PATIENCE: Duration = Duration::from_secs(120);
