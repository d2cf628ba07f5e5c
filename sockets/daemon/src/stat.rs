//! What `weft stat sockets` tells.

use core::net::SocketAddr;

use serde_json::{Map, Value, json};
use weft_sockets::end::Phase;
use weft_sockets::layout::{End, Totals};
use weft_sockets::sync::Ordering;
use weft_sockets::{Carrier, Leg};

use crate::address::Address;
use crate::link::Channel;
use crate::state::{Family, State};
use crate::sums::Sums;

/// Returns the section `sockets`: where the daemon listens, a line for each connection with a channel, one for each
/// family of processes, and the sums since the daemon began.
pub(crate) fn tell(state: &State, address: &Address) -> Value {
    let mut sums = state.sums.clone();
    let families: Vec<Value> = state
        .families
        .values()
        .map(|family| {
            let mut own = Sums::default();
            for totals in [&family.slab.header().totals, &living(family)] {
                own.add(totals);
                sums.add(totals);
            }
            let mut line = object(&own);
            line.insert("pids".into(), json!(pids(state, family)));
            line.insert("uid".into(), json!(family.uid));
            Value::Object(line)
        })
        .collect();
    let channels = state.links.iter().flat_map(|(name, link)| {
        let families = link.families.map(|family| state.families.get(&family));
        link.channels.iter().map(move |(number, channel)| (*name, *number, families, (&link.memory, channel)))
    });
    let connections: Vec<Value> = channels
        .map(|(link, number, families, channel)| connection(state, (link, number), families, channel))
        .collect();
    json!({
        "address": address.to_string(),
        "processes": families,
        "connections": connections,
        "waiting_claims": state.claims.len(),
        "ports": state.ports.len(),
        "links": state.links.len(),
        "sums": object(&sums),
    })
}

/// Returns the section `device`: where the daemon listens, and how many connections share memory.
pub(crate) fn summary(state: &State, address: &Address) -> Value {
    let connections: usize = state.links.values().map(|link| link.channels.len()).sum();
    json!({ "address": address.to_string(), "connections": connections })
}

/// What the ends of a family have done that are not closed.
fn living(family: &Family) -> Totals {
    let totals = Totals::default();
    for (_, end) in family.slab.ends() {
        if matches!(end.state().phase, Phase::Plain | Phase::Claimed | Phase::Offered) {
            totals.add(end);
        }
    }
    totals
}

fn object(sums: &Sums) -> Map<String, Value> {
    let reasons: Map<String, Value> =
        sums.reasons().map(|(reason, count)| (reason.name().to_owned(), json!(count))).collect();
    let mut object: Map<String, Value> =
        sums.counts().map(|(name, count)| (name.to_owned(), json!(count))).collect();
    object.insert("tcp_by_reason".into(), Value::Object(reasons));
    object
}

fn pids(state: &State, family: &Family) -> Vec<i32> {
    family.members.values().filter_map(|id| state.ports.get(id)).map(|port| port.pid).collect()
}

fn connection(
    state: &State,
    (link, number): (u64, u32),
    families: [Option<&Family>; 2],
    (memory, channel): (&weft_sockets::Link, &Channel),
) -> Value {
    let addresses = [channel.tuple.map(|tuple| tuple.local), channel.tuple.map(|tuple| tuple.peer)];
    let ends = [0, 1].map(|party: usize| match (families[party], channel.ends[party]) {
        (Some(family), Some(end)) => family.slab.end(end.slot).map_or(Value::Null, |words| {
            let members = words.holders.members().filter_map(|place| family.members.get(&place));
            let ports = members.filter_map(|id| state.ports.get(id));
            let pids: Vec<i32> = ports.map(|port| port.pid).collect();
            let mut told = tell_end(words, (family.uid, pids), addresses[party]);
            let head = memory.channel(number).map(|words| &words.directions[party].consumer.head);
            let head = head.map_or(0, |head| head.load(Ordering::Relaxed));
            if let (Some(window), Some(sent)) = (told["window"].as_u64(), told["sent"].as_u64()) {
                // A peer may have written anything there.
                told["unread"] = json!(sent.saturating_sub(head).min(window));
            }
            told
        }),
        _ => Value::Null,
    });
    json!({ "link": link, "channel": number, "ends": ends })
}

fn tell_end(end: &End, (uid, pids): (u32, Vec<i32>), address: Option<SocketAddr>) -> Value {
    let load = |word: &weft_sockets::sync::AtomicU64| word.load(Ordering::Relaxed);
    let (out, counts) = (&end.outbound, &end.counts);
    let (written, consumed) = (load(&out.written), load(&end.inbound.consumed));
    let (out_ring, in_ring) = (load(&counts.out_ring), load(&counts.in_ring));
    let (sends_by, window) = carrier(load(&out.leg));
    let (reads_by, _) = carrier(load(&end.inbound.leg));
    json!({
        "address": address.map(|address| address.to_string()),
        "uid": uid,
        "pids": pids,
        "sends_by": sends_by,
        "reads_by": reads_by,
        "sent": written,
        "sent_by_memory": out_ring,
        "read": consumed,
        "read_by_memory": in_ring,
        "window": window,
        "spins": load(&counts.spins),
        "yields": load(&counts.yields),
        "sleeps": load(&counts.sleeps),
        "wakes": load(&counts.wakes),
        "reason": end.reason().map(|reason| reason.name()),
    })
}

/// Returns the name of what carries a direction, and the octets of its ring.
fn carrier(leg: u64) -> (&'static str, u64) {
    match Leg::from_word(leg).map(|leg| leg.carrier) {
        Some(Carrier::Ring(place)) => ("memory", place.len()),
        _ => ("tcp", 0),
    }
}
