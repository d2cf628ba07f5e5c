//! C programs that use the library as any program would. They are compiled against the installed headers, linked with
//! the installed libraries, and run with this library preloaded.

#![allow(clippy::unwrap_used, reason = "a test that fails here has failed")]

use std::path::PathBuf;
use std::process::Command;

mod program;
#[path = "../../../../cli/tests/support/skip.rs"]
mod skip;
mod trace;

use program::Program;
use skip::skip;

/// Returns the variable that makes the loader take Weft for the system's libraries.
fn form() -> String {
    format!("LD_PRELOAD={}", library().display())
}

/// Returns the library that cargo has built for these tests.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let deps = test.parent().unwrap();
    [deps, deps.parent().unwrap()]
        .iter()
        .map(|folder| folder.join("libweft_preload.so"))
        .find(|path| path.is_file())
        .expect("cargo builds the library before its tests")
}

/// Refuses null, foreign and destroyed handles, invalid masks and lengths. Each has its number, and none crashes.
#[test]
fn bad_input_is_refused_by_number() {
    if let Some(program) = Program::compile("misuse") {
        program.assert_ok(&[]);
    }
}

/// Opens no device with a wrong setting, and names the setting on standard error.
#[test]
fn a_wrong_setting_is_named() {
    let Some(program) = Program::compile("misuse") else { return };
    for (setting, complaint) in [
        ("WEFT_STAT=/dev/null/folder", "weft: WEFT_STAT: "),
        ("WEFT_PERSONALITY=ib", "weft: WEFT_PERSONALITY: ib is neither iwarp nor roce\n"),
        ("WEFT_TIMEOUT=0", "weft: WEFT_TIMEOUT: "),
    ] {
        let output = program.run(&["env", setting]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(complaint), "{setting}: {said}");
    }
}

/// Runs every operation between two ids of one process, by all ways to post and to poll.
#[test]
fn all_operations_place_what_they_should() {
    if let Some(program) = Program::compile("transfer") {
        program.assert_ok(&[]);
    }
}

/// Posts lists with a wrong request to queue pairs and shared receive queues, and builds such lists. `bad_wr` names the
/// refused request.
#[test]
fn the_refused_request_of_a_list_is_named() {
    if let Some(program) = Program::compile("lists") {
        program.assert_ok(&[]);
    }
}

/// Binds windows of both types. The peer uses them, either side invalidates them, and wrong uses are refused.
#[test]
fn windows_are_bound_and_invalidated() {
    if let Some(program) = Program::compile("windows") {
        program.assert_ok(&[]);
    }
}

/// Reads the device's files directly, and compares them with the answers of the calls.
#[test]
fn files_of_the_device_are_rendered() {
    if let Some(program) = Program::compile("sysfs") {
        program.assert_ok(&[]);
    }
}

/// Destroys objects, which waits for acknowledgements. Non-blocking channels say EAGAIN, and descriptors poll right.
#[test]
fn events_are_acknowledged_before_their_objects_go() {
    if let Some(program) = Program::compile("events") {
        program.assert_ok(&[]);
    }
}

/// Forks. The child knows none of its parent's objects and has a device of its own. The parent's device goes on.
#[test]
fn a_child_begins_with_a_device_of_its_own() {
    if let Some(program) = Program::compile("fork") {
        program.assert_ok(&[]);
    }
}

/// Rejects a connection and ends. The rejection is under way when the call returns, so that the peer gets it.
#[test]
fn a_rejection_outlives_its_process() {
    if let Some(program) = Program::compile("reject") {
        program.assert_ok(&[]);
    }
}

/// Sends signals. Only threads of the program handle them. A signal ends a wait with EINTR, unless its handler has
/// SA_RESTART.
#[test]
fn signals_end_waits_as_those_of_the_system() {
    if let Some(program) = Program::compile("signals") {
        program.assert_ok(&[]);
    }
}

/// Ends a process on a wire that has not disconnected. Its peer learns of the end.
#[test]
fn the_end_of_a_process_on_a_wire_is_noticed() {
    if let Some(program) = Program::compile("farewell") {
        program.assert_ok(&[]);
    }
}

/// Passes copies of structs as handles to every function that the headers call by a pointer, and builds wrong requests.
#[test]
fn copies_of_handles_are_refused() {
    if let Some(program) = Program::compile("copies") {
        program.assert_ok(&[]);
    }
}

