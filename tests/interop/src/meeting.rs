//! Connections of a case with `peer` in the guest: the side that listens, the side that connects, and how each learns
//! that the other is ready.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use weft_rnic::{CmEvent, Config, ConnParam, ConnectRequest, DisconnectReason, EventChannel, Listener};

use crate::bench::{Bench, Role};
use crate::image::Siw;
use crate::job::Job;
use crate::verbs::{Host, Link, PATIENCE, text};

/// The host, and the guest that it talks to.
#[derive(Debug)]
pub(crate) struct Table<'a> {
    pub(crate) bench: &'a Bench<'a>,
    pub(crate) host: Host,
}

/// A connection with a `peer`.
#[derive(Debug)]
pub(crate) struct Meeting {
    pub(crate) job: Job,
    pub(crate) link: Link,
    /// The private data of the connection.
    pub(crate) private_data: Vec<u8>,
}

/// The settings of a `peer`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// The case and its options, without role, address and port.
    pub(crate) command: String,
    /// The octets of the window and of the source.
    pub(crate) memory: usize,
    /// The private data that the host gives the peer.
    pub(crate) private_data: Vec<u8>,
}

impl<'a> Table<'a> {
    /// Opens the device. It asks for CRC if the guest's siw does, so that both settings are seen.
    pub(crate) fn lay(bench: &'a Bench<'a>, tune: impl FnOnce(&mut Config)) -> Result<Self, String> {
        Self::lay_with(bench, &bench.pcap(), tune)
    }

    /// Does the same for an incomplete conversation. Its capture is for people, and not checked.
    pub(crate) fn lay_unchecked(bench: &'a Bench<'a>) -> Result<Self, String> {
        Self::lay_with(bench, &bench.dir.join("unchecked.cap"), |_| {})
    }

    fn lay_with(
        bench: &'a Bench<'a>,
        capture: &Path,
        tune: impl FnOnce(&mut Config),
    ) -> Result<Self, String> {
        let p2p = bench.image.siw == Siw::P2p;
        let host = Host::open(bench.guest.wire(), capture, |config| {
            config.mpa.crc = p2p;
            config.mpa.peer_to_peer = p2p;
            tune(config);
        })?;
        Ok(Self { bench, host })
    }

    /// Starts `peer` and connects with it, in the roles of the bench.
    pub(crate) fn meet(&self, plan: &Plan) -> Result<Meeting, String> {
        match self.bench.role {
            Role::Active => self.await_peer(plan),
            Role::Passive => self.call_peer(plan),
        }
    }

    /// Starts `peer` as the side that listens, and returns its address.
    pub(crate) fn start_listening(&self, command: &str) -> Result<(Job, SocketAddr), String> {
        let port = fresh_port();
        let job = self.bench.guest.start(&format!("peer {command} -s -a {GUEST} -p {port}"))?;
        job.wait_for_line("listening", PATIENCE)?;
        Ok((job, SocketAddr::new(GUEST.into(), port)))
    }

    /// Starts `peer` as the side that connects, and waits for its request. The listener serves only this one.
    pub(crate) fn start_connecting(
        &self,
        command: &str,
        events: &EventChannel,
    ) -> Result<(Job, Listener), String> {
        let address = self.host.device.address(fresh_port());
        let listener = self.host.device.listen(events, address.port()).map_err(text)?;
        let job = self.bench.guest.start(&format!(
            "peer {command} -c -a {} -p {}",
            address.ip(),
            address.port()
        ))?;
        Ok((job, listener))
    }

    fn call_peer(&self, plan: &Plan) -> Result<Meeting, String> {
        let events = self.host.events()?;
        let (job, address) = self.start_listening(&plan.command)?;
        let link = self.host.link(&events, plan.memory)?;
        link.post_mail(0)?;
        let param = ConnParam { private_data: &plan.private_data, ..ConnParam::default() };
        self.host.device.connect(&events, &link.qp, address, param).map_err(text)?;
        let private_data = link.wait_established().map_err(|error| explain(&error, &job))?;
        await_guest(&job, &[&link])?;
        Ok(Meeting { job, link, private_data })
    }

