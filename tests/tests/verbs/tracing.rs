//! The events of connections for a subscriber of `tracing`. Data causes no events.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use weft_netif::Duration;
use weft_rnic::{Access, CmEvent, ConnParam, Data, SendWr};
use weft_tests::{PORT, Pair, PairConfig};

use crate::world::{WR, drain, end_of_a, end_of_b, write_to};

type Fields = BTreeMap<String, String>;

/// A span, with its recorded values and its events.
#[derive(Clone, Debug, Default)]
struct Heard {
    name: String,
    fields: Fields,
    events: Vec<(String, Fields)>,
    is_closed: bool,
}

/// Collects all spans and events, at all levels.
#[derive(Clone, Debug, Default)]
struct Collector(Arc<Mutex<Vec<Heard>>>);

struct Reader<'a>(&'a mut Fields);

impl Visit for Reader<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

impl Collector {
    fn change(&self, id: &Id, change: impl FnOnce(&mut Heard)) {
        let index = usize::try_from(id.into_u64() - 1).unwrap();
        change(&mut self.0.lock().unwrap()[index]);
    }

    /// Returns the spans of one role: those of `a` or those of `b`.
    fn spans(&self, role: &str) -> Vec<Heard> {
        let spans = self.0.lock().unwrap();
        spans.iter().filter(|span| span.fields["role"] == role).cloned().collect()
    }

    fn events(&self) -> usize {
        self.0.lock().unwrap().iter().map(|span| span.events.len()).sum()
    }
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("weft")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut heard = Heard { name: attributes.metadata().name().to_owned(), ..Heard::default() };
        attributes.record(&mut Reader(&mut heard.fields));
        let mut spans = self.0.lock().unwrap();
        spans.push(heard);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        self.change(id, |span| values.record(&mut Reader(&mut span.fields)));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::new();
        event.record(&mut Reader(&mut fields));
        let message = fields.remove("message").unwrap();
        let parent = event.parent().expect("an event belongs to a connection");
        self.change(parent, |span| span.events.push((message, fields)));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}

    fn try_close(&self, id: Id) -> bool {
        self.change(&id, |span| span.is_closed = true);
        true
    }
}

impl Heard {
    fn messages(&self) -> Vec<&str> {
        self.events.iter().map(|(message, _)| message.as_str()).collect()
    }

    fn field(&self, message: &str, field: &str) -> &str {
        let (_, fields) = self.events.iter().find(|(own, _)| own == message).unwrap();
        &fields[field]
    }
}

fn listen<R>(act: impl FnOnce(&Collector) -> R) -> R {
    let collector = Collector::default();
    tracing::subscriber::with_default(collector.clone(), || act(&collector))
}

#[test]
fn a_connection_is_a_span_from_its_beginning_to_its_end() {
    listen(|collector| {
        let mut pair = Pair::connected(&PairConfig { peer_to_peer: true, ..PairConfig::default() });
        let target = pair.b.memory(100);
        let write = SendWr { opcode: write_to(&target, 0), data: Data::Inline(&[7; 50]), ..WR };
        pair.a.qp.post_send(&write).unwrap();
        pair.completion_of_a();
        pair.a.qp.disconnect().unwrap();
        end_of_b(&mut pair);
        pair.settle(Duration::from_secs(60));
        let [ours, theirs] = ["active", "passive"].map(|role| collector.spans(role));
        let ([ours], [theirs]) = (&ours[..], &theirs[..]) else { panic!("{ours:?} {theirs:?}") };
        let messages = ["begun", "MPA Request sent", "MPA Reply received", "established", "ended", "closed"];
        assert_eq!(ours.messages(), messages);
        let messages = ["begun", "MPA Request received", "MPA Reply sent", "established", "ended", "closed"];
        assert_eq!(theirs.messages(), messages);
        let peer = pair.b.device.address(PORT).to_string();
        assert_eq!(
            (&ours.fields["peer"], &theirs.fields["local"], &ours.name),
            (&peer, &peer, &"connection".into())
        );
        assert_eq!(ours.fields["local"], theirs.fields["peer"]);
        let recorded = ["qp_num", "revision", "crc", "send_markers", "ird", "ord"]
            .map(|name| ours.fields[name].as_str());
        let number = pair.a.qp.number().to_string();
        assert_eq!(recorded, [number.as_str(), "2", "true", "false", "16", "16"]);
        assert_eq!((ours.field("ended", "reason"), theirs.field("ended", "reason")), {
            ("disconnected", "the peer disconnected")
        });
        // The Write, and the empty RTR message.
        assert_eq!((ours.field("closed", "messages_sent"), ours.field("closed", "octets_sent")), ("2", "50"));
        assert_eq!(theirs.field("closed", "octets_received"), "50");
        assert!(ours.is_closed && theirs.is_closed);
    });
}

