//! The common part of the test binaries of this crate.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

mod skip;

pub(crate) use skip::skip;

/// Returns true if a program can be started.
pub(crate) fn is_installed(program: &str) -> bool {
    let mut command = std::process::Command::new(program);
    command.arg("--version").stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// An empty folder that the test's user may write to. Its name is short, as the path of a Unix socket has to be. It is
/// removed when this is dropped.
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
