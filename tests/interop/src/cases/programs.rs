//! Programs of Debian's packages on both sides: the guest's on siw, this machine's on Weft, by `weft run`.
//!
//! There are few iterations, since the guest's processor is emulated. The measured values do not matter. Each side
//! has to report at its end that it has done all iterations.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use crate::bench::{Bench, Role, tried_until_heard};
use crate::cases::host::set_up;
use crate::cases::rping::RACED;
use crate::image::Siw;
use crate::job::Output;
use crate::program::Program;

/// One program, and the options for both of its sides.
struct Pair {
    program: &'static str,
    options: &'static str,
    /// The client's output at a good end.
    said: &'static str,
}

/// The addresses of both sides, as each sees the other.
struct Way<'a> {
    /// The options of `weft run`.
    transport: Vec<String>,
    server: &'a str,
    /// The options that name the port to the server and to the client.
    ports: [String; 2],
    port: u16,
}

/// Runs the programs over the guest's wire.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), String> {
    let wire = format!("unix:{}", bench.guest.wire().display());
    let transport = ["--transport", &wire, "--ip", "10.0.0.2/24"].map(str::to_owned).to_vec();
    let server = if bench.role == Role::Passive { "10.0.0.1" } else { "10.0.0.2" };
    let ports = [format!("-p {PORT}"), format!("-p {PORT}")];
    let way = Way { transport, server, ports, port: PORT };
    PAIRS.iter().filter(|pair| pair.can_start(bench)).try_for_each(|pair| pair.run(bench, &way))
}

/// Runs the programs over the TCP of this machine and QEMU's user network.
pub(crate) fn run_on_host(bench: &Bench<'_>) -> Result<(), String> {
    set_up(bench)?;
    let transport = ["--transport", "host"].map(str::to_owned).to_vec();
    let way = match bench.role {
        Role::Passive => {
            // This port of this machine leads to the server in the guest.
            let ports = [format!("-p {PORT}"), format!("-p {}", bench.guest.forwarded().port())];
            Way { transport, server: "127.0.0.1", ports, port: PORT }
        }
        Role::Active => {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
            let port = free.map_err(|error| error.to_string())?.port();
            // The user network's router stands for this machine.
            Way { transport, server: "10.0.2.2", ports: [format!("-p {port}"), format!("-p {port}")], port }
        }
    };
    PING.run(bench, &way)?;
    // perftest connects again while its server closes one listener and opens another. The user network accepts such a
    // connection first and then resets it. So the client of this machine does not learn of a refusal, and does not
    // try again.
    if bench.role == Role::Active { WRITES.run(bench, &way) } else { Ok(()) }
}

impl Pair {
    fn can_start(&self, bench: &Bench<'_>) -> bool {
        self.program != WRITE_LAT || bench.role == Role::Passive || bench.image.siw == Siw::P2p
    }

    fn run(&self, bench: &Bench<'_>, way: &Way<'_>) -> Result<(), String> {
        let talk = || match bench.role {
            Role::Passive => self.call(bench, way),
            Role::Active => self.answer(bench, way),
        };
        let mut done = talk();
        for _ in 1..TRIES {
            let is_race = |error: &String| [NO_CLOCK, TOO_EARLY].iter().any(|known| error.contains(known));
            if done.as_ref().is_err_and(is_race) {
                done = talk();
            }
        }
        done.map_err(|error| format!("{} {}: {error}", self.program, self.options))
    }

    fn call(&self, bench: &Bench<'_>, way: &Way<'_>) -> Result<(), String> {
        let server = bench.guest.start(&self.server(way))?;
        bench.guest.wait_listening(way.port)?;
        let output = self.on_weft(bench, way, &self.client(way))?.wait(PATIENCE)?;
        self.check(&output.lines)?;
        self.judge(&output)?;
        self.judge(&server.wait(PATIENCE)?).map_err(|error| format!("the guest's side: {error}"))
    }

