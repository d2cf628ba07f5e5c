//! A remote host whose daemon breaks the rules. It speaks by the RNIC alone. Two honest hosts go on meanwhile.

use std::net::SocketAddr;
use std::time::Duration;

use rustix::fs::Mode;
use weft_daemon::{Key, Lanes};
use weft_rnic::{
    Access, CmEvent, Completion, CompletionOpcode, Config, ConnParam, Cq, Data, Device, EventChannel, Ground,
    Mr, Progress, Qp, QpCapacity, QpInit, RecvWr, SendOpcode, SendWr, Stag, Status,
};
use weft_sockets::far::{Letter, Notice, NoticeKind};
use weft_sockets::layout::{LINK_LEN, RESET};
use weft_sockets::sync::Ordering;
use weft_sockets::{Digests, Hello, LaneKind, MESSAGE_LEN, Proof, RingPlace, VERSION};

use crate::client::{HANG, wait_until};
use crate::lanes::{End, Host, Talk, hosts, lanes, talk, wire};
use crate::space::{Space, tcp_between};

/// A daemon of the test's own.
pub(crate) struct Stranger {
    events: EventChannel,
    device: Device,
    cq: Cq,
    qp: Qp,
    buffers: Mr,
}

impl Stranger {
    pub(crate) fn new(space: &Space) -> Self {
        let ip = space.ip.parse().expect("an address");
        let config = Config { progress: Progress::Thread, ..Config::host(ip, 7) };
        Self::with(space.run(|| Device::open(Ground::Host, config)).expect("a device"))
    }

    /// A stranger at an address on the wire of the honest hosts.
    pub(crate) fn on_wire(space: &Space) -> Self {
        let config = Config {
            progress: Progress::Thread,
            ..Config::new("10.78.0.9/24".parse().expect("an address"), 7)
        };
        let wire = space.run(|| weft_netif::Wire::open(&"packet:w".parse().expect("a device"), 1500));
        Self::with(Device::open(wire.expect("a wire"), config).expect("a device"))
    }

    fn with(device: Device) -> Self {
        let cq = device.create_cq(4096, None).expect("a queue");
        let pd = device.alloc_pd();
        let capacity =
            QpCapacity { send_wr: 256, recv_wr: RECEIVES, send_sge: 1, recv_sge: 1, inline: MESSAGE_LEN };
        let qp = device.create_qp(&pd, &QpInit { capacity, rnr_wait: true, ..QpInit::new(&cq, &cq) });
        let qp = qp.expect("a queue pair");
        let buffers = pd.register(RECEIVES as usize * MESSAGE_LEN, Access::LOCAL_WRITE).expect("memory");
        let it = Self { events: device.create_event_channel().expect("a channel"), device, cq, qp, buffers };
        (0..u64::from(RECEIVES)).for_each(|receive| it.post_receive(receive));
        it
    }

    fn post_receive(&self, receive: u64) {
        let at = usize::try_from(receive).expect("a number") * MESSAGE_LEN;
        let sges = [self.buffers.sge(at, u32::try_from(MESSAGE_LEN).expect("a length"))];
        self.qp.post_recv(&RecvWr { wr_id: RECEIVE | receive, sges: &sges }).expect("room");
    }

    /// Asks the daemon of the first host for a lane. `None`: it is refused.
    pub(crate) fn greet(&self, space: &Space, private_data: &[u8]) -> Option<Hello> {
        space.run(|| self.ask([10, 77, 1, 9], private_data))
    }

    /// Asks the daemon of the first host for a lane, and returns what it says when it refuses.
    pub(crate) fn refusal(&self, space: &Space, private_data: &[u8]) -> Option<Box<Hello>> {
        space.run(|| self.answer([10, 77, 1, 9], private_data)).expect_err("a refusal")
    }

    pub(crate) fn ask(&self, remote: [u8; 4], private_data: &[u8]) -> Option<Hello> {
        self.answer(remote, private_data).ok()
    }

