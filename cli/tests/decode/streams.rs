//! The contents of complete streams: vectors, Markers, damage, and the many ways of TCP and IP to carry them.

use serde_json::Value;
use weft_cli::decode::record::Note;

use crate::trace::{ACK, CRC, MARKERS, SYN, Trace, decode, ethernet, ipv4, tcp, vector, vectors};

/// Returns one direction with CRC, in segments of `size` octets.
fn carried(octets: &[u8], flags: [u8; 2], size: usize) -> Trace {
    let mut trace = Trace::with_startup([7, 8], flags);
    for part in octets.chunks(size) {
        trace.send(0, part);
    }
    trace
}

fn one(name: &str) -> Value {
    let trace = carried(&vector(name), [CRC, CRC], 1460);
    let objects = trace.decode().objects();
    assert_eq!(objects.len(), 3, "{name}");
    objects[2].clone()
}

#[test]
fn every_vector_is_named_and_its_crc_good() {
    for (name, kind) in [
        ("send0", "send"),
        ("send24z", "send"),
        ("send5", "send"),
        ("sendinv", "send-inv"),
        ("sendse", "send-se"),
        ("sendseinv", "send-se-inv"),
        ("write8", "write"),
        ("write0", "write"),
        ("rreq", "read-request"),
        ("rreq0", "read-request"),
        ("rrsp", "read-response"),
        ("rrsp0", "read-response"),
        ("term-crc", "terminate"),
        ("atomic-fadd", "atomic-request"),
        ("atomic-cas", "atomic-request"),
        ("atomic-rsp", "atomic-response"),
        ("imm", "immediate"),
        ("immse", "immediate-se"),
    ] {
        let object = one(name);
        assert_eq!((&object["kind"], &object["crc"]), (&kind.into(), &"good".into()), "{name}");
        assert_eq!(object.get("remark"), None, "{name}");
        assert_eq!(object["last"], true, "{name}");
    }
    assert_eq!(one("sendinv")["invalidate"], 0x1122_3344);
    assert_eq!((&one("write8")["stag"], &one("write8")["to"]), (&0x100.into(), &0x1000.into()));
    assert_eq!(one("imm")["data"], "0102030405060708");
    assert_eq!(one("atomic-rsp")["original"], 0x37);
}

#[test]
fn a_terminate_is_shown_in_words() {
    for (name, (layer, etype, code), about) in [
        ("term-crc", (2, 0, 2), ""),
        ("term-mpa07", (2, 0, 7), ""),
        ("term-mpa06", (2, 0, 6), ""),
        ("term-localcat", (0, 0, 0), ""),
        ("term-ddp-stag", (1, 1, 0), "c140deadbeef0000000000001000"),
        ("term-ddp-nobuf", (1, 2, 2), "414300000000000000000000000100000000"),
        ("term-rdmap-bounds", (0, 1, 1), "414100000000000000010000000100000000"),
        ("term-rdmap-opcode", (0, 2, 6), "414c00000000000000000000000100000000"),
    ] {
        let object = one(name);
        let found = (&object["layer"], &object["etype"], &object["code"]);
        assert_eq!(found, (&layer.into(), &etype.into(), &code.into()), "{name}");
        assert_eq!(object["terminate"], weft_rdmap::Terminate::new(layer, etype, code).describe(), "{name}");
        assert_eq!((&object["ddp_header"], &object["swapped"]), (&about.into(), &false.into()), "{name}");
    }
    assert_eq!(one("term-rdmap-bounds")["rdma_header"].as_str().unwrap().len(), 56);
    assert_eq!(one("term-ddp-stag")["segment_len"], 22);
}

#[test]
fn startup_vectors_are_read() {
    for name in ["mpa-req1", "mpa-req1-m", "mpa-req1-pd", "mpa-req2", "mpa-req2-cs", "mpa-req2-noauto"] {
        let mut trace = Trace::with_handshake([0, 0]);
        trace.send(0, &vector(name));
        let decoded = trace.decode();
        let object = &decoded.objects()[0];
        assert_eq!((&object["kind"], &object["crc"]), (&"mpa-request".into(), &"off".into()));
        assert_eq!(object["length"], vector(name).len());
        assert_eq!(decoded.notes(), [Note::HalfStart], "{name}");
    }
    let mut trace = Trace::with_handshake([0, 0]);
    trace.send(0, &vector("mpa-req1-pd"));
    trace.send(1, &vector("mpa-rep1-rej"));
    trace.send(0, b"MPA is over, the stream belongs to the ULP");
    let decoded = trace.decode();
    assert_eq!(decoded.story(), "Initiator, Responder");
    assert_eq!(
        (&decoded.objects()[0]["private_data"], &decoded.objects()[1]["reject"]),
        (&"616263".into(), &true.into())
    );
}

