//! C programs that use `exs.h` and `libexs.so.1` as any program would.

#![allow(clippy::unwrap_used, reason = "a test that fails here has failed")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};

#[path = "../../../../cli/tests/support/skip.rs"]
mod skip;

use skip::skip;

/// A folder below which the library is installed. The end of the last test that uses it removes it.
struct Installed(PathBuf);

static INSTALLED: Mutex<Weak<Installed>> = Mutex::new(Weak::new());

impl Installed {
    /// Returns None, and prints why, if there is no C compiler.
    fn new() -> Option<Arc<Self>> {
        let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = installed.upgrade() {
            return Some(known);
        }
        if Command::new("cc").arg("--version").output().is_err() {
            skip("no C compiler for programs of exs.h");
            return None;
        }
        let prefix = std::env::temp_dir().join(format!("weft-exs-{}", std::process::id()));
        succeed(Command::new(here("link")).args([&archive(), &prefix]));
        let new = Arc::new(Self(prefix));
        *installed = Arc::downgrade(&new);
        Some(new)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Compiles a program with all warnings, and links it with the library.
    fn compile(&self, compiler: &[&str], source: &str) -> PathBuf {
        let name = Path::new(source).file_stem().unwrap().to_str().unwrap();
        // `env` takes a name with an equals sign for a variable.
        let program = self.0.join(format!("{name}{}", compiler.join("")).replace('=', ""));
        succeed(
            Command::new(compiler[0])
                .args(&compiler[1..])
                .args(["-D_GNU_SOURCE", "-Wall", "-Wextra", "-pedantic", "-Werror", "-g", "-O1", "-I"])
                .args([self.path("include"), "-L".into(), self.path("lib"), here(source)])
                .args(["-lexs", "-lpthread", "-o"])
                .arg(&program),
        );
        program
    }

    /// Prepares to run a program, by `runner` if that is not empty.
    fn command(&self, runner: &[&str], program: &Path) -> Command {
        let mut command = Command::new("env");
        command.args(["-u", "WEFT_TRANSPORT"]);
        command.arg(format!("LD_LIBRARY_PATH={}", self.path("lib").display()));
        command.args(runner).arg(program);
        command
    }

    fn run_ok(&self, name: &str) {
        let program = self.compile(C, &format!("tests/programs/{name}.c"));
        let output = succeed(&mut self.command(&[], &program));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n");
    }

    /// Copies a file by a program of the ladder, with the server and the client below these runners.
    fn copy(&self, runners: [&[&str]; 2], program: &Path, octets: &[u8], name: &str) {
        let (from, folder) = (self.path(&format!("from-{name}")), self.path(&format!("to-{name}")));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(&from, octets).unwrap();
        let mut server = self.command(runners[0], program);
        let mut server =
            server.arg("-s").arg(&folder).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
        let mut client = self.command(runners[1], program);
        let output = client.args(["127.0.0.1", port.trim()]).arg(&from).arg("copy").output().unwrap();
        let served = server.wait_with_output().unwrap();
        let complaints = [&output.stderr, &served.stderr].map(|text| String::from_utf8_lossy(text));
        assert!(output.status.success() && served.status.success(), "{name}: {complaints:?}");
        assert!(std::fs::read(folder.join("copy")).unwrap() == octets, "{name}: the copy differs");
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{command:?}: {}\n{out}{err}", output.status);
    output
}

/// Returns the path of a file of this crate.
fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Returns the archive that cargo has built for these tests. Its name has a hash, and older builds lie beside it.
fn archive() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let files = std::fs::read_dir(test.parent().unwrap()).unwrap().map(|entry| entry.unwrap());
    let archives = files.filter(|file| {
        let name = file.file_name().into_string().unwrap_or_default();
        name.starts_with("libweft_exs_c") && name.ends_with(".a")
    });
    let newest = archives.max_by_key(|file| file.metadata().unwrap().modified().unwrap());
    newest.expect("cargo builds the library before its tests").path()
}

/// Octets that are no repetition of each other.
fn octets(len: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..len).map(next).collect()
}

/// The header compiles as C99, C11 and C++, and structs lie as in the library.
#[test]
fn the_header_is_for_c_and_for_cpp() {
    let Some(installed) = Installed::new() else { return };
    for compiler in [C, &["g++", "-std=c++11", "-x", "c++"]] {
        if Command::new(compiler[0]).arg("--version").output().is_err() {
            skip("no C++ compiler for exs.h");
            continue;
        }
        // What follows `-x` on the command line, the libraries' folder included, is a source.
        let program = installed.compile(compiler, "tests/programs/layout.c");
        let output = succeed(&mut installed.command(&[], &program));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "EXS_EVT_SENDMSG\n");
    }
    let c99 = [
        "-std=c99",
        "-D_POSIX_C_SOURCE=200809L",
        "-Wall",
        "-Wextra",
        "-pedantic",
        "-Werror",
        "-fsyntax-only",
    ];
    succeed(Command::new("cc").args(c99).args(["-x", "c"]).arg(installed.path("include/exs.h")));
}

