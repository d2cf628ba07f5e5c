//! Seeds for the targets of single layers, from the vectors and the captures of Linux siw.

use weft_mpa::{Crc32c, Deframer, Locator, STAGING_LEN};
use weft_sockets::{Hello, LaneKind, Proof};

use crate::dialogs::dialog;
use crate::seeds;

/// Names and octets of a target's seeds.
pub(crate) fn all(target: &str) -> Vec<(String, Vec<u8>)> {
    let made = match target {
        "mpa_startup" => startups(),
        "mpa_deframe" => streams(),
        "mpa_locate" => parts(),
        "ddp_header" => ulpdus(),
        "rdmap_accept" => exchanges(),
        "rdmap_terminate" => terminates(),
        "netif_frame" => frames(),
        "sockets_claim" => claims(),
        "sockets_hello" => hellos(),
        "capture" => captures(),
        _ => Vec::new(),
    };
    made.into_iter().map(|(name, octets)| (name.replace('_', "-"), octets)).collect()
}

/// Returns startup frames, each followed by octets that choose the other side's settings.
fn startups() -> Vec<(String, Vec<u8>)> {
    let names =
        ["mpa-req1-m", "mpa-req1-pd", "mpa-rep1", "mpa-rep1-rej", "mpa-req2", "mpa-rep2", "mpa-req2-noauto"];
    let vectors = names.map(|name| (name.to_owned(), vector(name)));
    let captured = CAPTURES.into_iter().flat_map(|name| {
        let [request, reply] = dialog(name).frames;
        [(format!("{name}-request"), request), (format!("{name}-reply"), reply)]
    });
    let frames = vectors.into_iter().chain(captured);
    frames.map(|(name, frame)| (name, [&frame[..], &[0x7B, 0, 16, 0, 4]].concat())).collect()
}

/// Streams of FPDUs with every combination of CRC (bit 0) and Markers (bit 1) in the first octet.
fn streams() -> Vec<(String, Vec<u8>)> {
    let plain = ["send5", "write8", "rreq", "rrsp", "atomic-fadd", "term-rdmap-bounds"].map(vector).concat();
    let streams = [("plain", plain), ("between", vector("m-between")), ("long", vector("m-1400"))];
    let mut made = Vec::new();
    for (name, stream) in streams {
        for crc in [0, 1] {
            let markers = if name == "plain" { 0 } else { 2 };
            made.push((
                format!("{name}-{}", ["crc-off", "crc-on"][crc]),
                with_head(&[markers | low(crc), 9], &stream),
            ));
        }
    }
    made
}

/// Streams with Markers, behind their place and how a stream of the same octets is framed, cut and damaged.
fn parts() -> Vec<(String, Vec<u8>)> {
    let made = [("start", "m-1400", [0, 0, 0, 200, 30]), ("middle", "m-between", [0, 0, 20, 5, 255])];
    made.map(|(name, stream, head)| (name.to_owned(), with_head(&head, &vector(stream)))).to_vec()
}

fn ulpdus() -> Vec<(String, Vec<u8>)> {
    FPDUS.iter().map(|name| ((*name).to_owned(), ulpdu(name))).collect()
}

/// Returns the messages that an endpoint gets from a peer, each ULPDU with its length before it.
fn exchanges() -> Vec<(String, Vec<u8>)> {
    let joined = |names: &[&str]| names.iter().flat_map(|name| with_len(&ulpdu(name))).collect::<Vec<u8>>();
    let mut made = vec![
        ("vectors-reads".to_owned(), joined(&["rreq", "write8", "write0", "send5", "term-ddp-stag"])),
        ("vectors-rfc7306".to_owned(), joined(&["imm", "atomic-fadd"])),
        ("vectors-send".to_owned(), joined(&["sendseinv", "rreq0", "term-crc"])),
    ];
    for name in CAPTURES {
        for (end, from_initiator) in [("initiator", true), ("responder", false)] {
            let sent = dialog(name).ulpdus.into_iter().filter(|(from, _)| *from == from_initiator);
            let short = sent.map(|(_, ulpdu)| ulpdu).filter(|ulpdu| ulpdu.len() < 256).take(8);
            made.push((format!("{name}-{end}"), short.flat_map(|ulpdu| with_len(&ulpdu)).collect()));
        }
    }
    made.retain(|(_, octets)| !octets.is_empty());
    made
}

