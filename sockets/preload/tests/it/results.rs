//! Results with the library and without it.

use crate::processes::daemon;
use crate::programs::{Program, scratch};

/// Runs a program of C plain and hooked, and compares what it prints.
fn compare(name: &str) {
    let Some(program) = Program::new(name, &[]) else { return };
    let expected = program.plain(&[]);
    assert!(!expected.is_empty());
    let hooked = program.with(&[("WEFT_DAEMON", "@weft-test-nobody")]).hooked(&[]);
    assert_eq!(hooked, expected);
}

#[test]
fn calls_that_fail_say_the_same() {
    compare("failures");
}

#[test]
fn threads_are_cancelled_in_the_same_calls() {
    compare("cancel");
}

#[test]
fn the_other_end_hears_of_each_way_to_end_a_connection() {
    let Some(program) = Program::new("endings", &[]) else { return };
    let trace = scratch("trace-endings");
    let _old = std::fs::remove_file(&trace);
    let path = trace.to_str().unwrap();
    let variables = [("WEFT_DAEMON", daemon()), ("WEFT_SOCKETS", "eager"), ("WEFT_SOCKETS_TRACE", path)];
    assert_eq!(program.with(&variables).hooked(&[]), program.plain(&[]));
    let trace = std::fs::read_to_string(&trace).unwrap();
    assert!(trace.contains("sends by a ring"), "{trace}");
}

#[test]
fn a_signal_handler_sends_in_the_middle_of_a_send() {
    send_in_handlers(&[]);
}

/// A call that is jumped out of may have written its octets or not.
#[test]
fn a_signal_handler_jumps_out_of_a_send() {
    send_in_handlers(&[("JUMPS", "1")]);
}

/// A program closes all descriptors by a system call of its own, and has files of its own in their places.
#[test]
fn files_in_the_place_of_the_librarys_own_are_left_alone() {
    let Some(program) = Program::new("places", &[]) else { return };
    let expected = program.plain(&[]);
    assert_eq!(expected, "1000 turns, 0 files changed\n");
    let trace = scratch("trace-places");
    let _old = std::fs::remove_file(&trace);
    let path = trace.to_str().expect("a path of text");
    let variables = [("WEFT_DAEMON", daemon()), ("WEFT_SOCKETS", "eager"), ("WEFT_SOCKETS_TRACE", path)];
    assert_eq!(program.with(&variables).hooked(&[]), expected);
    let trace = std::fs::read_to_string(&trace).expect("a trace");
    assert!(trace.contains("sends by a ring"), "{trace}");
}

fn send_in_handlers(options: &[(&str, &str)]) {
    let Some(program) = Program::new("signals", &[]).map(|program| program.with(options)) else { return };
    let expected = program.plain(&[]);
    assert_eq!(expected, "signals 1, wrong 0, refused 0, lost 0\n");
    let trace = scratch("trace-signals");
    let path = trace.to_str().expect("a path of text");
    let variables = [("WEFT_DAEMON", daemon()), ("WEFT_SOCKETS", "eager"), ("WEFT_SOCKETS_TRACE", path)];
    // A signal in the middle of the claim puts it off.
    for _ in 0..10 {
        let _old = std::fs::remove_file(&trace);
        assert_eq!(program.with(&variables).hooked(&[]), expected);
        if std::fs::read_to_string(&trace).expect("a trace").contains("sends by a ring") {
            return;
        }
    }
    panic!("the connection does not leave TCP");
}
