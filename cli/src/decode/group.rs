//! Groups: what a client and the replicas of `weft group` tell each other.
//!
//! The private data of the Request says what a connection is for. On a control connection each Send is a request or an
//! answer. On the others each Send is an operation, or the acknowledgement of one, and each Write octets of an operation.

use serde_json::{Value, json};
use weft_group::{Answer, End, Greeting, Message, Named, Request, decode};

use super::ulp::Said;

/// Returns what a connection is for. Its token is not printed: with it, somebody could connect in the client's place.
pub fn greeting(private_data: &[u8]) -> Option<Said> {
    let name = match Greeting::parse(private_data)? {
        Greeting::Control => "control",
        Greeting::Inward(_) => "inward",
        Greeting::Outward(_) => "outward",
    };
    Some(Said { by: "group", form: "connection", name, fields: Vec::new() })
}

/// Returns the message in the payload of a Send.
pub fn said(greeting: Greeting, payload: &[u8]) -> Option<Said> {
    match greeting {
        Greeting::Control => {
            Request::parse(payload).ok().map(request).or_else(|| Answer::parse(payload).ok().map(answer))
        }
        Greeting::Inward(_) | Greeting::Outward(_) => decode(payload).map(|message| operation(&message)),
    }
}

fn request(request: Request) -> Said {
    let (name, fields) = match request {
        Request::Hello(hello) => {
            let key = if hello.key.is_some() { "given" } else { "none" };
            ("hello", vec![("version", json!(hello.version)), ("key", json!(key))])
        }
        Request::Open(open) => {
            let members: Vec<String> = open.members.iter().map(|member| member.address.to_string()).collect();
            let fields = vec![
                ("epoch", json!(open.epoch)),
                ("session", session(open.session)),
                ("index", json!(open.index)),
                ("members", json!(members.join(" "))),
                ("range", range(&open.range)),
                ("window", json!(open.window)),
            ];
            ("open", fields)
        }
        Request::Close => ("close", Vec::new()),
        Request::Status => ("status", Vec::new()),
        Request::Seal(seal) => ("seal", vec![("epoch", json!(seal.epoch)), ("base", json!(seal.base))]),
        Request::Copy(copying) => {
            let from = [
                ("from", json!(copying.from.to_string())),
                ("from_incarnation", session(copying.from_incarnation)),
            ];
            ("copy", named(copying.to).into_iter().chain(from).collect())
        }
        Request::Fetch(replica) => ("fetch", named(replica)),
        Request::Flush(replica) => ("flush", named(replica)),
        Request::Finish(replica) => ("finish", named(replica)),
    };
    Said { by: "group", form: "request", name, fields }
}

fn named(replica: Named) -> Vec<(&'static str, Value)> {
    vec![("epoch", json!(replica.epoch)), ("incarnation", session(replica.incarnation))]
}

fn answer(answer: Answer) -> Said {
    let stag = |stag: u32| json!(format!("{stag:#010x}"));
    let (name, fields) = match answer {
        Answer::Welcome(welcome) => {
            ("welcome", vec![("size", json!(welcome.size)), ("incarnation", session(welcome.incarnation))])
        }
        // The tokens are not printed.
        Answer::Opened(opened) => {
            ("opened", vec![("data_in", stag(opened.data_in)), ("data_out", stag(opened.data_out))])
        }
        Answer::Closed => ("closed", Vec::new()),
        Answer::Status(status) => {
            ("status", vec![("open", json!(status.open)), ("limit", json!(status.limit))])
        }
        Answer::Sealed(sealed) => {
            let stored = ("stored", json!(sealed.is_stored));
            (
                "sealed",
                vec![("incarnation", session(sealed.incarnation)), ("size", json!(sealed.size)), stored],
            )
        }
        Answer::Done => ("done", Vec::new()),
        Answer::SourceLost(reason) => ("source_lost", vec![("reason", json!(reason))]),
        Answer::Lent(lent) => (
            "lent",
            vec![("data", stag(lent.data)), ("hashes", stag(lent.hashes)), ("size", json!(lent.size))],
        ),
        Answer::Denied(refusal) => ("denied", vec![("reason", json!(refusal.to_string()))]),
        Answer::Refused(reason) => ("refused", vec![("reason", json!(reason))]),
        Answer::Ended(End::Lost(replica)) => ("ended", vec![("lost", json!(replica))]),
        Answer::Ended(End::Sealed(epoch)) => ("ended", vec![("sealed", json!(epoch))]),
    };
    Said { by: "group", form: "answer", name, fields }
}

fn operation(message: &Message) -> Said {
    let Message { name, op, left, replicas, originals } = message;
    let mut fields = vec![
        ("number", json!(name.number)),
        ("epoch", json!(name.epoch)),
        ("session", session(name.session)),
    ];
    if *left < *replicas {
        fields.push(("found", json!(&originals[..*replicas - *left])));
    }
    if *left == 0 {
        return Said { by: "group", form: "acknowledgement", name: "", fields };
    }
    fields.push(("left", json!(format!("{left} of {replicas}"))));
    if let Some(write) = &op.write {
        fields.push(("write", range(write)));
    }
    if let Some(copy) = &op.copy {
        fields.push(("copy", json!(format!("{} octets from {} to {}", copy.len, copy.from, copy.to))));
    }
    if let Some(swap) = &op.swap {
        let on: Vec<String> =
            (0..*replicas).filter(|at| swap.on.contains(*at)).map(|at| at.to_string()).collect();
        fields.push((
            "swap",
            json!(format!("{} by {} at {} on {}", swap.compare, swap.swap, swap.at, on.join(" "))),
        ));
    }
    if let Some(flush) = &op.flush {
        let name = if op.flushes_later { "flush later" } else { "flush" };
        fields.push((name, range(flush)));
    }
    Said { by: "group", form: "operation", name: "", fields }
}

fn session(session: u64) -> Value {
    json!(format!("{session:#x}"))
}

fn range(range: &core::ops::Range<u64>) -> Value {
    json!(format!("{}..{}", range.start, range.end))
}
