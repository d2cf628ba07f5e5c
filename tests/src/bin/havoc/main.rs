//! `havoc`: processes that talk over many connections while processes and the daemon are killed and stopped by chance.

mod args;
mod child;
mod counts;
mod daemon;
mod driver;
mod fork;
mod shared;
mod talk;
mod worker;

use std::process::ExitCode;

use args::Args;
use weft_tests::command_line;

fn main() -> ExitCode {
    let args = match command_line::parse::<Args>() {
        Ok(args) => args,
        Err(status) => return status,
    };
    let done = if args.worker { worker::run(args.rest).map(|()| true) } else { driver::run(&args) };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => command_line::complain::<Args>(&error.to_string(), 1),
    }
}
