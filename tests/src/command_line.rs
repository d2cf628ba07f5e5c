//! The parts of the command line that the programs of this package share.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use clap::error::{ErrorKind, RichFormatter};

/// Returns the arguments, or the exit status after the output of help or of an error.
///
/// # Errors
/// 0 if the user asked for help, 2 if the arguments are invalid.
pub fn parse<A: Parser>() -> Result<A, ExitCode> {
    A::try_parse().map_err(|error| {
        if error.kind() == ErrorKind::DisplayHelp {
            // A closed standard output needs no help text.
            let _unread = error.print();
            return ExitCode::SUCCESS;
        }
        let text = error.apply::<RichFormatter>().render().to_string();
        let line = text.lines().next().unwrap_or_default();
        complain::<A>(&format!("{} (`--help` has examples)", line.trim_start_matches("error: ")), 2)
    })
}

/// Prints an error in one line, behind the name of the program.
pub fn complain<A: Parser>(text: &str, status: u8) -> ExitCode {
    // If standard error is closed, the exit status still reports the error.
    let _unread = writeln!(std::io::stderr(), "{}: {text}", A::command().get_name());
    ExitCode::from(status)
}
