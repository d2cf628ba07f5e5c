//! Readers that go away, and disks that are full.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::process::{Process, run, weft};

#[test]
fn a_demo_whose_reader_goes_away_ends_quietly() {
    for arguments in [&["demo"][..], &["demo", "--json"]] {
        let mut child = weft().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::with_capacity(16, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(!first.is_empty());
        assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]), "{arguments:?}");
    }
}

#[test]
fn closed_standard_output_from_the_start_is_no_panic() {
    for arguments in [&["demo"][..], &["--help"], &["rping", "--help"], &["--version"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = weft().args(arguments).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]), "{arguments:?}");
    }
}

#[test]
fn closed_standard_error_leaves_the_status() {
    for (arguments, status) in [
        (&["demo", "--mtu", "5"][..], 2),
        (&["frobnicate"], 2),
        (&["decode", "/nonexistent"], 2),
        (&["demo", "--pcap", "/dev/full"], 1),
        (&["demo"], 0),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = weft().args(arguments).stdout(Stdio::null()).stderr(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{arguments:?}");
    }
}

#[test]
fn a_full_disk_is_a_failure() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for arguments in [&["demo"][..], &["demo", "--json"], &["--help"]] {
        let output = weft().args(arguments).stdout(full()).stderr(Stdio::piped()).output().unwrap();
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), complaint.lines().count()),
            (Some(1), 1),
            "{arguments:?}: {complaint}"
        );
        assert!(complaint.contains(": cannot write the output: No space left"), "{complaint}");
    }
}

#[test]
fn a_capture_that_cannot_be_written_is_a_failure() {
    let demo = run("demo --json --pcap /dev/full");
    assert_eq!((demo.status, demo.stderr.len()), (1, 1), "{:?}", demo.stderr);
    assert!(
        demo.stderr[0].starts_with("weft demo: cannot write the capture: No space left"),
        "{:?}",
        demo.stderr
    );
    let last: serde_json::Value = serde_json::from_str(demo.stdout.last().unwrap()).unwrap();
    assert_eq!(last["ok"], false);
    assert!(last["error"].as_str().unwrap().starts_with("cannot write the capture"), "{last}");
}

#[test]
fn a_good_run_leaves_standard_error_empty() {
    let demo = Process::weft("demo").finish();
    assert_eq!((demo.status, demo.stderr), (0, vec![]));
}
