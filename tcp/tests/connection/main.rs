//! Connections from outside: scripts, and pairs on a seeded path (`pair.rs`).
//!
//! Scripts are in packetdrill's manner: segments and calls at points of virtual time, and the segments that have to follow.
//!
//! ```text
//! == RFC 9293 section 3.5: a connection is opened
//! +0     connect
//! +0     > S 0:0(0) win 65535 <mss 1460,sackOK,wscale 7>
//! +0.1   < S. 0:0(0) ack 1 win 1000 <mss 1000>
//! +0     > . 1:1(0) ack 1
//! ```
//!
//! A file has several scripts. Each begins with the section of the RFC that asks for what it shows. A line begins with
//! the time since the line before, in seconds. `>` is a segment that is sent at that very time, `<` one that arrives, and
//! `<<` one that arrives in the same turn as the next line. Numbers are relative to the ISN of their side. Whatever a
//! line with `>` does not say may be anything, but a segment has no more flags, ECN or blocks of SACK than it says.
//! Anything that is sent and not expected fails. `call.rs` has the calls. Timestamps, ECN and pacing are off unless a
//! script turns them on.

mod call;
mod host;
mod pair;
mod path;
mod script;
mod text;

use std::path::Path;

use script::Script;

#[test]
fn every_script_is_followed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/connection/scripts");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "pkt"));
    files.sort();
    let (mut count, mut failures) = (0, Vec::new());
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        for script in Script::read_all(&text) {
            count += 1;
            // The numbers wrap around in the second run.
            for isns in [(1_000, 500_000), (u32::MAX - 999, u32::MAX - 1_999)] {
                if let Err(failure) = script.run(isns) {
                    failures.push(format!("{}:{failure}", file.file_name().unwrap().display()));
                    break;
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} of {count} scripts:\n{}", failures.len(), failures.join("\n"));
    assert!(count > 50, "{count} scripts");
}

/// A runner that accepts anything would pass every script.
#[test]
fn a_script_with_a_mistake_fails() {
    let good = "== RFC 9293 section 3.5\n+0 connect\n+0 > S 0:0(0)\n+1 > S 0:0(0)\n+.5 < S. 0:0(0) ack 1 win 9\n+0 > . 1:1(0) ack 1\n";
    let run = |text: &str| Script::read_all(text).iter().try_for_each(|script| script.run((7, 9)));
    assert_eq!(run(good), Ok(()));
    let changes = [
        ("+1 > S", "+.9 > S"),
        ("+1 > S", "+1.1 > S"),
        ("ack 1 win 9", "ack 2 win 9"),
        ("> . 1:1(0)", "> . 2:2(0)"),
        ("> . 1:1(0)", "> P. 1:1(0)"),
        ("+0 > S 0:0(0)\n", ""),
        ("+0 > . 1:1(0) ack 1\n", ""),
        ("> . 1:1(0) ack 1", "> . 1:1(0) ack 1 win 1"),
        ("> . 1:1(0) ack 1", "> . 1:1(0) ack 1 <sack 1:2>"),
        ("connect", "conect"),
        ("RFC 9293 section 3.5", "a handshake"),
    ];
    for (from, to) in changes {
        let changed = good.replacen(from, to, 1);
        assert_ne!(good, changed);
        assert!(run(&changed).is_err(), "{from} -> {to}");
    }
}
