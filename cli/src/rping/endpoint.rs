//! What both sides of rping have: a device, a queue pair, and buffers.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use weft_netif::{Capture, Ground, Wire};
use weft_rnic::{
    Access, CmEvent, CompChannel, CompletionOpcode, Config, Cq, Data, Device, Mr, Pd, Progress, Qp,
    QpCapacity, QpInit, RecvWr, SendOpcode, SendWr, Status,
};

use super::Args;
use super::events::Events;
use super::payload::{ADVERTISEMENT_LEN, Advertisement};
use crate::failure::Failure;
use crate::wire;

/// A device with what all connections share.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) events: Events,
    pub(crate) device: Device,
    pd: Pd,
    /// The engine of the next queue pair.
    next_engine: Cell<usize>,
}

/// One queue pair with its buffers.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) qp: Qp,
    cq: Cq,
    completions: CompChannel,
    events: Events,
    /// Advertisements of the peer come here.
    inbox: Mr,
    /// Receives that have completed and nobody has waited for yet.
    received: u32,
    pd: Pd,
}

/// How a wait ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// What was waited for has happened.
    Done,
    /// The peer has disconnected instead.
    Disconnected,
}

impl Endpoint {
    pub(crate) fn new(args: &Args) -> Result<Self, Failure> {
        let seed = RandomState::new().hash_one(std::process::id());
        let mut config = match &args.ip {
            Some(ip) => Config::new(ip.clone(), seed).with_clock_scale(args.clock_scale),
            None => Config::host(own_address(args), seed),
        };
        config.stack.mtu = args.mtu as usize;
        config.mpa.markers = args.markers;
        config.mpa.crc = !args.no_crc;
        config.mpa.peer_to_peer = !args.no_p2p;
        let timeout = Duration::from_secs(args.timeout.into());
        let engine_timeout = config.engine_time(timeout);
        config.stack.timeout = Some(engine_timeout);
        // Whoever waits for the other side's next message has nothing under way that would show that it is gone.
        config.stack.keep_alive = Some(engine_timeout);
        config.startup_timeout = engine_timeout;
        config.nudge_after = Some(config.engine_time(NUDGE_AFTER));
        config.engines = args.engines;
        if args.engines > 1 {
            config.progress = Progress::Thread;
        }
        config.stat = weft_rnic::stat_folder_from_env();
        let ground = if args.ip.is_some() {
            config.stack.validate().map_err(Failure::usage)?;
            let capture =
                args.pcap.as_deref().map(|path| wire::capture(path, config.clock.scale())).transpose()?;
            let mtu = args.mtu as usize;
            match capture {
                Some(capture) => wire::open(&args.netif, mtu, timeout)?.with_capture(capture).into(),
                None => wire::open_queues(&args.netif, mtu, timeout, args.engines)?.into(),
            }
        } else {
            Ground::Host
        };
        let device = Device::open(ground, config).map_err(Failure::work)?;
        let events = Events::new(device.create_event_channel().map_err(Failure::work)?);
        Ok(Self { events, pd: device.alloc_pd(), device, next_engine: Cell::new(0) })
    }

    /// A fresh queue pair, with a receive posted for the peer's first message.
    pub(crate) fn session(&self) -> Result<Session, Failure> {
        let completions = self.device.create_comp_channel().map_err(Failure::work)?;
        let engine = self.next_engine.get();
        self.next_engine.set((engine + 1) % self.device.num_comp_vectors());
        let cq = self.device.create_cq_on(engine, 64, Some(&completions)).map_err(Failure::work)?;
        let capacity = QpCapacity { send_wr: 8, recv_wr: 8, send_sge: 1, recv_sge: 1, inline: 64 };
        let init = QpInit { capacity, signal_all: true, ..QpInit::new(&cq, &cq) };
        let session = Session {
            qp: self.device.create_qp(&self.pd, &init).map_err(Failure::work)?,
            cq,
            completions,
            events: self.events.clone(),
            inbox: self.pd.register(ADVERTISEMENT_LEN, Access::LOCAL_WRITE).map_err(Failure::work)?,
            received: 0,
            pd: self.pd.clone(),
        };
        session.post_recv()?;
        Ok(session)
    }

    /// Gives TCP time to say goodbye, and completes the capture.
    pub(crate) fn close(&self) -> Result<(), Failure> {
        // Nothing more is expected; the wait lets the engine finish what is under way.
        while self.events.next(Some(GOODBYE)).is_some() {}
        let capture = self.device.with_wire(Wire::take_capture).flatten();
        capture
            .map_or(Ok(()), Capture::finish)
            .map_err(|error| Failure::work(format!("cannot write the capture: {error}")))
    }
}

