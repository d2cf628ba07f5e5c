//! The answers to `weft stat`, as JSON.

use std::net::SocketAddr;

use serde_json::{Map, Value, json};
use weft_verbs::{Access, CqCounters, MemoryKind, QpCounters, WindowType};

use crate::engine::queries::{ConnectionInfo, ListenerInfo, QpInfo};
use crate::objects::device::Device;
use crate::objects::resources::{CqInfo, MrInfo, PdInfo, SrqInfo};

/// The version of the answers, in each of them as `weft_stat`. It grows when something that was there means something else.
pub const STAT_VERSION: u32 = 1;

/// The answer to one request. STags go to the same user only.
pub(super) fn answer(request: &str, device: &Device, index: u32, is_same_user: bool) -> Value {
    let found = match request {
        "device" => overview(device),
        "counters" => json!({ "counters": counters(device) }),
        "qp" => json!({ "qp": device.qps().iter().map(qp).collect::<Vec<_>>() }),
        "mr" => json!({ "mr": device.mrs().iter().map(|info| mr(info, false)).collect::<Vec<_>>() }),
        "mr stags" if !is_same_user => error("STags are told to the user of the process only"),
        "mr stags" => json!({ "mr": device.mrs().iter().map(|info| mr(info, true)).collect::<Vec<_>>() }),
        "cq" => json!({ "cq": device.cqs().iter().map(cq).collect::<Vec<_>>() }),
        "srq" => json!({ "srq": device.srqs().iter().map(srq).collect::<Vec<_>>() }),
        "pd" => json!({ "pd": device.pds().iter().map(pd).collect::<Vec<_>>() }),
        "cm" => json!({ "cm": device.connections().iter().map(connection).collect::<Vec<_>>() }),
        "listener" => json!({ "listener": device.listeners().iter().map(listener).collect::<Vec<_>>() }),
        _ => error(
            "unknown request: there are device, counters, qp, mr, mr stags, cq, srq, pd, cm and listener",
        ),
    };
    let mut answer = json!({ "weft_stat": STAT_VERSION, "pid": std::process::id(), "device": index });
    if let (Value::Object(answer), Value::Object(mut found)) = (&mut answer, found) {
        answer.append(&mut found);
    }
    answer
}

fn error(text: &str) -> Value {
    json!({ "error": text })
}

fn overview(device: &Device) -> Value {
    json!({
        "address": device.address(0).ip().to_string(),
        "qps": device.qps().len(),
        "mrs": device.mrs().len(),
        "cqs": device.cqs().len(),
        "connections": device.connections().len(),
        "listeners": device.listeners().len(),
    })
}

fn counters(device: &Device) -> Map<String, Value> {
    device.counters().list().into_iter().map(|(name, count)| (name, count.into())).collect()
}

fn qp(info: &QpInfo) -> Value {
    let QpCounters { messages_sent, octets_sent, messages_received, octets_received, .. } = info.counters;
    json!({
        "qp_num": info.qp_num,
        "state": info.state.to_string(),
        "pd": info.pd,
        "send_cq": info.send_cq,
        "recv_cq": info.recv_cq,
        "send_used": info.send[0],
        "send_wr": info.send[1],
        "recv_used": info.recv[0],
        "recv_wr": info.recv[1],
        "srq": info.srq,
        "local": text(info.local),
        "peer": text(info.peer),
        "messages_sent": messages_sent,
        "octets_sent": octets_sent,
        "messages_received": messages_received,
        "octets_received": octets_received,
    })
}

fn mr(info: &MrInfo, with_stag: bool) -> Value {
    let memory = &info.memory;
    let mut value = json!({
        "kind": match memory.kind {
            MemoryKind::Region => "region",
            MemoryKind::Fast => "fast",
            MemoryKind::Window(WindowType::Type1) => "window-1",
            MemoryKind::Window(WindowType::Type2B) => "window-2b",
        },
        "len": memory.len,
        "access": access(memory.access),
        "pd": memory.pd.0,
        "qp_num": info.qp_num,
        "valid": memory.is_valid,
    });
    if let (true, Value::Object(value)) = (with_stag, &mut value) {
        value.insert("stag".to_owned(), memory.stag.to_string().into());
        value.insert("iova".to_owned(), format!("{:#x}", memory.iova).into());
    }
    value
}

fn cq(info: &CqInfo) -> Value {
    let CqCounters { completions, polls_found, polls_empty, events, .. } = info.counters;
    json!({
        "cq": info.cq,
        "used": info.used,
        "entries": info.entries,
        "armed": match info.armed {
            None => "no",
            Some(false) => "any",
            Some(true) => "solicited",
        },
        "channel": info.has_channel,
        "overrun": info.is_overrun,
        "completions": completions,
        "polls_found": polls_found,
        "polls_empty": polls_empty,
        "events": events,
    })
}

fn srq(info: &SrqInfo) -> Value {
    let [used, wr] = info.recv;
    json!({ "srq": info.srq, "pd": info.pd, "recv_used": used, "recv_wr": wr, "limit": info.limit, "qps": info.qps })
}

fn pd(info: &PdInfo) -> Value {
    json!({ "pd": info.pd, "qps": info.qps, "mrs": info.mrs })
}

fn connection(info: &ConnectionInfo) -> Value {
    json!({
        "id": info.id,
        "phase": info.phase,
        "role": if info.is_active { "active" } else { "passive" },
        "local": text(info.local),
        "peer": info.peer.to_string(),
        "qp_num": info.qp_num,
    })
}

fn listener(info: &ListenerInfo) -> Value {
    json!({
        "address": info.address.to_string(),
        "mode": if info.is_streaming { "streaming" } else { "mpa" },
        "unanswered": info.unanswered,
        "backlog": info.backlog,
    })
}

fn text(address: Option<SocketAddr>) -> Option<String> {
    address.map(|address| address.to_string())
}

/// The rights in the words of `ibv_access_flags`, as far as there are any.
fn access(access: Access) -> Vec<&'static str> {
    let names = [
        (Access::LOCAL_WRITE, "local-write"),
        (Access::REMOTE_WRITE, "remote-write"),
        (Access::REMOTE_READ, "remote-read"),
        (Access::REMOTE_ATOMIC, "remote-atomic"),
        (Access::MW_BIND, "mw-bind"),
        (Access::ZERO_BASED, "zero-based"),
    ];
    names.into_iter().filter(|&(right, _)| access.contains(right)).map(|(_, name)| name).collect()
}
