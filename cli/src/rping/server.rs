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
use crate::deadline::Deadline;
use crate::failure::Failure;

/// Serves one client, or with `-P` all clients that come.
pub(crate) fn serve(args: &Args) -> Result<(), Failure> {
    args.check_own()?;
    let endpoint = Endpoint::new(args)?;
    let listener = endpoint.device.listen(&endpoint.events, args.port).map_err(|error| {
        let line = format!("port {}: {error}", args.port);
        match error {
            CmError::Listen(ListenError::AddrNotAvailable) => Failure::usage(line),
            _ => Failure::work(line),
        }
    })?;
    let server = Server { args, endpoint: &endpoint, clients: Vec::new(), is_over: false };
    let served = server.run();
    drop(listener);
    // Also after a failure the clients hear of the end, and the capture is completed.
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
            self.turn()?;
        }
        Ok(())
    }

    /// Handles at most one event and one announced completion queue, then the clients that have been silent for too
    /// long. A turn does not loop until the channels are empty: each look drives the engine, which may fill them again.
    fn turn(&mut self) -> Result<(), Failure> {
        let announced = self.sleep();
        if let Some(event) = self.endpoint.events.next() {
            self.handle_event(event)?;
        }
        // The queue of a client that has gone may still be announced.
        let client = |cq| self.clients.iter().position(|client| client.session.cq.id() == cq);
        if let Some(index) = announced.and_then(client) {
            self.advance(index)?;
        }
        while let Some(index) = self.silent_client() {
            let silence = self.args.silence;
            let reason = format!("given up after {silence} s of silence (--silence)");
            self.end(index, Err(Failure::work(reason)))?;
        }
        Ok(())
    }

    /// Sleeps until there is an event or a completion, or a client has been silent for too long. Returns the announced
    /// completion queue, if there is one.
    fn sleep(&self) -> Option<CqId> {
        let Endpoint { events, completions, .. } = self.endpoint;
        let patience = || self.clients.iter().map(|client| client.deadline).min().map(Deadline::left);
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
        let first = (0..self.clients.len()).min_by_key(|&index| self.clients[index].deadline)?;
        self.clients[first].deadline.left().is_zero().then_some(first)
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
        // Pings that were complete before the disconnect count.
        let outcome = self.clients[index].advance(self.args).and(outcome);
        self.end(index, outcome)
    }

    /// Accepts a client, or rejects it and prints the reason.
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

    /// Lets a client go. With `-P` the server goes on after the failure of a client.
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

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use clap::Parser;
    use weft_rnic::{Access, Cq, Data, EventChannel, Mr, Qp, QpCapacity, QpInit, RecvWr, SendOpcode, SendWr};

    use super::*;
    use crate::rping::payload::Advertisement;

    /// A client that pings without a pause of its own. It is on the server's device: each look of the server for
    /// completions moves it on.
    struct Client {
        qp: Qp,
        /// Completions of receives.
        cq: Cq,
    }

    impl Client {
        fn connect(server: &mut Server<'_>, events: &EventChannel, address: SocketAddr) -> Self {
            let Endpoint { device, pd, .. } = server.endpoint;
            let cq = device.create_cq(2 * PINGS, None).unwrap();
            let capacity =
                QpCapacity { send_wr: 4 * PINGS, recv_wr: 2 * PINGS, inline: 16, ..QpCapacity::default() };
            let qp = device.create_qp(pd, &QpInit { capacity, ..QpInit::new(&cq, &cq) }).unwrap();
            let param = ConnParam { ird: Some(DEPTH), ..ConnParam::default() };
            device.connect(events, &qp, address, param).unwrap();
            let served = server.clients.len();
            while server.clients.len() == served {
                server.turn().unwrap();
            }
            assert!(matches!(events.wait(None), Some(CmEvent::Established { .. })));
            Self { qp, cq }
        }

        /// Posts all requests for [`PINGS`] pings. Each waits for the server's answer to the one before.
        fn ping(&self, memory: &Mr) {
            let advertisement =
                Advertisement { address: memory.addr(), rkey: memory.rkey(), size: 16 }.emit();
            let wait = SendOpcode::Wait { cq: self.cq.number(), count: 1, strict: false };
            for _ in 0..2 * PINGS {
                self.qp.post_recv(&RecvWr { wr_id: 0, sges: &[memory.sge(0, 16)] }).unwrap();
            }
            for _ in 0..2 * PINGS {
                let send = SendWr { data: Data::Inline(&advertisement), ..SendWr::new(SendOpcode::Send) };
                self.qp.post_send(&SendWr { signaled: false, ..send }).unwrap();
                self.qp.post_send(&SendWr { signaled: false, ..SendWr::new(wait) }).unwrap();
            }
        }
    }

    #[test]
    fn a_turn_of_the_server_ends_however_busy_its_clients_are() {
        let args = Args::parse_from("rping -s -P -a 127.0.0.1 --netif host".split(' '));
        let endpoint = Endpoint::new(&args).unwrap();
        let listener = endpoint.device.listen(&endpoint.events, 0).unwrap();
        let address = SocketAddr::new(args.address.unwrap(), listener.local_addr().port());
        let mut server = Server { args: &args, endpoint: &endpoint, clients: Vec::new(), is_over: false };
        let events = endpoint.device.create_event_channel().unwrap();
        let clients: Vec<_> = (0..CLIENTS).map(|_| Client::connect(&mut server, &events, address)).collect();
        let memory = endpoint.pd.register(16, Access::ALL).unwrap();
        clients.iter().for_each(|client| client.ping(&memory));
        let mut turns = 0;
        loop {
            let pings: u64 = server.clients.iter().map(|client| client.pings).sum();
            assert!(pings <= turns, "{pings} pings in {turns} turns");
            if pings == u64::from(PINGS) * CLIENTS {
                break;
            }
            server.turn().unwrap();
            turns += 1;
        }
    }

    const CLIENTS: u64 = 16;
    const PINGS: u32 = 20;
}
