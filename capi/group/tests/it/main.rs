//! C programs that use groups. They are compiled against the installed header, linked with the installed library, and
//! run with replicas in this process.

#![allow(clippy::unwrap_used, reason = "a test that fails here has failed")]

use std::collections::BTreeSet;
use std::process::Command;

mod hosts;
mod program;
#[path = "../../../../cli/tests/support/skip.rs"]
mod skip;

use hosts::{Hosts, LEN};
use program::{Installed, here};
use skip::skip;

/// Runs the example: the four operations one by one, and in one pass. All replicas have the same octets then, and
/// what was flushed is in their files.
#[test]
fn the_example_replicates_with_all_four_operations() {
    let Some(installed) = Installed::new() else { return };
    let files = [0, 1, 2].map(|replica| installed.path(&format!("memory-{replica}")));
    let hosts = Hosts::on_files(&files);
    let program = installed.compile("examples/operations.c");
    let said = installed.start(&[], &program, &[&hosts.members()]).finish();
    let found = |word: u64| (0..3).map(move |replica| format!("replica {replica} found {word}"));
    let expected: Vec<String> =
        found(0).chain(found(1)).chain(["hello from C".into(), "hello from C".into()]).collect();
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
    let mut memory = vec![0; LEN];
    for at in [0, 4096, 100, 5000] {
        memory[at..at + 13].copy_from_slice(b"hello from C\0");
    }
    memory[8192] = 2;
    for (replica, host) in hosts.0.iter().enumerate() {
        assert!(host.contents() == memory, "replica {replica}");
        assert!(std::fs::read(&files[replica]).unwrap() == memory, "the file of replica {replica}");
    }
}

/// Refuses what makes no sense with its number of errno and a line, and changes nothing.
#[test]
fn bad_input_is_refused_by_number_and_line() {
    let Some(installed) = Installed::new() else { return };
    let hosts = Hosts::new(3);
    let program = installed.compile("tests/programs/misuse.c");
    let said = installed.start(&[], &program, &[&hosts.members()]).finish();
    assert_eq!(said, "ok\n");
    assert!(hosts.0.iter().all(|host| host.contents().iter().all(|octet| *octet == 0)));
}

/// Fills the window, polls, waits, sleeps on the descriptor, uses older and longer structs, two groups and two
/// threads; on a chain and on a fan.
#[test]
fn operations_are_handed_out_once() {
    let Some(installed) = Installed::new() else { return };
    let program = installed.compile("tests/programs/window.c");
    for topology in ["chain", "fan"] {
        let hosts = Hosts::new(3);
        let said = installed.start(&[], &program, &[&hosts.members(), topology]).finish();
        assert_eq!(said, "ok\n", "{topology}");
        let memory = hosts.0[0].contents();
        assert!(memory[..8000].iter().all(|octet| *octet == 0xA5), "{topology}");
        assert!(hosts.0.iter().all(|host| host.contents() == memory), "{topology}");
    }
}

/// A wait with a limit ends, and its operation goes on. One without a limit ends the session when replicas are
/// silent.
#[test]
fn waits_end_in_time() {
    let Some(installed) = Installed::new() else { return };
    let hosts = Hosts::new(2);
    let program = installed.compile("tests/programs/silent.c");
    let mut running = installed.start(&[], &program, &[&hosts.members()]);
    running.expect("opened");
    let blocked = running.blocked_signals();
    let [terminate, fault] = [15, 11].map(|signal| 1 << (signal - 1));
    assert_eq!(blocked[0], 0, "the program's own thread is as it was");
    assert!(blocked.len() > 1 && blocked[1..].iter().all(|mask| mask & (terminate | fault) == terminate));
    hosts.set_silent(true);
    running.go_on();
    running.expect("waited");
    assert_eq!(hosts.0[0].contents()[0], 0);
    hosts.set_silent(false);
    running.go_on();
    running.expect("done");
    assert!(hosts.0.iter().all(|host| host.contents()[..5] == *b"later"));
    hosts.set_silent(true);
    running.go_on();
    running.expect("timed out");
    hosts.set_silent(false);
    assert_eq!(running.finish(), "ok\n");
}

