//! Two processes of a program of others that measures itself and prints a table, on a core each.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use super::Outcome;
use super::place::{Place, now};
use super::say;
use super::scene::Scene;
use crate::case::{Effort, Sample, Side, Trouble};

/// Two processes of a program on loopback.
pub(crate) struct Programs {
    scene: Arc<Scene>,
    name: &'static str,
    command: Box<dyn Fn(&Run) -> Command + Send + Sync>,
    trip: Trip,
    /// Trips that fit in a turn, measured by a first short turn.
    trips: u64,
}

/// Messages there and back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trip {
    pub(super) size: usize,
    /// Transfers, as the program counts them, and as a row does.
    pub(super) transfers: u64,
    pub(super) counted: u64,
}

/// What one process of the two does.
pub(crate) struct Run {
    pub(super) is_client: bool,
    pub(super) trips: u64,
    /// It compares octets.
    pub(super) compares: bool,
}

/// Checks that the machine has a program, which is in this package of Debian.
pub(super) fn find(program: &str, package: &str) -> Outcome<()> {
    let found = Command::new(program).arg("-h").stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.map(drop).map_err(|error| Trouble::Skipped(format!("{program} (Debian: {package}): {error}")))
}

impl Programs {
    /// Returns two processes of a program on loopback.
    pub(super) fn new(
        name: &'static str,
        trip: Trip,
        command: impl Fn(&Run) -> Command + Send + Sync + 'static,
    ) -> Self {
        Self { scene: Scene::loopback(), name, command: Box::new(command), trip, trips: 0 }
    }

    /// Returns the microseconds of one of `trips`, as the program reports them. If the program compares octets, it does
    /// so in its timed part.
    fn measure(&self, trips: u64, compares: bool) -> Outcome<f64> {
        let start = |place: &Place, is_client: bool| -> Outcome<Child> {
            // A child inherits the core and the namespace of the thread that starts it.
            let start = || {
                place.enter()?;
                let mut command = (self.command)(&Run { is_client, trips, compares });
                command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
                command.spawn().map_err(say(self.name))
            };
            std::thread::scope(|scope| {
                scope.spawn(start).join().unwrap_or_else(|_| Err(Trouble::failed("a thread has panicked")))
            })
        };
        let [there, here] = &self.scene.places;
        let mut server = Running(start(there, false)?);
        let begin = now();
        loop {
            let output = self.finish(&mut Running(start(here, true)?), begin)?;
            if let Some(micros) = parse(&output) {
                self.finish(&mut server, begin)?;
                return Ok(self.trip.transfers as f64 * micros);
            }
            // The server does not listen yet.
            if begin.elapsed() > PATIENCE {
                return Err(Trouble::failed(format!("{} does not connect to itself", self.name)));
            }
            std::thread::sleep(RETRY);
        }
    }

    /// Measures a second time if the first time failed. `fi_pingpong` sometimes hangs against itself, and nothing of
    /// ours is in it.
    fn measure_again(&self, trips: u64, compares: bool) -> Outcome<f64> {
        self.measure(trips, compares).or_else(|_hung| self.measure(trips, compares))
    }

    /// Waits for the end of a process, and returns its output.
    fn finish(&self, process: &mut Running, begin: std::time::Instant) -> Outcome<String> {
        let failed = say(self.name);
        while process.0.try_wait().map_err(&failed)?.is_none() {
            if begin.elapsed() > PATIENCE {
                return Err(Trouble::failed(format!("{} does not end", self.name)));
            }
            std::thread::sleep(RETRY);
        }
        let mut text = String::new();
        if let Some(out) = &mut process.0.stdout {
            std::io::Read::read_to_string(out, &mut text).map_err(failed)?;
        }
        Ok(text)
    }
}

impl Side for Programs {
    fn turn(&mut self, effort: &Effort) -> Result<Sample, Trouble> {
        if self.trips == 0 {
            let first = (effort.count(200) as u64 / self.trip.counted).max(1);
            let micros = self.measure_again(first, true)?;
            let trip = Duration::from_secs_f64(micros / 1e6);
            let wanted = effort.turn.as_nanos() / trip.as_nanos().max(1);
            self.trips = u64::try_from(wanted).unwrap_or(u64::MAX).clamp(10, 1_000_000);
        }
        let micros = self.measure_again(self.trips, false)?;
        let wall = Duration::from_secs_f64(micros * self.trips as f64 / 1e6);
        // The program itself compared the octets in its first run.
        let transfers = self.trips * self.trip.counted;
        let octets = transfers * self.trip.size as u64;
        Ok(Sample { wall, transfers, octets, checked: transfers, ..Sample::default() })
    }
}

/// A process that is killed when this is dropped.
struct Running(Child);

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
        let output = "name      bytes   xfers   iters   total       time     Gb/sec    usec/xfer\n\
                      custom    1m      16      100     3.1g        3.64s      7.37    1138.71\n";
        assert_eq!(parse(output), Some(1138.71));
        assert_eq!(parse("fi_getinfo: -61 (No data available)\n"), None);
        assert_eq!(parse(""), None);
    }
}
