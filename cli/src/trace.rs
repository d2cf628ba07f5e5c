//! The file of `--trace`.

use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Empties the file, as any output file, since the program and its children append. Returns its absolute path: a program
/// may change its folder before it writes.
pub(crate) fn trace_file(file: &Path) -> Result<PathBuf, Failure> {
    let made = std::fs::File::create(file).and_then(|_| std::path::absolute(file));
    made.map_err(|error| Failure::usage(format!("--trace: {}: {error}", file.display())))
}