impl Session {
    /// Registers a buffer for pings.
    pub(crate) fn buffer(&self, size: u32) -> Result<Mr, Failure> {
        self.pd.register(size as usize, Access::ALL).map_err(Failure::work)
    }

    /// Sends 16 octets: the advertisement of a buffer. A go-ahead is the same with a content that nobody reads.
    pub(crate) fn advertise(&mut self, buffer: &Mr, size: u32) -> Result<Wait, Failure> {
        let octets = Advertisement { address: buffer.addr(), rkey: buffer.rkey(), size }.emit();
        self.post(SendOpcode::Send, Data::Inline(&octets))?;
        self.wait(CompletionOpcode::Send)
    }

    /// Posts a request and waits until it has completed.
    pub(crate) fn transfer(&mut self, opcode: SendOpcode, buffer: &Mr, size: u32) -> Result<Wait, Failure> {
        self.post(opcode, Data::Sges(&[buffer.sge(0, size)]))?;
        self.wait(opcode.completion())
    }

    /// Waits for the peer's next message. The receive for the one after it is posted before anything is answered.
    pub(crate) fn receive(&mut self) -> Result<Option<Advertisement>, Failure> {
        if self.wait(CompletionOpcode::Recv)? == Wait::Disconnected {
            return Ok(None);
        }
        let mut octets = [0; ADVERTISEMENT_LEN];
        self.inbox.read(0, &mut octets).map_err(Failure::work)?;
        self.post_recv()?;
        Ok(Some(Advertisement::parse(&octets)))
    }

    fn post(&self, opcode: SendOpcode, data: Data<'_>) -> Result<(), Failure> {
        let wr = SendWr { wr_id: 0, opcode, data, signaled: true, fence: false, solicited: false };
        self.qp.post_send(&wr).map_err(Failure::work)
    }

    fn post_recv(&self) -> Result<(), Failure> {
        let sge = self.inbox.sge(0, INBOX_LEN);
        self.qp.post_recv(&RecvWr { wr_id: 0, sges: &[sge] }).map_err(Failure::work)
    }

    /// Waits for a completion of the kind. A receive may overtake the completion of what it answers.
    fn wait(&mut self, expected: CompletionOpcode) -> Result<Wait, Failure> {
        if expected == CompletionOpcode::Recv && self.received > 0 {
            self.received -= 1;
            return Ok(Wait::Done);
        }
        loop {
            self.cq.request_notification(false);
            while let Some(completion) = self.cq.poll_one() {
                match completion.status {
                    Status::Success => {}
                    // The connection has ended, and its event tells how.
                    Status::WorkRequestFlushed | Status::RetryExceeded => return self.disconnected(),
                    status => return Err(Failure::work(format!("a request failed: {status}"))),
                }
                if completion.opcode == CompletionOpcode::RecvWithImmediate {
                    let text = "the peer sent Immediate Data where an advertisement was due";
                    return Err(Failure::work(text.to_owned()));
                }
                if completion.opcode == CompletionOpcode::Recv {
                    if completion.byte_len != INBOX_LEN {
                        return Err(Failure::work(format!(
                            "the peer sent {} octets where an advertisement of {INBOX_LEN} was due",
                            completion.byte_len
                        )));
                    }
                    self.received += 1;
                }
                if completion.opcode == expected {
                    if expected == CompletionOpcode::Recv {
                        self.received -= 1;
                    }
                    return Ok(Wait::Done);
                }
            }
            self.completions.wait(None);
        }
    }

    /// Requests were flushed: the event that follows says why.
    fn disconnected(&self) -> Result<Wait, Failure> {
        match self.events.next(Some(EVENT_TIMEOUT)) {
            Some(CmEvent::Disconnected {
                reason: weft_rnic::DisconnectReason::Peer | weft_rnic::DisconnectReason::Local,
                ..
            }) => Ok(Wait::Disconnected),
            Some(CmEvent::Disconnected { reason, .. }) => Err(Failure::work(reason)),
            Some(other) => Err(Failure::work(format!("an unexpected event: {other:?}"))),
            None => Err(Failure::work("the requests were flushed without a reason")),
        }
    }
}

/// The address of the operating system that the server listens on; the client leaves the choice to it.
fn own_address(args: &Args) -> IpAddr {
    args.address.filter(|_| args.server).unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED))
}

const INBOX_LEN: u32 = 16;
/// Linux siw leaves what follows its Reply at once unread until more comes.
const NUDGE_AFTER: Duration = Duration::from_millis(100);
const EVENT_TIMEOUT: Duration = Duration::from_secs(10);
const GOODBYE: Duration = Duration::from_millis(100);
