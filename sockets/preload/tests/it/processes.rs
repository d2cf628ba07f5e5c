//! Programs that fork, start others, and hand their sockets on.

use crate::programs::Program;

/// Runs the program plainly, then with the library. It checks each octet by itself.
fn talks(way: &str, more: &[&str]) {
    let Some(program) = Program::new("processes", &[]) else { return };
    let arguments = [&[way][..], more].concat();
    let plain = program.plain(&arguments);
    let hooked = program.with(&[("WEFT_SOCKETS", "eager"), ("WEFT_DAEMON", "@weft-test-nobody")]);
    assert_eq!(hooked.hooked(&arguments), plain, "{way}");
}

macro_rules! ways {
    ($($test:ident: $way:literal,)+) => {$(
        #[test]
        fn $test() {
            talks($way, &[]);
        }
    )+};
}

ways! {
    children_take_connections: "fork",
    children_without_handlers_take_connections: "_Fork",
    children_of_a_bare_call_take_connections: "bare",
    children_of_clone_take_connections: "clone",
    children_share_a_listener: "prefork",
    parent_and_child_take_turns: "keep",
    a_child_of_vfork_starts_a_program: "vfork",
    a_program_is_spawned: "spawn",
    a_program_takes_a_connection: "exec",
    a_descriptor_is_passed: "message",
    a_daemon_takes_a_connection: "daemon",
    commands_run_meanwhile: "commands",
    a_program_in_a_sandbox_of_its_own_lives: "sandbox",
}

#[test]
fn a_static_program_takes_a_connection() {
    let Some(program) = Program::new("processes", &["-static"]) else { return };
    talks("static", &[program.path()]);
}

#[test]
fn a_program_lives_with_a_filter_from_the_one_that_started_it() {
    let calls = [libc::SYS_memfd_create, libc::SYS_membarrier, libc::SYS_sendmsg, libc::SYS_getsockopt];
    for call in calls.iter().chain(&[libc::SYS_pidfd_open, libc::SYS_eventfd2, libc::SYS_ppoll]) {
        talks("inherit", &[&call.to_string()]);
    }
}
