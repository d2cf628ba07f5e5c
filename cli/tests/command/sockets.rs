//! `weft sockets`: what the program is given, and what is said of programs that stay on TCP.

use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};

use crate::process::{Finished, Process, path_in};
use crate::support::Folder;

/// A copy of `weft` with a library beside it. The library is empty: the dynamic loader says so, and goes on without.
struct Installed {
    folder: Folder,
    /// A socket at the daemon's address.
    _daemon: OwnedFd,
    address: String,
}

impl Installed {
    fn new() -> Self {
        let folder = Folder::new();
        // A program that this process has open to write cannot run, nor while another test's child has a copy of that.
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_weft")).arg(folder.0.join("weft")).status();
        assert!(copied.unwrap().success());
        std::fs::write(folder.0.join(LIBRARY), "").unwrap();
        let address = path_in(&folder, "daemon");
        let daemon = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
        bind(&daemon, &SocketAddrUnix::new(address.as_str()).unwrap()).unwrap();
        listen(&daemon, 8).unwrap();
        Self { folder, _daemon: daemon, address }
    }

    /// Runs `weft sockets` with these words as arguments.
    fn run(&self, words: &[&str]) -> Finished {
        self.run_with("WEFT_SPIN", "7", words)
    }

    /// Runs `weft sockets` with a variable.
    fn run_with(&self, variable: &str, value: &str, words: &[&str]) -> Finished {
        let mut command = Command::new(self.folder.0.join("weft"));
        command.arg("sockets").args(words).env("WEFT_DAEMON", &self.address).env(variable, value);
        Process::start(&mut command).finish()
    }

    /// Returns the lines of a program that prints its environment.
    fn environment(&self, words: &[&str]) -> Vec<String> {
        let done = self.run(&[words, &["--", "env"]].concat());
        assert_eq!(done.status, 0, "{done:?}");
        done.stdout
    }
}

#[test]
fn a_daemon_without_lanes_is_told_if_the_program_wants_some() {
    let weft = Installed::new();
    let name = format!("@weft-cli-lanes-{}", std::process::id());
    let mut daemon = Command::new(weft.folder.0.join("weft"));
    let daemon = Process::start(daemon.args(["daemon", "--name", &name]).env("WEFT_STAT", &weft.folder.0));
    daemon.line();
    for (lanes, is_told) in
        [(Some("on-link"), true), (Some("10.0.0.0/8"), true), (Some("none"), false), (None, false)]
    {
        let flag = lanes.map_or_else(Vec::new, |lanes| vec!["--lanes", lanes]);
        let done = weft.run(&[&["--daemon", &name], &flag[..], &["--", "echo", "started"]].concat());
        let told: Vec<_> = done.stderr.iter().filter(|line| line.starts_with("weft sockets: ")).collect();
        assert_eq!(
            (done.status, &done.stdout[..], told.len()),
            (0, &["started".to_owned()][..], is_told.into()),
            "{done:?}"
        );
        let line =
            format!("the daemon at {name} has no lanes, so that connections to other hosts stay on TCP");
        assert!(!is_told || told[0].contains(&line), "{done:?}");
    }
    // A setting that concerns lanes asks for them.
    let free = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = free.local_addr().unwrap().port().to_string();
    drop(free);
    for (settings, is_told) in
        [(&["--port", &port][..], false), (&["--port", &port, "--lanes", "none"], true)]
    {
        let name = format!("@weft-cli-lanes-{is_told}-{}", std::process::id());
        let mut other = Command::new(weft.folder.0.join("weft"));
        other.args(["daemon", "--name", &name]).args(settings).env("WEFT_STAT", &weft.folder.0);
        let other = Process::start(&mut other);
        assert_eq!(other.line(), format!("listening at {name}"));
        let done = weft.run(&["--daemon", &name, "--lanes", "on-link", "--", "true"]);
        assert_eq!(done.stderr.iter().any(|line| line.contains("has no lanes")), is_told, "{done:?}");
    }
    let done = weft.run(&["--daemon", &name, "--lanes", "on-link", "--require", "--", "echo", "started"]);
    assert_eq!((done.status, done.stdout.len()), (2, 0), "{done:?}");
}

#[test]
fn the_program_finds_the_library_and_its_variables() {
    let weft = Installed::new();
    let library = format!("LD_PRELOAD={}", path_in(&weft.folder, LIBRARY));
    let daemon = format!("WEFT_DAEMON={}", weft.address);
    let lines = weft.environment(&[]);
    for line in [library.as_str(), daemon.as_str(), "WEFT_SOCKETS=auto", "WEFT_SPIN=7", "UV_USE_IO_URING=0"] {
        assert!(lines.iter().any(|other| other == line), "{line}: {lines:?}");
    }
    assert!(!lines.iter().any(|line| line.starts_with("WEFT_SOCKETS_TRACE")));

    let trace = path_in(&weft.folder, "trace");
    let lines = weft.environment(&["--eager", "--spin", "0", "--trace", &trace]);
    for line in ["WEFT_SOCKETS=eager", "WEFT_SPIN=0", format!("WEFT_SOCKETS_TRACE={trace}").as_str()] {
        assert!(lines.iter().any(|other| other == line), "{line}: {lines:?}");
    }
}

