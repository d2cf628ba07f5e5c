//! The contents of a capture, read by tshark.

use std::collections::BTreeMap;
use std::process::Command;

use crate::process::Process;
use crate::support::{is_installed, skip};

pub(crate) struct Seen {
    /// Segments by their kind, as `weft decode` names it.
    pub(crate) segments: BTreeMap<String, u64>,
    pub(crate) malformed: u64,
    pub(crate) good_crcs: u64,
    pub(crate) bad_crcs: u64,
}

/// Returns `None` if tshark is not installed, and prints the reason.
pub(crate) fn look(pcap: &str) -> Option<Seen> {
    if !is_installed("tshark") {
        skip("tshark is not installed");
        return None;
    }
    let mut command = Command::new("tshark");
    command.args([
        "-n",
        "-r",
        pcap,
        "-o",
        "tcp.reassemble_out_of_order:TRUE",
        "--disable-protocol",
        "rpcordma",
    ]);
    // Only the text for people has the verdict on a CRC.
    command.args(["-O", "iwarp_mpa,iwarp_ddp_rdmap"]);
    let done =
        Process::start_with(&mut command, |line| MARKS.iter().any(|mark| line.contains(mark))).finish();
    assert_eq!(done.status, 0, "{:?}", done.stderr);
    let mut seen = Seen { segments: BTreeMap::new(), malformed: 0, good_crcs: 0, bad_crcs: 0 };
    for line in done.stdout {
        seen.malformed += u64::from(line.contains("Malformed"));
        seen.good_crcs += u64::from(line.contains("(Good CRC32"));
        seen.bad_crcs += u64::from(line.contains("(Bad CRC32"));
        if let Some(kind) = kind(&line) {
            *seen.segments.entry(kind.to_owned()).or_default() += 1;
        }
    }
    Some(seen)
}

/// Returns the kind of a frame or segment, from tshark's line about it.
fn kind(line: &str) -> Option<&'static str> {
    if let Some(frame) = line.strip_suffix(" frame header") {
        return Some(if frame.ends_with("Request") { "mpa-request" } else { "mpa-reply" });
    }
    let (_, opcode) = line.split_once("OpCode: ")?;
    Some(match opcode {
        "Write (0x0)" => "write",
        "Read Request (0x1)" => "read-request",
        "Read Response (0x2)" => "read-response",
        "Send (0x3)" => "send",
        _ => panic!("an unexpected opcode: {opcode}"),
    })
}

const MARKS: [&str; 4] = ["OpCode: ", " frame header", "CRC32", "Malformed"];
