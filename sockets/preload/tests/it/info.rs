//! What a program is told of a connection whose octets went by rings.

use crate::processes::{Goal, meets};
use crate::programs::Program;

#[test]
fn the_kernel_and_the_rings_are_counted_together() {
    let Some(program) = Program::new("info", &[]) else { return };
    let plain = program.plain(&[]);
    meets(&program.with(&[("WEFT_SOCKETS", "eager")]), &["info"], &plain, Some(Goal::Back));
}
