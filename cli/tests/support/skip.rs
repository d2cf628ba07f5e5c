//! The note of a test that could not run. Tests of other crates include this file.

use std::fs::OpenOptions;
use std::io::Write;

/// Prints that a test could not run here. The line goes to standard error past the test harness, which hides the output
/// of passing tests. It goes also into the file that `WEFT_SKIPPED_FILE` names, from which `.ci/run` counts.
pub(crate) fn skip(reason: &str) {
    let line = format!("skipped: {reason}\n");
    let _closed = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os("WEFT_SKIPPED_FILE") {
        let file = OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("WEFT_SKIPPED_FILE can be written");
    }
}
