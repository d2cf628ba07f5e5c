//! A device with a scripted peer.

use std::net::SocketAddr;

use weft_netif::Duration;
use weft_rnic::{
    Clock, CmEvent, Completion, ConnParam, ConnectFailure, ConnectRequest, Data, DisconnectReason, Listener,
    Mr, Qp, QpInit, SendOpcode, SendWr, Sge, Status,
};
use weft_tests::{PORT, PairConfig, RawHost, RawPeer, Side};

use crate::octets::{join, vector};

/// One device that listens, and the host of its peers, which listens too.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) side: Side,
    pub(crate) host: RawHost,
    pub(crate) mpa: weft_mpa::Config,
    _listener: Listener,
}

/// The side that sends the Request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The peer: the device is the responder.
    Passive,
    /// The device: it is the initiator.
    Active,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(&PairConfig::default())
    }

    pub(crate) fn with_mpa(mpa: weft_mpa::Config) -> Self {
        Self::with(&PairConfig { mpa, ..PairConfig::default() })
    }

    pub(crate) fn with(config: &PairConfig) -> Self {
        let clock = Clock::virtual_time();
        let (left, right) = weft_netif::pair(config.mtu);
        let side = Side::new(left, &clock, config.addresses[0], config);
        let host = RawHost::new(right, &clock, &side.device, config.addresses[1], config.seed + 1);
        let listener = side.device.listen(&side.events, PORT).expect("a free port");
        host.listen(PORT);
        Self { side, host, mpa: config.mpa, _listener: listener }
    }

    /// Makes another queue pair, on the device's one completion queue.
    pub(crate) fn new_qp(&self) -> Qp {
        let init = QpInit::new(&self.side.cq, &self.side.cq);
        self.side.device.create_qp(&self.side.pd, &init).expect("a queue pair")
    }

    /// Memory with all rights for the stream of `qp` alone.
    pub(crate) fn bound(&self, qp: &Qp, len: usize) -> Mr {
        self.side
            .pd
            .register_for(qp, len, weft_rnic::Access::ALL)
            .expect("memory for a queue pair of this domain")
    }

    /// A TCP connection of the peer to the device.
    pub(crate) fn dial(&self) -> RawPeer {
        self.host.connect(self.side.device.address(PORT))
    }

    /// Returns the address on which the peer listens.
    pub(crate) fn address_of_peer(&self) -> SocketAddr {
        SocketAddr::new(PairConfig::default().addresses[1][..8].parse().expect("an address"), PORT)
    }

    /// The device's own queue pair on a fresh connection in Full Operation.
    pub(crate) fn establish(&self, role: Role) -> RawPeer {
        self.establish_with(role, &self.side.qp, ConnParam::default())
    }

    /// `qp` on a fresh connection in Full Operation.
    pub(crate) fn establish_with(&self, role: Role, qp: &Qp, param: ConnParam<'_>) -> RawPeer {
        // M and C as the device wants them, S for RFC 6581.
        let flags = u8::from(self.mpa.markers) << 7 | u8::from(self.mpa.crc) << 6;
        let peer = match role {
            Role::Passive => {
                let peer = self.dial();
                peer.send(&join("4D504120494420526571204672616D65", &[&[flags & 0x40, 0x01, 0, 0]]));
                let request = self.request();
                self.side.device.accept(request.id, qp, param).expect("a queue pair that is free");
                peer.expect(&join("4D504120494420526570204672616D65", &[&[flags, 0x01, 0, 0]]));
                peer
            }
            Role::Active => {
                let remote = self.address_of_peer();
                self.side.device.connect(&self.side.events, qp, remote, param).expect("a way to the peer");
                let peer = self.host.accept();
                let _request = peer.read_exact(24);
                let reply = join("4D504120494420526570204672616D65", &[&[flags & 0x40 | 0x10, 0x02, 0, 4]]);
                peer.send(&join("", &[&reply, &[0, 16, 0, 2]]));
                peer
            }
        };
        assert!(matches!(self.event(), CmEvent::Established { qp_num, .. } if qp_num == qp.number()));
        peer
    }

    /// The next event of the device.
    pub(crate) fn event(&self) -> CmEvent {
        self.host.wait("an event", || self.side.events.next())
    }

    /// The next event, which is a connect request.
    pub(crate) fn request(&self) -> ConnectRequest {
        match self.event() {
            CmEvent::ConnectRequest(request) => request,
            event => panic!("{event:?} instead of a connect request"),
        }
    }

    /// The next event, which says that the device's own queue pair could not connect.
    pub(crate) fn connect_error(&self) -> ConnectFailure {
        match self.event() {
            CmEvent::ConnectError { qp_num, reason } if qp_num == self.side.qp.number() => reason,
            event => panic!("{event:?} instead of a connect error"),
        }
    }

    /// The next event, which says that the device's own queue pair has lost its connection.
    pub(crate) fn disconnected(&self) -> DisconnectReason {
        match self.event() {
            CmEvent::Disconnected { qp_num, reason } if qp_num == self.side.qp.number() => reason,
            event => panic!("{event:?} instead of a disconnect"),
        }
    }

    /// The next completion.
    pub(crate) fn completion(&self) -> Completion {
        self.host.wait("a completion", || self.side.cq.poll_one())
    }

    /// Completions until there are no more: their identifiers and outcomes, sorted.
    pub(crate) fn all_completions(&self) -> Vec<(u64, Status)> {
        self.settle();
        let mut all: Vec<_> = std::iter::from_fn(|| self.side.cq.poll_one())
            .map(|completion| (completion.wr_id, completion.status))
            .collect();
        all.sort_by_key(|&(wr_id, _)| wr_id);
        all
    }

    /// Checks that nothing has been reported to the application.
    pub(crate) fn expect_no_news(&self) {
        self.settle();
        assert_eq!(self.side.events.next(), None);
        assert_eq!(self.side.cq.poll_one(), None);
    }

    pub(crate) fn settle(&self) {
        self.host.settle(Duration::from_secs(1));
    }

    /// Shows that the device still serves: a new connection and a Send in each direction on it.
    pub(crate) fn expect_service(&self) {
        let qp = self.new_qp();
        let peer = self.establish_with(Role::Passive, &qp, ConnParam::default());
        exchange(self, &qp, &peer, 1);
    }
}

