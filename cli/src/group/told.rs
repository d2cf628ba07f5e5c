//! What a replica tells `weft stat` of its sessions.

use std::collections::HashMap;

use serde_json::{Value, json};
use weft_group::Roster;
use weft_rnic::Watcher;
use weft_stat::Section;

use super::status;

/// Returns the section `group`. Its numbers of operations are those of the device: they grow though no thread of the server
/// runs.
pub(super) fn section(roster: Roster, watcher: Watcher) -> Section {
    Section::new("group", move |_| {
        let Some(device) = watcher.device() else { return json!({ "error": "the device is closed" }) };
        let counts: HashMap<u32, u64> =
            device.qps().iter().map(|qp| (qp.qp_num, qp.counters.receives_started)).collect();
        let threads: Value = device.threads().into_iter().map(|(name, id)| (name, Value::from(id))).collect();
        let sessions = roster.sessions().into_iter().map(|entry| {
            let mut told = status::session(&entry.status);
            // The session may have ended since.
            let slots = counts.get(&entry.qp_num).copied();
            told["qp_num"] = entry.qp_num.into();
            told["slots"] = slots.into();
            told["laps"] = slots.map(|slots| slots / u64::from(entry.status.window).max(1)).into();
            told["threads"] = threads.clone();
            told
        });
        json!({ "group": sessions.collect::<Vec<_>>() })
    })
}
