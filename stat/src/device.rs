//! The sections of a device.

use std::net::SocketAddr;

use serde_json::{Map, Value, json};
use weft_rnic::{
    Access, ConnectionInfo, CqInfo, Device, ListenerInfo, MemoryKind, MrInfo, PdInfo, QpInfo, SrqInfo,
    Watcher, WindowType,
};

use crate::section::{Asker, Section, error};

/// Returns the sections of a device: its counters and its objects. Only a process of the same user gets STags.
pub fn device_sections(watcher: &Watcher) -> Vec<Section> {
    let section = |name, tell: fn(&Device, Asker) -> Value| {
        let watcher = watcher.clone();
        Section::new(name, move |asker| match watcher.device() {
            Some(device) => tell(&device, asker),
            None => error("the device is closed"),
        })
    };
    vec![
        section("device", |device, _| overview(device)),
        section("counters", |device, _| json!({ "counters": counters(device) })),
        section("qp", |device, _| json!({ "qp": list(&device.qps(), qp) })),
        section("mr", |device, _| json!({ "mr": list(&device.mrs(), |info| mr(info, false)) })),
        section("mr stags", |device, asker| match asker.is_same_user {
            true => json!({ "mr": list(&device.mrs(), |info| mr(info, true)) }),
            false => error("only the user of the process may read STags"),
        }),
        section("cq", |device, _| json!({ "cq": list(&device.cqs(), cq) })),
        section("srq", |device, _| json!({ "srq": list(&device.srqs(), srq) })),
        section("pd", |device, _| json!({ "pd": list(&device.pds(), pd) })),
        section("cm", |device, _| json!({ "cm": list(&device.connections(), connection) })),
        section("listener", |device, _| json!({ "listener": list(&device.listeners(), listener) })),
    ]
}

fn list<T>(infos: &[T], tell: impl Fn(&T) -> Value) -> Vec<Value> {
    infos.iter().map(tell).collect()
}

fn overview(device: &Device) -> Value {
    json!({
        "address": device.address(0).ip().to_string(),
        "qps": device.qps().len(),
        "mrs": device.mrs().len(),
        "cqs": device.cqs().len(),
        "connections": device.connections().len(),
        "listeners": device.listeners().len(),
        "threads": Value::Object(device.threads().into_iter().map(|(name, id)| (name, id.into())).collect()),
    })
}

fn counters(device: &Device) -> Map<String, Value> {
    device.counters().list().into_iter().map(|(name, count)| (name, count.into())).collect()
}

fn qp(info: &QpInfo) -> Value {
    let value = json!({
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
    });
    with_counters(value, info.counters.list())
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
    let value = json!({
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
    });
    with_counters(value, info.counters.list())
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

/// Adds the counters of an object to its JSON.
fn with_counters(mut object: Value, counters: impl Iterator<Item = (&'static str, u64)>) -> Value {
    if let Value::Object(object) = &mut object {
        object.extend(counters.map(|(name, count)| (name.to_owned(), count.into())));
    }
    object
}

fn text(address: Option<SocketAddr>) -> Option<String> {
    address.map(|address| address.to_string())
}

/// Returns the rights, by the names of `ibv_access_flags`.
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
