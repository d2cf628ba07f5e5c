//! The command itself: exit statuses, one line for each failure, and pipes.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::support::Folder;
use crate::trace::{CRC, Trace, data, vector};

fn weft(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
    command.arg("decode").args(args);
    command
}

/// Returns a file with these octets, and the folder that it is removed with.
fn file(name: &str, octets: &[u8]) -> (Folder, PathBuf) {
    let folder = Folder::new();
    let path = folder.0.join(name);
    std::fs::write(&path, octets).unwrap();
    (folder, path)
}

/// Returns the status, and the lines on stderr.
fn outcome(output: &Output) -> (i32, Vec<String>) {
    let lines = String::from_utf8(output.stderr.clone()).unwrap().lines().map(str::to_owned).collect();
    (output.status.code().unwrap(), lines)
}

#[test]
fn unusable_files_are_one_line_and_status_2() {
    let mut cut = std::fs::read(data("siw-rping.pcap")).unwrap();
    cut.truncate(10);
    for (name, octets, expected) in [
        ("empty.pcap", &b""[..], "the file is empty"),
        ("short.pcap", b"\xd4\xc3\xb2", "the file ends within the pcap file header"),
        ("header.pcap", &cut, "the file ends within the pcap file header"),
        (
            "garbage.pcap",
            b"hello, world, this is no capture at all",
            "not a pcap file (it begins with 68 65 6c 6c)",
        ),
        ("new.pcapng", b"\x0a\x0d\x0d\x0a\x1c\0\0\0", "a pcapng file, only classic pcap is read"),
    ] {
        let (_folder, path) = file(name, octets);
        let (status, lines) = outcome(&weft(&[path.to_str().unwrap()]).output().unwrap());
        assert_eq!((status, lines.len()), (2, 1), "{lines:?}");
        assert!(lines[0].starts_with(&format!("weft decode: {}: {expected}", path.display())), "{lines:?}");
    }
    for path in ["/nonexistent/file.pcap", env!("CARGO_MANIFEST_DIR")] {
        let (status, lines) = outcome(&weft(&[path]).output().unwrap());
        assert_eq!((status, lines.len()), (2, 1), "{lines:?}");
    }
    assert_eq!(weft(&[]).output().unwrap().status.code(), Some(2));
}

#[test]
fn a_truncated_file_is_decoded_as_far_as_it_goes() {
    let whole = std::fs::read(data("siw-rping.pcap")).unwrap();
    let (_folder, path) = file("truncated.pcap", &whole[..whole.len() - 7]);
    let output = weft(&["--json", path.to_str().unwrap()]).output().unwrap();
    let (status, lines) = outcome(&output);
    assert_eq!((status, lines.len()), (2, 1), "{lines:?}");
    assert!(lines[0].ends_with("the file ends within record 64"), "{lines:?}");
    assert_eq!(output.stdout.split(|&octet| octet == b'\n').count(), 38);
}

#[test]
fn text_is_one_line_a_segment_and_a_summary() {
    let mut trace = Trace::with_startup([1, 2], [CRC, CRC]);
    let mut bad = vector("send5");
    bad[21] ^= 1;
    trace.send(0, &[bad, vector("term-ddp-stag")].concat());
    let (_folder, path) = file("text.pcap", &trace.octets);
    let output = weft(&[path.to_str().unwrap()]).output().unwrap();
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[0].contains("0.003000") && lines[0].contains("10.0.0.1:12345 > 10.0.0.2:7174"), "{text}");
    assert!(lines[0].contains("MPA   Request") && lines[1].contains("MPA   Reply"), "{text}");
    assert!(
        lines[2].contains("Send") && lines[2].contains("QN 0 MSN 1 MO 0  length 23  CRC bad  last"),
        "{text}"
    );
    assert!(lines[3].contains("Terminate") && lines[3].contains("(1/1/00)"), "{text}");
    assert!(!text.contains('\x1b'), "no colours in a pipe");
    let (status, lines) = outcome(&output);
    assert_eq!(status, 0);
    assert_eq!(lines, ["weft decode: packets: 6; iWARP connections: 1; other TCP connections: 0"]);
}

#[test]
fn json_notes_go_to_stderr() {
    let mut trace = Trace::with_startup([1, 2], [CRC, CRC]);
    trace.lose(0, 28);
    trace.send(0, &vector("send5"));
    let (_folder, path) = file("json.pcap", &trace.octets);
    let output = weft(&["--json", path.to_str().unwrap()]).output().unwrap();
    for line in String::from_utf8(output.stdout.clone()).unwrap().lines() {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        for key in ["time", "src", "dst", "kind", "length", "crc", "last"] {
            assert!(object.get(key).is_some(), "{key} in {line}");
        }
        assert!(object["time"].is_f64());
    }
    let (status, lines) = outcome(&output);
    assert_eq!(status, 0);
    assert_eq!(lines, ["weft decode: packet 6: 10.0.0.1:12345 > 10.0.0.2:7174: 28 octets were not captured"]);
}

#[test]
fn a_capture_from_a_pipe_is_read() {
    let mut child = weft(&["--json", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&std::fs::read(data("siw-rping.pcap")).unwrap()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.split(|&octet| octet == b'\n').count()), (Some(0), 38));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    // The output is more than a pipe and a buffer hold.
    let mut trace = Trace::with_startup([1, 2], [CRC, CRC]);
    let fpdus = vector("send5").repeat(40);
    for _ in 0..100 {
        trace.send(0, &fpdus);
    }
    let (_folder, path) = file("long.pcap", &trace.octets);
    let mut child =
        weft(&[path.to_str().unwrap()]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::with_capacity(16, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(first.contains("Request"), "{first}");
    assert_eq!(outcome(&output), (0, vec![]));
}

#[test]
fn a_full_disk_is_a_failure() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = weft(&[&data("siw-rping.pcap")]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    let (status, lines) = outcome(&output);
    assert_eq!((status, lines.len()), (1, 1));
    assert!(lines[0].starts_with("weft decode: cannot write the output: "), "{lines:?}");
}

#[test]
fn the_help_has_examples() {
    let output = weft(&["--help"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("weft decode --json trace.pcap") && text.contains("Exit status"), "{text}");
}
