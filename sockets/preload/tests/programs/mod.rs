//! Small programs in C, and how the tests run them: with the library and without it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

/// A compiled program.
#[derive(Debug)]
pub(crate) struct Program {
    path: PathBuf,
    variables: Vec<String>,
}

impl Program {
    /// Compiles `NAME.c` of this folder. Returns `None`, and says so, if there is no compiler for it.
    #[must_use]
    pub(crate) fn new(name: &str, options: &[&str]) -> Option<Self> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(format!("{name}.c"));
        let path = scratch(&format!("{name}{}", options.concat()));
        // A name of this thread's own, so that no other one runs a half-written file.
        let thread = format!("{}-{:?}", std::process::id(), std::thread::current().id());
        let fresh = path.with_extension(thread);
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-w", "-pthread"]).args(options).arg("-o").arg(&fresh).arg(source);
        match compiler.status() {
            Ok(status) if status.success() => {
                std::fs::rename(&fresh, &path).expect("the compiled program");
                Some(Self { path, variables: Vec::new() })
            }
            _ => {
                println!("skipped: cc {options:?} compiles no {name}.c");
                None
            }
        }
    }

    /// The program's file.
    #[must_use]
    pub(crate) fn path(&self) -> &str {
        self.path.to_str().expect("a path of text")
    }

    /// The program with variables in its environment.
    #[must_use]
    pub(crate) fn with(&self, variables: &[(&str, &str)]) -> Self {
        let variables = variables.iter().map(|(name, value)| format!("{name}={value}"));
        Self { path: self.path.clone(), variables: self.variables.iter().cloned().chain(variables).collect() }
    }

    /// Runs the program without the library. Returns what it prints.
    #[must_use]
    pub(crate) fn plain(&self, arguments: &[&str]) -> String {
        // The limit only turns a hang into a failure. `env` sets the variables for the program alone.
        let mut command = Command::new("timeout");
        command.args(["60", "env"]).args(&self.variables).arg(&self.path).args(arguments);
        let Output { status, stdout, stderr } = command.output().expect("timeout of the coreutils");
        let text = String::from_utf8_lossy(&stdout).into_owned();
        let said = String::from_utf8_lossy(&stderr);
        assert!(status.success(), "{command:?}: {status}\n{text}{said}");
        text
    }

    /// Runs the program with the library. Returns what it prints.
    #[must_use]
    pub(crate) fn hooked(&self, arguments: &[&str]) -> String {
        let library = library();
        self.with(&[("LD_PRELOAD", library.to_str().expect("a path of text"))]).plain(arguments)
    }
}

/// The library, which cargo has built for this test.
pub(crate) fn library() -> PathBuf {
    let test = std::env::current_exe().expect("this program's path");
    let folder = test.parent().expect("the folder of the build");
    let library = folder.join("libweft_sockets_preload.so");
    assert!(library.exists(), "{} is not built", library.display());
    library
}

/// Returns the path of a file in a folder of this process's own, which goes with the process. The folder of the build may
/// belong to another user.
pub(crate) fn scratch(name: &str) -> PathBuf {
    static FOLDER: OnceLock<(PathBuf, Child)> = OnceLock::new();
    let (folder, _) = FOLDER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("weft-sockets-tests-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        // The shell reads the end of its input when this process ends.
        let mut shell = Command::new("sh");
        shell.args(["-c", "read -r _; rm -rf \"$0\""]).arg(&folder).stdin(Stdio::piped());
        (folder, shell.spawn().expect("a shell"))
    });
    folder.join(name)
}
