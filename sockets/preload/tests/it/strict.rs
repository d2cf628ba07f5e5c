//! Strict mode.

use crate::processes::{Goal, daemon, meets};
use crate::programs::Program;

#[test]
fn bad_addresses_are_told_as_the_kernel_tells_them() {
    let Some(program) = Program::new("strict", &[]) else { return };
    let plain = program.plain(&["addresses"]);
    let strict = program.with(&[("WEFT_SOCKETS", "eager"), ("WEFT_SOCKETS_STRICT", "1")]);
    meets(&strict, &["addresses"], &plain, Some(Goal::Rings));
}

#[test]
fn there_is_no_io_uring_in_strict_mode() {
    let Some(program) = Program::new("strict", &[]) else { return };
    let strict = program.with(&[("WEFT_DAEMON", daemon()), ("WEFT_SOCKETS_STRICT", "1")]);
    assert_eq!(strict.hooked(&["rings"]), "-1 ENOSYS -38\n");
    // The next program knows the filter that it finds, and goes on.
    assert_eq!(strict.hooked(&["rings", "twice"]), "-1 ENOSYS -38\n".repeat(2));
}
