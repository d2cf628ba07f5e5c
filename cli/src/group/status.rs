//! `weft group status`: a group, and what each replica holds.

use std::io::Write;
use std::net::SocketAddr;

use clap::Parser;
use serde_json::json;
use weft_group::{Coordinator, Host, Member, Record, SessionStatus, Status, Topology, status};

use super::members::MembersArgs;
use crate::failure::Failure;

/// Show the memory, the epochs and the sessions of each replica.
#[derive(Debug, Clone, Parser)]
#[command(
    after_help = "A replica that does not answer has a line that says so. The exit status is 1 if a member does not answer,
or is no member any more because it has started again.

Examples:
  weft group status --members 10.0.0.1:7471,10.0.0.2:7471,10.0.0.3:7471
  weft group status --register etcd://10.0.0.9:2379/weft/orders
  weft group status --register /var/lib/weft/orders --json"
)]
pub(super) struct Args {
    #[command(flatten)]
    members: MembersArgs,
}

/// A host, and what is known of it.
struct Found {
    name: String,
    role: Role,
    state: Result<Status, String>,
}

/// What the record says of a host.
#[derive(Clone, Copy)]
enum Role {
    /// There is no record.
    Named,
    /// A member, in this incarnation.
    Member(u64),
    Spare,
}

impl Role {
    const fn words(self) -> &'static str {
        match self {
            Self::Named => "",
            Self::Member(_) => " (member)",
            Self::Spare => " (spare)",
        }
    }

    const fn is_member(self) -> Option<bool> {
        match self {
            Self::Named => None,
            Self::Member(_) => Some(true),
            Self::Spare => Some(false),
        }
    }
}

impl Found {
    /// Returns why the group cannot count on this host, if it is a member.
    fn trouble(&self) -> Option<String> {
        match (&self.state, self.role) {
            (Err(_), Role::Spare) => None,
            (Err(reason), _) => Some(reason.clone()),
            (Ok(state), Role::Member(incarnation)) if state.incarnation != incarnation => {
                Some("it has started again: it is no member until the group is repaired".into())
            }
            _ => None,
        }
    }
}

/// Asks all replicas, one after the other.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let reach = &args.members.reach;
    let (options, device) = (reach.options()?, reach.open()?);
    let ask = |name: String, address: Result<SocketAddr, String>, role| {
        let asked = address.and_then(|address| status(&device, address, &options).map_err(|e| e.to_string()));
        Found { name, role, state: asked }
    };
    let (record, found) = match &args.members.register {
        None => {
            let named = args.members.named()?;
            let one = |member: &Member| ask(member.address.to_string(), Ok(member.address), Role::Named);
            (None, named.iter().map(one).collect::<Vec<_>>())
        }
        Some(register) => {
            let membership = reach.register(register)?;
            let coordinator = Coordinator::new(&device, &*membership, &options);
            let record = coordinator.record().map_err(|error| Failure::work(error).of(register))?;
            let seats = record.members.iter().map(|seat| (&seat.host, Role::Member(seat.incarnation)));
            let spares = record.spares.iter().map(|host| (host, Role::Spare));
            let one = |(host, role): (&Host, _)| ask(host.addr.clone(), host.address(), role);
            let found = seats.chain(spares).map(one).collect();
            (Some(record), found)
        }
    };
    show(record.as_ref(), &found, reach.json)?;
    let (all, silent) = (found.len(), found.iter().filter(|found| found.trouble().is_some()).count());
    match silent {
        0 => Ok(()),
        _ => Err(Failure::work(format!("the group cannot count on {silent} of {all} replicas"))),
    }
}

fn show(record: Option<&Record>, all: &[Found], is_json: bool) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    if is_json {
        let list: Vec<_> = all.iter().map(value).collect();
        let record: Option<serde_json::Value> =
            record.and_then(|record| serde_json::from_str(&record.to_json()).ok());
        writeln!(out, "{}", json!({"replicas": list, "record": record}))?;
        return Ok(());
    }
    if let Some(record) = record {
        writeln!(out, "{}", line(record))?;
    }
    for found in all {
        match &found.state {
            Ok(state) => print(&mut out, found, state)?,
            Err(error) => writeln!(out, "{}{}: {error}", found.name, found.role.words())?,
        }
    }
    Ok(())
}

/// Returns a line about a group.
pub(super) fn line(record: &Record) -> String {
    let shape = match record.topology {
        Topology::Chain => "a chain",
        Topology::Fan => "a fan",
    };
    let (has, wants) = (record.members.len(), record.replicas);
    let missing = if has < wants { format!(" of {wants}") } else { String::new() };
    format!("{}: epoch {}, {shape} of {has}{missing}, {} octets", record.group, record.epoch, record.size)
}

fn print(out: &mut impl Write, found: &Found, state: &Status) -> std::io::Result<()> {
    let kept = if state.is_stored { ", with a file" } else { "" };
    write!(out, "{}{}: {} octets{kept}, ", found.name, found.role.words(), state.size)?;
    if state.sealed > 0 {
        write!(out, "sealed with epoch {}, ", state.sealed)?;
    }
    writeln!(out, "{} of {} sessions", state.open, state.limit)?;
    if let Some(trouble) = found.trouble() {
        writeln!(out, "  {trouble}")?;
    }
    if let Some([done, all]) = state.progress {
        writeln!(out, "  it copies: {} %", done.saturating_mul(100) / all.max(1))?;
    }
    for session in &state.sessions {
        let of = session.replicas;
        let connections = if session.is_ready { "" } else { ", not connected yet" };
        writeln!(
            out,
            "  session {:016x} of epoch {}, replica {} of {of}, octets {} to {}, window {}, from {}{connections}",
            session.session,
            session.epoch,
            session.index,
            session.range.start,
            session.range.end,
            session.window,
            session.peer,
        )?;
    }
    Ok(())
}

fn value(found: &Found) -> serde_json::Value {
    let (address, is_member) = (&found.name, found.role.is_member());
    let state = match &found.state {
        Ok(state) => state,
        Err(error) => return json!({"address": address, "member": is_member, "error": error}),
    };
    json!({
        "address": address,
        "member": is_member,
        "trouble": found.trouble(),
        "sealed": state.sealed,
        "served": state.served,
        "stored": state.is_stored,
        "progress": state.progress,
        "size": state.size,
        "incarnation": state.incarnation,
        "limit": state.limit,
        "open": state.open,
        "sessions": state.sessions.iter().map(session).collect::<Vec<_>>(),
    })
}

/// Returns a session of a replica.
pub(super) fn session(session: &SessionStatus) -> serde_json::Value {
    json!({
        "epoch": session.epoch,
        "session": session.session,
        "peer": session.peer,
        "index": session.index,
        "replicas": session.replicas,
        "range": [session.range.start, session.range.end],
        "window": session.window,
        "ready": session.is_ready,
    })
}
