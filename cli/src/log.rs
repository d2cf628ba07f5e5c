//! `WEFT_LOG`: the events of connections, on standard error.

use std::process::ExitCode;

use tracing_subscriber::filter::LevelFilter;

use crate::failure::Failure;

/// Prints from now on what the environment variable `WEFT_LOG` asks for: at `info` the beginnings, ends and faults of
/// connections, at `debug` also the steps of their startup. Prints nothing if the variable is not set.
///
/// # Errors
/// The exit status, when the variable makes no sense.
pub fn start() -> Result<(), ExitCode> {
    let Some(value) = std::env::var_os("WEFT_LOG") else { return Ok(()) };
    let level = match value.to_str() {
        Some("" | "off") => return Ok(()),
        Some("error") => LevelFilter::ERROR,
        Some("warn") => LevelFilter::WARN,
        Some("info") => LevelFilter::INFO,
        Some("debug") => LevelFilter::DEBUG,
        Some("trace") => LevelFilter::TRACE,
        _ => {
            let value = value.display();
            let reason = format!(
                "WEFT_LOG: there is no level `{value}` (there are off, error, warn, info, debug and trace)"
            );
            return Err(Failure::usage(reason).print(""));
        }
    };
    tracing_subscriber::fmt().with_max_level(level).with_target(false).with_writer(std::io::stderr).init();
    Ok(())
}
