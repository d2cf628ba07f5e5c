//! What tshark sees in a capture.

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

/// None where tshark is not installed; the reason is printed.
pub(crate) fn look(pcap: &str) -> Option<Seen> {
    if !is_installed("tshark") {
        skip("tshark is not installed");
        return None;
    }
    let mut seen = Seen { segments: BTreeMap::new(), malformed: 0, good_crcs: 0, bad_crcs: 0 };
    let fields = ["iwarp_rdma.opcode", "_ws.malformed", "iwarp_mpa.req", "iwarp_mpa.rep"];
    let mut arguments = vec!["-T", "fields", "-E", "occurrence=a"];
    arguments.extend(fields.iter().flat_map(|field| ["-e", field]));
    for line in tshark(pcap, &arguments) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [opcodes, malformed, request, reply] = columns[..] else { panic!("four columns: {line}") };
        seen.malformed += u64::from(!malformed.is_empty());
        let opcodes = opcodes.split(',').filter(|opcode| !opcode.is_empty()).map(kind);
        let frames = [(request, "mpa-request"), (reply, "mpa-reply")];
        let frames = frames.into_iter().filter(|(column, _)| !column.is_empty()).map(|(_, kind)| kind);
        for kind in opcodes.chain(frames) {
            *seen.segments.entry(kind.to_owned()).or_default() += 1;
        }
    }
    // Only the verbose text has the verdict on a CRC.
    for line in tshark(pcap, &["-Y", "iwarp_mpa.fpdu", "-O", "iwarp_mpa"]) {
        seen.good_crcs += u64::from(line.contains("(Good CRC32)"));
        seen.bad_crcs += u64::from(line.contains("(Bad CRC32"));
    }
    Some(seen)
}

fn tshark(pcap: &str, arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new("tshark");
    command.args(["-r", pcap, "-o", "tcp.reassemble_out_of_order:TRUE", "--disable-protocol", "rpcordma"]);
    let done = Process::start(command.args(arguments)).finish();
    assert_eq!(done.status, 0, "{:?}", done.stderr);
    done.stdout
}

fn kind(opcode: &str) -> &'static str {
    match opcode {
        "0x00" => "write",
        "0x01" => "read-request",
        "0x02" => "read-response",
        "0x03" => "send",
        "0x04" => "send-inv",
        "0x05" => "send-se",
        "0x06" => "send-se-inv",
        "0x07" => "terminate",
        _ => panic!("an unexpected opcode: {opcode}"),
    }
}
