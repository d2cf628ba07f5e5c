//! Bad accesses in either direction, the Terminate that follows, and a fresh connection after it.

use weft_rnic::{Cause, DisconnectReason, SendOpcode, Status};

use crate::bench::Bench;
use crate::cases::exchange::check_health;
use crate::meeting::{Meeting, Plan, Table, explain, finish};
use crate::verbs::{Link, MAIL_OCTETS, Remote, is_receive, text};

pub(crate) fn run(bench: &Bench<'_>) -> Result<(), String> {
    let table = Table::lay(bench, |_| {})?;
    for kind in &KINDS {
        attack(&table, kind).map_err(|error| format!("{} by the host: {error}", kind.name))?;
        suffer(&table, kind).map_err(|error| format!("{} by the guest: {error}", kind.name))?;
    }
    check_health(&table)?;
    table.host.close()
}

/// A bad access, and the answer of either side to it: layer, error type and code.
struct Kind {
    name: &'static str,
    weft: (u8, u8, u8),
    /// `None` if siw carries the request out.
    siw: Option<(u8, u8, u8)>,
}

/// The host accesses badly, and siw refuses.
fn attack(table: &Table<'_>, kind: &Kind) -> Result<(), String> {
    let plan = Plan { command: format!("access -k {}", kind.name), memory: MEMORY, ..Plan::default() };
    let mut meeting = table.meet(&plan)?;
    let link = &meeting.link;
    link.post_receive(1, link.mail.sge(MAIL_OCTETS, 16))?;
    meeting.greet(table.bench.role)?;
    post_bad(&meeting.link, kind.name)?;
    let Some(expected) = kind.siw else { return be_served(&meeting) };
    let reason = end(&meeting.link, 2).map_err(|error| explain(&error, &meeting.job))?;
    let DisconnectReason::PeerTerminate { code, text, other } = reason else {
        return Err(explain(&format!("no Terminate: {reason}"), &meeting.job));
    };
    if code != expected || text.is_empty() {
        return Err(format!("siw's Terminate is {code:02x?} ({text}), or {other:02x?}, not {expected:02x?}"));
    }
    finish(&meeting.job)
}

/// siw does not object: the request succeeds, and the host ends the connection.
fn be_served(meeting: &Meeting) -> Result<(), String> {
    let completion = meeting.link.next_completion()?;
    if completion.status != Status::Success {
        return Err(format!("siw objects: {completion:?}"));
    }
    meeting.link.qp.disconnect().map_err(text)?;
    match end(&meeting.link, 1)? {
        DisconnectReason::Local => finish(&meeting.job),
        other => Err(format!("the end: {other}")),
    }
}

/// The guest accesses badly, and the host refuses.
fn suffer(table: &Table<'_>, kind: &Kind) -> Result<(), String> {
    let plan = Plan { command: format!("access -x -k {}", kind.name), memory: MEMORY, ..Plan::default() };
    let mut meeting = table.meet(&plan)?;
    let receives = u32::from(kind.name != "send-none");
    if receives > 0 {
        let link = &meeting.link;
        link.post_receive(1, link.mail.sge(MAIL_OCTETS, 16))?;
    }
    meeting.greet(table.bench.role)?;
    let reason = end(&meeting.link, receives).map_err(|error| explain(&error, &meeting.job))?;
    match reason {
        DisconnectReason::LocalTerminate(Cause::Peer(error)) if error.code() == kind.weft => {
            finish(&meeting.job)
        }
        other => Err(explain(&format!("instead of Terminate {:02x?}: {other:?}", kind.weft), &meeting.job)),
    }
}

/// Takes the completions, none of which may be a good receive. Returns how the connection ended.
fn end(link: &Link, completions: u32) -> Result<DisconnectReason, String> {
    for _ in 0..completions {
        let completion = link.next_completion()?;
        if is_receive(&completion) && completion.status == Status::Success {
            return Err(format!("a receive has completed: {completion:?}"));
        }
    }
    link.wait_disconnected()
}

fn post_bad(link: &Link, name: &str) -> Result<(), String> {
    let (window, source) = (link.peer_window, link.peer_source);
    let strange = |remote: Remote| Remote { key: remote.key ^ 0x5A5A_5A00, ..remote };
    let edge = |remote: Remote| u64::from(remote.len) - 8;
    let opcode = match name {
        "write-stag" => strange(window).write(0),
        "write-bounds" => window.write(edge(window)),
        "write-right" => source.write(0),
        "read-stag" => strange(source).read(0),
        "read-bounds" => source.read(edge(source)),
        "read-right" => window.read(0),
        _ => SendOpcode::Send,
    };
    // A Read would write into the window.
    let local = if matches!(opcode, SendOpcode::Read { .. }) { &link.window } else { &link.source };
    link.post(0, opcode, local.sge(0, 64))
}

const KINDS: [Kind; 8] = [
    Kind { name: "write-stag", weft: (0x1, 0x1, 0x00), siw: Some((0x1, 0x1, 0x00)) },
    Kind { name: "write-bounds", weft: (0x1, 0x1, 0x01), siw: Some((0x1, 0x1, 0x01)) },
    // siw reports a missing right as an invalid STag, since it has no other code for it.
    Kind { name: "write-right", weft: (0x0, 0x1, 0x02), siw: Some((0x1, 0x1, 0x00)) },
    Kind { name: "read-stag", weft: (0x0, 0x1, 0x00), siw: Some((0x0, 0x1, 0x00)) },
    Kind { name: "read-bounds", weft: (0x0, 0x1, 0x01), siw: Some((0x0, 0x1, 0x01)) },
    // siw does not know the right to be read: a peer can read all registered memory.
    Kind { name: "read-right", weft: (0x0, 0x1, 0x02), siw: None },
    Kind { name: "send-long", weft: (0x1, 0x2, 0x05), siw: Some((0x1, 0x2, 0x02)) },
    Kind { name: "send-none", weft: (0x1, 0x2, 0x02), siw: Some((0x1, 0x2, 0x02)) },
];
const MEMORY: usize = 4096;
