//! The process at the other end. It accepts, and answers every message on the same connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use weft_rnic::Progress;

use crate::args::Args;
use crate::side::Side;

/// The other process. The drop of this value ends it.
pub(crate) struct Far {
    child: Child,
    address: SocketAddr,
}

impl Far {
    /// Starts this program once more, as the side that answers.
    pub(crate) fn start(args: &Args, progress: Progress, qps: u32) -> io::Result<Self> {
        let manner = if progress == Progress::Manual { "manual" } else { "thread" };
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--answer", manner])
            .args(["--qps", &qps.to_string(), "--depth", &args.depth.to_string()])
            .args(["--tcp-buffer", &args.tcp_buffer.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let address = line.trim().parse();
        let address =
            address.map_err(|_| io::Error::other("the other process has not told where it listens"))?;
        Ok(Self { child, address })
    }

    /// Returns the address on which it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        // Its standard input ends with the pipe, and then the process ends.
        drop(self.child.stdin.take());
        let _status = self.child.wait();
    }
}

/// Answers until standard input ends, or the connections do.
pub(crate) fn answer(args: &Args, progress: Progress) -> io::Result<()> {
    match answer_all(args, progress) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(()),
        ended => ended,
    }
}

fn answer_all(args: &Args, progress: Progress) -> io::Result<()> {
    let mut side = Side::on_host(args, progress)?;
    let listener = side.device.listen(&side.events, 0).map_err(io::Error::other)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{}", listener.local_addr())?;
    out.flush()?;
    std::thread::spawn(|| {
        let _ended = io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    // A device with a thread answers from its sleep. Without a thread, this process polls for a while first, like the
    // measuring side.
    let patience = if progress == Progress::Manual { LOOKS } else { 0 };
    let mut in_vain = 0;
    loop {
        side.handle_events()?;
        let before = in_vain;
        while let Some(index) = side.message()? {
            side.send(index)?;
            in_vain = 0;
        }
        if side.established >= args.qps as usize && before >= patience {
            let index = side.sleep_for_message(NAP)?;
            index.map_or(Ok(()), |index| side.send(index))?;
            in_vain = 0;
        }
        in_vain += 1;
    }
}

/// The polls without a message before the process sleeps.
const LOOKS: u32 = 10_000;
/// The longest sleep before it checks whether connections have ended.
const NAP: Duration = Duration::from_secs(1);
