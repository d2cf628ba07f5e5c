//! Hand-made scripts for the stream target. Each reaches a state that mutations of the others would hardly reach.

use weft_tests::fuzzing::Op;

use crate::script::{
    ACTIVE, FOREIGN, INBOX, LOCAL, MARKERS, NO_CRC, OLD, OWN, OWN_READABLE, PEER_TO_PEER, RAW, READABLE,
    Script, TARGET, WRITABLE,
};

/// Names and scripts.
pub(crate) fn all() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for (name, flags) in ROLES {
        for (what, script) in operations(flags) {
            all.push((format!("{what}-{name}"), script.0));
        }
    }
    all.extend(errors().into_iter().map(|(name, script)| (name.to_owned(), script.0)));
    all.extend(startups().into_iter().map(|(name, script)| (name.to_owned(), script.0)));
    all
}

/// Scripts without a fault, up to the end.
fn operations(flags: u8) -> Vec<(&'static str, Script)> {
    let sends = [0x3, 0x5].iter().fold(Script::new(flags), |script, &opcode| script.send(opcode, 0, 100));
    let sends = sends.send(0x4, OWN, 20).send(0x6, OWN_READABLE, 0).post(0, LOCAL, 50).then(Op::Fin);
    let reads = Script::new(flags)
        .write(TARGET, 0, 300)
        .write(WRITABLE, 1000, 1048)
        .read(TARGET, 0, 300)
        .read(READABLE, 8, 2040)
        .post(3, INBOX, 900)
        .answer()
        .post(2, LOCAL, 2000)
        .then(Op::Disconnect);
    let busy = Script::new(flags)
        .op(Op::Mood, &[&[0x03]])
        .post(3, INBOX, 64)
        .post(3, TARGET, 2000)
        .op(Op::PostSend, &[&[0, 0x0A, LOCAL, 0, 0, 0, 40, 0, 0, 0]])
        .read(READABLE, 0, 2048)
        .read(READABLE, 1, 7)
        .op(Op::Send, &[&[0x3, 0, 0, 120, 1]])
        .op(Op::Mood, &[&[0x01]])
        .op(Op::Cut, &[&[7]])
        .answer()
        .op(Op::ReadResponse, &[&[0, 20]])
        .op(Op::Pause, &[&[20]])
        .then(Op::Poll)
        .then(Op::Reset);
    let atomic = |script: Script, operation: u8| {
        script.op(Op::AtomicRequest, &[&[operation, TARGET, 0, 8], &5_u64.to_be_bytes(), &[0; 8]])
    };
    let answered = |script: Script| script.op(Op::AtomicResponse, &[&7_u64.to_be_bytes()]);
    let extensions = Script::new(flags).send(0x8, 0, 8).send(0x9, 0, 8).post(4, INBOX, 0).post(5, INBOX, 8);
    let extensions = answered(atomic(extensions, 0)).read(TARGET, 0, 16).post(6, INBOX, 8);
    let extensions = answered(atomic(extensions, 2)).then(Op::Fin);
    vec![("sends", sends), ("reads", reads), ("busy", busy), ("extensions", extensions)]
}

