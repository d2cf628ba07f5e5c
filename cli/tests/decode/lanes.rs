//! Lanes: the connections between the daemons of two hosts.

use serde_json::{Value, json};
use weft_conform::octets::{fpdu, send, write};
use weft_sockets::far::{Letter, Notice, NoticeKind};
use weft_sockets::{Digests, Hello, LaneKind, Proof, RingPlace};

use crate::trace::{CRC, Trace};

fn hello(proof: Proof) -> Hello {
    Hello {
        oldest: 1,
        newest: 2,
        kind: LaneKind::Interactive,
        epoch: 0xabc,
        boot_id: [0xb0; 16],
        namespace: 1,
        nonce: [0xcc; 16],
        session: 0xdef,
        received: 12,
        wire: Some("10.0.0.9:7176".parse().unwrap()),
        local: "10.0.0.1".parse().unwrap(),
        remote: "fd00::2".parse().unwrap(),
        proof,
    }
}

/// A capture of a lane with its startup frames. `private_data` is that of the Request and of the Reply.
fn lane(private_data: [&[u8]; 2]) -> Trace {
    let mut trace = Trace::with_handshake([1, 2]);
    for (from, key) in [b"MPA ID Req Frame", b"MPA ID Rep Frame"].into_iter().enumerate() {
        let data = private_data[from];
        let [_, len] = u16::try_from(data.len()).unwrap().to_be_bytes();
        trace.send(from, &[&key[..], &[CRC, 1, 0, len], data].concat());
    }
    trace
}

fn opened() -> Trace {
    let (request, reply) = (hello(Proof::Wanted).encode(), hello(Proof::Given([0xdd; 32])).encode());
    lane([&request, &reply])
}

/// An FPDU with Immediate Data.
fn immediate(msn: u32, data: [u8; 8]) -> Vec<u8> {
    let header = [[0x41, 0x48], [0; 2]].concat();
    let words = [[0; 4], [0; 4], msn.to_be_bytes(), [0; 4]].concat();
    fpdu(&[&header[..2], &words[..], &data].concat())
}

#[test]
fn hellos_are_shown_in_words() {
    let decoded = opened().decode();
    let said = decoded.lines();
    assert!(said[0].contains("hello: oldest 1, newest 2, kind interactive, epoch 0xabc"), "{}", said[0]);
    assert!(
        said[0].contains("session 0xdef, received 12, wire 10.0.0.9:7176, local 10.0.0.1"),
        "{}",
        said[0]
    );
    assert!(said[0].contains("local 10.0.0.1, remote fd00::2, proof wanted"), "{}", said[0]);
    assert!(said[1].contains(&format!("proof {}", "dd".repeat(32))), "{}", said[1]);
    let objects = decoded.objects();
    assert_eq!((&objects[0]["lane"]["form"], &objects[0]["lane"]["newest"]), (&json!("hello"), &json!(2)));
    assert_eq!(objects[1]["lane"]["boot"], "b0".repeat(16));
}