#[test]
fn markers_are_taken_out_wherever_they_fall() {
    let all = vectors();
    let names = all.as_object().unwrap().keys().filter(|name| name.starts_with("m-"));
    for name in names {
        let fpdus = all[name]["fpdus"].as_array().unwrap().len();
        for size in [1, 3, 511, 512, 1460] {
            // The Responder wants them, so the Initiator sends them.
            let objects = carried(&vector(name), [CRC, MARKERS], size).decode().objects();
            assert_eq!(objects.len(), 2 + fpdus, "{name} by {size}");
            for object in &objects[2..] {
                assert_eq!(
                    (&object["kind"], &object["crc"]),
                    (&"send".into(), &"good".into()),
                    "{name} by {size}"
                );
                assert_eq!(object.get("remark"), None, "{name} by {size}");
            }
        }
    }
    let lengths: Vec<_> = carried(&vector("m-between"), [CRC, MARKERS], 100).decode().objects();
    assert_eq!((&lengths[2]["payload"], &lengths[3]["payload"]), (&484.into(), &0.into()));
}

#[test]
fn a_marker_that_points_elsewhere_is_remarked() {
    let mut octets = vector("m-1400");
    octets[515] ^= 0x04;
    let object = &carried(&octets, [0, MARKERS], 1460).decode().objects()[2];
    assert_eq!(object["crc"], "off");
    assert_eq!(object["remark"], "a Marker does not point to the beginning of this FPDU");
}

#[test]
fn a_bad_crc_is_shown_and_the_next_segment_too() {
    let mut octets = [vector("send5"), vector("write8"), vector("rreq")].concat();
    octets[22] ^= 1;
    let decoded = carried(&octets, [CRC, 0], 1460).decode();
    assert_eq!(decoded.story(), "Initiator, Responder, send bad, write good, read-request good");
    // Without CRC nothing shows the damage.
    let decoded = carried(&octets, [0, 0], 1460).decode();
    assert_eq!(decoded.story(), "Initiator, Responder, send off, write off, read-request off");
}

#[test]
fn a_bad_length_field_costs_no_more_than_it_must() {
    let mut octets = [vector("send5"), vector("write8"), vector("rreq"), vector("send5")].concat();
    octets[1] -= 4;
    let decoded = carried(&octets, [CRC, 0], 1460).decode();
    assert_eq!(
        decoded.story(),
        "Initiator, Responder, send bad, <Resumed { skipped: 4 }>, write good, read-request good, send good"
    );
}

#[test]
fn wrong_headers_are_shown_with_a_remark() {
    let remark = |at: usize, value: u8| {
        let mut octets = vector("send-nocrc");
        octets[at] = value;
        let object = carried(&octets, [0, 0], 1460).decode().objects()[2].clone();
        format!("{}: {}", object["kind"].as_str().unwrap(), object["remark"].as_str().unwrap())
    };
    assert_eq!(remark(2, 0x42), "send: the DDP version is not 1");
    assert_eq!(remark(3, 0x4d), "unknown: the opcode is not known");
    assert_eq!(remark(11, 1), "send: the opcode does not belong to this buffer model or queue");
    assert_eq!(remark(1, 0x0d), "unknown: too short for a DDP header");
}

