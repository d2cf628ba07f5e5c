//! The side that is pinged.

use std::io::Write;

use weft_netif::ListenError;
use weft_rnic::{CmError, CmEvent, ConnParam, ConnectRequest, SendOpcode};

use super::Args;
use super::endpoint::{Endpoint, Session, Wait};
use super::payload::text;
use crate::failure::Failure;

/// Serves one client, or with `-P` one after the other.
pub(crate) fn serve(args: &Args) -> Result<(), Failure> {
    args.check_own()?;
    let endpoint = Endpoint::new(args)?;
    let listener =
        endpoint.device.listen(&endpoint.events.channel, args.port).map_err(|error| match error {
            CmError::Listen(ListenError::AddrNotAvailable) => Failure::usage(error),
            _ => Failure::work(error),
        })?;
    loop {
        let request = endpoint.events.next_request();
        let served = serve_client(args, &endpoint, &request);
        if !args.persistent {
            drop(listener);
            // However it went: the client hears that it is over, and the capture is completed.
            let closed = endpoint.close();
            let pings = served?;
            closed?;
            return report(args, &request, pings);
        }
        // One client's misbehaviour is not the next one's problem.
        match served {
            Ok(pings) => report(args, &request, pings)?,
            Err(Failure::OutputClosed) => return Err(Failure::OutputClosed),
            Err(failure) => {
                let _status_of_one_client = failure.print("rping");
            }
        }
    }
}

fn serve_client(args: &Args, endpoint: &Endpoint, request: &ConnectRequest) -> Result<u64, Failure> {
    let mut session = endpoint.session()?;
    // A client may read the server's buffers, several at a time.
    let param = ConnParam { ord: Some(DEPTH), ..ConnParam::default() };
    endpoint.device.accept(request.id, &session.qp, param).map_err(Failure::work)?;
    match endpoint.events.next(None) {
        Some(CmEvent::Established { .. }) => {}
        other => return Err(Failure::work(format!("an unexpected event: {other:?}"))),
    }
    let mut pings = 0;
    while serve_ping(args, &mut session, pings)? == Wait::Done {
        pings += 1;
    }
    Ok(pings)
}

/// One ping: Read what the client advertises, then Write it where the client wants it.
fn serve_ping(args: &Args, session: &mut Session, index: u64) -> Result<Wait, Failure> {
    let Some(source) = session.receive()? else { return Ok(Wait::Disconnected) };
    if source.size > MAX_SIZE {
        return Err(Failure::work(format!(
            "the client wants pings of {} octets; at most {MAX_SIZE} are taken",
            source.size
        )));
    }
    let buffer = session.buffer(source.size)?;
    let read = SendOpcode::Read { stag: source.rkey, to: source.address };
    if session.transfer(read, &buffer, source.size)? == Wait::Disconnected {
        return Ok(Wait::Disconnected);
    }
    if args.verbose {
        let mut octets = vec![0; source.size as usize];
        buffer.read(0, &mut octets).map_err(Failure::work)?;
        writeln!(std::io::stdout(), "server ping data: {}", text(&octets))?;
    }
    if session.advertise(&buffer, source.size)? == Wait::Disconnected {
        return Ok(Wait::Disconnected);
    }
    let Some(sink) = session.receive()? else { return Ok(Wait::Disconnected) };
    if sink.size < source.size {
        return Err(Failure::work(format!(
            "ping {index}: the client's second buffer is smaller than its first"
        )));
    }
    let write = SendOpcode::Write { stag: sink.rkey, to: sink.address };
    if session.transfer(write, &buffer, source.size)? == Wait::Disconnected {
        return Ok(Wait::Disconnected);
    }
    session.advertise(&buffer, source.size)
}

fn report(args: &Args, request: &ConnectRequest, pings: u64) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    if args.json {
        let peer = request.peer.to_string();
        writeln!(out, "{}", serde_json::json!({ "peer": peer, "pings": pings, "ok": true }))?;
    } else {
        writeln!(out, "{} was served {pings} pings", request.peer)?;
    }
    Ok(())
}

/// The server itself has one Read outstanding at a time.
const DEPTH: u16 = 1;
/// What the real rping uses is far below.
const MAX_SIZE: u32 = 16 << 20;
