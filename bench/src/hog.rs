//! A third program that never stops computing.

use std::process::{Child, Command};

use crate::case::{Effort, Sample, Side};
use crate::process::{Outcome, say};

/// A side whose turns have such a program beside them.
pub(crate) struct Hog {
    side: Box<dyn Side>,
}

impl Hog {
    /// Returns the side with a hog in its turns.
    pub(crate) fn beside(side: Box<dyn Side>) -> Box<dyn Side> {
        Box::new(Self { side })
    }
}

impl Side for Hog {
    fn turn(&mut self, effort: &Effort) -> Outcome<Sample> {
        let program = std::env::current_exe().map_err(say("finding this program"))?;
        let hog = Command::new(program).args(["bench", "sockets", "hog"]).spawn();
        let _ends = Ends(hog.map_err(say("starting a program"))?);
        self.side.turn(effort)
    }
}

/// A program that ends with this value.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

/// Computes until it is killed, or the benchmark has gone.
pub(crate) fn run() -> std::io::Result<Outcome<()>> {
    let parent = std::os::unix::process::parent_id();
    let mut number = 1_u64;
    while std::os::unix::process::parent_id() == parent {
        for _ in 0..10_000_000 {
            number = core::hint::black_box(number.wrapping_mul(3) + 1);
        }
    }
    Ok(Ok(()))
}
