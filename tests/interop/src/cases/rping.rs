//! rdma-core's rping in the guest against `weft rping`.

use std::path::Path;
use std::time::Duration;

use crate::bench::{Bench, Role};

pub(crate) fn run(bench: &Bench<'_>) -> Result<(), String> {
    for size in SIZES {
        ping(bench, bench.guest.wire(), size, ROUNDS / SIZES.len())
            .map_err(|error| format!("{size} octets: {error}"))?;
    }
    Ok(())
}

/// Runs `count` pings of `size` octets over `wire`. The client compares the octets that come back.
pub(crate) fn ping(bench: &Bench<'_>, wire: &Path, size: usize, count: usize) -> Result<(), String> {
    let label = format!("rping-{size}");
    let (size, count) = (size.to_string(), count.to_string());
    match bench.role {
        Role::Passive => {
            // The server's buffer has the size of its own option, whatever the client says.
            let server = bench.guest.start(&format!("rping -s -a 10.0.0.1 -S {size}"))?;
            bench.guest.wait_listening(PORT)?;
            let client =
                bench.weft(&label, wire, &["rping", "-c", "-a", "10.0.0.1", "-C", &count, "-S", &size])?;
            expect(&client.finish(PATIENCE)?, &format!("{count} pings of {size} octets"))?;
            // rping's server reports the client's departure as an error. It counts only that the server has ended by
            // itself.
            server.wait(PATIENCE).map(drop)
        }
        Role::Active => {
            let server = bench.weft(&label, wire, &["rping", "-s"])?;
            let ping = client(&format!("-a 10.0.0.2 -V -C {count} -S {size}"));
            let client = bench.guest.run(&ping, PATIENCE);
            let said = server.finish(if client.is_ok() { PATIENCE } else { Duration::ZERO });
            client?;
            expect(&said?, &format!("was served {count} pings"))
        }
    }
}

/// Returns the shell command for a client. If its end is [`RACED`], the server's count shows that all pings are done.
pub(crate) fn client(options: &str) -> String {
    format!(
        "said=$(rping -c {options} 2>&1); status=$?; echo \"$said\"; \
         case $said in *'{RACED}'*) status=0;; esac; (exit $status)"
    )
}

pub(crate) fn expect(lines: &[String], text: &str) -> Result<(), String> {
    if lines.iter().any(|line| line.contains(text)) {
        Ok(())
    } else {
        Err(format!("weft says not `{text}` but: {}", lines.join(" / ")))
    }
}

/// rping's output if it closes the event channel while its own thread still waits there, which the thread takes for
/// an error.
pub(crate) const RACED: &str = "rdma_get_cm_event: Bad file descriptor";
/// rping's smallest and largest size, one that just fits into a segment, and one that needs three.
pub(crate) const SIZES: [usize; 5] = [23, 64, 1460, 4096, 65_535];
const ROUNDS: usize = 200;
const PORT: u16 = 7174;
const PATIENCE: Duration = Duration::from_secs(120);
