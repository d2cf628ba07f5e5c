//! C programs that use the library as any program would: compiled against the installed headers, linked with the installed libraries,
//! run with this one preloaded.

#![allow(clippy::unwrap_used, reason = "a test that fails here has failed")]

use std::path::PathBuf;
use std::process::Command;

mod program;
#[path = "../../../../cli/tests/support/skip.rs"]
mod skip;
mod trace;

use program::Program;
use skip::skip;

/// What has the loader take Weft for the system's libraries.
fn form() -> String {
    format!("LD_PRELOAD={}", library().display())
}

/// What cargo has built for these tests.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let deps = test.parent().unwrap();
    [deps, deps.parent().unwrap()]
        .iter()
        .map(|folder| folder.join("libweft_preload.so"))
        .find(|path| path.is_file())
        .expect("cargo builds the library before its tests")
}

/// Null, foreign and destroyed handles, masks and lengths that make no sense: each has its number, and nothing crashes.
#[test]
fn bad_input_is_refused_by_number() {
    if let Some(program) = Program::compile("misuse") {
        program.assert_ok(&[]);
    }
}

/// Every operation between two ids of one process, by all ways to post and to poll.
#[test]
fn all_operations_place_what_they_should() {
    if let Some(program) = Program::compile("transfer") {
        program.assert_ok(&[]);
    }
}

/// `bad_wr` names the request of a list that is refused: by queue pairs, shared receive queues and requests that are built.
#[test]
fn the_refused_request_of_a_list_is_named() {
    if let Some(program) = Program::compile("lists") {
        program.assert_ok(&[]);
    }
}

/// Windows of both types: bound, used by the peer, invalidated from either side, and refused where they do not fit.
#[test]
fn windows_open_and_close() {
    if let Some(program) = Program::compile("windows") {
        program.assert_ok(&[]);
    }
}

/// Programs that read the device's files by themselves find what the calls answer.
#[test]
fn files_of_the_device_are_rendered() {
    if let Some(program) = Program::compile("sysfs") {
        program.assert_ok(&[]);
    }
}

/// Destroying waits for acknowledgements, channels say EAGAIN where they may not wait, and descriptors poll right.
#[test]
fn events_are_acknowledged_before_their_objects_go() {
    if let Some(program) = Program::compile("events") {
        program.assert_ok(&[]);
    }
}

/// A child knows none of its parent's objects, and has a device of its own; the parent's goes on.
#[test]
fn a_child_begins_anew() {
    if let Some(program) = Program::compile("fork") {
        program.assert_ok(&[]);
    }
}

/// A rejection is on its way when the call returns, so that the peer has it of a process that is gone.
#[test]
fn a_rejection_outlives_its_process() {
    if let Some(program) = Program::compile("reject") {
        program.assert_ok(&[]);
    }
}

/// Signals come to threads of the program alone; one that comes in a wait ends it with EINTR, unless it was to go on.
#[test]
fn signals_end_waits_as_those_of_the_system() {
    if let Some(program) = Program::compile("signals") {
        program.assert_ok(&[]);
    }
}

/// A process that ends on a wire without having disconnected says so to its peer.
#[test]
fn a_process_on_a_wire_takes_its_leave() {
    if let Some(program) = Program::compile("farewell") {
        program.assert_ok(&[]);
    }
}

/// Copies of structs in place of handles, by every function that the headers call by a pointer, and requests that are built wrongly.
#[test]
fn copies_of_handles_are_none() {
    if let Some(program) = Program::compile("copies") {
        program.assert_ok(&[]);
    }
}

/// Memory that goes before it is deregistered, in every role and by every way: that queue pair ends, and the process lives. Faults of the
/// program's own reach its handler, or end it.
#[test]
fn memory_that_is_gone_ends_its_queue_pair_only() {
    if let Some(program) = Program::compile("gone") {
        program.assert_ok(&[]);
        // Without CRC the kernel reads and writes the memory.
        program.assert_ok(&["env", "WEFT_CRC=0"]);
    }
}

/// Descriptors that the program closes underneath, all of them as daemons do: errors, ends of connections, and nobody runs in circles.
#[test]
fn what_is_closed_underneath_ends() {
    if let Some(program) = Program::compile("closed") {
        program.assert_ok(&[]);
    }
}

/// A process is killed in the middle of a transfer, and leaves a child that has a copy of all its descriptors.
#[test]
fn a_peer_hears_of_a_process_that_is_killed() {
    if let Some(program) = Program::compile("killed") {
        program.assert_ok(&[]);
    }
}

/// A peer on a wire that is killed or stopped: the survivor hears of that, in every role.
#[test]
fn a_peer_hears_of_a_process_on_a_wire_that_is_gone() {
    if let Some(program) = Program::compile("silent") {
        program.assert_ok(&[]);
    }
}

/// `exit`, `_exit` and `abort` in the middle of a transfer, from threads and handlers, while other threads wait for events.
#[test]
fn a_process_ends_when_it_wants_to() {
    if let Some(program) = Program::compile("leave") {
        program.assert_ok(&[]);
    }
}

/// Children of all kinds in the middle of a transfer: none has its parent's sockets, and the parent goes on.
#[test]
fn children_leave_a_transfer_alone() {
    if let Some(program) = Program::compile("forks") {
        program.assert_ok(&[]);
    }
}

/// The second personality: queue pairs find one another by GID and number in whatever order, one finds itself, and one that finds nobody
/// says so.
#[test]
fn queue_pairs_find_one_another_without_connection_management() {
    if let Some(program) = Program::compile("roce") {
        program.assert_ok(&[]);
    }
}

/// A shared receive queue of an id.
#[test]
fn ids_have_shared_receive_queues() {
    if let Some(program) = Program::compile("shared") {
        program.assert_ok(&[]);
    }
}

/// Streams, waiting, ends and mappings of rsocket, between threads and with a process that is killed.
#[test]
fn sockets_are_streams() {
    if let Some(program) = Program::compile("rsocket") {
        program.assert_ok(&[]);
    }
}

/// rsocket's octets, told and heard by a peer that has a bare queue pair; and what a rude one gets.
#[test]
fn sockets_speak_as_librdmacm_does() {
    if let Some(program) = Program::compile("rsocket_wire") {
        program.assert_ok(&[]);
    }
}

/// libfabric's verbs provider: messages, RDMA and private data over its endpoints.
#[test]
fn libfabric_has_its_endpoints() {
    if let Some(program) = Program::compile_with("fabric", &["-lfabric"]) {
        program.assert_ok(&[]);
    }
}

/// What the programs do, and what the library does for them: no access to what is not theirs, and nothing lost.
#[test]
fn valgrind_finds_nothing() {
    // Under valgrind one thread runs at a time, and one that polls would leave the driver thread no turn without the fair lock.
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
    // What a child loses are the threads that it has not got.
    let with_children = ["farewell", "fork", "forks", "killed", "rsocket", "traced"];
    let runs = alone.map(|name| (name, &with_leaks)).into_iter();
    for (name, runner) in runs.chain(with_children.map(|name| (name, &valgrind))) {
        let Some(program) = Program::compile(name) else { return };
        program.assert_ok(runner);
    }
}
