//! `weft demo`: two software RNICs in one process, every operation, every octet checked.

use std::process::ExitCode;

mod args;
mod report;
mod workload;
mod world;

pub use args::Args;

use crate::failure::Failure;

/// Runs the demo and prints its report.
pub fn run(args: &Args) -> ExitCode {
    let report = report::Report::new(args.json);
    let outcome = demo(args, &report).and_then(|segments| report.finish(&segments));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            report.fail(&failure);
            failure.print("demo")
        }
    }
}

fn demo(args: &Args, report: &report::Report) -> Result<weft_rnic::SegmentCounters, Failure> {
    let mut world = world::World::new(args)?;
    let progress = crate::progress::Progress::new(workload::total_messages(), "messages");
    report.begin(args)?;
    for round in workload::rounds() {
        let row = world.run(&round, &progress)?;
        progress.suspend(|| report.row(&row))?;
    }
    progress.finish();
    world.close()
}
