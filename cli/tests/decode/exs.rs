//! Extended Sockets: hellos and messages.

use serde_json::json;
use weft_conform::octets::{fpdu, send};
use weft_ddp::Stag;
use weft_exs_core::{
    Ack, Advert, Body, Data, Extent, Fault, Hello, Kind, Message, Msg, RejectCode, Ring, Source, Target,
};

use crate::trace::{CRC, Trace};

const HELLO: Hello = Hello {
    kind: Kind::Stream,
    invalidates: false,
    window: 32,
    credits: 16,
    slot: 1056,
    ring: Some(Ring { len: 4096, to: 0x5000, stag: Stag(0x1200) }),
    reads: 16,
};

/// A capture of a connection with its startup frames.
fn connection(request: &[u8], (flags, reply): (u8, &[u8])) -> Trace {
    let mut trace = Trace::with_handshake([1, 2]);
    for (from, key, flags, data) in
        [(0, b"MPA ID Req Frame", CRC, request), (1, b"MPA ID Rep Frame", CRC | flags, reply)]
    {
        let [_, len] = u16::try_from(data.len()).unwrap().to_be_bytes();
        trace.send(from, &[&key[..], &[flags, 1, 0, len], data].concat());
    }
    trace
}

#[test]
fn hellos_are_shown_with_their_fields() {
    let messages = Hello { kind: Kind::Message, invalidates: true, ring: None, ..HELLO };
    let stream = "hello: kind stream, invalidate false, window 32, credits 16, slot 1056, reads 16, ring_len 4096, \
                  stag 0x00001200, to 0x5000";
    let message = "hello: kind messages, invalidate true, window 32, credits 16, slot 1056, reads 16";
    for (hello, words) in [(HELLO, stream), (messages, message)] {
        let decoded = connection(&hello.encode(), (0, &hello.encode())).decode();
        assert!(decoded.lines().iter().all(|line| line.ends_with(words)), "{:?}", decoded.lines());
        assert_eq!(decoded.objects()[1]["exs"]["credits"], 16);
    }
    let later = connection(b"weft-exs\x02", (0, &[])).decode();
    assert!(later.lines()[0].contains("(776566742d65787302)"), "{:?}", later.lines());
}

#[test]
fn a_rejection_says_why() {
    let code = RejectCode::Kind.encode();
    let decoded = connection(&HELLO.encode(), (REJECT, &code)).decode();
    let object = &decoded.objects()[1];
    assert_eq!(object["exs"]["code"], 2, "{object}");
    assert!(decoded.lines()[1].ends_with("reason one side has a stream, the other one messages"));
}

#[test]
fn each_message_is_named_with_its_fields() {
    let memory = Source::Memory { stag: Stag(0x3400), to: 0x10 };
    let advert = Advert { epoch: 3, len: 9, stag: Stag(0x3401), to: 0, first: Some(70), waits_for_all: true };
    let data = |is_inline, target| Body::Data(Data { position: 70, len: 5, is_inline, target });
    let bodies = [
        (Body::Credit, "message credit"),
        (
            Body::Msg(Msg { id: 7, len: 100_000, source: memory }),
            "message msg: id 7, len 100000, stag 0x00003400, to 0x10",
        ),
        (Body::Msg(Msg { id: 8, len: 5, source: Source::Inline }), "message msg: id 8, len 5, inline true"),
        (Body::Ack(Ack { id: 7, extent: Extent::Full }), "message ack: id 7"),
        (Body::Ack(Ack { id: 7, extent: Extent::Placed(3) }), "message ack: id 7, placed 3"),
        (Body::Ack(Ack { id: 7, extent: Extent::NotTaken }), "message ack: id 7, taken false"),
        (
            data(false, Target::Advert { epoch: 3, is_last: true }),
            "message data: position 70, len 5, epoch 3, last true, inline false",
        ),
        (
            data(true, Target::Ring { holds: false }),
            "message data: position 70, len 5, ring true, hold false, inline true",
        ),
        (
            Body::Advert(advert),
            "message advert: epoch 3, len 9, stag 0x00003401, to 0x0, waitall true, first 70",
        ),
        (Body::Free { read: 1024 }, "message free: read 1024"),
        (Body::Revoke { epoch: 3 }, "message revoke: epoch 3"),
        (Body::Shutdown { end: 75 }, "message shutdown: end 75"),
        (Body::Abort(Fault::UnreadData), "message abort: code 10, reason closed with unread data"),
    ];
    for (body, words) in bodies {
        let message = Message { limit: 40, body };
        let octets = [&message.encode()[..], &vec![0xEE; message.payload_len() as usize]].concat();
        let mut trace = connection(&HELLO.encode(), (0, &HELLO.encode()));
        trace.send(0, &fpdu(&send(1, &octets)));
        let (object, line) = trace.decode().last("exs");
        let separator = if words.contains(':') { "," } else { ":" };
        assert!(line.ends_with(&format!("{words}{separator} limit 40")), "{line}");
        assert_eq!(object["form"], json!("message"), "{object}");
    }
}

#[test]
fn what_this_version_does_not_know_is_remarked() {
    let long = Message { limit: 1, body: Body::Msg(Msg { id: 0, len: 9, source: Source::Inline }) };
    for octets in [&[0x77; 32][..], &[1; 31], &long.encode()] {
        let mut trace = connection(&HELLO.encode(), (0, &HELLO.encode()));
        trace.send(0, &fpdu(&send(1, octets)));
        let objects = trace.decode().objects();
        assert_eq!(objects[2]["remark"], "no message of EXS that this version knows", "{objects:?}");
        assert!(objects[2]["exs"].is_null());
    }
}

/// The flag of a Reply that rejects.
const REJECT: u8 = 0x20;