/// The library has the functions of the header, and nothing else.
#[test]
fn the_library_has_what_the_header_says() {
    let Some(installed) = Installed::new() else { return };
    if Command::new("nm").arg("--version").output().is_err() {
        skip("no nm to look into libexs.so.1");
        return;
    }
    let library = installed.path("lib/libexs.so.1");
    let output = succeed(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    let text = String::from_utf8(output.stdout).unwrap();
    let names = text.lines().filter_map(|line| line.split(' ').nth(2));
    let ours: BTreeSet<&str> =
        names.map(|name| name.split('@').next().unwrap()).filter(|name| *name != "EXS_1").collect();
    let header = std::fs::read_to_string(here("include/exs.h")).unwrap();
    let code = header.lines().filter(|line| !line.starts_with([' ', '/', '#']));
    let functions = code.filter_map(|line| line.split('(').next()?.split([' ', '*']).next_back());
    let declared: BTreeSet<&str> =
        functions.filter(|name| name.starts_with("exs_") && !name.ends_with("_t;")).collect();
    assert!(declared.len() > 50, "{declared:?}");
    assert_eq!(ours, declared);
}

#[test]
fn transfers_of_all_kinds_arrive() {
    if let Some(installed) = Installed::new() {
        installed.run_ok("transfer");
    }
}

#[test]
fn messages_are_read_where_they_came() {
    if let Some(installed) = Installed::new() {
        installed.run_ok("inplace");
    }
}

#[test]
fn the_functions_of_posix_do_what_posix_says() {
    if let Some(installed) = Installed::new() {
        installed.run_ok("sync");
    }
}

/// What was sent arrives although the program has not closed its sockets, or the peer sees that some of it is missing.
#[test]
fn the_end_of_a_program_closes_its_sockets() {
    if let Some(installed) = Installed::new() {
        installed.run_ok("exits");
    }
}

/// Octets go both ways to peers that have no EXS, whoever connects.
#[test]
fn streams_have_peers_over_plain_tcp() {
    if let Some(installed) = Installed::new() {
        installed.run_ok("plain");
    }
}

/// A handle is looked up, never followed. Each fault has its number, and none crashes.
#[test]
fn bad_input_is_refused_by_number() {
    if let Some(installed) = Installed::new() {
        installed.run_ok("misuse");
    }
}

/// A program of the ES-API, as benchmarks have it, sends a stream to another process.
#[test]
fn a_program_of_the_es_api_runs() {
    if let Some(installed) = Installed::new() {
        installed.run_ok("client");
    }
}

/// Step 1 of the ladder is step 0 with a prefix before each function of sockets, and one include.
#[test]
fn the_first_step_adds_a_prefix_and_an_include() {
    let functions = "socket|setsockopt|bind|listen|getsockname|accept|connect|send|recv|close";
    let prefix = format!(r"s/\b({functions})\(/exs_sync_\1(/g");
    let include = r"s/^#include <unistd.h>$/&\n#include <exs.h>/";
    let output =
        succeed(Command::new("sed").args(["-E", "-e", &prefix, "-e", include]).arg(here("examples/copy0.c")));
    assert!(
        output.stdout == std::fs::read(here("examples/copy1.c")).unwrap(),
        "copy1.c is not made from copy0.c"
    );
}

/// All steps of the ladder copy a file of some MiB, and an empty one.
#[test]
fn each_step_of_the_ladder_copies_files() {
    let Some(installed) = Installed::new() else { return };
    for step in 0..5 {
        let program = installed.compile(C, &format!("examples/copy{step}.c"));
        for len in [0, 1, 5_000_007] {
            installed.copy([&[], &[]], &program, &octets(len), &format!("{step}-{len}"));
        }
    }
}

/// No program uses memory that is not there, or memory that nobody has written.
#[test]
fn valgrind_has_no_complaint() {
    let Some(installed) = Installed::new() else { return };
    if Command::new("valgrind").arg("--version").output().is_err() {
        skip("no valgrind for programs of exs.h");
        return;
    }
    let valgrind = ["valgrind", "--quiet", "--error-exitcode=99", "--fair-sched=yes"];
    // An end of each: valgrind takes seconds to begin.
    for (step, runners) in [(1, [&[][..], &valgrind]), (4, [&valgrind, &[][..]])] {
        let program = installed.compile(&["cc", "-std=gnu11", "-O0"], &format!("examples/copy{step}.c"));
        installed.copy(runners, &program, &octets(100_000), &format!("valgrind-{step}"));
    }
}

const C: &[&str] = &["cc", "-std=gnu11"];
