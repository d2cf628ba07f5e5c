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

/// `count` pings of `size` octets over `wire`. The client of the two compares what it gets back.
pub(crate) fn ping(bench: &Bench<'_>, wire: &Path, size: usize, count: usize) -> Result<(), String> {
    let label = format!("rping-{size}");
    let (size, count) = (size.to_string(), count.to_string());
    match bench.role {
        Role::Passive => {
            // The server's buffer has the size that it is told, whatever the client says.
            let server = bench.guest.start(&format!("rping -s -a 10.0.0.1 -S {size}"))?;
            bench.guest.wait_listening(PORT)?;
            let client =
                bench.weft(&label, wire, &["rping", "-c", "-a", "10.0.0.1", "-C", &count, "-S", &size])?;
            expect(&client.finish(PATIENCE)?, &format!("{count} pings of {size} octets"))?;
            // It calls the client's departure an error: what counts is that it has ended by itself.
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

/// What the guest's shell runs for a client. Where its end is [`RACED`], the server's count shows that all pings are done.
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

/// What rping says when it closes the event channel on which a thread of its own may wait still, and that thread makes an error of it.
pub(crate) const RACED: &str = "rdma_get_cm_event: Bad file descriptor";
/// rping's least and its largest, with one that just fits into a segment and one that needs three.
pub(crate) const SIZES: [usize; 5] = [23, 64, 1460, 4096, 65_535];
const ROUNDS: usize = 200;
const PORT: u16 = 7174;
const PATIENCE: Duration = Duration::from_secs(120);
