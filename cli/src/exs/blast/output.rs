//! Lines on standard output.

use std::io::Write;

use crate::failure::Failure;

/// Prints a line at once.
pub(super) fn print(line: impl core::fmt::Display) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}