    fn answer(&self, remote: [u8; 4], private_data: &[u8]) -> Result<Hello, Option<Box<Hello>>> {
        let remote = SocketAddr::from((remote, Lanes::PORT));
        let param = ConnParam { private_data, peer_to_peer: Some(true), ..ConnParam::NONE };
        self.device.connect(&self.events, &self.qp, remote, param).expect("a way");
        match self.events.wait(Some(HANG)).expect("an answer") {
            CmEvent::Established { private_data, .. } => Ok(Hello::decode(&private_data).expect("a hello")),
            CmEvent::Rejected { private_data, .. } => Err(Hello::decode(&private_data).map(Box::new)),
            other => panic!("{other:?}"),
        }
    }

    fn submit(&self, opcode: SendOpcode, data: Data<'_>) {
        let request = SendWr { data, signaled: false, ..SendWr::new(opcode) };
        // A lane that has ended takes nothing any more.
        let _ended = self.qp.post_sends(&[request]);
    }

    pub(crate) fn send(&self, letter: Letter) {
        self.submit(SendOpcode::Send, Data::Inline(&letter.encode()));
    }

    fn notify(&self, kind: NoticeKind, channel: u32, value: u32) {
        let data = Notice { kind, channel, value }.encode();
        self.submit(SendOpcode::Immediate { data }, Data::Inline(&[]));
    }

    fn write(&self, stag: u32, to: u64) {
        self.submit(SendOpcode::Write { stag: Stag(stag), to }, Data::Inline(&[0xee; 64]));
    }

    /// Waits for a letter of the daemon.
    pub(crate) fn letter(&self) -> Letter {
        let mut found = None;
        wait_until(|| {
            let mut done = [Completion::EMPTY; 1];
            if self.cq.poll(&mut done) == 1 && done[0].wr_id & RECEIVE != 0 {
                assert_eq!(done[0].status, Status::Success);
                let receive = done[0].wr_id & !RECEIVE;
                if done[0].opcode == CompletionOpcode::Recv {
                    let mut octets = vec![0; done[0].byte_len as usize];
                    let at = usize::try_from(receive).expect("a number") * MESSAGE_LEN;
                    self.buffers.read(at, &mut octets).expect("memory");
                    found = Letter::decode(&octets);
                }
                self.post_receive(receive);
            }
            found.is_some()
        });
        found.expect("a letter")
    }

    /// Waits until the daemon has ended the lane.
    fn hear_end(&self) {
        let event = self.events.wait(Some(HANG)).expect("the end of the lane");
        assert!(matches!(event, CmEvent::Disconnected { .. }), "{event:?}");
    }

    /// True if the daemon ends the lane within a moment.
    fn is_ended(&self) -> bool {
        self.events.wait(Some(Duration::from_millis(200))).is_some()
    }
}

/// What the stranger has of a connection.
struct Channel {
    /// The number of the first host's daemon.
    number: u32,
    stag: u32,
    ring: RingPlace,
    end: End,
    _streams: (std::net::TcpStream, std::net::TcpStream),
}

/// What the stranger does.
type Act<'a> = dyn Fn(&Stranger, &Channel) + 'a;

/// Two honest hosts that talk, and a stranger with a lane and a channel to the first one.
struct Scene {
    spaces: [Space; 2],
    hosts: [Host; 2],
    talk: Talk,
    far: Space,
}

impl Scene {
    fn new() -> Option<Self> {
        let spaces = Space::two()?;
        let mut hosts = hosts(&spaces, [None, None]);
        let talk = talk(&spaces, &mut hosts);
        let far = spaces[0].stranger();
        Some(Self { spaces, hosts, talk, far })
    }

    /// A stranger whose lane is open.
    fn stranger(&self) -> Stranger {
        let stranger = Stranger::new(&self.far);
        stranger.greet(&self.far, &hello().encode()).expect("a lane");
        stranger
    }

    /// Gives a connection with the stranger a channel.
    fn channel(&mut self, stranger: &Stranger) -> Channel {
        let streams = tcp_between(&self.spaces[0], &self.far);
        self.hosts[0].client.claim(&streams.0);
        let Letter::Claim { id, .. } = stranger.letter() else { panic!("no claim") };
        let ring = RingPlace::new(64, 16).expect("a place");
        stranger.send(Letter::Open { id, channel: 1, stag: 1, ring, secret: [1, 2] });
        let Letter::Opened { own, stag, ring, .. } = stranger.letter() else { panic!("no answer") };
        let end = self.hosts[0].offer().expect("an offer");
        Channel { number: own, stag, ring, end, _streams: streams }
    }

