//! Results with the library and without it.

use crate::programs::Program;

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
