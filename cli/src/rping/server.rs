//! The side that is pinged: one thread serves all clients.

use std::io::Write;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use weft_netif::ListenError;
use weft_rnic::{CmError, CmEvent, ConnParam, ConnectRequest, CqId, DisconnectReason, Until};

use super::args::Args;
use super::endpoint::Endpoint;
use super::served::ServedClient;
use super::session::Session;
use crate::failure::Failure;

/// Serves one client, or with `-P` all that come.
pub(crate) fn serve(args: &Args) -> Result<(), Failure> {
    args.check_own()?;
    let endpoint = Endpoint::new(args)?;
    let listener = endpoint.device.listen(&endpoint.events, args.port).map_err(|error| match error {
        CmError::Listen(ListenError::AddrNotAvailable) => Failure::usage(error),
        _ => Failure::work(error),
    })?;
    let server = Server { args, endpoint: &endpoint, clients: Vec::new(), is_over: false };
    let served = server.run();
    drop(listener);
    // In any case the clients hear that it is over, and the capture is completed.
    let closed = endpoint.close();
    served.and(closed)
}

struct Server<'a> {
    args: &'a Args,
    endpoint: &'a Endpoint,
    clients: Vec<ServedClient>,
    /// The one client of a server without `-P` has come and gone.
    is_over: bool,
}

impl Server<'_> {
    fn run(mut self) -> Result<(), Failure> {
        while !self.is_over {
            let mut announced = self.sleep();
            while let Some(event) = self.endpoint.events.next() {
                self.handle_event(event)?;
            }
            while let Some(cq) = announced.take().or_else(|| self.endpoint.completions.next()) {
                // The queue of a client that has gone may still be announced.
                if let Some(index) = self.clients.iter().position(|client| client.session.cq.id() == cq) {
                    self.advance(index)?;
                }
            }
            while let Some(index) = self.silent_client() {
                let silence = self.args.silence;
                let reason = format!("given up after {silence} s of silence (--silence)");
                self.end(index, Err(Failure::work(reason)))?;
            }
        }
        Ok(())
    }

    /// Sleeps until there is an event or a completion, or a client has been silent for too long. Returns the completion
    /// queue that has news, if it was one.
    fn sleep(&self) -> Option<CqId> {
        let Endpoint { events, completions, .. } = self.endpoint;
        let patience = || self.clients.iter().map(ServedClient::patience).min();
        // The channel of the completions sleeps, and drives the engine. The events interrupt it.
        let poll_both = |fds: &mut [PollFd<'_>], timeout: Option<&Timespec>| {
            let mut all = fds.to_vec();
            all.push(PollFd::new(events, PollFlags::IN));
            let patience = patience().and_then(|patience| Timespec::try_from(patience).ok());
            poll(&mut all, timeout.into_iter().chain(&patience).min())?;
            let has_event = all.last().is_some_and(|events| !events.revents().is_empty());
            let is_over = has_event || self.silent_client().is_some();
            if is_over { Err(Errno::INTR) } else { poll(fds, Some(&AT_ONCE)) }
        };
        completions.wait_until(Until::Interrupted(&poll_both))
    }

    /// Returns a client that has been silent for too long.
    fn silent_client(&self) -> Option<usize> {
        self.clients.iter().position(|client| client.patience().is_zero())
    }

    fn handle_event(&mut self, event: CmEvent) -> Result<(), Failure> {
        let (qp_num, outcome) = match event {
            CmEvent::ConnectRequest(request) => return self.welcome(&request),
            CmEvent::Established { .. } => return Ok(()),
            CmEvent::ConnectError { qp_num, reason } => (qp_num, Err(Failure::work(reason))),
            CmEvent::Disconnected { qp_num, reason: DisconnectReason::Peer | DisconnectReason::Local } => {
                (qp_num, Ok(()))
            }
            CmEvent::Disconnected { qp_num, reason } => (qp_num, Err(Failure::work(reason))),
            other => return Err(Failure::work(format!("an unexpected event: {other:?}"))),
        };
        let Some(index) = self.clients.iter().position(|client| client.session.qp.number() == qp_num) else {
            return Ok(());
        };
        // Pings that were complete before the end count.
        let outcome = self.clients[index].advance(self.args).and(outcome);
        self.end(index, outcome)
    }

    /// Accepts a client, or says why not.
    fn welcome(&mut self, request: &ConnectRequest) -> Result<(), Failure> {
        let most = if self.args.persistent { MAX_CLIENTS } else { 1 };
        let accepted = if self.clients.len() < most {
            self.accept(request)
        } else {
            Err(Failure::work(format!("rejected: the server has {most} clients, and takes no more at once")))
        };
        match accepted {
            Ok(client) => self.clients.push(client),
            Err(failure) => {
                // A peer that has gone meanwhile needs no answer.
                let _gone = self.endpoint.device.reject(request.id, &[]);
                let _status_of_one_client = failure.of(request.peer).print("rping");
            }
        }
        Ok(())
    }

    fn accept(&self, request: &ConnectRequest) -> Result<ServedClient, Failure> {
        let silence = Duration::from_secs(self.args.silence.into());
        // Before the answer, so that a message right behind it is announced.
        let client = ServedClient::new(request.peer, Session::new(self.endpoint)?, silence);
        // A client may read the server's buffers, several at a time.
        let param = ConnParam { ord: Some(DEPTH), ..ConnParam::default() };
        self.endpoint.device.accept(request.id, &client.session.qp, param).map_err(Failure::work)?;
        Ok(client)
    }

    fn advance(&mut self, index: usize) -> Result<(), Failure> {
        match self.clients[index].advance(self.args) {
            Ok(()) => Ok(()),
            failed => self.end(index, failed),
        }
    }

    /// Lets a client go. With `-P` the misbehaviour of a client is not the next one's problem.
    fn end(&mut self, index: usize, outcome: Result<(), Failure>) -> Result<(), Failure> {
        let client = self.clients.swap_remove(index);
        self.is_over = !self.args.persistent;
        match outcome.map_err(|failure| failure.of(client.peer)) {
            Ok(()) => report(self.args, &client),
            Err(failure @ Failure::Work(_)) if self.args.persistent => {
                let _status_of_one_client = failure.print("rping");
                Ok(())
            }
            failed => failed,
        }
    }
}

fn report(args: &Args, client: &ServedClient) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    let (peer, pings) = (client.peer, client.pings);
    if args.json {
        writeln!(out, "{}", serde_json::json!({ "peer": peer.to_string(), "pings": pings, "ok": true }))?;
    } else {
        writeln!(out, "{peer} was served {pings} pings")?;
    }
    Ok(())
}

const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// The server has one Read of each client outstanding at a time.
const DEPTH: u16 = 1;
/// Each client has memory of its own here, at most [`MAX_SIZE`](super::payload::MAX_SIZE) for its ping.
const MAX_CLIENTS: usize = 64;