/// A device with an established connection on which it may send.
pub(crate) fn open(role: Role) -> (World, RawPeer) {
    open_with(role, &PairConfig::default())
}

/// Does the same with another MTU.
pub(crate) fn open_mtu(role: Role, mtu: usize) -> (World, RawPeer) {
    open_with(role, &PairConfig { mtu, ..PairConfig::default() })
}

/// Does the same with other settings.
pub(crate) fn open_with(role: Role, config: &PairConfig) -> (World, RawPeer) {
    let world = World::with(config);
    let peer = world.establish(role);
    // Before its first FPDU a responder sends nothing (RFC 5044 section 7.1.2).
    peer.send(&vector("write0"));
    (world, peer)
}

/// A Send in each direction between `qp` and `peer`; the peer has sent `msn - 1` Sends before, the device none.
pub(crate) fn exchange(world: &World, qp: &Qp, peer: &RawPeer, msn: u32) {
    use crate::octets::{fpdu, send};
    let memory = world.side.memory(8);
    qp.post_recv(&weft_rnic::RecvWr { wr_id: 7001, sges: &[memory.sge(0, 8)] }).expect("room");
    peer.send(&fpdu(&send(msn, b"ping")));
    let received = world.completion();
    assert_eq!((received.wr_id, received.status, received.byte_len), (7001, Status::Success, 4));
    assert_eq!(content(&memory)[..4], *b"ping");
    qp.post_send(&work(7002, SendOpcode::Send, Data::Inline(b"pong"))).expect("room");
    peer.expect(&fpdu(&send(1, b"pong")));
    assert_eq!(world.completion().wr_id, 7002);
}

/// A signaled request.
pub(crate) fn work(wr_id: u64, opcode: SendOpcode, data: Data<'_>) -> SendWr<'_> {
    SendWr { wr_id, opcode, data, signaled: true, fence: false, solicited: false }
}

/// All octets of a region.
pub(crate) fn content(memory: &Mr) -> Vec<u8> {
    let mut octets = vec![0; memory.len()];
    memory.read(0, &mut octets).expect("inside the region");
    octets
}

/// A region of `len` octets with all rights and a recognizable content.
pub(crate) fn filled(side: &Side, len: usize) -> Mr {
    let memory = side.memory(len);
    memory.write(0, &vec![FILL; len]).expect("inside the region");
    memory
}

/// All of a region.
pub(crate) fn whole(memory: &Mr) -> Sge {
    memory.sge(0, u32::try_from(memory.len()).expect("a small region"))
}

/// The content of unused memory.
pub(crate) const FILL: u8 = 0x5A;
/// Most tests are run in both roles.
pub(crate) const ROLES: [Role; 2] = [Role::Passive, Role::Active];
pub(crate) const FLUSHED: Status = Status::WorkRequestFlushed;
