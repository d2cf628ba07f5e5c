//! What `weft stat` shows of a context.

use std::sync::{Arc, Weak};

use serde_json::{Map, Value, json};
use weft_exs_core::{ByWay, Kind, Stats};
use weft_stat::Section;

use crate::context::Context;
use crate::link::Status;
use crate::service::Service;

/// Tells of a context, and does not keep it open.
#[derive(Clone, Debug)]
pub struct Watcher(Weak<Service>);

impl Context {
    /// Returns a handle that tells of the context, and does not keep it open.
    #[must_use]
    pub fn watcher(&self) -> Watcher {
        Watcher(Arc::downgrade(self.service()))
    }
}

/// Returns the section `exs` for a `weft_stat::Server`: a line for each socket, and sums over all since the context was
/// opened. `find` returns the context's watcher, as soon as there is a context.
pub fn stat_section(find: impl Fn() -> Option<Watcher> + Send + 'static) -> Section {
    Section::new("exs", move |_| {
        let Some(service) = find().and_then(|watcher| watcher.0.upgrade()) else {
            return json!({ "error": "the process has no Extended Sockets" });
        };
        let (statuses, mut sums) = service.statuses();
        statuses.iter().for_each(|(_, status)| sums += status.stats);
        let sockets: Vec<Value> = statuses.iter().map(|(id, status)| socket(*id, status)).collect();
        json!({ "exs": sockets, "sums": counted(&sums) })
    })
}

fn socket(id: u64, status: &Status) -> Value {
    let Status { kind, qp_num, addresses, ready, sends, receives, credits, stats } = status;
    let text = |end: usize| addresses.map(|addresses| addresses[end].to_string());
    // What the type does not have is null.
    let credits_of = |of: Kind| credits.filter(|_| *kind == of);
    let window = credits.map(|credits| credits.window);
    let messages = credits_of(Kind::Message).map(|credits| credits.messages);
    let adverts = credits_of(Kind::Stream).map(|credits| credits.adverts);
    let ring = credits_of(Kind::Stream).map(|credits| credits.ring);
    let mut told = counted(stats);
    let more = [
        ("socket", json!(id)),
        ("type", json!(if *kind == Kind::Message { "message" } else { "stream" })),
        ("state", json!(if ready.ended { "ended" } else { "open" })),
        ("local", json!(text(0))),
        ("peer", json!(text(1))),
        ("qp_num", json!(qp_num)),
        ("sends", json!(sends)),
        ("receives", json!(receives)),
        ("window_used", json!(window.map(|[used, _]| used))),
        ("window", json!(window.map(|[_, all]| all))),
        ("credits_used", json!(messages.map(|[used, _]| used))),
        ("credits", json!(messages.map(|[_, all]| all))),
        ("adverts_unused", json!(adverts.map(|[unused, _]| unused))),
        ("adverts", json!(adverts.map(|[_, all]| all))),
        ("ring_used", json!(ring.map(|[used, _]| used))),
        ("ring", json!(ring.map(|[_, all]| all))),
    ];
    told.extend(more.map(|(name, value)| (name.to_owned(), value)));
    told.into()
}

/// Returns counters by their names.
fn counted(stats: &Stats) -> Map<String, Value> {
    let Stats { sent, received, stale_adverts, holds, window_stalls, ring_stalls, advert_stalls } = *stats;
    let counts = [
        ("stale_adverts", stale_adverts),
        ("holds", holds),
        ("window_stalls", window_stalls),
        ("ring_stalls", ring_stalls),
        ("advert_stalls", advert_stalls),
    ];
    let counts = counts.map(|(name, count)| (name.to_owned(), count.into()));
    by_way("sent", sent).chain(by_way("received", received)).chain(counts).collect()
}

/// Returns octets of a direction in all and by their ways, and the share of those that went direct.
fn by_way(direction: &str, octets: ByWay) -> impl Iterator<Item = (String, Value)> {
    let ByWay { direct, ring, inline, plain } = octets;
    let all = direct + ring + inline + plain;
    let share = if all == 0 { Value::Null } else { json!(u128::from(direct) * 100 / u128::from(all)) };
    let name = |way: &str| format!("{direction}{way}");
    [
        (name(""), all.into()),
        (name("_direct"), direct.into()),
        (name("_ring"), ring.into()),
        (name("_inline"), inline.into()),
        (name("_plain"), plain.into()),
        (name("_direct_percent"), share),
    ]
    .into_iter()
}
