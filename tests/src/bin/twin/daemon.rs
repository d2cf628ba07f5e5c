//! The daemon of the world with the library.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A daemon of this program's own. It is killed when this is dropped.
pub(crate) struct Daemon {
    child: Option<Child>,
    pub(crate) address: String,
}

impl Daemon {
    /// Starts `weft daemon` of this folder, unless no daemon is wanted.
    pub(crate) fn start(folder: &Path, is_plain: bool) -> io::Result<Self> {
        let address = format!("@weft-twin-{}", std::process::id());
        if is_plain {
            return Ok(Self { child: None, address });
        }
        let mut command = Command::new(folder.join("weft"));
        command.args(["daemon", "--name", &address]).stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.spawn()?;
        // A library that finds no daemon stays on TCP: the count of octets shows it.
        while child.try_wait()?.is_none() && !std::fs::read_to_string("/proc/net/unix")?.contains(&address) {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        Ok(Self { child: Some(child), address })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ended = child.kill();
            let _reaped = child.wait();
        }
    }
}
