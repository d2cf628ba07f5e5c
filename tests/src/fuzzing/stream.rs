//! The whole stack with an arbitrary peer.

use weft_netif::StackConfig;
use weft_rnic::{
    Clock, CmEvent, Config, ConnParam, Cq, Device, DisconnectReason, EventChannel, Listener, Pd, Progress,
    Qp, QpState, RecvWr,
};

use super::again::{create_qp, serve_another};
use super::input::Input;
use super::ledger::{Ledger, Queue};
use super::opponent::{MOMENT, Opponent};
use super::reached::{Milestone, Reached};
use super::settings::Settings;
use super::startup;
use crate::{PATIENCE, PORT, RawHost};

/// Runs one device on virtual time against a peer that follows `data`. Returns the milestones that the device
/// reached.
///
/// The first six octets choose role, startup, memory and work. The rest is a list of operations of the peer and of
/// the application. The peer sends octets as they are, FPDUs around any octets, FPDUs with valid STags, offsets and
/// sequence numbers, messages of every kind, FIN, RST and pauses. The application posts, disconnects and deregisters.
///
/// # Panics
/// If the device panics, does not come to rest, or frames its own stream badly. If it changes or sends memory without
/// a right. If it completes a request twice or never, or serves no second connection.
pub fn stream(data: &[u8]) -> Reached {
    let mut input = Input::new(data);
    let settings = Settings::take(&mut input);
    let mut bench = Bench::new(&settings);
    bench.begin();
    for _ in 0..MAX_STEPS {
        if input.is_empty() {
            break;
        }
        bench.act(&mut input);
    }
    bench.finish()
}

/// The device with its application, and its peer.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) settings: Settings,
    pub(super) opponent: Opponent,
    pub(super) ledger: Ledger,
    pub(super) host: RawHost,
    pub(super) qp: Option<Qp>,
    pub(super) cq: Cq,
    pub(super) pd: Pd,
    pub(super) device: Device,
    events: EventChannel,
    /// The connections that were established, and that have ended.
    established: u32,
    ended: u32,
    _listener: Listener,
}

impl Bench {
    fn new(settings: &Settings) -> Self {
        let clock = Clock::virtual_time();
        let (left, right) = weft_netif::pair(settings.mtu);
        let mut config = Config::new("10.0.0.1/24".parse().expect("an address"), 1);
        config.stack.mtu = settings.mtu;
        config.stack.tcp_buffer = TCP_BUFFER;
        config.mpa = settings.device;
        config.clock = clock.clone();
        config.progress = Progress::External;
        let device = Device::open(left, config).expect("a device on memory");
        let ip = "10.0.0.2/24".parse().expect("an address");
        let stack = StackConfig { seed: 2, tcp_buffer: PEER_BUFFER, ..StackConfig::new(ip) };
        let host = RawHost::with_config(right, &clock, &device, stack);
        let events = device.create_event_channel().expect("an eventfd");
        let listener = device.listen(&events, PORT).expect("a free port");
        host.listen(PORT);
        let pd = device.alloc_pd();
        let cq = device.create_cq(if settings.has_small_cq { 4 } else { CQ_ENTRIES }, None);
        let cq = cq.expect("a completion queue");
        let qp = create_qp(&device, &pd, &cq, settings.signals_all);
        let ledger = Ledger::new(&pd, &device.alloc_pd(), &qp);
        let peer = if settings.is_active {
            let remote = "10.0.0.2".parse().expect("an address");
            let remote = std::net::SocketAddr::new(remote, PORT);
            device.connect(&events, &qp, remote, ConnParam::default()).expect("a way to the peer");
            host.accept()
        } else {
            host.connect(device.address(PORT))
        };
        Self {
            settings: *settings,
            opponent: Opponent::new(&host, peer, !settings.is_active),
            ledger,
            host,
            qp: Some(qp),
            cq,
            pd,
            device,
            events,
            established: 0,
            ended: 0,
            _listener: listener,
        }
    }

    /// Posts receives and goes through startup, unless the input has the startup.
    fn begin(&mut self) {
        for index in 0..self.settings.receives {
            self.post_recv(0, u16::from(index) * 128, 128);
        }
        if self.settings.is_raw {
            return;
        }
        if self.settings.is_active {
            self.settle();
            let reply = startup::reply(&self.settings.peer, self.opponent.device_frame());
            self.opponent.send(&reply, &mut self.ledger);
            self.settle();
            self.serve();
            return;
        }
        self.opponent.send(&startup::request(&self.settings.peer), &mut self.ledger);
        self.settle();
        self.serve();
        self.settle();
        if let Some(ulpdu) = startup::rtr(&self.settings.peer, self.opponent.device_frame()) {
            self.send_ulpdu(&ulpdu);
        }
    }

