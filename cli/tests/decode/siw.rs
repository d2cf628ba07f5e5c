//! The captures of Linux siw: the same segments as tshark counts now, and as it counted when this was written.

use std::collections::BTreeMap;
use std::process::Command;

use crate::support::{is_installed, skip};
use crate::trace::{data, decode};

const CAPTURES: [(&str, &str); 3] = [
    (
        "siw-rping.pcap",
        "mpa-reply off 1, mpa-request off 1, read-request off 5, read-response off 5, send off 20, write off 5",
    ),
    (
        "siw-crc-p2p-rping.pcap",
        "mpa-reply off 1, mpa-request off 1, read-request good 5, read-response good 5, send good 20, write good 6",
    ),
    ("siw-send-bw.pcap", "mpa-reply off 2, mpa-request off 2, send off 142, write off 4"),
];

fn objects(name: &str) -> Vec<serde_json::Value> {
    let decoded = decode(&std::fs::read(data(name)).unwrap());
    assert_eq!(decoded.notes(), [], "{name}");
    assert_eq!(decoded.summary.other, 0, "{name}");
    decoded.objects()
}

#[test]
fn counts_are_right() {
    for (name, expected) in CAPTURES {
        let mut counts = BTreeMap::<String, u32>::new();
        for object in objects(name) {
            assert_eq!(object.get("remark"), None, "{object}");
            let key = format!("{} {}", object["kind"].as_str().unwrap(), object["crc"].as_str().unwrap());
            *counts.entry(key).or_default() += 1;
        }
        let found: Vec<_> = counts.iter().map(|(key, count)| format!("{key} {count}")).collect();
        assert_eq!(found.join(", "), expected, "{name}");
    }
}

#[test]
fn last_segments_are_marked() {
    let last = |name| objects(name).iter().filter(|object| object["last"] == true).count();
    assert_eq!(CAPTURES.map(|(name, _)| last(name)), [37, 38, 70]);
}

/// Per packet the opcodes and the L flags, in order.
#[test]
fn tshark_sees_the_same_segments() {
    if !is_installed("tshark") {
        return skip("tshark is not installed");
    }
    for (name, _) in CAPTURES {
        let output = Command::new("tshark")
            .args([
                "-o",
                "tcp.reassemble_out_of_order:TRUE",
                "--disable-protocol",
                "rpcordma",
                "-r",
                &data(name),
            ])
            .args(["-Y", "iwarp_ddp", "-T", "fields", "-E", "occurrence=a"])
            .args(["-e", "frame.number", "-e", "iwarp_rdma.opcode", "-e", "iwarp_ddp.last_flag"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let theirs: Vec<String> =
            String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();

        let mut frames = BTreeMap::<u64, (Vec<String>, Vec<String>)>::new();
        for object in objects(name) {
            let Some(opcode) = object["opcode"].as_u64() else { continue };
            let entry = frames.entry(object["frame"].as_u64().unwrap()).or_default();
            entry.0.push(format!("{opcode:#04x}"));
            entry.1.push(u8::from(object["last"].as_bool().unwrap()).to_string());
        }
        let line = |(frame, (opcodes, last)): (&u64, &(Vec<String>, Vec<String>))| {
            format!("{frame}\t{}\t{}", opcodes.join(","), last.join(","))
        };
        let ours: Vec<String> = frames.iter().map(line).collect();
        assert_eq!(ours, theirs, "{name}");
    }
}

#[test]
fn fields_are_right() {
    let objects = objects("siw-rping.pcap");
    let first = |kind: &str| objects.iter().find(|object| object["kind"] == kind).unwrap();
    let request = first("mpa-request");
    assert_eq!((&request["src"], &request["dst"]), (&"10.9.0.2:52780".into(), &"10.9.0.1:7174".into()));
    assert_eq!(
        (&request["revision"], &request["ird"], &request["length"]),
        (&2.into(), &1.into(), &24.into())
    );
    assert_eq!(request["time"].to_string(), "1795224362.209518");
    let read = first("read-request");
    assert_eq!(
        (&read["length"], &read["qn"], &read["msn"], &read["size"]),
        (&46.into(), &1.into(), &1.into(), &200.into())
    );
    let response = first("read-response");
    assert_eq!((&response["stag"], &response["to"]), (&read["sink_stag"], &read["sink_to"]));
    assert_eq!((&response["length"], &response["payload"]), (&214.into(), &200.into()));
}
