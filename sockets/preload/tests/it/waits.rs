//! Waits for connections that go by rings tell what they tell of TCP.

use std::path::Path;
use std::process::{Command, Output};

use crate::processes::daemon;
use crate::programs::{library, scratch};

/// Runs a step of the script plainly and upgraded, and compares what it prints. `spin` is the longest spin in microseconds.
fn compare(step: &str, spin: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/waits.py");
    // The limit only turns a hang into a failure.
    let run = |variables: &[(&str, &str)]| {
        let mut command = Command::new("timeout");
        command.args(["60", "env"]).args(variables.iter().map(|(name, value)| format!("{name}={value}")));
        let Output { status, stdout, stderr } =
            command.arg(PYTHON).arg(&script).arg(step).output().expect("timeout of the coreutils");
        let text = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
        assert!(status.success(), "{step}: {status} {text}");
        text
    };
    if !Path::new(PYTHON).exists() {
        println!("skipped: {PYTHON} is not installed");
        return;
    }
    let name: String = step.chars().filter(char::is_ascii_alphanumeric).collect();
    let trace = scratch(&format!("trace-waits-{name}-{spin}"));
    let _old = std::fs::remove_file(&trace);
    let hooked = run(&[
        ("LD_PRELOAD", library().to_str().expect("a path of text")),
        ("WEFT_DAEMON", daemon()),
        ("WEFT_SOCKETS", "eager"),
        ("WEFT_SPIN", spin),
        ("WEFT_SOCKETS_TRACE", trace.to_str().expect("a path of text")),
    ]);
    assert_eq!(hooked, run(&[]), "{step}");
    let text = std::fs::read_to_string(&trace).expect("a trace");
    assert!(text.contains("sends by a ring"), "{step}: {text}");
}

macro_rules! steps {
    ($($test:ident: $step:literal,)+) => {$(
        #[test]
        fn $test() {
            compare($step, SPIN);
        }
    )+};
}

/// The program's thread has a CPU to itself and never spins: the death is there before its first sleep.
#[test]
fn a_killed_peer_is_told_before_the_first_sleep() {
    compare("killed(are_apart=True)", "0");
}

steps! {
    poll_and_select_tell_the_same: "polls()",
    a_reset_is_told: "unread()",
    a_full_ring_is_not_writable: "full()",
    epoll_by_level_tells_the_same: "epolls(0, 'LT')",
    epoll_by_edge_tells_the_same: "epolls(select.EPOLLET, 'ET')",
    epoll_with_one_shot_tells_the_same: "epolls(select.EPOLLONESHOT, 'ONE')",
    members_of_a_set_are_upgraded: "early()",
    sleepers_are_woken_in_time: "sleeps()",
    signals_interrupt_waits_as_ever: "signals()",
    sets_in_sets_are_told: "nested()",
    each_of_many_members_is_told: "many()",
    a_set_of_many_members_sleeps_and_is_woken: "crowd()",
    threads_share_a_set: "threads()",
    threads_share_the_members_of_a_set_out: "shared_out()",
    a_killed_peer_is_told: "killed()",
    a_killed_peer_is_told_past_unread_octets: "unheard()",
    a_killed_peer_is_told_to_a_sender_that_does_not_read: "stuffed()",
    removed_members_come_back_as_new_ones: "removed()",
    a_set_in_a_set_tells_nothing_of_removed_members: "removed_inside()",
    sleepers_hear_of_what_is_asked_meanwhile: "rearmed()",
    members_are_told_in_the_order_in_which_they_became_ready: "ordered()",
}

/// As without the variable.
const SPIN: &str = "50";
/// The interpreter of the script.
const PYTHON: &str = "/usr/bin/python3.11";
