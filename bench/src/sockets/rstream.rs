//! rdma-core's rstream on Weft's librdmacm: rsocket beside sockets.

use core::net::Ipv4Addr;
use std::ffi::OsStr;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::daemon::weft;
use super::load::text_of;
use super::server::find;
use crate::case::{Effort, Sample, Side, Trouble};
use crate::process::{Outcome, free_port, say};

/// Messages there and back by rsocket.
pub(super) struct Rstream {
    size: usize,
    /// Messages of the next turn.
    count: u64,
}

impl Rstream {
    /// Returns the time of one message one way.
    pub(super) fn one_way(size: usize) -> Outcome<Box<dyn Side>> {
        find(PROGRAM)?;
        Ok(Box::new(Self { size, count: 1000 }))
    }

    fn command(&self, port: u16) -> Outcome<Command> {
        let mut command = weft()?;
        command.args(["run", "--"]).arg(OsStr::new(PROGRAM)).args(["-p", &port.to_string()]);
        command.args(["-S", &self.size.to_string(), "-C", "1", "-I", &self.count.to_string()]);
        Ok(command)
    }

    /// Returns the microseconds of one message.
    fn run(&self) -> Outcome<f64> {
        let port = free_port(Ipv4Addr::LOCALHOST)?;
        let mut server = self.command(port)?;
        server.args(["-b", "127.0.0.1"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = server.spawn().map_err(say(PROGRAM))?;
        let text = (0..TRIES).find_map(|number| {
            let mut client = self.command(port).ok()?;
            client.args(["-s", "127.0.0.1"]).stdin(Stdio::null());
            let text = text_of(client);
            // The server does not tell when it listens.
            let is_last = number + 1 == TRIES;
            if text.is_err() && !is_last {
                std::thread::sleep(Duration::from_millis(50));
            }
            (text.is_ok() || is_last).then_some(text)
        });
        let _ended = server.kill();
        let _status = server.wait();
        let text = text.unwrap_or_else(|| Err(Trouble::failed("rstream did not run")))?;
        // name, bytes, xfers, iters, total, time, Gb/sec, usec/xfer
        let last = text.lines().last().unwrap_or_default();
        let micros = last.split_whitespace().nth(7).and_then(|word| word.parse().ok());
        micros.ok_or_else(|| Trouble::failed(format!("rstream printed: {text}")))
    }
}

impl Side for Rstream {
    fn turn(&mut self, effort: &Effort) -> Outcome<Sample> {
        let micros = self.run()?;
        let transfers = 2 * self.count;
        let wall = Duration::from_secs_f64(micros * transfers as f64 / 1e6);
        // rstream compares octets only if it is told to, which would be timed.
        let wanted = effort.turn.as_nanos() * u128::from(self.count) / wall.as_nanos().max(1);
        self.count = u64::try_from(wanted).unwrap_or(u64::MAX).clamp(100, 1_000_000);
        let octets = transfers * self.size as u64;
        Ok(Sample { wall, transfers, octets, checked: transfers, ..Sample::default() })
    }
}

const PROGRAM: &str = "rstream";
const TRIES: u32 = 20;