fn terminates() -> Vec<(String, Vec<u8>)> {
    let names = FPDUS.iter().filter(|name| name.starts_with("term-"));
    let mut made: Vec<_> = names.map(|name| ((*name).to_owned(), ulpdu(name)[18..].to_vec())).collect();
    // Linux siw's order of the bits: remote protection, access rights, with a DDP header.
    made.push((
        "siw-order".to_owned(),
        [&[0x10, 0x02, 0x03, 0x00, 0, 22][..], &ulpdu("write8")[..14]].concat(),
    ));
    made
}

/// Frames into a stack: family, then kind, length, and for a TCP segment flags, sequence, acknowledgement, window,
/// payload.
fn frames() -> Vec<(String, Vec<u8>)> {
    let segment = |kind: u8, flags: u8, payload: &[u8]| {
        with_head(&[kind, 4 + low(payload.len()), flags, 0, 0, 8], payload)
    };
    let served =
        [segment(3, 0x02, b""), segment(3, 0x10, b""), segment(3, 0x18, b"hello"), segment(3, 0x11, b"")];
    let opened = [segment(1, 0x12, b""), segment(1, 0x18, b"hello"), segment(1, 0x14, b"")];
    let raw = with_head(
        &[0, 28],
        &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 2, 10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1],
    );
    vec![
        ("served-v4".to_owned(), with_head(&[0], &served.concat())),
        ("served-v6".to_owned(), with_head(&[1], &served.concat())),
        ("opened-v4".to_owned(), with_head(&[0], &opened.concat())),
        ("opened-v6".to_owned(), with_head(&[1], &opened.concat())),
        ("arp".to_owned(), with_head(&[0], &raw)),
    ]
}

/// Steps of claims: kind, claimant, addresses, counts, time.
fn claims() -> Vec<(String, Vec<u8>)> {
    let (server, client) = ([3, 1, 0, 0, 10], [3, 2, 1, 0xf0, 10]);
    let expired = [[3, 1, 0, 0, 10], [2, 0, 0, 0, 255], client].concat();
    let proxied = [server, [3, 2, 1, 1, 10], client].concat();
    let replaced = [server, [3, 5, 0, 0, 10], [0, 1, 0, 0, 0], client].concat();
    let forgotten = [server, [1, 1, 0, 0, 0], client].concat();
    let seeds = [
        ("match", [server, client].concat()),
        ("expired", expired),
        ("proxied", proxied),
        ("replaced", replaced),
        ("forgotten", forgotten),
        ("other-octets", [[0x23, 1, 0, 0, 10], [0xa3, 2, 1, 0xf0, 10], [0x23, 2, 1, 0xf0, 10]].concat()),
    ];
    seeds.map(|(name, octets)| (name.to_owned(), octets)).into()
}

/// Private data of an MPA Request and of MPA Replies, without a key and with one.
fn hellos() -> Vec<(String, Vec<u8>)> {
    let request = Hello {
        oldest: 1,
        newest: 2,
        kind: LaneKind::Interactive,
        epoch: 0x1234_5678_9abc_def0,
        boot_id: *b"0123456789abcdef",
        namespace: 4096,
        session: 0x4321,
        received: 77,
        wire: None,
        local: [10, 0, 0, 2].into(),
        remote: [10, 0, 0, 1].into(),
        nonce: [0x5a; 16],
        proof: Proof::Without,
    };
    let seeds = [
        ("request", request),
        ("request-bulk", Hello { kind: LaneKind::Bulk, ..request }),
        ("request-key", Hello { proof: Proof::Wanted, ..request }),
        ("request-wire", Hello { wire: Some(([10, 9, 0, 1], 7176).into()), ..request }),
        ("request-wire6", Hello { wire: Some(([0xfd; 16], 7176).into()), ..request }),
        ("request-v6", Hello { local: [0xfd; 16].into(), remote: [0xfe; 16].into(), ..request }),
        ("reply-key", Hello { proof: Proof::Given([0xa5; 32]), ..request }),
        ("no-version", Hello { oldest: 3, ..request }),
    ];
    seeds.map(|(name, hello)| (name.to_owned(), hello.encode())).into()
}

