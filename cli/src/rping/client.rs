//! The side that pings.

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use weft_rnic::{CmError, CmEvent, CompletionOpcode, ConnParam, DisconnectReason};

use super::args::Args;
use super::endpoint::Endpoint;
use super::payload::{fill, text};
use super::session::{Completed, Session};
use crate::failure::Failure;

/// Connects, pings `count` times, disconnects.
pub(crate) fn ping(args: &Args) -> Result<(), Failure> {
    let remote = SocketAddr::new(args.remote()?, args.port);
    let endpoint = Endpoint::new(args)?;
    let pinged = ping_server(args, &endpoint, remote);
    // Also after a failure the server hears of the end, and the capture is completed.
    let closed = endpoint.close();
    let pings = pinged?;
    closed?;
    report(args, pings)
}

fn ping_server(args: &Args, endpoint: &Endpoint, remote: SocketAddr) -> Result<u64, Failure> {
    let session = Session::new(endpoint)?;
    connect(endpoint, &session, remote)?;
    let source = session.buffer(args.size)?;
    let sink = session.buffer(args.size)?;
    let mut sent = vec![0; args.size as usize];
    let mut back = vec![0; args.size as usize];
    let mut index = 0;
    while args.count == 0 || index < args.count {
        fill(&mut sent, index);
        source.write(0, &sent).map_err(Failure::work)?;
        for buffer in [&source, &sink] {
            session.advertise(buffer, args.size)?;
            // The server says "go ahead" after its Read, and again after its Write.
            if !receive(endpoint, &session)? {
                return Err(Failure::work(format!("the server disconnected after {index} pings")));
            }
        }
        sink.read(0, &mut back).map_err(Failure::work)?;
        if let Some(offset) = sent.iter().zip(&back).position(|(sent, back)| sent != back) {
            return Err(Failure::work(format!(
                "ping {index}: octet {offset} came back as {:#04x} and was sent as {:#04x}",
                back[offset], sent[offset]
            )));
        }
        if args.verbose {
            writeln!(std::io::stdout(), "ping data: {}", text(&back))?;
        }
        index += 1;
    }
    disconnect(endpoint, &session)?;
    Ok(index)
}

fn connect(endpoint: &Endpoint, session: &Session, remote: SocketAddr) -> Result<(), Failure> {
    let param = ConnParam { ird: Some(DEPTH), ord: Some(DEPTH), ..ConnParam::default() };
    endpoint.device.connect(&endpoint.events, &session.qp, remote, param).map_err(|error| match error {
        CmError::Connect(_) => Failure::usage(format!("{remote}: {error}")),
        _ => Failure::work(error),
    })?;
    match endpoint.events.wait(None) {
        Some(CmEvent::Established { .. }) => Ok(()),
        Some(CmEvent::Rejected { .. }) => Err(Failure::work(format!("{remote} rejected the connection"))),
        Some(CmEvent::ConnectError { reason, .. }) => Err(Failure::work(format!("{remote}: {reason}"))),
        other => Err(Failure::work(format!("an unexpected event: {other:?}"))),
    }
}

/// Waits for the server's next message. Returns false if the server has disconnected instead.
fn receive(endpoint: &Endpoint, session: &Session) -> Result<bool, Failure> {
    loop {
        session.cq.request_notification(false);
        while let Some(completed) = session.poll()? {
            match completed {
                Completed::Done(CompletionOpcode::Recv) => {
                    session.take_message()?;
                    return Ok(true);
                }
                Completed::Done(_) => {}
                Completed::Flushed => return disconnected(endpoint).map(|()| false),
            }
        }
        endpoint.completions.wait(None);
    }
}

/// Returns why requests were flushed; the event that follows says it. A disconnect by either side is no failure.
fn disconnected(endpoint: &Endpoint) -> Result<(), Failure> {
    match endpoint.events.wait(Some(EVENT_TIMEOUT)) {
        Some(CmEvent::Disconnected { reason: DisconnectReason::Peer | DisconnectReason::Local, .. }) => {
            Ok(())
        }
        Some(CmEvent::Disconnected { reason, .. }) => Err(Failure::work(reason)),
        Some(other) => Err(Failure::work(format!("an unexpected event: {other:?}"))),
        None => Err(Failure::work("the requests were flushed without a reason")),
    }
}

fn disconnect(endpoint: &Endpoint, session: &Session) -> Result<(), Failure> {
    session.qp.disconnect().map_err(Failure::work)?;
    match endpoint.events.wait(None) {
        Some(CmEvent::Disconnected { .. }) => Ok(()),
        other => Err(Failure::work(format!("an unexpected event: {other:?}"))),
    }
}

fn report(args: &Args, pings: u64) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    if args.json {
        writeln!(out, "{}", serde_json::json!({ "pings": pings, "size": args.size, "ok": true }))?;
    } else {
        writeln!(out, "{pings} pings of {} octets, every octet came back", args.size)?;
    }
    Ok(())
}

const EVENT_TIMEOUT: Duration = Duration::from_secs(10);
/// rping has one Read outstanding at a time.
const DEPTH: u16 = 1;
