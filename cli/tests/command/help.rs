//! The help texts: complete, on standard output, and with examples that work.

use std::process::Command;

use crate::process::{Process, path_in, run};
use crate::support::Folder;

/// Returns the names of the commands in the help of `command`, which is empty or ends with a space.
pub(crate) fn commands_of(command: &str) -> Vec<String> {
    let help = run(&format!("{command}--help")).stdout;
    let list =
        help.iter().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // A command's text may go on in lines that are indented further.
    let names = list.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn every_command_has_a_help_with_examples() {
    let parts = ["bench", "exs", "group"].into_iter().flat_map(|command| {
        commands_of(&format!("{command} ")).into_iter().map(move |name| format!("{command} {name}"))
    });
    let all: Vec<String> = commands_of("").into_iter().chain(parts).collect();
    assert!(all.len() >= 9, "{all:?}");
    for command in all {
        let examples = examples(&command);
        assert!(!examples.is_empty(), "{command} has no examples");
        let is_ours = |line: &String| line.contains(&format!("weft {command}"));
        assert!(examples.iter().any(is_ours), "{command}: {examples:?}");
    }
}

#[test]
fn help_and_version_go_to_standard_output() {
    let of_commands = commands_of("").into_iter().map(|name| format!("{name} --help"));
    let more = ["--help", "-h", "help", "help demo", "demo -h", "bench run --help", "bench sweep --help"];
    for line in more.into_iter().map(str::to_owned).chain(of_commands) {
        let help = run(&line);
        assert_eq!((help.status, help.stderr.len()), (0, 0), "{line}: {help:?}");
        assert!(help.stdout.iter().any(|line| line.starts_with("Usage: weft")), "{line}: {help:?}");
    }
    let version = run("--version");
    assert_eq!(version.stdout, [format!("weft {}", env!("CARGO_PKG_VERSION"))]);
    assert_eq!((version.status, version.stderr.len()), (0, 0));
}

#[test]
fn the_help_explains_the_figures_of_the_demo() {
    let text = run("demo --help").stdout.join(" ");
    assert!(text.contains("CPU time") && text.contains("virtual time"), "{text}");
}

/// Returns the lines below "Examples:".
fn examples(command: &str) -> Vec<String> {
    let help = run(&format!("{command} --help")).stdout;
    let examples = help.iter().skip_while(|line| *line != "Examples:").skip(1);
    examples.map_while(|line| line.strip_prefix("  ").map(str::to_owned)).collect()
}

/// Runs a line as a user types it, with the `weft` that was just built.
fn shell(folder: &Folder, line: &str) -> Process {
    let weft = format!("weft() {{ '{}' \"$@\"; }}; ", env!("CARGO_BIN_EXE_weft"));
    Process::start(Command::new("sh").arg("-c").arg(weft + line).current_dir(&folder.0))
}

#[test]
fn examples_of_the_demo_work() {
    let folder = Folder::new();
    let examples = examples("demo");
    assert!(examples.len() >= 4, "{examples:?}");
    for example in examples {
        let done = shell(&folder, &example).finish();
        assert_eq!((done.status, done.stderr.len()), (0, 0), "{example}: {:?}", done.stderr);
        assert!(!done.stdout.is_empty(), "{example}");
    }
}

#[test]
fn examples_of_rping_work() {
    let folder = Folder::new();
    let examples: Vec<_> = examples("rping").into_iter().filter(|line| line.contains("unix")).collect();
    assert_eq!(examples.len(), 2, "{examples:?}");
    let mut both = examples.iter().map(|line| shell(&folder, &line.replace("/tmp/", "./")));
    let (server, client) = (both.next().unwrap(), both.next().unwrap());
    let (server, client) = (server.finish(), client.finish());
    assert_eq!((server.status, client.status), (0, 0), "{server:?} {client:?}");
    assert_eq!(client.stdout.len(), 11, "ten pings and the result: {client:?}");
}

#[test]
fn examples_of_the_decoder_work() {
    let folder = Folder::new();
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/siw-rping.pcap");
    std::fs::copy(data, path_in(&folder, "trace.pcap")).unwrap();
    let examples = examples("decode");
    for wanted in ["weft decode trace.pcap", "weft decode --json trace.pcap"] {
        let example = examples.iter().find(|line| line.starts_with(wanted)).unwrap();
        // The program behind the pipe may not be installed.
        let ours = example.split(" | ").next().unwrap();
        let done = shell(&folder, ours).finish();
        assert_eq!((done.status, done.stdout.len()), (0, 37), "{example}");
    }
}