    /// The honest connection, and one that begins now, are as if nothing were.
    fn goes_on(&mut self) {
        self.talk.exchange(&self.hosts);
        let mut next = talk(&self.spaces, &mut self.hosts);
        next.exchange(&self.hosts);
    }
}

pub(crate) fn hello() -> Hello {
    Hello {
        oldest: VERSION,
        newest: VERSION,
        kind: LaneKind::Interactive,
        epoch: 0xbad,
        boot_id: [0; 16],
        namespace: 1,
        session: 0,
        received: 0,
        wire: None,
        local: [10, 77, 1, 3].into(),
        remote: [10, 77, 1, 9].into(),
        nonce: [3; 16],
        proof: Proof::Without,
    }
}

#[test]
fn hellos_that_do_not_fit_are_refused() {
    let Some(scene) = Scene::new() else { return };
    let fine = hello();
    let mut long = fine.encode();
    long.push(0);
    for octets in [
        Vec::new(),
        b"weft-soc".to_vec(),
        vec![0xff; 97],
        long,
        Hello { oldest: VERSION + 1, newest: VERSION + 1, ..fine }.encode(),
        Hello { oldest: 0, newest: VERSION - 1, ..fine }.encode(),
        Hello { kind: LaneKind::Bulk, ..fine }.encode(),
        Hello { local: [10, 77, 1, 4].into(), ..fine }.encode(),
        Hello { remote: [10, 77, 0, 1].into(), ..fine }.encode(),
        Hello { proof: Proof::Given([5; 32]), ..fine }.encode(),
    ] {
        assert_eq!(Stranger::new(&scene.far).greet(&scene.far, &octets), None, "{octets:?}");
    }
    let mut scene = scene;
    let stranger = scene.stranger();
    scene.goes_on();
    drop(stranger);
}

#[test]
fn a_daemon_without_the_key_has_no_lane() {
    let Some([space, _other]) = Space::two() else { return };
    let far = space.stranger();
    let path = std::env::temp_dir().join(format!("weft-stranger-key-{}", std::process::id()));
    std::fs::write(&path, [b'k'; 32]).expect("a file");
    rustix::fs::chmod(&path, Mode::RUSR).expect("rights");
    let key = Key::read(&path).expect("a key");
    std::fs::remove_file(&path).expect("the file");
    let _host = Host::new(&space, Lanes { key: Some(key), ..lanes() });
    for proof in [Proof::Without, Proof::Wanted, Proof::Given([5; 32]), Proof::Given([6; 32])] {
        assert_eq!(Stranger::new(&far).greet(&far, &Hello { proof, ..hello() }.encode()), None, "{proof:?}");
    }
    let refusal = Stranger::new(&far).refusal(&far, &hello().encode()).expect("a hello that says why");
    assert_eq!(refusal.proof, Proof::Wanted);
}

/// A wire says nothing of who is there. Only a greeting by the hosts' TCP does.
#[test]
fn a_daemon_that_was_not_greeted_has_no_lane_on_a_wire() {
    let Some(spaces) = Space::two() else { return };
    let wires = ["10.78.0.1/24", "10.78.0.2/24"].map(|ip| wire("packet:w", ip));
    let mut hosts = hosts(&spaces, wires);
    let mut talk = talk(&spaces, &mut hosts);
    for wire in [None, Some(([10, 78, 0, 9], 7176).into())] {
        let hello = Hello { wire, ..hello() }.encode();
        assert_eq!(Stranger::on_wire(&spaces[1]).ask([10, 78, 0, 1], &hello), None);
    }
    talk.exchange(&hosts);
}

/// RDMA Writes to control words, behind the memory, and by names of memory that the host was not given.
#[test]
fn writes_outside_of_the_rings_end_the_lane() {
    let Some(mut scene) = Scene::new() else { return };
    for case in 0..4 {
        let stranger = scene.stranger();
        let channel = scene.channel(&stranger);
        match case {
            0 => stranger.write(channel.stag, 0),
            1 => stranger.write(channel.stag, LINK_LEN - 8),
            2 => stranger.write(channel.stag ^ 1, channel.ring.offset()),
            _ => (0..64).for_each(|index| stranger.write(index << 8, channel.ring.offset())),
        }
        stranger.hear_end();
        scene.goes_on();
    }
}

