//! Seeds for the targets of Extended Sockets: private data, messages, and lives of a session and of two.

use weft_ddp::Stag;
use weft_exs_core::{
    Ack, Advert, Body, Data, Extent, Fault, Hello, Kind, Message, Msg, RejectCode, Ring, Source, Target,
};

/// Names and octets of the seeds.
pub(crate) fn all() -> Vec<(String, Vec<u8>)> {
    let messages =
        messages().into_iter().map(|(name, body)| (name, Message { limit: 40, body }.encode().to_vec()));
    let made = private_data().into_iter().chain(messages).chain(lives());
    made.map(|(name, octets)| (name.to_owned(), octets)).collect()
}

/// Lives of two sessions, as `weft_exs_core::fuzzing::pair` reads them.
pub(crate) fn pairs() -> Vec<(String, Vec<u8>)> {
    let (messages, stream, ring) = ([2, 0x15], [1, 0x15], [5, 0x55]);
    // Of the side of the initiator. Those of the other one have bit 3.
    let (send, short, receive, in_place) = ([2, 9], [2, 1], [3, 9], [3 | 32, 9]);
    let [cancel, shutdown, stop, close, recycle, late, cut] =
        [4, 5, 5 | 16, 6, 6 | 16, 7, 7 | 48].map(|how| [how]);
    let all = [16, 24, 17, 25, 16, 24, 17, 25];
    let theirs = |step: &[u8]| [&[step[0] | 8], &step[1..]].concat();
    let life = |terms: [u8; 2], steps: &[&[u8]]| [&terms[..], &steps.concat()].concat();
    let closes = [&close[..], &theirs(&close), &all, &late, &all].concat();
    let made = [
        ("messages", life(messages, &[&receive, &theirs(&send), &send, &theirs(&receive), &all, &closes])),
        ("in-place", life(messages, &[&in_place, &theirs(&short), &all, &recycle, &all, &shutdown, &closes])),
        ("unread", life(messages, &[&theirs(&short), &all, &closes])),
        ("direct", life(stream, &[&theirs(&receive), &all, &send, &all, &receive, &theirs(&send), &closes])),
        ("ring", life(ring, &[&send, &short, &all, &theirs(&receive), &theirs(&receive), &all, &closes])),
        ("cancels", life(ring, &[&theirs(&receive), &all, &theirs(&cancel), &send, &all, &cancel, &all])),
        ("stops", life(ring, &[&theirs(&receive), &send, &theirs(&stop), &all, &send, &all, &closes])),
        ("is-cut", life(stream, &[&receive, &theirs(&receive), &all, &send, &theirs(&send), &cut, &all])),
        ("times-out", life(messages, &[&[2 | 16, 9], &[3 | 16, 9], &all, &late, &late, &all])),
    ];
    made.into_iter().map(|(name, octets)| (name.to_owned(), octets)).collect()
}

/// Lives of a socket over TCP alone, as `weft_exs_core::fuzzing::plain` reads them.
pub(crate) fn plain() -> Vec<(String, Vec<u8>)> {
    let (send, late, receive, all) = ([0, 9], [8, 9], [1, 9], [9, 9]);
    let (room, octets, end, acknowledged, act) = ([2, 99], [3, 5], [11, 20], [4], [7]);
    let [cancel, cancel_all, shutdown, stop, close, later] = [0, 1, 2, 3, 4, 5].map(|which| [5, which]);
    let [closed, reset, timed_out] = [0, 1, 2].map(|how| [6, how]);
    let life = |steps: &[&[u8]]| [&[3][..], &steps.concat()].concat();
    let made = [
        (
            "both-ways",
            life(&[&send, &all, &room, &octets, &act, &end, &shutdown, &act, &acknowledged, &close, &act]),
        ),
        (
            "parts",
            life(&[&receive, &octets, &act, &send, &[2, 2], &act, &cancel, &cancel_all, &act, &room, &act]),
        ),
        ("unread", life(&[&octets, &act, &close, &act])),
        (
            "is-closed",
            life(&[&shutdown, &end, &receive, &all, &receive, &act, &closed, &act, &receive, &act]),
        ),
        ("is-reset", life(&[&send, &[2, 2], &all, &octets, &act, &reset, &act])),
        ("times-out", life(&[&late, &[17, 9], &octets, &act, &later, &act, &timed_out, &act])),
        ("stops", life(&[&receive, &stop, &act, &receive, &send, &room, &act, &close, &later, &later, &act])),
    ];
    made.into_iter().map(|(name, octets)| (name.to_owned(), octets)).collect()
}

