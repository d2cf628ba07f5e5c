//! A network namespace of the test's own, without root if the kernel allows that.
//!
//! A test starts its own binary again below `unshare -Urn`, for this test alone. There it is root of an empty network.
//! Devices, bridge and addresses end with the namespace, and so with the last process in it.

use std::process::{Command, Output};

use crate::process::{Process, weft};
use crate::support::{is_installed, skip};

/// A further network namespace inside the test's own. It ends with this value.
pub(crate) struct Neighbor(Process);

impl Neighbor {
    pub(crate) fn new() -> Self {
        let mut holder = Command::new("unshare");
        holder.args(["-n", "sh", "-c", "echo ready; exec sleep 300"]);
        let holder = Process::start(&mut holder);
        assert_eq!(holder.line(), "ready");
        Self(holder)
    }

    /// Moves an interface there.
    pub(crate) fn take(&self, interface: &str) {
        ip(&[&format!("link set {interface} netns {}", self.0.id())]);
    }

    /// Runs `ip` there.
    pub(crate) fn ip(&self, line: &str) {
        let output = self.command("ip").args(line.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "ip {line}: {}", complaint(&output));
    }

    /// Starts `weft` there, as [`Process::weft`] does here.
    pub(crate) fn weft(&self, line: &str) -> Process {
        let mut command = self.command(weft().get_program().to_str().unwrap());
        Process::start(command.args(line.split_whitespace().map(|word| word.replace('~', " "))))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.0.id())).arg(program);
        command
    }
}

/// Runs `body` in a namespace of its own. `name` is the name of the test.
///
/// The test is skipped if `ip TRIAL` does not work in such a namespace.
pub(crate) fn in_namespace(name: &str, trial: &str, body: fn()) {
    run_in("-Urn", name, trial, body);
}

/// As [`in_namespace`], for tests of what the kernel allows only to the real root, such as a program for XDP.
pub(crate) fn in_namespace_of_root(name: &str, trial: &str, body: fn()) {
    run_in("-n", name, trial, body);
}

fn run_in(namespaces: &str, name: &str, trial: &str, body: fn()) {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    if let Some(reason) = obstacle(namespaces, trial) {
        return skip(&format!("{name}: {reason}"));
    }
    let mut again = Command::new("unshare");
    again.arg(namespaces).arg(std::env::current_exe().unwrap());
    again.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(INSIDE, "1");
    let done = Process::start(&mut again).finish();
    let text = format!("{}\n{}", done.stdout.join("\n"), done.stderr.join("\n"));
    assert!(done.status == 0 && text.contains("1 passed"), "in the namespace:\n{text}");
}

/// Returns why there cannot be such a namespace here.
fn obstacle(namespaces: &str, trial: &str) -> Option<String> {
    if !is_installed("unshare") {
        return Some("unshare (util-linux) is not installed".into());
    }
    // Not every version of ip knows `--version`.
    if Command::new("ip").arg("-V").output().is_err() {
        return Some("ip (iproute2) is not installed".into());
    }
    let script = format!("ip {trial}");
    let trial = Command::new("unshare").args([namespaces, "sh", "-c", &script]).output().unwrap();
    (!trial.status.success()).then(|| format!("unshare {namespaces}: {}", complaint(&trial)))
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ")
}

/// Runs `ip` commands.
pub(crate) fn ip(lines: &[&str]) {
    for line in lines {
        let output = Command::new("ip").args(line.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "ip {line}: {}", complaint(&output));
    }
}

/// Set for the second start, in the namespace.
const INSIDE: &str = "WEFT_TEST_NAMESPACE";
