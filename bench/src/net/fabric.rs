//! libfabric's `fi_pingpong` over its tcp or its shm provider: two processes, on a core each.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use super::Outcome;
use super::place::{Place, now};
use super::say;
use super::scene::Scene;
use crate::case::{Effort, Sample, Side, Trouble};

/// Messages of `size` octets back and forth on loopback.
#[derive(Debug)]
pub(crate) struct Fabric {
    scene: Arc<Scene>,
    provider: Provider,
    size: usize,
    /// Round trips that fit in a turn, measured by a first short turn.
    trips: u64,
}

/// The provider that carries libfabric's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Provider {
    /// The kernel's TCP.
    Tcp,
    /// Memory that two processes share.
    Shm,
}

impl Fabric {
    /// Returns the side, if the program is installed.
    pub(crate) fn new(scene: &Arc<Scene>, provider: Provider, size: usize) -> Outcome<Self> {
        let found = Command::new(PROGRAM).arg("-h").stdout(Stdio::null()).stderr(Stdio::null()).status();
        match found {
            Ok(_) => Ok(Self { scene: Arc::clone(scene), provider, size, trips: 0 }),
            Err(error) => Err(Trouble::Skipped(format!("{PROGRAM} (Debian: libfabric-bin): {error}"))),
        }
    }

    /// Returns the microseconds of one of `trips` round trips, as the program reports them. If the program compares
    /// octets, it does so in its timed part.
    fn measure(&self, trips: u64, compares: bool) -> Outcome<f64> {
        let start = |place: &Place, more: &[&str]| -> Outcome<Child> {
            let (size, trips) = (self.size.to_string(), trips.to_string());
            // A child inherits the core and the namespace of the thread that starts it.
            let start = || {
                place.enter()?;
                let mut command = Command::new(PROGRAM);
                let [provider, endpoint] = match self.provider {
                    Provider::Tcp => ["tcp", "msg"],
                    Provider::Shm => ["shm", "rdm"],
                };
                command.args(["-p", provider, "-e", endpoint, "-S", &size, "-I", &trips]).args(more);
                command.args(compares.then_some("-c"));
                command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
                command.spawn().map_err(say(PROGRAM))
            };
            std::thread::scope(|scope| {
                scope.spawn(start).join().unwrap_or_else(|_| Err(Trouble::failed("a thread has panicked")))
            })
        };
        let [there, here] = &self.scene.places;
        let mut server = Running(start(there, &[])?);
        let begin = now();
        loop {
            let output = Running(start(here, &["127.0.0.1"])?).finish(begin)?;
            if let Some(micros) = parse(&output) {
                server.finish(begin)?;
                // The program counts each message as a transfer.
                return Ok(2.0 * micros);
            }
            // The server does not listen yet.
            if begin.elapsed() > PATIENCE {
                return Err(Trouble::failed(format!("{PROGRAM} does not connect to itself")));
            }
            std::thread::sleep(RETRY);
        }
    }

    /// Measures a second time if the first time failed. The program sometimes hangs against itself, and nothing of ours
    /// is in it.
    fn measure_again(&self, trips: u64, compares: bool) -> Outcome<f64> {
        self.measure(trips, compares).or_else(|_hung| self.measure(trips, compares))
    }
}

impl Side for Fabric {
    fn turn(&mut self, effort: &Effort) -> Result<Sample, Trouble> {
        if self.trips == 0 {
            let micros = self.measure_again(effort.count(200) as u64, true)?;
            let trip = Duration::from_secs_f64(micros / 1e6);
            let wanted = effort.turn.as_nanos() / trip.as_nanos().max(1);
            self.trips = u64::try_from(wanted).unwrap_or(u64::MAX).clamp(10, 1_000_000);
        }
        let micros = self.measure_again(self.trips, false)?;
        let wall = Duration::from_secs_f64(micros * self.trips as f64 / 1e6);
        // The program itself compared the octets in its first run.
        let (transfers, checked) = (self.trips, self.trips);
        Ok(Sample { wall, transfers, octets: self.trips * self.size as u64, checked, ..Sample::default() })
    }
}

/// A process that is killed when this is dropped.
struct Running(Child);

impl Running {
    /// Waits for the end of the process, and returns its output.
    fn finish(&mut self, begin: std::time::Instant) -> Outcome<String> {
        while self.0.try_wait().map_err(say(PROGRAM))?.is_none() {
            if begin.elapsed() > PATIENCE {
                return Err(Trouble::failed(format!("{PROGRAM} does not end")));
            }
            std::thread::sleep(RETRY);
        }
        let mut text = String::new();
        if let Some(out) = &mut self.0.stdout {
            std::io::Read::read_to_string(out, &mut text).map_err(say(PROGRAM))?;
        }
        Ok(text)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both calls fail if the process has ended already.
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

/// Returns the column `usec/xfer` of the last line.
fn parse(output: &str) -> Option<f64> {
    let mut lines = output.lines();
    let column = lines.find_map(|line| line.split_whitespace().position(|word| word == "usec/xfer"))?;
    lines.last()?.split_whitespace().nth(column)?.parse().ok()
}

const PROGRAM: &str = "fi_pingpong";
const PATIENCE: Duration = Duration::from_secs(20);
const RETRY: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_transfer_is_read_from_the_table() {
        let output = "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n\
                      64      10k     =10k     1.2m        7.70s      0.17     384.97       0.00\n";
        assert_eq!(parse(output), Some(384.97));
        assert_eq!(parse("fi_getinfo: -61 (No data available)\n"), None);
        assert_eq!(parse(""), None);
    }
}