    fn answer(&self, bench: &Bench<'_>, way: &Way<'_>) -> Result<(), String> {
        let mut server = self.on_weft(bench, way, &self.server(way))?;
        // perftest prints this a moment before it listens, and its client may have to try again. rping prints
        // nothing.
        if self.program != RPING {
            server.wait_for_line("Waiting for client", PATIENCE)?;
        }
        let command = tried_until_heard(&self.client(way), REFUSED);
        let output = bench.guest.start(&command)?.wait(PATIENCE)?;
        self.check(&output.lines)?;
        self.judge(&output).map_err(|error| format!("the guest's side: {error}"))?;
        self.judge(&server.wait(PATIENCE)?)
    }

    /// Accepts errors that a program reports after its work. rping's server, for example, calls the client's
    /// departure an error.
    fn judge(&self, output: &Output) -> Result<(), String> {
        let is_known = |line: &String| FAREWELLS.iter().any(|farewell| line.contains(farewell));
        if output.status == 0
            || output.lines.iter().any(is_known)
            || self.program == RPING && output.status > 0
        {
            return Ok(());
        }
        Err(format!("status {}: {}", output.status, output.lines.join(" / ")))
    }

    fn on_weft(&self, bench: &Bench<'_>, way: &Way<'_>, command: &str) -> Result<Program, String> {
        let transport: Vec<&str> = way.transport.iter().map(String::as_str).collect();
        bench.weft_run(&transport, &format!("stdbuf -oL {command}"))
    }

    fn server(&self, way: &Way<'_>) -> String {
        let (program, options, port) = (self.program, self.options, &way.ports[0]);
        if program == RPING {
            return format!("rping -s {port} {options}");
        }
        format!("{program} -R {port} {options}")
    }

    fn client(&self, way: &Way<'_>) -> String {
        let (program, options, port, server) = (self.program, self.options, &way.ports[1], way.server);
        if program == RPING {
            return format!("rping -c -v -V {port} {options} -a {server}");
        }
        format!("{program} -R {port} {options} {server}")
    }

    fn check(&self, lines: &[String]) -> Result<(), String> {
        // Any number of spaces separates the columns.
        let words = |line: &String| line.split_whitespace().collect::<Vec<_>>().join(" ");
        if lines.iter().any(|line| words(line).starts_with(self.said)) {
            Ok(())
        } else {
            Err(format!("the client says not `{}` but: {}", self.said, lines.join(" / ")))
        }
    }
}

const PAIRS: &[Pair] = &[
    PING,
    Pair { program: "ib_send_lat", options: "-n 20 -s 64", said: "64 20 " },
    Pair { program: "ib_send_bw", options: "-n 20 -s 4096", said: "4096 20 " },
    Pair { program: WRITE_LAT, options: "-n 20 -s 64", said: "64 20 " },
    WRITES,
    Pair { program: "ib_read_lat", options: "-n 20 -s 64", said: "64 20 " },
    Pair { program: "ib_read_bw", options: "-n 20 -s 4096", said: "4096 20 " },
];
const PING: Pair = Pair { program: RPING, options: "-C 20 -S 4096", said: "ping data: rdma-ping-19:" };
const WRITES: Pair = Pair { program: "ib_write_bw", options: "-n 20 -s 65536", said: "65536 20 " };
/// Its server sends first. A responder must not do that before the peer-to-peer start (RFC 5044 section 7.1.2), and
/// an unpatched siw does not ask for that.
const WRITE_LAT: &str = "ib_write_lat";
const RPING: &str = "rping";
/// The output of either program while no server listens.
const REFUSED: &str =
    "rdma_connect failed|Unexpected CM event|connect error|RDMA_CM_EVENT_REJECTED|UNREACHABLE";
/// siw reports a Send as failed if its answer and the peer's FIN come before its own call of TCP returns. perftest's
/// last Send is of this kind.
const FAREWELLS: [&str; 2] = ["Failed to close connection between server and client", RACED];
/// perftest measures the processor's clock before it prints its results. On a busy machine that can fail, and it
/// prints no results.
const NO_CLOCK: &str = "Can't produce a report";
/// perftest's client connects a second time while its server closes one listener and opens the next. siw does not try
/// again.
const TOO_EARLY: &str = "Failed to connect through RDMA CM";
const TRIES: usize = 3;
/// The guest's port that this machine can reach over the user network.
const PORT: u16 = 7174;
const PATIENCE: Duration = Duration::from_secs(60);
