//! Seeds for the targets of groups.

use weft_group::{
    Answer, Copying, End, Greeting, Hello, Lent, MAX_MESSAGE, Member, Name, Named, Op, Open, Opened, Refusal,
    Replicas, Request, Seal, Sealed, SessionStatus, Status, Swap, Token, Welcome, encode,
};

/// Names and octets of a target's seeds.
pub(crate) fn all(target: &str) -> Vec<(String, Vec<u8>)> {
    let made = if target == "group_control" { control() } else { messages() };
    made.into_iter().map(|(name, octets)| (name.to_owned(), octets)).collect()
}

/// Messages of the control plane, private data, and a message of the data path.
fn control() -> Vec<(&'static str, Vec<u8>)> {
    let address = "10.0.0.1:7471".parse().expect("an address");
    let member = Member { address, incarnation: Some(7) };
    let open = Open {
        epoch: 3,
        session: 4,
        members: vec![member, address.into()],
        index: 1,
        range: 8..64,
        window: 16,
    };
    let token = Token([0xA5; 16]);
    let session = SessionStatus {
        epoch: 3,
        session: 4,
        peer: address,
        index: 1,
        replicas: 2,
        range: 8..64,
        window: 16,
        is_ready: true,
    };
    let status = Status {
        size: 64,
        incarnation: 7,
        sealed: 3,
        served: 3,
        is_stored: true,
        progress: Some([1, 192]),
        limit: 8,
        open: 1,
        sessions: vec![session],
    };
    let replica = Named { epoch: 4, incarnation: 7 };
    let copying = Copying { to: replica, from: address, from_incarnation: 8 };
    let swap = Swap { at: 8, compare: 0, swap: 1, on: Replicas::ALL };
    let op = Op { write: Some(0..8), swap: Some(swap), ..Op::default() };
    let mut message = [0; MAX_MESSAGE];
    let len = encode(&op, &Name { number: 1, epoch: 3, session: 4 }, 2, &mut message).expect("room");
    vec![
        ("hello", Request::Hello(Hello { version: 1, key: Some([0x5A; 32]) }).encode()),
        ("open", Request::Open(open).encode()),
        ("close", Request::Close.encode()),
        ("status", Request::Status.encode()),
        ("seal", Request::Seal(Seal { epoch: 4, base: 3 }).encode()),
        ("copy", Request::Copy(copying).encode()),
        ("fetch", Request::Fetch(replica).encode()),
        ("flush", Request::Flush(replica).encode()),
        ("finish", Request::Finish(replica).encode()),
        ("is-sealed", Answer::Sealed(Sealed { incarnation: 7, size: 64, is_stored: false }).encode()),
        ("done", Answer::Done.encode()),
        ("source-lost", Answer::SourceLost("it has gone".into()).encode()),
        ("lent", Answer::Lent(Lent { data: 1, hashes: 2, size: 64 }).encode()),
        ("denied", Answer::Denied(Refusal::Served { epoch: 5 }).encode()),
        ("welcome", Answer::Welcome(Welcome { size: 64, incarnation: 7 }).encode()),
        (
            "opened",
            Answer::Opened(Opened { data_in: 1, inward: token, outward: token, data_out: 2 }).encode(),
        ),
        ("closed", Answer::Closed.encode()),
        ("state", Answer::Status(status).encode()),
        ("refused", Answer::Refused("no room".into()).encode()),
        ("lost", Answer::Ended(End::Lost(1)).encode()),
        ("sealed", Answer::Ended(End::Sealed(4)).encode()),
        ("greeting-control", Greeting::Control.encode().to_vec()),
        ("greeting-inward", Greeting::Inward(token).encode().to_vec()),
        ("greeting-outward", Greeting::Outward(token).encode().to_vec()),
        ("message", message[..len].to_vec()),
    ]
}

/// What a client sends. The steps are those of `weft_group::fuzzing`.
fn messages() -> Vec<(&'static str, Vec<u8>)> {
    const REST: u8 = 4;
    let good = |head: u8, count: usize| [&[head][..], &[REST, 0].repeat(count)].concat();
    let opcode = |at: u8, opcode: u8| [&[1, REST, 1, 0, at, opcode][..], &[REST, 0].repeat(6)].concat();
    vec![
        ("good-tail", good(0, 20)),
        ("good-head", good(1, 20)),
        ("too-many-at-once", [&[1][..], &[0, 0].repeat(40)].concat()),
        ("any-octets", [&[1, 1 | REST, 0, 10][..], &[0xFF; 10], &[REST, 0]].concat()),
        ("one-too-long", [&[0, 1 | REST, 0, 137][..], &[0x10; 137], &[REST, 0]].concat()),
        ("empty", [&[1, 1 | REST, 0, 0][..], &[REST, 0].repeat(3)].concat()),
        ("write", [&[1, 2 | REST][..], &16_i16.to_be_bytes(), &[1, 0, REST, 0]].concat()),
        ("write-outside", [&[1, 2 | REST][..], &4090_i16.to_be_bytes(), &[0, 7, REST, 0]].concat()),
        ("copy-is-a-swap", opcode(0, 7)),
        ("swap-is-a-write", opcode(1, 3)),
        ("sync-is-a-hold", opcode(2, 0x12)),
        ("data-is-a-hold", opcode(3, 0x12)),
        ("data-is-a-send", opcode(3, 0)),
        ("copy-source-outside", [&[1, REST, 1, 0, 14, 1][..], &[REST, 0].repeat(6)].concat()),
    ]
}
