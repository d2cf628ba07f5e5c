//! What the programs of this package share at their command lines.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use clap::error::{ErrorKind, RichFormatter};

/// The arguments, or the exit status after what there was to say.
///
/// # Errors
/// 0 when help was asked for, 2 when the arguments make no sense.
pub fn parse<A: Parser>() -> Result<A, ExitCode> {
    A::try_parse().map_err(|error| {
        if error.kind() == ErrorKind::DisplayHelp {
            // Whoever closed standard output does not want help.
            let _unread = error.print();
            return ExitCode::SUCCESS;
        }
        let text = error.apply::<RichFormatter>().render().to_string();
        let line = text.lines().next().unwrap_or_default();
        complain::<A>(&format!("{} (`--help` has examples)", line.trim_start_matches("error: ")), 2)
    })
}

/// Says what is wrong in one line, behind the name of the program.
pub fn complain<A: Parser>(text: &str, status: u8) -> ExitCode {
    // Where standard error is closed the status still tells.
    let _unread = writeln!(std::io::stderr(), "{}: {text}", A::command().get_name());
    ExitCode::from(status)
}