    /// Lets all pending events happen, and reads the results.
    pub(super) fn settle(&mut self) {
        if !self.opponent.is_hasty {
            self.host.settle(MOMENT);
        }
        self.opponent.absorb(&mut self.ledger);
    }

    /// Takes the application's events and completions.
    pub(super) fn serve(&mut self) {
        while let Some(event) = self.events.next() {
            self.handle(event);
        }
        while let Some(completion) = self.cq.poll_one() {
            self.ledger.complete(&completion);
        }
    }

    pub(super) fn send_ulpdu(&mut self, ulpdu: &[u8]) {
        let fpdu = self.opponent.frame(ulpdu);
        self.opponent.send(&fpdu, &mut self.ledger);
    }

    pub(super) fn post_recv(&mut self, area: u8, offset: u16, length: u16) {
        let sge = self.ledger.area(area).sge(offset, length);
        let Some(qp) = self.qp.as_ref().filter(|_| !self.ledger.is_full()) else { return };
        if qp.post_recv(&RecvWr { wr_id: self.ledger.next_id(), sges: &[sge] }).is_ok() {
            self.ledger.post(Queue::Recv, true, sge.length);
            self.ledger.lend(sge);
        }
    }

    fn handle(&mut self, event: CmEvent) {
        match event {
            CmEvent::ConnectRequest(request) => {
                let Some(qp) = &self.qp else { return };
                // Either call may come too late, when the peer has gone or the queue pair has been used.
                if self.settings.rejects {
                    let _too_late = self.device.reject(request.id, b"no");
                    self.ledger.reached.add(Milestone::Rejected);
                } else {
                    let _too_late = self.device.accept(request.id, qp, ConnParam::default());
                }
            }
            CmEvent::Established { .. } => {
                self.established += 1;
                assert_eq!(self.established, 1, "a queue pair has one stream");
                self.ledger.reached.add(if self.settings.is_active {
                    Milestone::EstablishedAsInitiator
                } else {
                    Milestone::EstablishedAsResponder
                });
            }
            CmEvent::Rejected { .. } => self.ledger.reached.add(Milestone::RejectedByPeer),
            CmEvent::ConnectError { .. } => self.ledger.reached.add(Milestone::StartupFailed),
            CmEvent::Disconnected { reason, .. } => {
                self.ended += 1;
                assert!(self.ended <= self.established, "{reason:?}");
                match reason {
                    DisconnectReason::Peer => self.ledger.reached.add(Milestone::ClosedByPeer),
                    DisconnectReason::Local => self.ledger.reached.add(Milestone::ClosedLocally),
                    DisconnectReason::Lost | DisconnectReason::TimedOut => {
                        self.ledger.reached.add(Milestone::Lost)
                    }
                    DisconnectReason::PeerTerminate { code: (layer, ..), .. } => {
                        self.ledger.reached.add(Milestone::TerminateReceived(layer));
                    }
                    DisconnectReason::LocalTerminate(_) => {}
                }
            }
            event => panic!("no end uses streaming mode: {event:?}"),
        }
    }

    /// Ends all connections, and checks that no completion is missing.
    fn finish(mut self) -> Reached {
        self.opponent.is_hasty = false;
        self.opponent.set_reading(true);
        self.settle();
        self.serve();
        if let Some(qp) = &self.qp {
            let _never_connected = qp.disconnect();
        }
        self.settle();
        self.opponent.close();
        self.host.settle(PATIENCE);
        self.settle();
        self.serve();
        self.ledger.lossy |= self.cq.is_overrun();
        if let Some(qp) = &self.qp {
            if self.established > 0 {
                assert_eq!((qp.state(), self.ended), (QpState::Error, 1), "the connection has not ended");
                self.ledger.check_all_completed();
            } else {
                assert!(matches!(qp.state(), QpState::Idle | QpState::Error), "{:?}", qp.state());
            }
        }
        self.ledger.check_memory();
        if self.settings.comes_again {
            serve_another(&self.device, &self.host, &self.events);
            self.ledger.reached.add(Milestone::SecondConnection);
        }
        self.ledger.reached
    }
}

const MAX_STEPS: usize = 300;
const CQ_ENTRIES: u32 = 1024;
/// So small that the device's pending output can exceed both buffers.
const TCP_BUFFER: usize = 8 * 1024;
const PEER_BUFFER: usize = 4 * 1024;
