//! `weft bench`: the data path beside references. The work is done by weft-bench.

use std::io;
use std::process::ExitCode;

pub use weft_bench::Args;

use crate::failure::Failure;

/// Measures, and prints a row for each comparison.
pub fn run(args: &Args) -> ExitCode {
    if args.is_isolated() {
        weft_bench::isolate();
    }
    let failure = match weft_bench::run(args, &mut io::stdout().lock()) {
        Ok(Ok(())) => return ExitCode::SUCCESS,
        Ok(Err(trouble)) => Failure::work(trouble),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Failure::usage(error),
        Err(error) => error.into(),
    };
    failure.print("bench")
}
