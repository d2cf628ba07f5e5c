//! Records as text for people and as JSON for programs.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::fpdu::Crc;
use super::hex::hex;
use super::pcap::Time;
use super::record::{Item, Record};
use super::segment::{Address, Detail, Kind, Segment, Terminate};
use super::startup::{Enhanced, Role, Startup};
use super::ulp::Said;
use super::{exs, group, lane};

/// The style of the text.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// The time that counts as zero.
    pub begin: Time,
    /// The text has colours, for a terminal.
    pub colours: bool,
}

impl Style {
    /// Returns a record as one line of text, without the line end.
    pub fn text(&self, record: &Record) -> String {
        let time = Time(record.stamp.time.0.saturating_sub(self.begin.0)).seconds();
        let (src, dst) = (record.src.to_string(), record.dst.to_string());
        let mut line = format!("{time:12.6}  {src:>21} > {dst:<21}  ");
        match &record.item {
            Item::Startup(startup) => {
                line.push_str(&self.paint(BOLD, &format!("MPA   {:<14}", role_title(startup.role))));
                push(&mut line, &startup_text(startup));
            }
            Item::Segment { segment, crc } => {
                line.push_str(&self.paint(BOLD, &format!("RDMAP {:<14}", title(segment))));
                push(&mut line, &address_text(segment));
                let _ = write!(line, "  length {}  ", segment.len);
                let crc_text = format!("CRC {}", crc.name());
                line.push_str(&if *crc == Crc::Bad { self.paint(RED, &crc_text) } else { crc_text });
                line.push_str(if segment.is_last() { "  last" } else { "" });
                push(&mut line, &detail_text(&segment.detail));
                push(&mut line, &segment.said.as_ref().map_or_else(String::new, Said::text));
                if let Some(remark) = segment.remark {
                    push(&mut line, &self.paint(RED, &format!("({remark})")));
                }
            }
            Item::Note(note) => line.push_str(&self.paint(YELLOW, &format!("note  {note}"))),
        }
        line
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Returns a record as one JSON object, or `None` for a remark of the decoder itself.
pub fn json(record: &Record) -> Option<Value> {
    let mut object = Map::new();
    let mut set = |key: &str, value: Value| object.insert(key.to_owned(), value);
    set("time", json!(record.stamp.time.seconds()));
    set("frame", json!(record.stamp.number));
    set("src", json!(record.src.to_string()));
    set("dst", json!(record.dst.to_string()));
    match &record.item {
        Item::Startup(startup) => startup_json(startup, &mut set),
        Item::Segment { segment, crc } => {
            set("crc", json!(crc.name()));
            segment_json(segment, &mut set);
        }
        Item::Note(_) => return None,
    }
    Some(Value::Object(object))
}

fn push(line: &mut String, part: &str) {
    if !part.is_empty() {
        line.push_str("  ");
        line.push_str(part);
    }
}

const fn role_title(role: Role) -> &'static str {
    match role {
        Role::Initiator => "Request",
        Role::Responder => "Reply",
    }
}

fn startup_text(startup: &Startup) -> String {
    let on = |flag| if flag { "on" } else { "off" };
    let Startup { len, revision, .. } = startup;
    let (crc, markers) = (on(startup.crc), on(startup.markers));
    let mut out = format!("length {len}  rev {revision}  CRC {crc}  Markers {markers}");
    if startup.reject {
        out.push_str("  rejected");
    }
    if let Some(Enhanced { ird, ord, .. }) = startup.enhanced {
        let _ = write!(out, "  IRD {ird}  ORD {ord}");
    }
    let rtr = rtr(startup.enhanced);
    if startup.enhanced.is_some_and(|enhanced| enhanced.peer_to_peer) {
        let _ = write!(
            out,
            "  peer-to-peer, RTR {}",
            if rtr.is_empty() { "none".to_owned() } else { rtr.join("/") }
        );
    }
    let _ = write!(out, "  private data {}", startup.private_data.len());
    match greeting(startup) {
        Some(hello) => push(&mut out, &hello.text()),
        None if startup.private_data.is_empty() => {}
        None => {
            let _ = write!(out, " ({})", hex(&startup.private_data));
        }
    }
    out
}

/// Returns what the private data says, if it is a daemon's, a group's, or of EXS.
fn greeting(startup: &Startup) -> Option<Said> {
    let private_data = &startup.private_data;
    lane::hello(private_data)
        .or_else(|| group::greeting(private_data))
        .or_else(|| exs::greeting(private_data, startup.reject))
}

fn rtr(enhanced: Option<Enhanced>) -> Vec<&'static str> {
    let Some(enhanced) = enhanced else { return Vec::new() };
    let kinds = [(enhanced.send, "send"), (enhanced.write, "write"), (enhanced.read, "read")];
    kinds.into_iter().filter_map(|(set, name)| set.then_some(name)).collect()
}

