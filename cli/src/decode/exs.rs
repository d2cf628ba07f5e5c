//! Extended Sockets: what the two ends of a socket tell each other.
//!
//! The private data of the startup frames are hellos, or say why the connection is rejected. Behind them each Send is a
//! message, with immediate data behind its header, and each Write octets of a stream.

use serde_json::{Value, json};
use weft_exs_core::{
    Ack, Advert, Body, Data, Extent, HEADER_LEN, Hello, Kind, Message, Msg, RejectCode, Source, Target,
};

use super::ulp::Said;

/// Returns the hello in private data, or why the connection is rejected.
pub fn greeting(private_data: &[u8], is_reject: bool) -> Option<Said> {
    let said = |form, fields| Some(Said { by: "exs", form, name: "", fields });
    if is_reject {
        let code = RejectCode::parse(private_data)?;
        return said("reject", vec![("code", json!(code as u8)), ("reason", json!(code.to_string()))]);
    }
    let hello = Hello::parse(private_data).ok()?;
    let kind = match hello.kind {
        Kind::Message => "messages",
        Kind::Stream => "stream",
    };
    let mut fields = vec![
        ("kind", json!(kind)),
        ("invalidate", json!(hello.invalidates)),
        ("window", json!(hello.window)),
        ("credits", json!(hello.credits)),
        ("slot", json!(hello.slot)),
        ("reads", json!(hello.reads)),
    ];
    if let Some(ring) = hello.ring {
        fields.extend([("ring_len", json!(ring.len)), ("stag", stag(ring.stag.0)), ("to", hex(ring.to))]);
    }
    said("hello", fields)
}

/// Returns the message in the payload of a Send. If that is not the whole Send, immediate data may go on behind it.
pub fn message(payload: &[u8], is_whole: bool) -> Option<Said> {
    let (header, behind) = payload.split_first_chunk::<HEADER_LEN>()?;
    let message = Message::parse_header(header).ok()?;
    let (promised, there) = (message.payload_len() as usize, behind.len());
    let is_right = if is_whole { there == promised } else { there < promised };
    let (name, mut fields) = words(&message.body);
    fields.push(("limit", json!(message.limit)));
    is_right.then_some(Said { by: "exs", form: "message", name, fields })
}

fn words(body: &Body) -> (&'static str, Vec<(&'static str, Value)>) {
    match *body {
        Body::Credit => ("credit", Vec::new()),
        Body::Msg(Msg { id, len, source }) => {
            let mut fields = vec![("id", json!(id)), ("len", json!(len))];
            match source {
                Source::Inline => fields.push(("inline", json!(true))),
                Source::Memory { stag: memory, to } => {
                    fields.extend([("stag", stag(memory.0)), ("to", hex(to))]);
                }
            }
            ("msg", fields)
        }
        Body::Ack(Ack { id, extent }) => {
            let extent = match extent {
                Extent::Full => None,
                Extent::Placed(octets) => Some(("placed", json!(octets))),
                Extent::NotTaken => Some(("taken", json!(false))),
            };
            ("ack", [("id", json!(id))].into_iter().chain(extent).collect())
        }
        Body::Data(Data { position, len, is_inline, target }) => {
            let mut fields = vec![("position", json!(position)), ("len", json!(len))];
            match target {
                Target::Advert { epoch, is_last } => {
                    fields.extend([("epoch", json!(epoch)), ("last", json!(is_last))]);
                }
                Target::Ring { holds } => fields.extend([("ring", json!(true)), ("hold", json!(holds))]),
            }
            fields.push(("inline", json!(is_inline)));
            ("data", fields)
        }
        Body::Advert(Advert { epoch, len, stag: memory, to, first, waits_for_all }) => {
            let mut fields = vec![
                ("epoch", json!(epoch)),
                ("len", json!(len)),
                ("stag", stag(memory.0)),
                ("to", hex(to)),
                ("waitall", json!(waits_for_all)),
            ];
            fields.extend(first.map(|position| ("first", json!(position))));
            ("advert", fields)
        }
        Body::Free { read } => ("free", vec![("read", json!(read))]),
        Body::Revoke { epoch } => ("revoke", vec![("epoch", json!(epoch))]),
        Body::Shutdown { end } => ("shutdown", vec![("end", json!(end))]),
        Body::Abort(fault) => {
            ("abort", vec![("code", json!(fault.code())), ("reason", json!(fault.to_string()))])
        }
    }
}

fn stag(stag: u32) -> Value {
    json!(format!("{stag:#010x}"))
}

fn hex(to: u64) -> Value {
    json!(format!("{to:#x}"))
}
