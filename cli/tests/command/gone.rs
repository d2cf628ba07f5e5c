//! Peers that are gone on wires that do not report it: a killed or stopped process, a link that goes down.

use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use weft_netif::Wire;
use weft_rnic::{
    Access, CmEvent, Config, ConnParam, Device, DisconnectReason, EventChannel, Progress, Qp, QpInit, RecvWr,
    Status,
};

use crate::namespace::{in_namespace, ip};
use crate::process::{PATIENCE, Process};

/// The ways in which a peer falls silent.
#[derive(Clone, Copy, Debug)]
enum Strike {
    Kill,
    Stop,
    LinkDown,
}

impl Strike {
    fn hit(self, peer: &mut Process, link: &str) {
        match self {
            Self::Kill => peer.kill(),
            Self::Stop => {
                let script = format!("kill -STOP {}", peer.id());
                assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
            }
            Self::LinkDown => ip(&[&format!("link set {link} down")]),
        }
    }
}

/// This side of a connection, which only receives.
struct Survivor {
    device: Device,
    events: EventChannel,
}

impl Survivor {
    fn open(netif: &str) -> Self {
        let wire = Wire::open(&netif.parse().unwrap(), 1500).unwrap();
        let mut config = Config::new("10.0.0.1/24".parse().unwrap(), 1).with_peer_timeout(LIMIT);
        config.progress = Progress::Thread;
        let device = Device::open(wire, config).unwrap();
        let events = device.create_event_channel().unwrap();
        Self { device, events }
    }

    /// Listens for `weft rping -c`, or connects to `weft rping -s`, strikes it, and waits for the end of the
    /// connection.
    fn outlive(&self, netif: &str, is_passive: bool, strike: Strike) {
        let (spec, link) =
            (format!("--netif {netif} --ip 10.0.0.2/24 --timeout 600"), netif.split_once(':').unwrap().1);
        let pd = self.device.alloc_pd();
        let cq = self.device.create_cq(4, None).unwrap();
        let qp = self.device.create_qp(&pd, &QpInit::new(&cq, &cq)).unwrap();
        let inbox = pd.register(16, Access::LOCAL_WRITE).unwrap();
        for wr_id in 0..2 {
            qp.post_recv(&RecvWr { wr_id, sges: &[inbox.sge(0, 16)] }).unwrap();
        }
        let mut peer = if is_passive { self.accept(&qp, &spec) } else { self.connect(&qp, &spec) };
        let start = UNIX_EPOCH.elapsed().unwrap();
        strike.hit(&mut peer, link);
        let Some(CmEvent::Disconnected { reason, .. }) = self.events.wait(Some(PATIENCE)) else {
            panic!("{netif}, {strike:?}, passive: {is_passive}: the survivor is told nothing");
        };
        let took = UNIX_EPOCH.elapsed().unwrap() - start;
        assert_eq!(reason, DisconnectReason::TimedOut, "{netif}, {strike:?}");
        assert!(
            took >= LIMIT / 4,
            "{netif}, {strike:?}: the peer had a time to answer, and {took:?} is less"
        );
        let mut completions = std::iter::from_fn(|| cq.poll_one());
        assert!(completions.any(|it| it.status == Status::WorkRequestFlushed), "{netif}, {strike:?}");
        if matches!(strike, Strike::LinkDown) {
            ip(&[&format!("link set {link} up")]);
        }
    }

    fn accept(&self, qp: &Qp, spec: &str) -> Process {
        let _listener = self.device.listen(&self.events, 7174).unwrap();
        let peer = Process::weft(&format!("rping -c -a 10.0.0.1 {spec}"));
        let Some(CmEvent::ConnectRequest(request)) = self.events.wait(Some(PATIENCE)) else {
            panic!("no request")
        };
        self.device.accept(request.id, qp, ConnParam::default()).unwrap();
        self.await_established();
        peer
    }

    fn connect(&self, qp: &Qp, spec: &str) -> Process {
        let peer = Process::weft(&format!("rping -s {spec}"));
        let start = UNIX_EPOCH.elapsed().unwrap();
        loop {
            self.device
                .connect(&self.events, qp, "10.0.0.2:7174".parse().unwrap(), ConnParam::default())
                .unwrap();
            match self.events.wait(Some(PATIENCE)) {
                Some(CmEvent::Established { .. }) => return peer,
                // The server has not begun to listen.
                event => assert!(UNIX_EPOCH.elapsed().unwrap() - start < PATIENCE, "{event:?}"),
            }
        }
    }

    fn await_established(&self) {
        let event = self.events.wait(Some(PATIENCE));
        assert!(matches!(event, Some(CmEvent::Established { .. })), "{event:?}");
    }
}

fn outlive_all(own: &str, peer: &str) {
    let survivor = Survivor::open(own);
    for (strike, is_passive) in
        [(Strike::Kill, true), (Strike::Kill, false), (Strike::Stop, true), (Strike::LinkDown, false)]
    {
        survivor.outlive(peer, is_passive, strike);
    }
}

#[test]
fn a_peer_on_a_tap_device() {
    in_namespace(
        "gone::a_peer_on_a_tap_device",
        "tuntap add weft-tap mode tap && ip link add weft-br type bridge",
        || {
            ip(&["link add br0 type bridge", "link set br0 up"]);
            for tap in ["tap0", "tap1"] {
                ip(&[&format!("tuntap add {tap} mode tap"), &format!("link set {tap} master br0 up")]);
            }
            outlive_all("tap:tap0", "tap:tap1");
        },
    );
}

#[test]
fn a_peer_on_a_network_interface() {
    in_namespace("gone::a_peer_on_a_network_interface", "link add weft0 type veth peer name weft1", || {
        ip(&["link add weft0 type veth peer name weft1", "link set weft0 up", "link set weft1 up"]);
        outlive_all("packet:weft0", "packet:weft1");
    });
}

/// An idle peer is given up after this at most.
const LIMIT: Duration = Duration::from_secs(2);
