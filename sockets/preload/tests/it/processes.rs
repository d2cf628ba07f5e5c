//! Programs that fork, start others, and hand their sockets on.

use std::sync::OnceLock;

use weft_daemon::{Config, Daemon, Rules};

use crate::programs::{Program, scratch};

/// What the connections of a way have to come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// They go on by rings.
    Rings,
    /// They go by rings first, and then by TCP again.
    Back,
}

/// Runs the program plainly, then with the library but no daemon, then with a daemon. It checks each octet by itself.
fn talks(way: &str, more: &[&str], goal: Option<Goal>) {
    if way == "nobody" && !rustix::process::geteuid().is_root() {
        println!("skipped: only root can give up its rights");
        return;
    }
    let Some(program) = Program::new("processes", &[]) else { return };
    let arguments = [&[way][..], more].concat();
    let plain = program.plain(&arguments);
    let hooked = program.with(&[("WEFT_SOCKETS", "eager")]);
    assert_eq!(hooked.with(&[("WEFT_DAEMON", "@weft-test-nobody")]).hooked(&arguments), plain, "{way}");
    // The other end blocks, or waits by poll, epoll, or edges of epoll.
    let waits: &[&str] = if goal == Some(Goal::Back) { &["0", "1", "2", "3"] } else { &["0", "2"] };
    for waits in waits {
        meets(&hooked.with(&[("WAITS", waits)]), &arguments, &plain, goal);
    }
}

/// Runs the program with the library and a daemon.
pub(crate) fn meets(program: &Program, arguments: &[&str], plain: &str, goal: Option<Goal>) {
    let way = arguments[0];
    let trace = scratch(&format!("trace-{way}"));
    let path = trace.to_str().expect("a path of text");
    let mut text = String::new();
    // A connection is claimed beside its octets: a slow daemon may come too late for some of them.
    for _ in 0..TRIES {
        let _old = std::fs::remove_file(&trace);
        let with_daemon = program.with(&[("WEFT_DAEMON", daemon()), ("WEFT_SOCKETS_TRACE", path)]);
        assert_eq!(with_daemon.hooked(arguments), plain, "{way}");
        text = std::fs::read_to_string(&trace).unwrap_or_default();
        let has = |word| text.contains(word);
        assert!(!has("reset"), "{way}: {text}");
        let is_there = match goal {
            None => true,
            Some(Goal::Rings) => has("sends by a ring") && !has("back on TCP"),
            Some(Goal::Back) => has("sends by a ring") && has("back on TCP"),
        };
        if is_there {
            return;
        }
    }
    panic!("{way}: not as wanted: {text}");
}

/// The address of a daemon that runs as long as the tests do.
pub(crate) fn daemon() -> &'static str {
    static ADDRESS: OnceLock<String> = OnceLock::new();
    ADDRESS.get_or_init(|| {
        let text = format!("@weft-test-processes-{}", std::process::id());
        start_daemon(&text);
        text
    })
}

/// Starts a daemon that runs as long as the tests do.
pub(crate) fn start_daemon(address: &str) {
    let address = address.parse().expect("an address");
    let daemon = Daemon::start(&Config {
        address,
        rules: Rules::default(),
        lanes: None,
        rdma_always: false,
        linger: None,
    });
    let daemon = daemon.expect("a daemon");
    std::thread::spawn(move || {
        let (never, _other) = std::io::pipe().expect("a pipe");
        daemon.run(&never).expect("a daemon that runs");
    });
}

macro_rules! ways {
    ($($test:ident: $way:literal $goal:ident,)+) => {$(
        #[test]
        fn $test() {
            talks($way, &[], Some(Goal::$goal));
        }
    )+};
}

ways! {
    children_take_connections: "fork" Rings,
    children_without_handlers_take_connections: "_Fork" Rings,
    children_of_a_bare_call_take_connections: "bare" Rings,
    children_of_clone_take_connections: "clone" Rings,
    children_share_a_listener: "prefork" Rings,
    parent_and_child_take_turns: "keep" Rings,
    threads_talk_while_another_one_forks: "threads" Rings,
    a_child_of_vfork_starts_a_program: "vfork" Back,
    a_program_is_spawned: "spawn" Back,
    a_program_takes_a_connection: "exec" Back,
    a_descriptor_is_passed: "message" Back,
    a_socket_is_used_by_stdio: "stdio" Back,
    an_option_needs_the_kernel: "option" Back,
    a_daemon_takes_a_connection: "daemon" Rings,
    commands_run_meanwhile: "commands" Rings,
    a_child_inherits_an_epoll_set: "sets" Rings,
    a_child_gives_up_the_rights_of_root: "nobody" Back,
    a_program_in_a_sandbox_of_its_own_lives: "sandbox" Back,
}

#[test]
fn a_static_program_takes_a_connection() {
    let Some(program) = Program::new("processes", &["-static"]) else { return };
    talks("static", &[program.path()], Some(Goal::Back));
}

/// Calls that the library makes, and programs can do without.
const CALLS: [libc::c_long; 8] = [
    libc::SYS_clone,
    libc::SYS_memfd_create,
    libc::SYS_membarrier,
    libc::SYS_sendmsg,
    libc::SYS_eventfd2,
    libc::SYS_getsockopt,
    libc::SYS_pidfd_open,
    libc::SYS_ppoll,
];

/// Names calls in an argument of the program.
fn listed(calls: &[libc::c_long]) -> String {
    calls.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

#[test]
fn a_program_lives_with_a_filter_from_the_one_that_started_it() {
    talks("inherit", &[&listed(&CALLS), "alone", "itself"], None);
    // A child tries these: the program's parent was made under the same filter.
    for call in &CALLS[1..] {
        talks("inherit", &[&call.to_string(), "alone", "forked"], None);
    }
}

#[test]
fn a_filter_that_allows_all_calls_of_the_library_does_no_harm() {
    let call = listed(&[libc::SYS_acct]);
    talks("inherit", &[&call, "alone", "forked"], Some(Goal::Rings));
    // The program itself cannot know whether it may try. Its children can.
    talks("inherit", &[&call, "prefork", "itself"], Some(Goal::Rings));
}

#[test]
fn a_program_lives_with_a_filter_of_its_own() {
    talks("own", &[&listed(&CALLS)], Some(Goal::Back));
}

const TRIES: u32 = 10;
