//! `weft demo`: its counters, its capture in `weft decode` and tshark, and runs with the same seed.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::process::{path_in, run};
use crate::support::Folder;
use crate::tshark;

type Counts = BTreeMap<String, u64>;

/// A finished demo.
struct Demo {
    rows: Vec<Value>,
    /// The number of segments of each kind that occurred.
    segments: Counts,
    pcap: String,
    _folder: Folder,
}

fn object(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

fn demo(flags: &str) -> Demo {
    let folder = Folder::new();
    let pcap = path_in(&folder, "demo.pcap");
    let done = run(&format!("demo --json --pcap {pcap} {flags}"));
    assert_eq!((done.status, done.stderr.len()), (0, 0), "{flags}: {:?}", done.stderr);
    let mut rows: Vec<Value> = done.stdout.iter().map(|line| object(line)).collect();
    let last = rows.pop().unwrap();
    assert_eq!(last["ok"], true, "{flags}: {last}");
    let segments = last["segments"].as_object().unwrap().iter();
    let segments = segments.map(|(kind, count)| (kind.clone(), count.as_u64().unwrap()));
    Demo { rows, segments: segments.filter(|&(_, count)| count > 0).collect(), pcap, _folder: folder }
}

/// Returns segments by kind, messages by kind, and verdicts on the CRC, from `weft decode`.
fn decoded(pcap: &str) -> [Counts; 3] {
    let done = run(&format!("decode --json {pcap}"));
    assert_eq!((done.status, done.stderr.len()), (0, 0), "{:?}", done.stderr);
    let mut counts = [Counts::new(), Counts::new(), Counts::new()];
    for line in &done.stdout {
        let object = object(line);
        let text = |key: &str| object[key].as_str().unwrap().to_owned();
        *counts[0].entry(text("kind")).or_default() += 1;
        let is_segment = !text("kind").starts_with("mpa-");
        if is_segment && object["last"] == true {
            *counts[1].entry(text("kind")).or_default() += 1;
        }
        if is_segment {
            *counts[2].entry(text("crc")).or_default() += 1;
        }
    }
    counts
}

fn counts<const N: usize>(table: [(&str, u64); N]) -> Counts {
    table.into_iter().map(|(key, count)| (key.to_owned(), count)).collect()
}

/// Runs the demo, and compares its counters with its capture.
fn check(flags: &str, crc: &str) -> Demo {
    let demo = demo(flags);
    let [segments, messages, crcs] = decoded(&demo.pcap);
    assert_eq!(segments, demo.segments, "{flags}");
    let all = segments.iter().filter(|(kind, _)| !kind.starts_with("mpa-")).map(|(_, count)| count).sum();
    assert_eq!(crcs, counts([(crc, all)]), "{flags}");
    // A Send follows each Write, and both sides advertise by one.
    let expected = [("read-request", 1060), ("read-response", 1060), ("send", 2 * 1060 + 2), ("write", 1060)];
    assert_eq!(messages, counts(expected), "{flags}");
    demo
}

/// As [`check`], and compares with tshark, too.
fn check_with_tshark(flags: &str, crc: &str) {
    let demo = check(flags, crc);
    let Some(seen) = tshark::look(&demo.pcap) else { return };
    assert_eq!(seen.malformed, 0, "{flags}");
    assert_eq!(seen.segments, demo.segments, "{flags}");
    let all =
        seen.segments.iter().filter(|(kind, _)| !kind.starts_with("mpa-")).map(|(_, count)| count).sum();
    assert_eq!((seen.good_crcs, seen.bad_crcs), (if crc == "good" { all } else { 0 }, 0), "{flags}");
}

#[test]
fn plain() {
    check_with_tshark("", "good");
}

#[test]
fn with_markers() {
    // tshark reads some placements of Markers wrong, so that here only our own decoder looks.
    let marked = check("--markers", "good");
    assert_eq!(marked.segments["mpa-request"], 1);
    check("--markers --no-crc --mtu 576", "off");
}

#[test]
fn without_crc() {
    check_with_tshark("--no-crc", "off");
}

#[test]
fn with_large_frames() {
    check_with_tshark("--mtu 9000", "good");
}

#[test]
fn with_loss() {
    check_with_tshark("--loss 0.02 --seed 7", "good");
}

/// A Read of a MiB is done when its last frame has come: 728 frames of 1440 octets of payload and a shorter one, each
/// with 98 more on the line.
#[test]
fn with_a_rate() {
    let demo = check("--rate 1000000000", "good");
    let read = demo.rows.iter().find(|row| row["operation"] == "read" && row["size"] == 1_048_576);
    let latency = read.unwrap()["median_latency_us"].as_u64().unwrap();
    assert!((8959..10_000).contains(&latency), "{latency} us");
    // A queue of 20 frames in front of a buffer of 256 KiB.
    let lossy = check("--rate 1000000000 --queue 30760", "good");
    let octets = |demo: &Demo| std::fs::read(&demo.pcap).unwrap();
    assert!(octets(&lossy) != octets(&demo), "nothing was lost");
}

#[test]
fn rows_are_every_operation_in_every_size() {
    let demo = demo("--mtu 65535");
    let sizes = [1, 64, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576];
    let expected: Vec<_> =
        ["send", "write", "read"].iter().flat_map(|name| sizes.map(|size| (*name, size))).collect();
    let found: Vec<_> = demo
        .rows
        .iter()
        .map(|row| (row["operation"].as_str().unwrap(), row["size"].as_u64().unwrap()))
        .collect();
    assert_eq!(found, expected);
    for row in &demo.rows {
        assert!(
            row["messages"].as_u64().unwrap() > 0 && row["gb_per_cpu_second"].as_f64().unwrap() > 0.0,
            "{row}"
        );
        // The wire takes five microseconds for a frame, and every message needs one there at least.
        assert!(row["median_latency_us"].as_u64().unwrap() >= 5, "{row}");
    }
}

#[test]
fn people_get_a_table_and_ok() {
    let demo = run("demo --markers --seed 3");
    assert_eq!((demo.status, demo.stdout.last().map(String::as_str)), (0, Some("ok")));
    assert!(demo.stdout[0].ends_with("MTU 1500, CRC on, Markers on, loss 0, seed 3"), "{:?}", demo.stdout);
    assert_eq!(demo.stdout.len(), 1 + 1 + 24 + 1 + 1, "settings, head, rows, segments, ok");
    assert!(demo.stdout.iter().all(|line| !line.contains('\x1b')), "no colours in a pipe");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let [one, two, other] =
        ["--seed 7", "--seed 7", "--seed 8"].map(|seed| demo(&format!("--loss 0.02 --mtu 9000 {seed}")));
    let octets = |demo: &Demo| std::fs::read(&demo.pcap).unwrap();
    assert!(octets(&one) == octets(&two), "the same seed gave two runs");
    assert!(octets(&one) != octets(&other), "the seed changed nothing");
    // What TCP has to send again changes where long messages are cut, and nothing else.
    let messages = |demo: &Demo| demo.rows.iter().map(|row| row["messages"].clone()).collect::<Vec<_>>();
    assert_eq!(messages(&one), messages(&other), "a lost frame changes no message");
    assert_eq!(one.segments["read-request"], other.segments["read-request"]);
}