fn title(segment: &Segment) -> String {
    let title = match segment.kind {
        Kind::Write => "Write",
        Kind::ReadRequest => "Read Request",
        Kind::ReadResponse => "Read Response",
        Kind::Send => "Send",
        Kind::SendInvalidate => "Send-Inv",
        Kind::SendSolicited => "Send-SE",
        Kind::SendSolicitedInvalidate => "Send-SE-Inv",
        Kind::Terminate => "Terminate",
        Kind::Immediate => "Immediate",
        Kind::ImmediateSolicited => "Immediate-SE",
        Kind::AtomicRequest => "Atomic Request",
        Kind::AtomicResponse => "Atomic Response",
        Kind::Unknown => {
            return segment
                .header
                .map_or_else(|| "?".to_owned(), |header| format!("opcode {:#x}?", header.opcode));
        }
    };
    title.to_owned()
}

fn address_text(segment: &Segment) -> String {
    match segment.header.map(|header| header.address) {
        Some(Address::Tagged { stag, to }) => format!("STag {stag:#010x} TO {to:#x}"),
        Some(Address::Untagged { word, qn, msn, mo }) => {
            let mut out = format!("QN {qn} MSN {msn} MO {mo}");
            if matches!(segment.kind, Kind::SendInvalidate | Kind::SendSolicitedInvalidate) {
                let _ = write!(out, "  invalidates {word:#010x}");
            }
            out
        }
        None => String::new(),
    }
}

fn detail_text(detail: &Detail) -> String {
    match detail {
        Detail::None => String::new(),
        Detail::ReadRequest { sink_stag, sink_to, size, source_stag, source_to } => {
            format!("{size} octets from {source_stag:#010x}/{source_to:#x} to {sink_stag:#010x}/{sink_to:#x}")
        }
        Detail::Terminate(terminate) => terminate_text(terminate),
        Detail::Immediate(data) => format!("data {}", hex(data)),
        Detail::AtomicRequest {
            operation,
            request,
            stag,
            to,
            operands: [data, mask, compare, compare_mask],
        } => {
            let place = format!("request {request:#x} on {stag:#010x}/{to:#x}");
            match operation {
                0 => format!("FetchAdd {data:#x} mask {mask:#x}  {place}"),
                2 => {
                    format!(
                        "CmpSwap {compare:#x} mask {compare_mask:#x} by {data:#x} mask {mask:#x}  {place}"
                    )
                }
                other => format!("operation {other:#x}?  {place}"),
            }
        }
        Detail::AtomicResponse { request, original } => {
            format!("request {request:#x} original {original:#x}")
        }
    }
}

fn terminate_text(terminate: &Terminate) -> String {
    let Terminate { layer, etype, code, .. } = terminate;
    let mut out = format!("{} ({layer}/{etype}/{code:02x})", terminate.words());
    if terminate.swapped {
        out.push_str(", fields in the order of Linux siw");
    }
    if let Some((layer, etype, words)) = terminate.other_reading() {
        let _ = write!(out, ", or from Linux siw: {words} ({layer}/{etype}/{code:02x})");
    }
    if !terminate.ddp_header.is_empty() {
        let _ = write!(out, ", about DDP header {}", hex(&terminate.ddp_header));
    }
    out
}