fn private_data() -> Vec<(&'static str, Vec<u8>)> {
    let messages = Hello {
        kind: Kind::Message,
        invalidates: true,
        window: 32,
        credits: 32,
        slot: 1056,
        ring: None,
        reads: 16,
    };
    let ring = Ring { len: 1 << 18, to: 0x7f00_0000_1000, stag: Stag(0x0102_0304) };
    let stream = Hello { kind: Kind::Stream, credits: 16, ring: Some(ring), reads: 0, ..messages };
    vec![
        ("hello-messages", messages.encode().to_vec()),
        ("hello-stream", stream.encode().to_vec()),
        ("reject", RejectCode::NotListening.encode().to_vec()),
    ]
}

fn messages() -> Vec<(&'static str, Body)> {
    let (stag, to) = (Stag(0x0102_0304), 0x7f00_0000_1000);
    let ring = Target::Ring { holds: true };
    let data = Data { position: 70_000, len: 4096, is_inline: false, target: ring };
    let direct = Target::Advert { epoch: 2, is_last: true };
    let advert = Advert { epoch: 2, len: 65_536, stag, to, first: Some(70_000), waits_for_all: true };
    vec![
        ("credit", Body::Credit),
        ("msg", Body::Msg(Msg { id: 3, len: 65_536, source: Source::Memory { stag, to } })),
        ("msg-inline", Body::Msg(Msg { id: 3, len: 0, source: Source::Inline })),
        ("ack", Body::Ack(Ack { id: 3, extent: Extent::Full })),
        ("ack-exact", Body::Ack(Ack { id: 3, extent: Extent::Placed(9) })),
        ("ack-not-taken", Body::Ack(Ack { id: 3, extent: Extent::NotTaken })),
        ("data-ring", Body::Data(data)),
        ("data-direct", Body::Data(Data { target: direct, ..data })),
        ("advert", Body::Advert(advert)),
        ("free", Body::Free { read: 70_000 }),
        ("revoke", Body::Revoke { epoch: 2 }),
        ("shutdown", Body::Shutdown { end: 4 }),
        ("abort", Body::Abort(Fault::OutOfOrder)),
    ]
}

/// Steps of a session, as `weft_exs_core::fuzzing` reads them.
fn lives() -> Vec<(&'static str, Vec<u8>)> {
    let [short, long] = [0, 1].map(|id| [0, 0x10, 1 - id, id, 2, 0, 2 - 2 * id, 0]);
    let credit = [0, 0x01, 0, 0, 0, 0, 0, 0];
    let ack = |id| [0, 0x11, 0, id, 0, 0, 0, 0];
    let shutdown = [0, 0x30, 0, 0, 0, 0, 0, 0];
    let (act, receive, in_place, send, done) = ([7], [3, 9], [3 | 8, 9], [2, 200], [4, 0]);
    let [recycle, close, later] = [[5, 1], [5, 4], [5, 5]];
    vec![
        ("receives", [&[0][..], &short, &receive, &act, &receive, &long, &act, &done, &act].concat()),
        (
            "in-place",
            [&[0][..], &in_place, &short, &act, &in_place, &long, &act, &recycle, &done, &act].concat(),
        ),
        ("sends", [&[1][..], &credit, &send, &act, &ack(0), &act, &done, &done, &act].concat()),
        ("closes", [&[1][..], &credit, &close, &act, &shutdown, &act, &later, &act].concat()),
        ("times-out", [&[0][..], &[2 | 8, 9], &[3 | 16, 9], &act, &later, &act].concat()),
        ("is-lost", [&[2][..], &receive, &send, &[0, 0x10, 0, 0, 9, 0, 0, 0], &act, &[6], &act].concat()),
    ]
}