#[test]
fn faults_have_their_cause_in_the_span() {
    listen(|collector| {
        let mut pair = Pair::connected(&PairConfig { peer_to_peer: true, ..PairConfig::default() });
        let locked = pair.b.pd.register(64, Access::LOCAL_READ).unwrap();
        let write = SendWr { opcode: write_to(&locked, 0), data: Data::Inline(b"no"), ..WR };
        pair.a.qp.post_send(&write).unwrap();
        end_of_a(&mut pair);
        end_of_b(&mut pair);
        let [ours, theirs] = ["active", "passive"].map(|role| collector.spans(role)[0].clone());
        for (span, message) in [(&ours, "Terminate received"), (&theirs, "Terminate sent")] {
            let code = ["layer", "etype", "code"].map(|name| span.field(message, name));
            assert_eq!(code, ["0", "1", "2"], "{span:?}");
            assert!(span.field(message, "cause").contains("access rights"), "{span:?}");
        }

        let mut pair = Pair::new(&PairConfig::default());
        for port in [PORT + 1, PORT] {
            let remote = pair.b.device.address(port);
            pair.a.device.connect(&pair.a.events, &pair.a.qp, remote, ConnParam::default()).unwrap();
            if port == PORT {
                let CmEvent::ConnectRequest(request) = pair.event_of_b() else { panic!("no request") };
                pair.b.device.reject(request.id, b"").unwrap();
            }
            pair.event_of_a();
        }
        let ours = collector.spans("active");
        let reason = ours[1].field("startup failed", "reason");
        assert_eq!(reason, "nobody listens there");
        assert_eq!(ours[2].field("rejected", "by_peer"), "true");
        assert_eq!(collector.spans("passive")[1].field("rejected", "by_peer"), "false");
    });
}

#[test]
fn destroyed_queue_pairs_end_their_span() {
    listen(|collector| {
        let mut pair = Pair::connected(&PairConfig { peer_to_peer: true, ..PairConfig::default() });
        pair.settle(Duration::from_secs(1));
        drop(pair.a.qp);
        assert_eq!(collector.spans("active")[0].messages()[4..], ["queue pair destroyed", "closed"]);
        assert!(collector.spans("active")[0].is_closed);
    });
}

#[test]
fn data_causes_no_events() {
    listen(|collector| {
        let mut pair = Pair::connected(&PairConfig { peer_to_peer: true, ..PairConfig::default() });
        let target = pair.b.memory(8);
        let before = collector.events();
        assert!(before >= 8, "startup is told");
        for round in 0..1000 {
            let write = SendWr { opcode: write_to(&target, 0), data: Data::Inline(b"8 octets"), ..WR };
            pair.a.qp.post_send(&write).unwrap();
            pair.completion_of_a();
            assert_eq!(collector.events(), before, "Write {round}");
        }
        assert_eq!(drain(&pair.a.cq).len(), 0);
    });
}

/// One file calls `tracing`, and no file on the data path does.
#[test]
fn the_data_path_does_not_call_tracing() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../");
    let source = |path: &str| std::fs::read_to_string(format!("{root}{path}")).unwrap();
    let silent = [
        "stream",
        "stream/segments",
        "stream/pump",
        "stream/user",
        "objects/qp",
        "objects/cq",
        "engine/notices",
        "objects/device",
        "drive/thread",
        "counters",
    ];
    for path in silent {
        let text = source(&format!("rnic/src/{path}.rs"));
        assert!(!text.contains("tracing") && !text.contains("trace."), "rnic/src/{path}.rs");
    }
    for name in ["mpa", "ddp", "rdmap", "verbs", "netif"] {
        assert!(!source(&format!("{name}/Cargo.toml")).contains("tracing"), "{name}");
    }
    let mut folders = vec![std::path::PathBuf::from(format!("{root}rnic/src"))];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && !path.ends_with("trace.rs")
            {
                assert!(!std::fs::read_to_string(&path).unwrap().contains("tracing::"), "{}", path.display());
            }
        }
    }
}