fn captures() -> Vec<(String, Vec<u8>)> {
    let mut made: Vec<_> = CAPTURES[..2]
        .iter()
        .map(|name| {
            let file = std::fs::read(format!("{}/data/{name}.pcap", env!("CARGO_MANIFEST_DIR")));
            let mut octets = file.expect("a capture");
            octets.truncate(CAPTURE_LEN);
            ((*name).to_owned(), octets)
        })
        .collect();
    // This seed is no file but packets of one connection.
    let packets = [
        (0, "mpa-req1"),
        (1, "mpa-rep1"),
        (0, "send5"),
        (1, "write8"),
        (0, "atomic-cas"),
        (1, "term-rdmap-bounds"),
    ];
    let packet = |(from, name): (u8, &str)| with_head(&[from, 0, low(vector(name).len()), 0], &vector(name));
    made.push(("packets".to_owned(), packets.into_iter().flat_map(packet).collect()));
    made
}

/// The octets of a vector of `tests/data/vectors.json`.
fn vector(name: &str) -> Vec<u8> {
    let text = include_str!("../../data/vectors.json");
    let vectors: serde_json::Value = serde_json::from_str(text).expect("vectors");
    weft_tests::hex(vectors[name]["hex"].as_str().unwrap_or_else(|| panic!("no vector {name}")))
}

/// The first ULPDU of a vector without Markers.
fn ulpdu(name: &str) -> Vec<u8> {
    let fpdu = vector(name);
    let len = usize::from(u16::from_be_bytes([fpdu[0], fpdu[1]]));
    fpdu[2..2 + len].to_vec()
}

fn with_len(ulpdu: &[u8]) -> Vec<u8> {
    with_head(&[low(ulpdu.len())], ulpdu)
}

fn with_head(head: &[u8], rest: &[u8]) -> Vec<u8> {
    [head, rest].concat()
}

fn low(number: usize) -> u8 {
    u8::try_from(number).expect("a small number")
}

/// Whole FPDUs come out of the deframer's seeds in every one of its modes.
#[test]
fn fpdus_are_found_ahead_of_their_turn() {
    let found = seeds::read("mpa_locate").into_iter().map(|(_, octets)| {
        let [_, _, _, _, _, stream @ ..] = &octets[..] else { return 0 };
        Locator::new(Crc32c::default(), 0, stream, false).count()
    });
    assert!(found.sum::<usize>() > 1);
}

#[test]
fn the_deframer_is_reached_with_and_without_markers_and_crc() {
    let mut found = [0; 4];
    for (_, octets) in seeds::read("mpa_deframe") {
        let [mode, _, stream @ ..] = &octets[..] else { continue };
        let mode = mode & 3;
        let crc = (mode & 1 != 0).then(Crc32c::default);
        let mut deframer = Deframer::new(crc, mode & 2 != 0, vec![0; STAGING_LEN]);
        let mut rest = stream;
        while let Ok(Some(_)) = deframer.next(&mut rest) {
            found[usize::from(mode)] += 1;
        }
    }
    assert!(found.iter().all(|&count| count > 0), "{found:?}");
}

const CAPTURES: [&str; 3] = ["siw-rping", "siw-crc-p2p-rping", "siw-send-bw"];
const FPDUS: [&str; 17] = [
    "send5",
    "sendinv",
    "sendseinv",
    "send-2seg",
    "write8",
    "write0",
    "rreq",
    "rrsp",
    "term-crc",
    "term-mpa07",
    "term-localcat",
    "term-ddp-stag",
    "term-ddp-nobuf",
    "term-rdmap-bounds",
    "atomic-fadd",
    "atomic-rsp",
    "imm",
];
const CAPTURE_LEN: usize = 3000;
