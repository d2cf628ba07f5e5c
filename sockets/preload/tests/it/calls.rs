//! The system calls of a program that the library leaves alone: a filter of the program's may allow no others.

use std::process::Command;

use crate::programs::{Program, library, scratch};

/// Names the calls of the program's own code, one behind the other. `None`: strace is not there, or may not trace.
fn calls(program: &Program, preload: &str) -> Option<Vec<String>> {
    let log = scratch(&format!("calls-{}", preload.len()));
    let mut strace = Command::new("strace");
    strace.arg("-o").arg(&log).args(["-E", &format!("LD_PRELOAD={preload}"), "-E", "WEFT_SOCKETS=off"]);
    let is_traced = strace.arg(program.path()).status().is_ok_and(|status| status.success());
    let text = is_traced.then(|| std::fs::read_to_string(&log).expect("the log"))?;
    let name = |line: &str| line.split(['(', ' ']).next().unwrap_or_default().to_owned();
    // What comes before the first mark is the loader's. The moment of a signal is not the program's.
    let own = text.lines().skip_while(|line| !line.starts_with("syscall_0x"));
    Some(own.filter(|line| !line.starts_with("---")).map(name).collect())
}

#[test]
fn a_library_that_is_off_makes_the_same_calls() {
    let Some(program) = Program::new("calls", &[]) else { return };
    let library = library();
    let hooked = calls(&program, library.to_str().expect("a path of text"));
    let Some((hooked, plain)) = hooked.zip(calls(&program, "")) else {
        println!("skipped: strace does not trace");
        return;
    };
    assert!(plain.len() > 100, "{plain:?}");
    assert_eq!(hooked, plain);
}
