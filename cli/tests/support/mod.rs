//! What the test binaries of this crate share.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// Says that a test could not run here. The line goes to standard error past the test harness, which hides what passing
/// tests print, and into the file that `WEFT_SKIPPED_FILE` names, from which `.ci/run` counts.
pub(crate) fn skip(reason: &str) {
    let line = format!("skipped: {reason}\n");
    let _closed = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os("WEFT_SKIPPED_FILE") {
        let file = OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("WEFT_SKIPPED_FILE can be written");
    }
}

/// Whether a program can be started.
pub(crate) fn is_installed(program: &str) -> bool {
    let mut command = std::process::Command::new(program);
    command.arg("--version").stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// An empty folder that whoever runs the test may write to, with a short name, as the path of a Unix socket has to be short;
/// dropping it removes it.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("weft-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}
