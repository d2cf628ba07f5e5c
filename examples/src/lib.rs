//! The common part of the examples: two hosts on a wire in memory, and an endpoint with one of each object.
//!
//! A program that runs on a real host opens its device on another wire ([`weft_netif::Wire::open`]). The rest stays the
//! same.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use weft_rnic::{
    Access, CmEvent, CompChannel, Completion, Config, ConnParam, Cq, Device, EventChannel, Mr, Pd, Progress,
    Qp, QpCapacity, QpInit, Status,
};

mod line;

pub use line::Line;

/// The result of an example, with any error that has a text.
pub type Result<T = ()> = core::result::Result<T, Box<dyn core::error::Error + Send + Sync>>;

/// The port that servers listen on.
pub const PORT: u16 = 7174;

/// Returns two devices, 10.0.0.1 and 10.0.0.2, each with a thread of its own, on a wire in memory.
///
/// # Errors
/// When the system has no thread or descriptor left.
pub fn two_hosts() -> Result<[Device; 2]> {
    let (left, right) = weft_netif::pair(9000);
    let open = |wire, address: &str, seed| -> Result<Device> {
        let mut config = Config::new(address.parse()?, seed);
        config.progress = Progress::Thread;
        config.stack.mtu = 9000;
        Ok(Device::open(wire, config)?)
    };
    Ok([open(left, "10.0.0.1/24", 1)?, open(right, "10.0.0.2/24", 2)?])
}

/// One end of a connection, with one of each object.
#[derive(Debug)]
pub struct Endpoint {
    /// The device.
    pub device: Device,
    /// The protection domain.
    pub pd: Pd,
    /// The channel that announces completions.
    pub channel: CompChannel,
    /// The completion queue of both work queues.
    pub cq: Cq,
    /// The channel for connection events.
    pub events: EventChannel,
    /// The queue pair.
    pub qp: Qp,
}

impl Endpoint {
    /// Makes one of each object on `device`.
    ///
    /// # Errors
    /// When the device or the system is out of objects.
    pub fn new(device: &Device) -> Result<Self> {
        let pd = device.alloc_pd();
        let channel = device.create_comp_channel()?;
        let cq = device.create_cq(256, Some(&channel))?;
        let events = device.create_event_channel()?;
        let init = QpInit { capacity: QpCapacity::default(), ..QpInit::new(&cq, &cq) };
        let qp = device.create_qp(&pd, &init)?;
        Ok(Self { device: device.clone(), pd, channel, cq, events, qp })
    }

    /// Listens on [`PORT`], sends its address through `ready`, and accepts the first peer that connects.
    ///
    /// # Errors
    /// When the port is taken or the peer goes away.
    pub fn accept_one(&self, ready: &Sender<SocketAddr>) -> Result {
        let _listener = self.device.listen(&self.events, PORT)?;
        ready.send(self.device.address(PORT))?;
        loop {
            match self.events.wait(Some(PATIENCE)) {
                Some(CmEvent::ConnectRequest(request)) => {
                    self.device.accept(request.id, &self.qp, ConnParam::default())?;
                }
                Some(CmEvent::Established { .. }) => return Ok(()),
                other => return Err(format!("no peer: {other:?}").into()),
            }
        }
    }

    /// Connects to the server, whose address comes through `ready`.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn connect(&self, ready: &Receiver<SocketAddr>) -> Result {
        let server = ready.recv_timeout(PATIENCE)?;
        // Without the peer-to-peer start of RFC 6581 the server could not send before the client.
        let param = ConnParam { peer_to_peer: Some(true), ..ConnParam::default() };
        self.device.connect(&self.events, &self.qp, server, param)?;
        match self.events.wait(Some(PATIENCE)) {
            Some(CmEvent::Established { .. }) => Ok(()),
            other => Err(format!("not connected: {other:?}").into()),
        }
    }

    /// Waits for the next completion: arms the queue, polls once more, and only then sleeps.
    ///
    /// # Errors
    /// When the request failed, or nothing completes in half a minute.
    pub fn completion(&self) -> Result<Completion> {
        loop {
            let mut completion = self.cq.poll_one();
            if completion.is_none() {
                self.cq.request_notification(false);
                completion = self.cq.poll_one();
            }
            match completion {
                Some(done) if done.status == Status::Success => return Ok(done),
                Some(failed) => return Err(format!("request {}: {}", failed.wr_id, failed.status).into()),
                None => {
                    self.channel.wait(Some(PATIENCE)).ok_or("nothing completes")?;
                }
            }
        }
    }

    /// Registers `len` octets with all rights.
    ///
    /// # Errors
    /// When there is not that much memory.
    pub fn memory(&self, len: usize) -> Result<Mr> {
        Ok(self.pd.register(len, Access::ALL)?)
    }
}

/// Runs a server and a client side by side, each on a device of its own.
///
/// # Errors
/// Those of both.
pub fn side_by_side(
    server: impl FnOnce(&Device, &Sender<SocketAddr>) -> Result + Send,
    client: impl FnOnce(&Device, &Receiver<SocketAddr>) -> Result,
) -> Result {
    let [left, right] = two_hosts()?;
    let (ready, told) = channel();
    std::thread::scope(|scope| {
        let serving = scope.spawn(move || server(&right, &ready));
        let asked = client(&left, &told);
        serving.join().map_err(|_| "the server has panicked")??;
        asked
    })
}

const PATIENCE: Duration = Duration::from_secs(30);

/// The README's example, compiled and run as a test of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