/// A replica is lost: the program hears it by the descriptor, and each call tells it until the group is closed.
#[test]
fn a_lost_replica_ends_the_session() {
    let Some(installed) = Installed::new() else { return };
    let mut hosts = Hosts::new(3);
    let program = installed.compile("tests/programs/lost.c");
    let mut running = installed.start(&[], &program, &[&hosts.members()]);
    running.expect("opened");
    drop(hosts.0.remove(1));
    assert_eq!(running.finish(), "ok\n");
}

/// A program of a group with a register loses a member, begins a new epoch with the spare and goes on.
#[test]
fn a_program_changes_the_epoch_and_goes_on() {
    let Some(installed) = Installed::new() else { return };
    let mut hosts = Hosts::new(3);
    let named = |host: &str| weft_group::Host { id: host.to_owned(), addr: host.to_owned() };
    let spares = hosts.members().split(',').map(named).collect();
    let record = weft_group::Record::found("c", spares, 2, (weft_group::Topology::Chain, LEN as u64));
    let register = installed.path("register");
    let made = weft_group::Membership::swap(&weft_group::FileRegister::new(&register), None, &record);
    assert_eq!(made, Ok(true));
    let program = installed.compile("tests/programs/epochs.c");
    let mut running = installed.start(&[], &program, &[register.to_str().unwrap()]);
    running.expect("opened");
    drop(hosts.0.remove(0));
    running.go_on();
    assert_eq!(running.finish(), "ok\n");
    assert!(hosts.0.iter().all(|host| host.contents()[..14] == *b"before, after "));
}

/// A child of fork has none of its parent's groups, and the parent keeps them.
#[test]
fn a_child_of_fork_has_no_groups() {
    let Some(installed) = Installed::new() else { return };
    let hosts = Hosts::new(1);
    let program = installed.compile("tests/programs/fork.c");
    assert_eq!(installed.start(&[], &program, &[&hosts.members()]).finish(), "ok\n");
}

/// The header is C99, and C++ too. The library exports what it declares, and nothing else.
#[test]
fn the_header_and_the_library_declare_the_same() {
    let Some(installed) = Installed::new() else { return };
    let header = installed.path("include/weft_group.h");
    for (compiler, language) in [("cc", ["-std=c99", "-xc"]), ("c++", ["-std=c++11", "-xc++"])] {
        let compiled = Command::new(compiler)
            .args(language)
            .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"])
            .arg(&header)
            .output();
        let Ok(compiled) = compiled else {
            skip("no C++ compiler for weft_group.h");
            continue;
        };
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    }
    let text = std::fs::read_to_string(here("include/weft_group.h")).unwrap();
    let declared = text.lines().filter(|line| line.contains('(') && !line.starts_with([' ', '*', '/', '#']));
    let declared: BTreeSet<&str> =
        declared.filter_map(|line| line.split('(').next()?.split([' ', '*']).next_back()).collect();
    let Ok(symbols) = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(installed.path("lib/libweft_group.so"))
        .output()
    else {
        return skip("no nm for libweft_group.so");
    };
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    let exported: BTreeSet<&str> = symbols.lines().filter_map(|line| line.split(' ').next_back()).collect();
    assert_eq!(exported, declared);
    assert_eq!(exported.len(), 14);
}

/// Runs programs under valgrind: the library touches only memory that it may, and loses none.
#[test]
fn valgrind_finds_no_fault() {
    let Some(installed) = Installed::new() else { return };
    // valgrind runs one thread at a time. Without the fair lock a polling thread would leave the driver thread no
    // turn.
    let line = "valgrind -q --fair-sched=yes --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite \
                --show-leak-kinds=definite";
    let valgrind: Vec<_> = line.split_whitespace().collect();
    if Command::new(valgrind[0]).arg("--version").output().is_err() {
        return skip("no valgrind for programs of weft_group.h");
    }
    for name in ["misuse", "window"] {
        let hosts = Hosts::new(3);
        let program = installed.compile(&format!("tests/programs/{name}.c"));
        assert_eq!(installed.start(&valgrind, &program, &[&hosts.members(), "chain"]).finish(), "ok\n");
    }
}