#[test]
fn false_letters_and_notices_end_the_lane() {
    let Some(mut scene) = Scene::new() else { return };
    let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
    let claim = |local, peer| Letter::Claim {
        id: 1,
        local: address(local),
        peer: address(peer),
        own_scale: 7,
        peer_scale: 7,
        options: 7,
        written: 0,
        consumed: 0,
        digests: Digests::default(),
    };
    let ring = RingPlace::new(64, 22).expect("a place");
    let cases: [&Act<'_>; 8] = [
        &|it, _| it.send(claim("10.77.0.2:5000", "10.77.1.9:80")),
        &|it, _| it.send(claim("10.77.1.3:5000", "10.77.0.1:80")),
        &|it, _| it.send(claim("10.77.1.3:5000", "10.77.1.9:80")),
        &|it, _| it.submit(SendOpcode::Send, Data::Inline(&[0xff; 9])),
        &|it, _| it.submit(SendOpcode::Immediate { data: [0xff; 8] }, Data::Inline(&[])),
        &|it, channel| it.notify(NoticeKind::Data, channel.number + 1000, 5),
        &|it, channel| it.send(Letter::RingMade { channel: channel.number, ring }),
        &|it, _| it.notify(NoticeKind::Received, 0, 1 << 20),
    ];
    for (number, act) in cases.into_iter().enumerate() {
        let stranger = scene.stranger();
        let channel = scene.channel(&stranger);
        assert!(!stranger.is_ended(), "case {number}");
        act(&stranger, &channel);
        stranger.hear_end();
        scene.goes_on();
    }
}

/// A tail beyond the window, a head beyond what was sent, a leg in a ring that was not given.
#[test]
fn false_positions_reset_the_connection_alone() {
    let Some(mut scene) = Scene::new() else { return };
    let ring = RingPlace::new(100, 16).expect("a place");
    let cases: [&Act<'_>; 4] = [
        &|it, channel| it.notify(NoticeKind::Data, channel.number, 1 << 17),
        &|it, channel| it.notify(NoticeKind::Credit, channel.number, 1 << 16),
        &|it, channel| it.send(Letter::Leg { channel: channel.number, number: 1, ring, start: 0 }),
        &|it, channel| it.notify(NoticeKind::Adopted, channel.number, 9),
    ];
    let stranger = scene.stranger();
    for act in cases {
        let channel = scene.channel(&stranger);
        act(&stranger, &channel);
        let (_, theirs) = scene.hosts[0].words(&channel.end);
        wait_until(|| theirs.producer.flags.load(Ordering::Acquire) & RESET != 0);
    }
    assert!(!stranger.is_ended());
    scene.goes_on();
}

#[test]
fn a_flood_leaves_others_their_turn() {
    let Some(mut scene) = Scene::new() else { return };
    let stranger = scene.stranger();
    let channel = scene.channel(&stranger);
    for turn in 0..20_000_u32 {
        match turn % 4 {
            0 => stranger.send(Letter::Open {
                id: 9,
                channel: turn,
                stag: 1,
                ring: channel.ring,
                secret: [0; 2],
            }),
            1 => stranger.notify(NoticeKind::Data, channel.number, 0),
            2 => stranger.send(Letter::WantRing { channel: channel.number, log2: 22 }),
            _ => stranger.send(Letter::Withdraw { id: turn.into() }),
        }
        if turn % 5000 == 0 {
            scene.talk.exchange(&scene.hosts);
        }
    }
    scene.goes_on();
}

/// Rings count for the user of the connection, also if another user asks for them.
#[test]
fn a_channel_gets_few_rings() {
    let Some(mut scene) = Scene::new() else { return };
    let stranger = scene.stranger();
    let channel = scene.channel(&stranger);
    (0..10).for_each(|_| stranger.send(Letter::WantRing { channel: channel.number, log2: 22 }));
    stranger.send(Letter::Open { id: 9, channel: 2, stag: 1, ring: channel.ring, secret: [0; 2] });
    let letters = core::iter::from_fn(|| Some(stranger.letter()));
    let made = letters.take_while(|letter| matches!(letter, Letter::RingMade { .. }));
    assert_eq!(made.count(), 3);
    scene.goes_on();
}

/// In names of requests: a receive.
const RECEIVE: u64 = 1 << 63;
const RECEIVES: u32 = 256;