fn startup_json(startup: &Startup, set: &mut impl FnMut(&str, Value) -> Option<Value>) {
    let kind = match startup.role {
        Role::Initiator => "mpa-request",
        Role::Responder => "mpa-reply",
    };
    set("kind", json!(kind));
    set("length", json!(startup.len));
    // Startup frames have no CRC. Their demand for a CRC in FPDUs is in `requires_crc`.
    set("crc", json!(Crc::Off.name()));
    set("last", json!(true));
    set("revision", json!(startup.revision));
    set("requires_crc", json!(startup.crc));
    set("markers", json!(startup.markers));
    set("reject", json!(startup.reject));
    set("private_data", json!(hex(&startup.private_data)));
    if let Some(hello) = greeting(startup) {
        set(hello.by, hello.json());
    }
    if let Some(enhanced) = startup.enhanced {
        set("ird", json!(enhanced.ird));
        set("ord", json!(enhanced.ord));
        set("peer_to_peer", json!(enhanced.peer_to_peer));
        set("rtr", json!(rtr(Some(enhanced))));
    }
}

fn segment_json(segment: &Segment, set: &mut impl FnMut(&str, Value) -> Option<Value>) {
    set("kind", json!(segment.kind.name()));
    set("length", json!(segment.len));
    set("last", json!(segment.is_last()));
    set("payload", json!(segment.payload_len));
    if let Some(remark) = segment.remark {
        set("remark", json!(remark));
    }
    if let Some(header) = segment.header {
        set("opcode", json!(header.opcode));
        match header.address {
            Address::Tagged { stag, to } => {
                set("stag", json!(stag));
                set("to", json!(to));
            }
            Address::Untagged { word, qn, msn, mo } => {
                set("qn", json!(qn));
                set("msn", json!(msn));
                set("mo", json!(mo));
                if matches!(segment.kind, Kind::SendInvalidate | Kind::SendSolicitedInvalidate) {
                    set("invalidate", json!(word));
                }
            }
        }
    }
    detail_json(&segment.detail, set);
    if let Some(said) = &segment.said {
        set(said.by, said.json());
    }
}

fn detail_json(detail: &Detail, set: &mut impl FnMut(&str, Value) -> Option<Value>) {
    match detail {
        Detail::None => {}
        Detail::ReadRequest { sink_stag, sink_to, size, source_stag, source_to } => {
            set("sink_stag", json!(sink_stag));
            set("sink_to", json!(sink_to));
            set("size", json!(size));
            set("source_stag", json!(source_stag));
            set("source_to", json!(source_to));
        }
        Detail::Terminate(terminate) => {
            set("terminate", json!(terminate.words()));
            set("layer", json!(terminate.layer));
            set("etype", json!(terminate.etype));
            set("code", json!(terminate.code));
            set("swapped", json!(terminate.swapped));
            if let Some((layer, etype, words)) = terminate.other_reading() {
                set("other", json!({ "terminate": words, "layer": layer, "etype": etype }));
            }
            set("segment_len", json!(terminate.segment_len));
            set("ddp_header", json!(hex(&terminate.ddp_header)));
            set("rdma_header", json!(hex(&terminate.rdma_header)));
        }
        Detail::Immediate(data) => {
            set("data", json!(hex(data)));
        }
        Detail::AtomicRequest { operation, request, stag, to, operands } => {
            set("operation", json!(operation));
            set("request", json!(request));
            set("remote_stag", json!(stag));
            set("remote_to", json!(to));
            set("operands", json!(operands));
        }
        Detail::AtomicResponse { request, original } => {
            set("request", json!(request));
            set("original", json!(original));
        }
    }
}

const BOLD: &str = "1";
const RED: &str = "31";
const YELLOW: &str = "33";
