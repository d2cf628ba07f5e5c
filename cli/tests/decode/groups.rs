//! Groups: the connections of `weft group`.

use serde_json::json;
use weft_conform::octets::{fpdu, send};
use weft_group::{
    Answer, Copy, Copying, End, Greeting, Hello, Lent, Member, Name, Named, Op, Open, Opened, Refusal,
    Replicas, Request, Seal, Sealed, Status, Swap, Token, Welcome, encode,
};

use crate::trace::{CRC, Trace};

const TOKEN: Token = Token([0xEE; 16]);

/// A capture of a connection with its startup frames.
fn connection(private_data: &[u8]) -> Trace {
    let mut trace = Trace::with_handshake([1, 2]);
    for (from, key) in [b"MPA ID Req Frame", b"MPA ID Rep Frame"].into_iter().enumerate() {
        let data = if from == 0 { private_data } else { &[] };
        let [_, len] = u16::try_from(data.len()).unwrap().to_be_bytes();
        trace.send(from, &[&key[..], &[CRC, 1, 0, len], data].concat());
    }
    trace
}

#[test]
fn connections_are_told_apart_without_their_tokens() {
    for (greeting, name) in [
        (Greeting::Control, "control"),
        (Greeting::Inward(TOKEN), "inward"),
        (Greeting::Outward(TOKEN), "outward"),
    ] {
        let decoded = connection(&greeting.encode()).decode();
        let line = &decoded.lines()[0];
        assert!(line.ends_with(&format!("private data 25  connection {name}")), "{line}");
        assert_eq!(decoded.objects()[0]["group"], json!({"form": "connection", "name": name}));
    }
    let later = connection(b"weft-grp and more").decode();
    assert!(later.lines()[0].contains("private data 17 (776566742d677270"), "{:?}", later.lines());
}

#[test]
fn each_message_of_the_control_plane_is_named_with_its_fields() {
    let member = |text: &str| Member { address: text.parse().unwrap(), incarnation: Some(7) };
    let members = vec![member("10.0.0.1:1"), member("[fd00::2]:2")];
    let open = Open { epoch: 3, session: 0xAB, members, index: 1, range: 8..64, window: 16 };
    let opened = Opened { data_in: 0x1200, inward: TOKEN, outward: TOKEN, data_out: 0x3400 };
    let status = Status {
        size: 1,
        incarnation: 2,
        sealed: 3,
        served: 3,
        is_stored: false,
        progress: None,
        limit: 8,
        open: 0,
        sessions: Vec::new(),
    };
    let replica = Named { epoch: 4, incarnation: 0xEF };
    let copying = Copying { to: replica, from: "10.0.0.1:1".parse().unwrap(), from_incarnation: 0xCD };
    let requests = [
        (Request::Hello(Hello { version: 1, key: Some([0xEE; 32]) }), "request hello: version 1, key given"),
        (Request::Hello(Hello { version: 1, key: None }), "request hello: version 1, key none"),
        (
            Request::Open(open),
            "request open: epoch 3, session 0xab, index 1, members 10.0.0.1:1 [fd00::2]:2, range 8..64, window 16",
        ),
        (Request::Close, "request close"),
        (Request::Status, "request status"),
        (Request::Seal(Seal { epoch: 4, base: 3 }), "request seal: epoch 4, base 3"),
        (
            Request::Copy(copying),
            "request copy: epoch 4, incarnation 0xef, from 10.0.0.1:1, from_incarnation 0xcd",
        ),
        (Request::Fetch(replica), "request fetch: epoch 4, incarnation 0xef"),
        (Request::Flush(replica), "request flush: epoch 4, incarnation 0xef"),
        (Request::Finish(replica), "request finish: epoch 4, incarnation 0xef"),
    ];
    let answers = [
        (Answer::Welcome(Welcome { size: 9, incarnation: 0xCD }), "answer welcome: size 9, incarnation 0xcd"),
        (Answer::Opened(opened), "answer opened: data_in 0x00001200, data_out 0x00003400"),
        (Answer::Closed, "answer closed"),
        (Answer::Status(status), "answer status: open 0, limit 8"),
        (
            Answer::Sealed(Sealed { incarnation: 0xCD, size: 9, is_stored: true }),
            "answer sealed: incarnation 0xcd, size 9, stored true",
        ),
        (Answer::Done, "answer done"),
        (Answer::SourceLost("it has gone".into()), "answer source_lost: reason it has gone"),
        (
            Answer::Lent(Lent { data: 0x1200, hashes: 0x3400, size: 9 }),
            "answer lent: data 0x00001200, hashes 0x00003400, size 9",
        ),
        (Answer::Denied(Refusal::Served { epoch: 5 }), "answer denied: reason epoch 5 has begun"),
        (Answer::Refused("no room".into()), "answer refused: reason no room"),
        (Answer::Ended(End::Lost(2)), "answer ended: lost 2"),
        (Answer::Ended(End::Sealed(4)), "answer ended: sealed 4"),
    ];
    let requests = requests.map(|(request, words)| (0, request.encode(), words));
    let answers = answers.map(|(answer, words)| (1, answer.encode(), words));
    for (from, octets, words) in requests.into_iter().chain(answers) {
        let mut trace = connection(&Greeting::Control.encode());
        trace.send(from, &fpdu(&send(1, &octets)));
        let (object, line) = trace.decode().last("group");
        assert!(line.ends_with(words), "{line}");
        assert!(words.starts_with(object["form"].as_str().unwrap()), "{object}");
        assert!(!line.contains("eeee") && !object.to_string().contains("eeee"), "{line}");
    }
}

#[test]
fn operations_and_acknowledgements_are_named_with_their_parts() {
    let op = Op {
        write: Some(16..32),
        copy: Some(Copy { from: 0, to: 64, len: 5 }),
        swap: Some(Swap { at: 8, compare: 1, swap: 2, on: Replicas(0b110) }),
        flush: Some(0..128),
        ..Op::default()
    };
    let mut octets = [0; 400];
    let name = Name { number: 7, epoch: 3, session: 0xAB };
    let len = encode(&op, &name, 3, &mut octets).unwrap();
    let named = "number 7, epoch 3, session 0xab";
    let found = u64::MAX;
    for (passed, greeting, words) in [
        (
            0,
            Greeting::Inward(TOKEN),
            format!(
                "operation: {named}, left 3 of 3, write 16..32, copy 5 octets from 0 to 64, swap 1 by 2 at 8 on 1 2, flush 0..128"
            ),
        ),
        (
            2,
            Greeting::Inward(TOKEN),
            format!(
                "operation: {named}, found [{found},{found}], left 1 of 3, write 16..32, copy 5 octets from 0 to 64, swap 1 by 2 at 8 on 2, flush 0..128"
            ),
        ),
        (3, Greeting::Outward(TOKEN), format!("acknowledgement: {named}, found [{found},{found},{found}]")),
    ] {
        let mut trace = connection(&greeting.encode());
        trace.send(1, &fpdu(&send(1, &octets[passed * 96..len])));
        let (object, line) = trace.decode().last("group");
        assert!(line.ends_with(&words), "{line}");
        assert_eq!(object["number"], 7);
    }
}

#[test]
fn what_this_version_does_not_know_is_remarked() {
    for greeting in [Greeting::Control, Greeting::Inward(TOKEN)] {
        let mut trace = connection(&greeting.encode());
        trace.send(0, &fpdu(&send(1, b"{\"fetch\":{}}")));
        let objects = trace.decode().objects();
        assert_eq!(objects[2]["remark"], "no message of a group that this version knows");
        assert!(objects[2]["group"].is_null());
    }
}
