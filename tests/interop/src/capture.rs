//! Reads a capture by tshark and by `weft decode`. The two readers share no code and have to agree.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use weft_cli::decode::fpdu::Crc;
use weft_cli::decode::pcap;
use weft_cli::decode::record::{Item, Note};
use weft_cli::decode::startup::Role;
use weft_cli::decode::tracker::Tracker;

use crate::program::Program;
use crate::torn;

/// Startup frames by their role, and segments by their opcode.
type Counts = BTreeMap<String, u64>;

/// Checks all captures in `dir`. `is_cut` is true if connections may end within a frame.
pub(crate) fn check_all(dir: &Path, is_cut: bool) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", dir.display());
    let mut checked = 0;
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "pcap") {
            check(&path, is_cut).map_err(|error| format!("capture {}: {error}", path.display()))?;
            checked += 1;
        }
    }
    if checked == 0 { Err("there is no capture".into()) } else { Ok(()) }
}

fn check(pcap: &Path, is_cut: bool) -> Result<(), String> {
    let ours = decode(pcap, is_cut)?;
    if ours.is_empty() {
        return Err("there is no iWARP in it".into());
    }
    let theirs = match ask_tshark(pcap) {
        // A TCP segment that ends with a peer's window may have less than 8 octets of an FPDU. There tshark loses its
        // place, and takes payload for headers from then on. Then there are no counts to compare.
        Err(lost) if is_cut && lost.contains(BAD_CRC) && torn::is_torn(pcap)? => return Ok(()),
        theirs => theirs?,
    };
    if ours == theirs { Ok(()) } else { Err(format!("weft decode sees {ours:?}, tshark {theirs:?}")) }
}

fn decode(path: &Path, is_cut: bool) -> Result<Counts, String> {
    let text = |error: &dyn core::fmt::Display| error.to_string();
    let file = File::open(path).map_err(|error| text(&error))?;
    let mut capture = pcap::Capture::open(BufReader::new(file)).map_err(|error| text(&error))?;
    let (mut tracker, mut counts) = (Tracker::new(), Counts::new());
    while let Some(packet) = capture.next().map_err(|error| text(&error))? {
        tracker.handle_packet(capture.link(), &packet);
        count(&mut tracker, &mut counts, is_cut)?;
    }
    tracker.finish();
    count(&mut tracker, &mut counts, is_cut)?;
    let summary = tracker.summary();
    if summary.malformed + summary.cut + summary.bad_checksums + summary.fragments > 0 {
        return Err(format!("weft decode sees damaged packets: {summary:?}"));
    }
    Ok(counts)
}

/// Counts what the decoder has found so far. A remark of the decoder is an error.
fn count(tracker: &mut Tracker, counts: &mut Counts, is_cut: bool) -> Result<(), String> {
    while let Some(record) = tracker.next_record() {
        let kind = match record.item {
            Item::Startup(startup) if startup.role == Role::Initiator => "MPA Request".into(),
            Item::Startup(_) => "MPA Reply".into(),
            Item::Segment { crc: Crc::Bad, .. } => {
                return Err(format!("weft decode sees a bad CRC in packet {}", record.stamp.number));
            }
            Item::Segment { segment, .. } => match (segment.remark, segment.header) {
                (None, Some(header)) => opcode(header.opcode),
                (remark, _) => return Err(format!("packet {}: {remark:?}", record.stamp.number)),
            },
            Item::Note(Note::EndsWithin { .. }) if is_cut => continue,
            Item::Note(note) => return Err(format!("packet {}: {note}", record.stamp.number)),
        };
        *counts.entry(kind).or_default() += 1;
    }
    Ok(())
}

fn ask_tshark(pcap: &Path) -> Result<Counts, String> {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "tshark", "-n", "-r"]).arg(pcap);
    // Only the text for people tells whether a CRC is right.
    command.args(["-o", "tcp.reassemble_out_of_order:TRUE", "--disable-protocol", "rpcordma"]);
    // Without this option tshark could take the port for that of another protocol.
    command.args(["-o", "tcp.try_heuristic_first:TRUE"]);
    command.args(["-O", "iwarp_mpa,iwarp_ddp_rdmap"]);
    let wanted: fn(&str) -> bool = |line| MARKS.iter().any(|mark| line.contains(mark));
    let lines = Program::start(&mut command, wanted)?.finish(TSHARK_TIMEOUT)?;
    let mut counts = Counts::new();
    for line in lines {
        let kind = match line.trim() {
            bad if bad.contains("Malformed") || bad.contains(BAD_CRC) => {
                return Err(format!("tshark sees: {bad}"));
            }
            "Request frame header" => "MPA Request".into(),
            "Reply frame header" => "MPA Reply".into(),
            other => match other.rsplit_once("OpCode: ").and_then(|(_, code)| parse_opcode(code)) {
                Some(code) => opcode(code),
                None => continue,
            },
        };
        *counts.entry(kind).or_default() += 1;
    }
    Ok(counts)
}

const BAD_CRC: &str = "(Bad CRC32";
/// Returns the number in `Send (0x3)`.
fn parse_opcode(text: &str) -> Option<u8> {
    let (_, digits) = text.rsplit_once("(0x")?;
    u8::from_str_radix(digits.strip_suffix(')')?, 16).ok()
}

fn opcode(code: u8) -> String {
    format!("opcode {code:#x}")
}

const MARKS: [&str; 4] = ["OpCode: ", " frame header", "CRC32", "Malformed"];
const TSHARK_TIMEOUT: Duration = Duration::from_secs(300);
