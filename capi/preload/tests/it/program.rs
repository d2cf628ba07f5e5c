//! Compiles C programs of `tests/programs` against the installed headers and links them with the installed libraries.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::skip::skip;

/// A program, ready to run.
pub(crate) struct Program(PathBuf);

impl Program {
    /// Returns None, and prints why, if the program cannot be compiled here.
    pub(crate) fn compile(name: &str) -> Option<Self> {
        Self::compile_with(name, &["-lrdmacm", "-libverbs", "-lpthread"])
    }

    /// As [`Self::compile`], linked with other libraries.
    pub(crate) fn compile_with(name: &str, libraries: &[&str]) -> Option<Self> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let sources = ["tests/programs", "../preload/tests/programs"];
        let sources = sources.map(|folder| here.join(folder).join(name).with_extension("c"));
        let source = sources.into_iter().find(|source| source.is_file()).unwrap();
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let output = std::env::temp_dir().join(format!("weft-{name}-{}-{number}", std::process::id()));
        let compiler = Command::new("cc")
            .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", "-o"])
            .args([&output, &source])
            .args(libraries)
            .output();
        let Ok(compiled) = compiler else {
            skip("no C compiler for programs of libibverbs");
            return None;
        };
        let complaints = String::from_utf8_lossy(&compiled.stderr);
        if complaints.contains("No such file or directory") || complaints.contains("cannot find -l") {
            skip(&format!("what {} are of is not installed", libraries.join(" ")));
            return None;
        }
        assert!(compiled.status.success(), "{complaints}");
        Some(Self(output))
    }

    pub(crate) fn assert_ok(&self, runner: &[&str]) {
        let output = self.run(runner);
        let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        assert!(output.status.success() && out.ends_with("ok\n"), "{}\n{out}{err}", output.status);
    }

    /// Runs the program by `runner`, which may set variables.
    pub(crate) fn run(&self, runner: &[&str]) -> Output {
        let mut command = Command::new("env");
        command.args(["-u", "WEFT_TRANSPORT"]).arg(crate::form()).args(runner).arg(&self.0);
        command.output().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.0);
    }
}
