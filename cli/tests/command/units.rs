//! The units of systemd, as the program of systemd itself judges them.

use std::path::PathBuf;
use std::process::Command;

use crate::support::{Folder, is_installed, skip};

#[test]
fn systemd_takes_the_units() {
    if !is_installed("systemd-analyze") {
        return skip("systemd-analyze is not installed");
    }
    let folder = Folder::new();
    for (unit, manager) in [("weft-daemon.service", None), ("user/weft-daemon.service", Some("--user"))] {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../packaging/systemd").join(unit);
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains(&format!("ExecStart={INSTALLED} daemon")), "{unit}");
        let copy = folder.0.join("weft-daemon.service");
        // It looks for the program.
        std::fs::write(&copy, text.replace(INSTALLED, env!("CARGO_BIN_EXE_weft"))).unwrap();
        let mut verify = Command::new("systemd-analyze");
        verify.args(["verify", "--man=no"]).args(manager).arg(&copy).env("XDG_RUNTIME_DIR", &folder.0);
        let output = verify.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{unit}: {said}");
    }
}

/// Where docs/sockets.md installs it.
const INSTALLED: &str = "/usr/local/bin/weft";