    fn await_peer(&self, plan: &Plan) -> Result<Meeting, String> {
        let events = self.host.events()?;
        let (job, _listener) = self.start_connecting(&plan.command, &events)?;
        let request = next_request(&events).map_err(|error| explain(&error, &job))?;
        let link = self.host.link(&events, plan.memory)?;
        link.post_mail(0)?;
        let param = ConnParam { private_data: &plan.private_data, ..ConnParam::default() };
        self.host.device.accept(request.id, &link.qp, param).map_err(text)?;
        link.wait_established().map_err(|error| explain(&error, &job))?;
        job.wait_for_line("established", PATIENCE)?;
        Ok(Meeting { job, link, private_data: request.private_data.to_vec() })
    }
}

impl Meeting {
    /// Both ends tell each other their memory. The connecting one sends first.
    pub(crate) fn greet(&mut self, role: Role) -> Result<(), String> {
        if role == Role::Passive {
            self.link.send_greeting()?;
        }
        self.link.receive_greeting().map_err(|error| explain(&error, &self.job))?;
        if role == Role::Active {
            self.link.send_greeting()?;
        }
        self.job.wait_for_line("greeted", PATIENCE).map(drop)
    }

    /// Disconnects at the connecting end. `peer` has to end with success.
    pub(crate) fn end(self, role: Role) -> Result<(), String> {
        if role == Role::Passive {
            self.link.qp.disconnect().map_err(text)?;
        }
        let reason = self.link.wait_disconnected().map_err(|error| explain(&error, &self.job))?;
        let expected = if role == Role::Passive { DisconnectReason::Local } else { DisconnectReason::Peer };
        if reason != expected {
            return Err(format!("at the end: {reason}"));
        }
        finish(&self.job)
    }
}

/// Returns a port that no connection has had before. librdmacm chooses its own ports at random. Sooner or later it
/// meets a pair of ports in TIME-WAIT, and then rdma_connect fails.
pub(crate) fn fresh_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    FIRST_PORT + NEXT.fetch_add(1, Ordering::Relaxed) % PORTS
}

/// Returns the next request of a peer.
pub(crate) fn next_request(events: &EventChannel) -> Result<ConnectRequest, String> {
    match events.wait(Some(PATIENCE)) {
        Some(CmEvent::ConnectRequest(request)) => Ok(request),
        other => Err(format!("instead of a request: {other:?}")),
    }
}

/// Waits until a listening `peer` has seen all its connections established. Only then siw reads arriving octets.
pub(crate) fn await_guest(job: &Job, links: &[&Link]) -> Result<(), String> {
    for _ in 0..NUDGES {
        if job.wait_for_line("established", NUDGE_AFTER).is_ok() {
            return Ok(());
        }
        for link in links {
            link.nudge()?;
        }
    }
    job.wait_for_line("established", PATIENCE).map(drop)
}

/// Waits for the end of a `peer`, which must have succeeded.
pub(crate) fn finish(job: &Job) -> Result<(), String> {
    let output = job.wait(PATIENCE)?;
    match output.lines.last() {
        Some(last) if output.status == 0 && last == "ok" => Ok(()),
        _ => Err(format!("peer ended with {}: {}", output.status, output.lines.join(" / "))),
    }
}

/// Returns an error of ours, with the output of `peer`.
pub(crate) fn explain(error: &str, job: &Job) -> String {
    format!("{error}; peer said: {}", job.lines().join(" / "))
}

const GUEST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// The ports are below those that Linux assigns by itself.
const FIRST_PORT: u16 = 30_000;
const PORTS: u16 = 2_000;
const NUDGES: u32 = 20;
const NUDGE_AFTER: Duration = Duration::from_millis(500);