#[test]
fn other_links_and_addresses() {
    let startup = b"MPA ID Req Frame\x40\x01\0\0";
    let segment = tcp(0, [5, 0], ACK, startup);
    // Two VLAN tags.
    let mut frame = ethernet(&ipv4(0, &segment));
    frame.splice(12..12, [0x88, 0xa8, 0, 1, 0x81, 0, 0, 2]);
    let mut trace = Trace::from_the_middle([0, 0]);
    trace.record(&frame);
    let object = &trace.decode().objects()[0];
    assert_eq!((&object["src"], &object["dst"]), (&"10.0.0.1:12345".into(), &"10.0.0.2:7174".into()));

    // IPv6 with a hop-by-hop header, its TCP checksum left to the card.
    let mut datagram = vec![0x60, 0, 0, 0];
    let mut segment = segment;
    segment[16..18].fill(0);
    datagram.extend((u16::try_from(segment.len()).unwrap() + 8).to_be_bytes());
    datagram.extend([0, 64]);
    for host in [1, 2] {
        datagram.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
    }
    datagram.extend([6, 0, 1, 4, 0, 0, 0, 0]);
    datagram.extend(&segment);
    let mut trace = Trace::from_the_middle([0, 0]);
    trace.record(&datagram);
    trace.octets[20] = 101;
    let object = &trace.decode().objects()[0];
    assert_eq!((&object["src"], &object["dst"]), (&"[fe80::1]:12345".into(), &"[fe80::2]:7174".into()));
    assert_eq!(object["time"], 0.001);
}

#[test]
fn nanoseconds_and_the_other_byte_order() {
    let mut octets =
        vec![0xa1, 0xb2, 0x3c, 0x4d, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 101];
    let datagram = ipv4(0, &tcp(0, [5, 0], ACK, &vector("mpa-req1")));
    for word in [3, 5, u32::try_from(datagram.len()).unwrap(), u32::try_from(datagram.len()).unwrap()] {
        octets.extend(word.to_be_bytes());
    }
    octets.extend(datagram);
    assert_eq!(decode(&octets).objects()[0]["time"], 3.000_000_005);
}

#[test]
fn other_connections_are_counted_and_left_out() {
    let mut trace = Trace::with_handshake([1, 2]);
    trace.send(0, b"GET / HTTP/1.1\r\n\r\n");
    trace.send(1, &[b'x'; 1400]);
    trace.lose(1, 1400);
    trace.send(1, &[b'x'; 1400]);
    let decoded = trace.decode();
    assert_eq!((decoded.story().as_str(), decoded.summary.other), ("", 1));

    // The same ends connect again, this time with iWARP, after octets of the ULP's own.
    trace.sequence = [1000, 2000];
    trace.handshake();
    trace.send(0, b"hello, shall we? MPA!");
    trace.send(1, b"yes");
    trace.send(0, &vector("mpa-req1"));
    trace.send(1, &vector("mpa-rep1"));
    trace.send(0, &vector("send5"));
    let decoded = trace.decode();
    assert_eq!(decoded.story(), "Initiator, Responder, send good");
    assert_eq!((decoded.summary.iwarp, decoded.summary.other), (1, 1));
}

#[test]
fn a_malformed_startup_frame_ends_the_reading() {
    let mut trace = Trace::with_handshake([1, 2]);
    trace.send(0, b"MPA ID Req Frame\x40\x01\x02\x01");
    assert_eq!(trace.decode().notes(), [Note::MalformedStartup]);
    let mut trace = Trace::with_handshake([1, 2]);
    trace.send(0, &vector("mpa-req1"));
    trace.send(1, &vector("mpa-req1"));
    assert_eq!(trace.decode().notes(), [Note::SameRole]);
}

#[test]
fn a_repeated_syn_is_no_new_connection() {
    let mut trace = carried(&vector("send5"), [CRC, 0], 1460);
    trace.packet(0, 7, SYN, b"");
    trace.send(0, &vector("write8"));
    assert_eq!(trace.decode().story(), "Initiator, Responder, send good, write good");
}

#[test]
fn an_end_within_a_frame_is_noted() {
    let decoded = carried(&vector("send5")[..9], [CRC, 0], 1460).decode();
    assert_eq!(decoded.notes(), [Note::EndsWithin { octets: 9 }]);
    // A peer that announces 65,535 octets and sends 3.
    let decoded = carried(b"\xff\xff\x41\x43\0", [CRC, 0], 1460).decode();
    assert_eq!(decoded.notes(), [Note::EndsWithin { octets: 5 }]);
    // A Marker alone is complete: it belongs to an FPDU that was never sent.
    let marked = [&vector("m-between")[..512], &[0; 4]].concat();
    let decoded = carried(&marked, [CRC, MARKERS], 1460).decode();
    assert_eq!(decoded.story(), "Initiator, Responder, send good");
}
