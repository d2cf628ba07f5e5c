//! A program that starts another one.

use crate::programs::Program;

const WAYS: [&str; 13] = [
    "execve",
    "execv",
    "execvp",
    "execvpe",
    "execl",
    "execl short",
    "execlp",
    "execle",
    "fexecve",
    "execveat",
    "posix_spawn",
    "posix_spawnp",
    "vfork",
];

#[test]
fn programs_are_started_as_without_the_library() {
    let Some(program) = Program::new("exec", &[]) else { return };
    for way in WAYS.iter().chain(&["script", "nothing", "denied"]) {
        let plain = program.with(&[("PLAIN", "1")]).plain(&[way]);
        assert_eq!(program.with(&[("PLAIN", "1")]).hooked(&[way]), plain, "{way}");
    }
}

#[test]
fn the_library_stays_in_an_environment_that_the_program_clears() {
    let Some(program) = Program::new("exec", &[]) else { return };
    for way in WAYS {
        let shown = program.with(&[("WEFT_SOCKETS", "eager"), ("WEFT_DAEMON", "@nobody")]).hooked(&[way]);
        assert!(shown.ends_with("eager /libweft_sockets_preload.so\n"), "{way}: {shown}");
    }
}