/// Scripts in which the peer or the application breaks a rule.
fn errors() -> Vec<(&'static str, Script)> {
    let script = || Script::new(0).write(TARGET, 0, 8).post(0, LOCAL, 8);
    vec![
        ("write-bounds", script().write(TARGET, 2047, 2)),
        ("write-foreign", script().write(FOREIGN, 0, 8)),
        ("write-rights", script().write(READABLE, 0, 8)),
        ("write-wrap", script().write(WRITABLE, 2048, 8)),
        ("write-after-invalidate", script().write(OWN, 0, 8).send(0x4, OWN, 0).write(OWN, 0, 8)),
        ("write-after-deregister", script().op(Op::Deregister, &[&[TARGET]]).write(TARGET, 0, 8)),
        ("read-secret", script().read(LOCAL, 0, 8)),
        (
            "read-too-many",
            (0..6).fold(script().op(Op::Mood, &[&[2]]), |script, _| script.read(TARGET, 0, 99)),
        ),
        ("read-gone", {
            let deaf = script().set(1, 0x4F).op(Op::Mood, &[&[0]]);
            let owed = (0..12).fold(deaf, |script, _| script.read(READABLE, 0, 2048));
            owed.op(Op::Deregister, &[&[READABLE]]).op(Op::Mood, &[&[1]])
        }),
        ("send-too-long", script().send(0x3, 0, 129)),
        ("send-unexpected", (0..5).fold(script(), |script, _| script.send(0x5, 0, 4))),
        ("send-invalidate-local", script().send(0x6, LOCAL, 4)),
        ("send-invalidate-shared", script().send(0x6, TARGET, 4)),
        ("request-invalidated", script().send(0x4, OWN, 4).post(0, OWN, 8)),
        ("send-to-readable", script().receive(READABLE, 0, 99).set(4, 0).send(0x3, 0, 4)),
        ("immediate-short", script().send(0x8, 0, 7)),
        ("response-unasked", script().answer()),
        ("response-late", script().post(3, INBOX, 64).post(0, LOCAL, 8).post(2, LOCAL, 9).answer()),
        ("response-never", script().post(3, INBOX, 64).post(0, LOCAL, 8)),
        ("response-short", script().post(3, INBOX, 64).op(Op::ReadResponse, &[&[1, 0]])),
        ("response-sink-gone", { script().post(3, INBOX, 64).op(Op::Deregister, &[&[INBOX]]).answer() }),
        ("request-bad-source", script().post(0, FOREIGN, 8).post(0, LOCAL, 8)),
        ("request-bad-sink", script().post(3, READABLE, 8)),
        ("crc", script().op(Op::Damaged, &[&[0, 21, 0x10, 0, 22], &ULPDU])),
        ("version", script().with(Op::Frame, &[0x40; 22])),
        ("queue", script().with(Op::Patched, &untagged_on(9))),
        ("opcode", script().with(Op::Patched, &[0x41, 0x4F, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
        ("runt", script().with(Op::Frame, &[0xC1, 0x40, 1])),
        ("msn", script().with(Op::Frame, &ULPDU).with(Op::Frame, &ULPDU)),
        ("terminate-rdmap", script().post(3, INBOX, 8).terminate(0x01, 0x01, 0x07)),
        ("terminate-ddp", script().post(2, LOCAL, 2000).terminate(0x11, 0x00, 0x06)),
        ("terminate-llp", script().terminate(0x20, 0x02, 0x00)),
        ("terminate-siw", script().post(3, INBOX, 8).terminate(0x01, 0x02, 0x87)),
        (
            "overrun",
            (0..4).fold(script().set(3, 0xBF).set(4, 0x2F), |script, _| {
                script.send(0x3, 0, 1).post(0, LOCAL, 1)
            }),
        ),
        ("half", script().with(Op::Raw, &[0, 200, 0x41]).then(Op::Fin)),
        ("destroyed", script().post(3, INBOX, 8).then(Op::Destroy).write(TARGET, 0, 8).then(Op::Poll)),
        ("atomic-rights", script().op(Op::AtomicRequest, &[&[0, WRITABLE, 0, 0], &[0; 16]])),
        ("atomic-unaligned", script().op(Op::AtomicRequest, &[&[2, TARGET, 0, 9], &[0; 16]])),
        ("atomic-response-unasked", script().op(Op::AtomicResponse, &[&[0; 8]])),
        ("terminate-atomic", script().post(5, INBOX, 8).terminate(0x01, 0x02, 0x06)),
    ]
}

/// Ways into Full Operation, and failures on the way.
fn startups() -> Vec<(&'static str, Script)> {
    let request = |tail: &[u8]| [&b"MPA ID Req Frame"[..], tail].concat();
    let reply = |tail: &[u8]| [&b"MPA ID Rep Frame"[..], tail].concat();
    let work = |script: Script| script.write(TARGET, 0, 8).post(0, LOCAL, 8);
    vec![
        ("raw-request", work(Script::new(RAW).with(Op::Raw, &request(&[0x40, 1, 0, 3, 1, 2, 3])))),
        ("raw-markers", work(Script::new(RAW).with(Op::Raw, &request(&[0xD0, 2, 0, 4, 0, 4, 0, 4])))),
        ("raw-reply", work(Script::new(RAW | ACTIVE).with(Op::Raw, &reply(&[0x50, 2, 0, 4, 0, 4, 0, 4])))),
        ("raw-reject", Script::new(RAW | ACTIVE).with(Op::Raw, &reply(&[0x70, 2, 0, 4, 0, 4, 0, 4]))),
        ("raw-nonsense-reply", Script::new(RAW | ACTIVE).with(Op::Raw, b"HTTP/1.1 400 Bad Request\r\n\r\n")),
        ("raw-nonsense", Script::new(RAW).with(Op::Raw, b"GET / HTTP/1.1\r\n\r\n")),
        ("raw-silence", Script::new(RAW).op(Op::Pause, &[&[29]]).then(Op::Fin)),
        ("rejected", Script::new(0).set(3, 0x7F).then(Op::Fin)),
        ("no-ird", work(Script::new(ACTIVE).set(2, 0x00)).post(3, INBOX, 8)),
        ("rtr-send", work(Script::new(PEER_TO_PEER).set(3, 0x0F))),
        ("rtr-read", work(Script::new(PEER_TO_PEER | ACTIVE).set(3, 0x24)).answer()),
        ("rtr-none-common", work(Script::new(PEER_TO_PEER | ACTIVE).set(3, 0x38))),
        ("too-much-ord", work(Script::new(ACTIVE).set(2, 0xF4))),
        ("lazy", work(Script::new(OLD).set(4, 0x6F)).then(Op::Poll).send(0x3, 0, 5).then(Op::Poll)),
    ]
}

fn untagged_on(queue: u8) -> [u8; 18] {
    let mut ulpdu = [0; 18];
    (ulpdu[0], ulpdu[1], ulpdu[9]) = (0x41, 0x43, queue);
    ulpdu
}

/// Flags of `Script::new` that the good scripts run with.
const ROLES: [(&str, u8); 6] = [
    ("responder", 0),
    ("initiator", ACTIVE),
    ("responder-markers", MARKERS | PEER_TO_PEER),
    ("initiator-markers", MARKERS | ACTIVE | NO_CRC),
    ("responder-old", OLD | NO_CRC),
    ("initiator-peer", ACTIVE | PEER_TO_PEER),
];
/// A Send of four octets with MSN 1.
const ULPDU: [u8; 22] = [0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4];