#[test]
fn a_wrong_variable_is_one_line_before_the_program_starts() {
    let weft = Installed::new();
    for (variable, value, words) in [
        ("WEFT_SPIN", "abc", "WEFT_SPIN: `abc` is not a whole number from 0 to 1000000"),
        ("WEFT_SOCKETS", "fast", "WEFT_SOCKETS: there is no `fast` (there are auto, eager, require and off)"),
        ("WEFT_SOCKETS_STRICT", "yes", "WEFT_SOCKETS_STRICT: `yes` is neither 0 nor 1"),
        ("WEFT_SOCKETS_TRACE", "/no/such/x", "WEFT_SOCKETS_TRACE: /no/such/x: No such file"),
        ("WEFT_DAEMON", "mine", "WEFT_DAEMON: `mine`: a daemon's address is @NAME"),
        ("WEFT_SOCKETS_TRAC", "x", "WEFT_SOCKETS_TRAC: there is no such variable (there are WEFT_SOCKETS, "),
    ] {
        let done = weft.run_with(variable, value, &["--", "echo", "started"]);
        assert_eq!((done.status, done.stdout.len(), done.stderr.len()), (2, 0, 1), "{done:?}");
        assert!(done.stderr[0].starts_with(&format!("weft sockets: {words}")), "{done:?}");
    }
}

#[test]
fn the_trace_of_a_variable_is_continued_and_that_of_a_flag_begins_empty() {
    let weft = Installed::new();
    let trace = path_in(&weft.folder, "trace");
    std::fs::write(&trace, "old").unwrap();
    let done = weft.run_with("WEFT_SOCKETS_TRACE", &trace, &["--", "true"]);
    assert_eq!((done.status, std::fs::read_to_string(&trace).unwrap().as_str()), (0, "old"), "{done:?}");
    let done = weft.run(&["--trace", &trace, "--", "true"]);
    assert_eq!((done.status, std::fs::read_to_string(&trace).unwrap().as_str()), (0, ""), "{done:?}");
}

#[test]
fn the_exit_status_is_the_programs() {
    let weft = Installed::new();
    assert_eq!(weft.run(&["--", "sh", "-c", "exit 7"]).status, 7);
    let done = weft.run(&["--", "/no/such/program"]);
    let line = "weft sockets: cannot run /no/such/program: No such file or directory (os error 2)";
    assert_eq!((done.status, done.stderr), (127, vec![line.to_owned()]));
    let done = weft.run(&["--explain", "--", "/dev/null"]);
    assert_eq!((done.status, done.stderr.len()), (126, 1), "{done:?}");
    let done = weft.run(&["--", ""]);
    assert_eq!((done.status, done.stderr.len()), (2, 1), "{done:?}");
    assert!(done.stderr[0].contains("the program's name is empty"), "{done:?}");
    let done = weft.run(&["--nosuch", "--", "true"]);
    assert_eq!((done.status, done.stderr.len()), (2, 1), "{done:?}");
    assert!(done.stderr[0].contains("there is no option --nosuch"), "{done:?}");
}

#[test]
fn a_program_that_is_explained_inherits_no_blocked_signals_and_no_descriptor() {
    let weft = Installed::new();
    let script = "grep SigBlk /proc/self/status; ls -l /proc/self/fd | grep -c signalfd";
    let explained = weft.run(&["--explain", "--", "sh", "-c", script]);
    assert_eq!(explained.stdout, ["SigBlk:\t0000000000000000", "0"], "{explained:?}");
}

#[test]
fn a_program_without_hooks_runs_on_tcp_unless_upgrades_are_required() {
    let weft = Installed::new();
    let program = path_in(&weft.folder, "x");
    // The image of a program without an interpreter, which the system then refuses to run.
    std::fs::write(&program, [b"\x7fELF\x02", &[0; 59][..]].concat()).unwrap();
    Command::new("chmod").args(["+x", &program]).status().unwrap();
    let line = format!("weft sockets: {program} is statically linked: it stays on TCP");
    let done = weft.run(&["--", &program]);
    assert_eq!(done.stderr[0], line, "{done:?}");
    let done = weft.run(&["--require", "--", &program]);
    assert_eq!((done.status, done.stderr), (2, vec![line.clone()]));
    let done = weft.run(&["--strict", "--", &program]);
    assert_eq!((done.status, done.stderr), (2, vec![line.replacen(": ", ": --strict: ", 1)]));
}

