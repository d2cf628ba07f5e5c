//! `weft group status`: what each replica holds.

use std::io::Write;

use clap::Parser;
use serde_json::json;
use weft_group::{Status, status};

use super::members::MembersArgs;
use crate::failure::Failure;

/// Show the memory and the sessions of each replica.
#[derive(Debug, Clone, Parser)]
#[command(after_help = "A replica that does not answer has a line that says so, and the exit status is 1.

Examples:
  weft group status --members 10.0.0.1:7471,10.0.0.2:7471,10.0.0.3:7471
  weft group status --members 10.0.0.1:7471 --json")]
pub(super) struct Args {
    #[command(flatten)]
    members: MembersArgs,
}

/// Asks all replicas, one after the other.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let (options, device) = (args.members.options()?, args.members.open()?);
    let mut out = std::io::stdout();
    let mut list = Vec::new();
    let mut silent = 0;
    for member in args.members.members() {
        let state = status(&device, member.address, &options);
        silent += usize::from(state.is_err());
        match (state, args.members.json) {
            (Ok(state), false) => print(&mut out, &member.address.to_string(), &state)?,
            (Err(error), false) => writeln!(out, "{}: {error}", member.address)?,
            (Ok(state), true) => list.push(value(&member.address.to_string(), &state)),
            (Err(error), true) => list.push(json!({"address": member.address, "error": error.to_string()})),
        }
    }
    if args.members.json {
        writeln!(out, "{}", json!({"replicas": list}))?;
    }
    match silent {
        0 => Ok(()),
        _ => Err(Failure::work(format!(
            "of {} replicas, {silent} did not tell what they hold",
            args.members.members().len()
        ))),
    }
}

fn print(out: &mut impl Write, address: &str, state: &Status) -> std::io::Result<()> {
    writeln!(out, "{address}: {} octets, {} of {} sessions", state.size, state.open, state.limit)?;
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

fn value(address: &str, state: &Status) -> serde_json::Value {
    let sessions: Vec<serde_json::Value> = state
        .sessions
        .iter()
        .map(|session| {
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
        })
        .collect();
    json!({
        "address": address,
        "size": state.size,
        "incarnation": state.incarnation,
        "limit": state.limit,
        "open": state.open,
        "sessions": sessions,
    })
}
