//! rping over a wire that loses frames.

use crate::bench::Bench;
use crate::cases::rping;
use crate::relay::Relay;

pub(crate) fn run(bench: &Bench<'_>) -> Result<(), String> {
    let relay = Relay::start(&bench.dir.join("wire"), bench.guest.wire(), LOSS)?;
    rping::ping(bench, relay.path(), SIZE, ROUNDS)?;
    let lost = relay.finish()?;
    if lost.contains(&0) {
        return Err(format!("the wire was to lose frames each way, but lost {lost:?}"));
    }
    Ok(())
}

const LOSS: f64 = 0.01;
const SIZE: usize = 4096;
const ROUNDS: usize = 20;