/// Takes memory away before it is deregistered, in every role and by every way. That queue pair ends, and the process
/// lives. Faults of the program's own reach its handler, or end it.
#[test]
fn memory_that_is_gone_ends_its_queue_pair_only() {
    if let Some(program) = Program::compile("gone") {
        program.assert_ok(&[]);
        // Without CRC the kernel reads and writes the memory.
        program.assert_ok(&["env", "WEFT_CRC=0"]);
    }
}

/// Closes the library's descriptors, all of them as daemons do. Calls fail, connections end, and no thread spins.
#[test]
fn connections_end_when_the_program_closes_their_descriptors() {
    if let Some(program) = Program::compile("closed") {
        program.assert_ok(&[]);
    }
}

/// Kills a process in the middle of a transfer. A child of it lives on with a copy of all its descriptors.
#[test]
fn a_peer_learns_of_a_killed_process() {
    if let Some(program) = Program::compile("killed") {
        program.assert_ok(&[]);
    }
}

/// Kills or stops a peer on a wire. The survivor learns of it, in every role.
#[test]
fn a_peer_learns_of_a_killed_or_stopped_process_on_a_wire() {
    if let Some(program) = Program::compile("silent") {
        program.assert_ok(&[]);
    }
}

/// Ends a process by `exit`, `_exit` and `abort` in the middle of a transfer, from threads and handlers, while other
/// threads wait for events.
#[test]
fn a_process_can_end_at_any_moment() {
    if let Some(program) = Program::compile("leave") {
        program.assert_ok(&[]);
    }
}

/// Makes children of all kinds in the middle of a transfer. None has its parent's sockets, and the parent goes on.
#[test]
fn children_do_not_disturb_a_transfer() {
    if let Some(program) = Program::compile("forks") {
        program.assert_ok(&[]);
    }
}

/// Connects queue pairs of the second personality by GID and number, in any order. One finds itself, and one that finds
/// no peer reports it.
#[test]
fn queue_pairs_find_one_another_without_connection_management() {
    if let Some(program) = Program::compile("roce") {
        program.assert_ok(&[]);
    }
}

/// Uses the shared receive queue of an id.
#[test]
fn ids_have_shared_receive_queues() {
    if let Some(program) = Program::compile("shared") {
        program.assert_ok(&[]);
    }
}

/// Uses rsocket's streams, waits, ends and mappings, between threads and with a process that is killed.
#[test]
fn sockets_are_streams() {
    if let Some(program) = Program::compile("rsocket") {
        program.assert_ok(&[]);
    }
}

/// Speaks rsocket's octets from a bare queue pair. Some of them break the rules.
#[test]
fn sockets_use_librdmacms_protocol() {
    if let Some(program) = Program::compile("rsocket_wire") {
        program.assert_ok(&[]);
    }
}

/// Runs libfabric's verbs provider: messages, RDMA and private data over its endpoints.
#[test]
fn endpoints_of_libfabric_work() {
    if let Some(program) = Program::compile_with("fabric", &["-lfabric"]) {
        program.assert_ok(&[]);
    }
}

/// Runs the programs under valgrind: the library touches only memory that it may, and loses none.
#[test]
fn valgrind_finds_no_fault() {
    // valgrind runs one thread at a time. Without the fair lock a polling thread would leave the driver thread no turn.
    let line = "valgrind -q --fair-sched=yes --child-silent-after-fork=yes --error-exitcode=9";
    let valgrind: Vec<_> = line.split(' ').collect();
    if Command::new(valgrind[0]).arg("--version").output().is_err() {
        return skip("no valgrind for programs of libibverbs");
    }
    let leaks = ["--leak-check=full", "--errors-for-leak-kinds=definite", "--show-leak-kinds=definite"];
    let with_leaks = [&valgrind[..], &leaks].concat();
    let alone = [
        "misuse",
        "events",
        "transfer",
        "windows",
        "sysfs",
        "signals",
        "copies",
        "closed",
        "roce",
        "rsocket_wire",
    ];
    // In a child, stacks and objects of the parent's threads count as lost.
    let with_children = ["farewell", "fork", "forks", "killed", "rsocket", "traced"];
    let runs = alone.map(|name| (name, &with_leaks)).into_iter();
    for (name, runner) in runs.chain(with_children.map(|name| (name, &valgrind))) {
        let Some(program) = Program::compile(name) else { return };
        program.assert_ok(runner);
    }
}