#[test]
fn each_letter_is_named_with_its_fields() {
    let ring = RingPlace::new(64, 16).unwrap();
    let (local, peer) = ("10.0.0.1:80".parse().unwrap(), "[fd00::2]:5000".parse().unwrap());
    let (own_scale, peer_scale, options, digests) = (7, 9, 3, Digests::default());
    for (letter, words) in [
        (
            Letter::Claim {
                id: 4,
                local,
                peer,
                own_scale,
                peer_scale,
                options,
                written: 5,
                consumed: 6,
                digests,
            },
            "letter claim: id 4, local 10.0.0.1:80, peer [fd00::2]:5000, own_scale 7, peer_scale 9, options 3, written 5, consumed 6",
        ),
        (Letter::Withdraw { id: 4 }, "letter withdraw: id 4"),
        (
            Letter::Open { id: 4, channel: 5, stag: 0x1200, ring, secret: [7, 8] },
            "letter open: id 4, channel 5, stag 0x00001200, ring 0x400000, ring_len 65536",
        ),
        (
            Letter::Opened { channel: 5, own: 6, stag: 1, ring },
            "letter opened: channel 5, own 6, stag 0x00000001, ring 0x400000, ring_len 65536",
        ),
        (Letter::Refused { channel: 5 }, "letter refused: channel 5"),
        (
            Letter::Leg { channel: 5, number: 1, ring, start: 256 },
            "letter leg: channel 5, number 1, start 256, ring 0x400000, ring_len 65536",
        ),
        (Letter::Final { channel: 5, end: 700 }, "letter final: channel 5, end 700"),
        (Letter::WantRing { channel: 5, log2: 20 }, "letter want-ring: channel 5, log2 20"),
        (Letter::RingMade { channel: 5, ring }, "letter ring-made: channel 5, ring 0x400000, ring_len 65536"),
        (
            Letter::ReturnRing { channel: 5, ring },
            "letter return-ring: channel 5, ring 0x400000, ring_len 65536",
        ),
    ] {
        let mut trace = opened();
        trace.send(0, &fpdu(&send(1, &letter.encode())));
        let (object, line) = trace.decode().last("lane");
        assert!(line.contains(words), "{line}");
        assert_eq!(object["form"], "letter");
        assert!(words.contains(object["name"].as_str().unwrap()), "{object}");
    }
}

#[test]
fn each_notice_is_named_with_its_value() {
    for (kind, words) in [
        (NoticeKind::Data, "notice data: channel 5, position 7"),
        (NoticeKind::Credit, "notice credit: channel 5, position 7"),
        (NoticeKind::Attached, "notice attached: channel 5, decision 7"),
        (NoticeKind::Declined, "notice declined: channel 5"),
        (NoticeKind::Adopted, "notice adopted: channel 5, leg 7"),
        (NoticeKind::Please, "notice please: channel 5, wants_tcp 7"),
        (NoticeKind::Wide, "notice wide: channel 5"),
        (NoticeKind::Reset, "notice reset: channel 5"),
        (NoticeKind::Closed, "notice closed: channel 5"),
        (NoticeKind::Received, "notice received: channel 5, count 7"),
    ] {
        let mut trace = opened();
        trace.send(1, &immediate(1, Notice { kind, channel: 5, value: 7 }.encode()));
        let (object, line) = trace.decode().last("lane");
        assert!(line.ends_with(words), "{line}");
        assert_eq!((&object["form"], &object["channel"]), (&json!("notice"), &json!(5)));
    }
}

#[test]
fn what_this_version_does_not_know_is_remarked() {
    let mut trace = opened();
    trace.send(0, &fpdu(&send(1, &[0xff; 9])));
    trace.send(0, &immediate(2, [0; 8]));
    // Octets of a program, and the first Send of a lane, which has none.
    trace.send(0, &fpdu(&write(0x100, 0, b"octets")));
    trace.send(0, &fpdu(&send(3, b"")));
    let objects = trace.decode().objects();
    let remarks: Vec<_> = objects[2..].iter().map(|object| object["remark"].as_str()).collect();
    let no = |form| format!("no {form} that this version knows");
    assert_eq!(remarks, [Some(no("letter").as_str()), Some(no("notice").as_str()), None, None]);
    assert!(objects[2..].iter().all(|object| object["lane"].is_null()));
    // A hello of a later version is shown by its octets. The connection is a lane all the same.
    let mut trace = lane([b"weft-socx", b""]);
    trace.send(0, &fpdu(&send(1, &Letter::Withdraw { id: 1 }.encode())));
    let decoded = trace.decode();
    assert!(decoded.lines()[0].ends_with("private data 9 (776566742d736f6378)"));
    assert_eq!(decoded.objects()[2]["lane"]["name"], "withdraw");
}

#[test]
fn other_connections_have_no_letters() {
    let mut trace = lane([b"weft-grp", b""]);
    trace.send(0, &fpdu(&send(1, &Letter::Withdraw { id: 1 }.encode())));
    let object = trace.decode().objects().pop().unwrap();
    assert_eq!((&object["lane"], &object["remark"]), (&Value::Null, &Value::Null));
}