#[test]
fn explain_passes_the_exit_status_and_signals_on() {
    let weft = Installed::new();
    let done = weft.run(&["--explain", "--", "sh", "-c", "exit 7"]);
    assert_eq!(done.status, 7, "{done:?}");
    assert!(done.stderr.iter().any(|line| line.ends_with("attempts: 0")), "{done:?}");

    let mut command = Command::new(weft.folder.0.join("weft"));
    let script = "trap 'echo heard; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
    command.args(["sockets", "--explain", "--", "sh", "-c", script]).env("WEFT_DAEMON", &weft.address);
    let running = Process::start(&mut command);
    assert_eq!(running.line(), "ready");
    running.signal(rustix::process::Signal::TERM);
    let done = running.finish();
    assert_eq!((done.status, done.stdout), (3, vec!["heard".to_owned()]));
}

#[test]
fn explain_refuses_a_trace_that_it_cannot_read() {
    let weft = Installed::new();
    // Standard error is a pipe, whose end does not come before this process's.
    let done = weft.run(&["--explain", "--trace", "/dev/stderr", "--", "echo", "started"]);
    assert_eq!((done.status, done.stdout.len(), done.stderr.len()), (2, 0, 1), "{done:?}");
    assert!(done.stderr[0].contains("/dev/stderr is no regular file"), "{done:?}");
}

#[test]
fn a_daemon_that_cannot_start_says_why() {
    let weft = Installed::new();
    let done = weft.run(&["--daemon", "/no/such/x", "--", "true"]);
    let line = "weft sockets: no daemon: /no/such/x: No such file or directory (os error 2)";
    assert_eq!((done.status, done.stderr.first().map(String::as_str)), (0, Some(line)), "{done:?}");
}

#[test]
fn a_daemon_that_is_started_on_demand_is_no_child_of_the_program() {
    let weft = Installed::new();
    let name = format!("@weft-cli-demand-{}", std::process::id());
    let command = |words: &[&str]| {
        let mut command = Command::new(weft.folder.0.join("weft"));
        command.args(words).env("WEFT_STAT", &weft.folder.0);
        command
    };
    // The shell becomes grep, which keeps its number and has no children of its own.
    let script = r#"exec grep -ls "^PPid:[[:space:]]*$$\$" /proc/[0-9]*/status"#;
    let done =
        Process::start(&mut command(&["sockets", "--daemon", &name, "--", "sh", "-c", script])).finish();
    assert_eq!((done.status, done.stdout.len()), (1, 0), "{done:?}");
    assert!(!done.stderr.iter().any(|line| line.contains("no daemon")), "{done:?}");
    // The daemon runs still: its address is taken.
    let taken = Process::start(&mut command(&["daemon", "--name", &name, "--linger", "0"])).finish();
    assert_ne!(taken.status, 0, "{taken:?}");
    let last =
        Process::start(&mut command(&["daemon", "--name", &name, "--linger", "0", "--replace"])).finish();
    assert_eq!(last.status, 0, "{last:?}");
}

#[test]
fn a_daemon_on_demand_has_its_statistics_in_a_folder_that_is_private_or_says_why_not() {
    let weft = Installed::new();
    for (mode, is_told) in [(None, false), (Some(0o755), true), (Some(0o700), false)] {
        let name = format!("@weft-cli-folder-{is_told}-{}-{}", mode.is_some(), std::process::id());
        let folder = weft.folder.0.join("stat");
        if let Some(mode) = mode {
            std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let run = |words: &[&str]| {
            let mut command = Command::new(weft.folder.0.join("weft"));
            Process::start(command.args(words).env("WEFT_STAT", &folder)).finish()
        };
        let done = run(&["sockets", "--daemon", &name, "--", "echo", "started"]);
        assert_eq!((done.status, &done.stdout[..]), (0, &["started".to_owned()][..]), "{done:?}");
        let line = format!("weft sockets: statistics cannot be served at {}", folder.display());
        assert_eq!(done.stderr.iter().any(|told| told.starts_with(&line)), is_told, "{done:?}");
        let found = std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode.unwrap_or(0o700));
        assert_eq!(run(&["daemon", "--name", &name, "--linger", "0", "--replace"]).status, 0);
    }
}

#[test]
fn a_missing_library_is_reported_with_what_makes_it() {
    let weft = Installed::new();
    std::fs::remove_file(weft.folder.0.join(LIBRARY)).unwrap();
    let done = weft.run(&["--", "true"]);
    assert_eq!((done.status, done.stderr.len()), (2, 1), "{done:?}");
    assert!(done.stderr[0].contains("cargo build --release -p weft-sockets-preload makes it"), "{done:?}");
}

const LIBRARY: &str = "libweft_sockets_preload.so";
