//! Every example runs to its end, and checks its own results.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn every_example_runs_to_its_end() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut names: Vec<String> = fs::read_dir(here)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    assert!(names.len() >= 15, "{names:?}");
    let failures: Vec<String> = names.iter().filter_map(|name| run(name).err()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Runs the program. The error has all that the program has printed.
fn run(name: &str) -> Result<(), String> {
    let program = built().join(name);
    // The TAP is in a network namespace of its own, where this process may make one.
    let has_network =
        name == "smoltcp_tap" && unshare().arg("true").status().is_ok_and(|ended| ended.success());
    let mut command = if has_network { unshare() } else { Command::new(&program) };
    command.args(has_network.then_some(&program));
    let output = command.output().map_err(|error| {
        format!(
            "{}: {error} (`cargo test` builds it; with `--test run` alone nobody does)",
            program.display()
        )
    })?;
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    if output.status.success() && !output.stdout.is_empty() {
        return Ok(());
    }
    Err(format!("{name}: {}\n{}{}", output.status, text(&output.stdout), text(&output.stderr)))
}

/// Returns what runs a program in a network namespace of its own.
fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--net"]);
    command
}

/// Returns the folder where cargo puts the examples, beside that of this test.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("a test is a file");
    test.ancestors().nth(2).expect("target/PROFILE/deps/TEST").join("examples")
}
