//! Lanes: what the daemons of two hosts tell each other for programs under `weft sockets`.
//!
//! The private data of a lane's startup frames are hellos. Behind them each Send is a letter, each Immediate Data a
//! notice, and each Write octets of a connection.

use serde_json::{Value, json};
use weft_sockets::far::{Letter, Notice, NoticeKind};
use weft_sockets::{Digests, Hello, LaneKind, Proof, Reason, RingPlace};

use super::hex::hex;
use super::ulp::Said;

/// Returns the hello in private data.
pub fn hello(private_data: &[u8]) -> Option<Said> {
    let hello = Hello::decode(private_data)?;
    let kind = match hello.kind {
        LaneKind::Interactive => "interactive",
        LaneKind::Bulk => "bulk",
    };
    let key = match hello.proof {
        Proof::Without => "none".to_owned(),
        Proof::Wanted => "wanted".to_owned(),
        Proof::Given(proof) => hex(&proof),
    };
    let fields = vec![
        ("oldest", json!(hello.oldest)),
        ("newest", json!(hello.newest)),
        ("kind", json!(kind)),
        ("epoch", json!(format!("{:#x}", hello.epoch))),
        ("boot", json!(hex(&hello.boot_id))),
        ("namespace", json!(hello.namespace)),
        ("nonce", json!(hex(&hello.nonce))),
        ("session", json!(format!("{:#x}", hello.session))),
        ("received", json!(hello.received)),
        ("wire", json!(hello.wire.map_or_else(|| "none".to_owned(), |wire| wire.to_string()))),
        ("local", json!(hello.local.to_string())),
        ("remote", json!(hello.remote.to_string())),
        ("proof", json!(key)),
    ];
    Some(Said { by: "lane", form: "hello", name: "", fields })
}

/// Returns the letter in the payload of a Send.
pub fn letter(payload: &[u8]) -> Option<Said> {
    let letter = Letter::decode(payload)?;
    let channel_of = |number: u32| ("channel", json!(number));
    let memory = |stag: u32| ("stag", json!(format!("{stag:#010x}")));
    let (name, fields) = match letter {
        Letter::Claim { id, local, peer, own_scale, peer_scale, options, written, consumed, digests } => {
            let mut fields = vec![
                ("id", json!(id)),
                ("local", json!(local.to_string())),
                ("peer", json!(peer.to_string())),
                ("own_scale", json!(own_scale)),
                ("peer_scale", json!(peer_scale)),
                ("options", json!(options)),
                ("written", json!(written)),
                ("consumed", json!(consumed)),
            ];
            fields.extend(prefixes(&digests));
            ("claim", fields)
        }
        Letter::Withdraw { id } => ("withdraw", vec![("id", json!(id))]),
        // The secret is not printed: with it, somebody could forge a record.
        Letter::Open { id, channel, stag, ring, secret: _ } => {
            ("open", with_ring(vec![("id", json!(id)), channel_of(channel), memory(stag)], ring))
        }
        Letter::Opened { channel, own, stag, ring } => {
            ("opened", with_ring(vec![channel_of(channel), ("own", json!(own)), memory(stag)], ring))
        }
        Letter::Refused { channel } => ("refused", vec![channel_of(channel)]),
        Letter::Leg { channel, number, ring, start } => {
            let fields = vec![channel_of(channel), ("number", json!(number)), ("start", json!(start))];
            ("leg", with_ring(fields, ring))
        }
        Letter::Final { channel, end } => ("final", vec![channel_of(channel), ("end", json!(end))]),
        Letter::WantRing { channel, log2 } => ("want-ring", vec![channel_of(channel), ("log2", json!(log2))]),
        Letter::RingMade { channel, ring } => ("ring-made", with_ring(vec![channel_of(channel)], ring)),
        Letter::ReturnRing { channel, ring } => ("return-ring", with_ring(vec![channel_of(channel)], ring)),
        Letter::Ask { secret: _ } => ("ask", Vec::new()),
        Letter::Stays { secret: _ } => ("stays", Vec::new()),
    };
    Some(Said { by: "lane", form: "letter", name, fields })
}

/// Returns the notice in Immediate Data.
pub fn notice(data: [u8; 8]) -> Option<Said> {
    let Notice { kind, channel, value } = Notice::decode(data)?;
    // Positions are low halves.
    let (name, meaning) = match kind {
        NoticeKind::Data => ("data", Some("position")),
        NoticeKind::Credit => ("credit", Some("position")),
        NoticeKind::Attached => ("attached", Some("decision")),
        NoticeKind::Declined => ("declined", None),
        NoticeKind::Adopted => ("adopted", Some("leg")),
        NoticeKind::Please => ("please", Some("wants_tcp")),
        NoticeKind::Wide => ("wide", None),
        NoticeKind::Reset => ("reset", None),
        NoticeKind::Closed => ("closed", None),
        NoticeKind::Received => ("received", Some("count")),
        NoticeKind::Present => ("present", None),
        NoticeKind::Heard => ("heard", None),
    };
    let (value, reason) = match kind {
        NoticeKind::Please => (value & 0xff, u8::try_from(value >> 8).ok().and_then(Reason::from_number)),
        _ => (value, None),
    };
    let value = meaning.map(|meaning| (meaning, json!(value)));
    let reason = reason.map(|reason| ("reason", json!(reason.name())));
    let fields = [("channel", json!(channel))].into_iter().chain(value).chain(reason).collect();
    Some(Said { by: "lane", form: "notice", name, fields })
}

/// Adds the place of a ring: its offset in the link, and its octets.
fn with_ring(mut fields: Vec<(&'static str, Value)>, ring: RingPlace) -> Vec<(&'static str, Value)> {
    fields.extend([("ring", json!(format!("{:#x}", ring.offset()))), ("ring_len", json!(ring.len()))]);
    fields
}

/// How many prefixes of each direction the digests cover.
fn prefixes(digests: &Digests) -> [(&'static str, Value); 2] {
    [
        ("digests_written", json!(digests.written.digests().len())),
        ("digests_received", json!(digests.received.digests().len())),
    ]
}
