//! The installed library, and C programs that are compiled against it.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::skip::skip;

/// A folder below which the library is installed, with programs. The end of a test removes it.
pub(crate) struct Installed(PathBuf);

impl Installed {
    /// Returns None, and prints why, if there is no C compiler.
    pub(crate) fn new() -> Option<Self> {
        if Command::new("cc").arg("--version").output().is_err() {
            skip("no C compiler for programs of weft_group.h");
            return None;
        }
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let prefix = std::env::temp_dir().join(format!("weft-group-{}-{number}", std::process::id()));
        let output = Command::new(here("install")).args([&library(), &prefix]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(Self(prefix))
    }

    /// Returns the path of an installed file.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Compiles a program of this crate as C99, and links it with the library.
    pub(crate) fn compile(&self, source: &str) -> PathBuf {
        let program = self.0.join(Path::new(source).file_stem().unwrap());
        let compiled = Command::new("cc")
            .args([
                "-std=c99",
                "-D_POSIX_C_SOURCE=200809L",
                "-Wall",
                "-Wextra",
                "-Wpedantic",
                "-Werror",
                "-g",
            ])
            .arg("-I")
            .arg(self.path("include"))
            .arg("-L")
            .arg(self.path("lib"))
            .arg(here(source))
            .args(["-lweft_group", "-lpthread", "-o"])
            .arg(&program)
            .output()
            .unwrap();
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        program
    }

    /// Starts a program, by `runner` if that is not empty.
    pub(crate) fn start(&self, runner: &[&str], program: &Path, arguments: &[&str]) -> Running {
        let mut command = Command::new("env");
        command.arg(format!("LD_LIBRARY_PATH={}", self.path("lib").display()));
        command.args(runner).arg(program).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Running { child, said }
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

/// A program that runs.
pub(crate) struct Running {
    child: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Running {
    /// Waits until the program has printed this line.
    pub(crate) fn expect(&mut self, line: &str) {
        let mut said = String::new();
        self.said.read_line(&mut said).unwrap();
        if said.trim_end() != line {
            let status = self.child.wait().unwrap();
            panic!("{line} was expected, and not {said:?}: {status}\n{}", self.complaints());
        }
    }

    /// Has the program go on, which waits for a line.
    pub(crate) fn go_on(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    /// Returns the signals that each thread blocks, as bits, the main thread's first.
    pub(crate) fn blocked_signals(&self) -> Vec<u64> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let mut ids: Vec<u32> =
            tasks.map(|task| task.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
        ids.sort_by_key(|id| (*id != self.child.id(), *id));
        let blocked = |id: u32| {
            let path = format!("/proc/{}/task/{id}/status", self.child.id());
            let status = std::fs::read_to_string(path).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
            u64::from_str_radix(line.trim(), 16).unwrap()
        };
        ids.into_iter().map(blocked).collect()
    }

    /// Waits until the program has ended well, and returns what it has printed since.
    pub(crate) fn finish(mut self) -> String {
        drop(self.child.stdin.take());
        let mut said = String::new();
        self.said.read_to_string(&mut said).unwrap();
        let status = self.child.wait().unwrap();
        let complaints = self.complaints();
        assert!(status.success() && complaints.is_empty(), "{status}\n{said}{complaints}");
        said
    }

    fn complaints(&mut self) -> String {
        let mut complaints = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut complaints).unwrap();
        complaints
    }
}

/// Returns the path of a file of this crate.
pub(crate) fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Returns the library that cargo has built for these tests.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let deps = test.parent().unwrap();
    [deps, deps.parent().unwrap()]
        .iter()
        .map(|folder| folder.join("libweft_group_c.so"))
        .find(|path| path.is_file())
        .expect("cargo builds the library before its tests")
}
