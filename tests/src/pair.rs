//! Two devices on one wire and one virtual clock.

use std::time::Duration as RealDuration;

use weft_netif::{Duration, Impairment, ImpairmentConfig, Tcp};
use weft_rnic::{
    Access, Clock, CmEvent, Completion, Config, ConnParam, Cq, Device, EventChannel, Ground, Listener,
    Lockstep, Mr, Pd, Progress, Qp, QpCapacity, QpInit, RecvWr, Sge,
};

/// The settings of a [`Pair`].
#[derive(Clone, Debug)]
pub struct PairConfig {
    /// MTU of the wire.
    pub mtu: usize,
    /// Seed of both devices and of the wire's faults.
    pub seed: u64,
    /// MPA startup of both sides.
    pub mpa: weft_mpa::Config,
    /// Faults of the wire, in both directions.
    pub faults: ImpairmentConfig,
    /// Addresses of the two sides.
    pub addresses: [&'static str; 2],
    /// Sizes of the queues.
    pub capacity: QpCapacity,
    /// The TCP of both sides, if they are on a wire.
    pub tcp: Tcp,
    /// TCP buffer of each direction.
    pub tcp_buffer: usize,
    /// True if both sides know RFC 7306.
    pub extensions: bool,
    /// True if the connecting side asks for the peer-to-peer start.
    pub peer_to_peer: bool,
    /// The largest IRD and ORD of both devices.
    pub max_reads: u16,
    /// The time after which both devices nudge a peer that is silent at first.
    pub nudge_after: Option<Duration>,
    /// How long after its start a SYNC is carried out.
    pub sync_after: Duration,
    /// True if messages wait for receives.
    pub rnr_wait: bool,
    /// The limit for the startup on both devices. `None` means the device's default, or an hour in real time.
    pub startup_timeout: Option<Duration>,
    /// Both devices are on the sockets of the kernel instead of a wire, at loopback addresses of their own and in
    /// real time. The environment variable [`HOST`] sets this for all pairs of a test run.
    pub host: bool,
}

impl Default for PairConfig {
    fn default() -> Self {
        Self {
            mtu: 1500,
            seed: 1,
            mpa: weft_mpa::Config::default(),
            faults: ImpairmentConfig::default(),
            addresses: ["10.0.0.1/24", "10.0.0.2/24"],
            capacity: QpCapacity::default(),
            tcp: Tcp::default(),
            tcp_buffer: 256 * 1024,
            extensions: true,
            peer_to_peer: false,
            max_reads: 128,
            nudge_after: None,
            sync_after: Duration::ZERO,
            rnr_wait: false,
            startup_timeout: None,
            host: std::env::var_os(HOST).is_some(),
        }
    }
}

/// One device, with one of each object.
#[derive(Debug)]
pub struct Side {
    /// Connection events.
    pub events: EventChannel,
    /// Completions of both queues.
    pub cq: Cq,
    /// The queue pair.
    pub qp: Qp,
    /// The protection domain.
    pub pd: Pd,
    /// The device.
    pub device: Device,
}

/// Two connected devices.
#[derive(Debug)]
pub struct Pair {
    /// The connecting side.
    pub a: Side,
    /// The accepting side.
    pub b: Side,
    /// Drives both.
    pub lockstep: Lockstep,
    /// The clock cannot jump.
    is_real: bool,
    _listener: Listener,
}

impl Side {
    /// Opens a device on a wire, or on the sockets of the kernel at a plain address, with one of each object.
    pub fn new(ground: impl Into<Ground>, clock: &Clock, address: &str, config: &PairConfig) -> Self {
        let ground = ground.into();
        let mut settings = match ground {
            Ground::Wire(_) | Ground::Queues(_) => {
                Config::new(address.parse().expect("an address of a test"), config.seed)
            }
            Ground::Host => {
                patient(Config::host(address.parse().expect("an address of a test"), config.seed))
            }
        };
        settings.startup_timeout = config.startup_timeout.unwrap_or(settings.startup_timeout);
        settings.stack.mtu = config.mtu;
        settings.stack.tcp = config.tcp;
        settings.stack.tcp_buffer = config.tcp_buffer;
        settings.mpa = config.mpa;
        settings.extensions = config.extensions;
        settings.max_reads = config.max_reads;
        settings.nudge_after = config.nudge_after;
        settings.sync_after = config.sync_after;
        settings.clock = clock.clone();
        settings.progress = Progress::External;
        let device = Device::open(ground, settings).expect("a device");
        let pd = device.alloc_pd();
        let cq = device.create_cq(1024, None).expect("a completion queue");
        let init = QpInit { capacity: config.capacity, rnr_wait: config.rnr_wait, ..QpInit::new(&cq, &cq) };
        let qp = device.create_qp(&pd, &init).expect("the first queue pair");
        let events = device.create_event_channel().expect("an eventfd");
        Self { events, cq, qp, pd, device }
    }

    /// Registers `len` octets with all rights.
    pub fn memory(&self, len: usize) -> Mr {
        self.pd.register(len, Access::ALL).expect("memory for a test")
    }

    /// Registers `len` octets with all rights for the stream of the queue pair alone. Its peer may invalidate them.
    pub fn own_memory(&self, len: usize) -> Mr {
        self.pd.register_for(&self.qp, len, Access::ALL).expect("memory for a test")
    }

    /// Posts a receive of one SGE.
    pub fn post_recv(&self, wr_id: u64, sge: Sge) {
        self.qp.post_recv(&RecvWr { wr_id, sges: &[sge] }).expect("room in the receive queue");
    }
}

impl Pair {
    /// Two connected devices. Panics if the connection fails.
    pub fn connected(config: &PairConfig) -> Self {
        let mut pair = Self::new(config);
        pair.connect(config.peer_to_peer);
        pair
    }

    /// Two devices. `b` listens on [`PORT`].
    pub fn new(config: &PairConfig) -> Self {
        let clock = if config.host { Clock::real_time(1) } else { Clock::virtual_time() };
        let [a, b] = if config.host {
            crate::loopback::addresses().map(|address| Side::new(Ground::Host, &clock, &address, config))
        } else {
            let (left, right) = weft_netif::pair(config.mtu);
            let faulty = |wire: weft_netif::Wire, seed| {
                // An impairment copies each frame, and tests that count allocations would see that.
                if config.faults == ImpairmentConfig::default() {
                    return wire;
                }
                wire.with_impairment(Impairment::new(ImpairmentConfig { seed, ..config.faults.clone() }))
            };
            [
                Side::new(faulty(left, config.seed), &clock, config.addresses[0], config),
                Side::new(faulty(right, config.seed ^ 0x5555), &clock, config.addresses[1], config),
            ]
        };
        let listener = b.device.listen(&b.events, PORT).expect("a free port");
        let lockstep = Lockstep::new(clock, &[&a.device, &b.device]);
        Self { a, b, lockstep, is_real: config.host, _listener: listener }
    }

    /// Connects `a` to `b` with the first queue pair of each.
    pub fn connect(&mut self, peer_to_peer: bool) {
        let param = ConnParam { peer_to_peer: Some(peer_to_peer), ..ConnParam::default() };
        let remote = self.address_of_b();
        self.a.device.connect(&self.a.events, &self.a.qp, remote, param).expect("a fresh queue pair");
        let CmEvent::ConnectRequest(request) = self.event_of_b() else { panic!("no connect request") };
        self.b.device.accept(request.id, &self.b.qp, ConnParam::default()).expect("a fresh queue pair");
        assert!(matches!(self.event_of_a(), CmEvent::Established { .. }));
        assert!(matches!(self.event_of_b(), CmEvent::Established { .. }));
    }

    /// Returns the address on which `b` listens.
    pub fn address_of_b(&self) -> std::net::SocketAddr {
        self.b.device.address(PORT)
    }

    /// Returns the next event of `a`. Panics if none comes in an hour of virtual time.
    pub fn event_of_a(&mut self) -> CmEvent {
        let events = self.a.events.clone();
        self.wait(|| events.next()).expect("an event of a")
    }

    /// Returns the next event of `b`. Panics if none comes in an hour of virtual time.
    pub fn event_of_b(&mut self) -> CmEvent {
        let events = self.b.events.clone();
        self.wait(|| events.next()).expect("an event of b")
    }

    /// Returns the next completion of `a`.
    pub fn completion_of_a(&mut self) -> Completion {
        let cq = self.a.cq.clone();
        self.wait(|| cq.poll_one()).expect("a completion of a")
    }

    /// Returns the next completion of `b`.
    pub fn completion_of_b(&mut self) -> Completion {
        let cq = self.b.cq.clone();
        self.wait(|| cq.poll_one()).expect("a completion of b")
    }

    /// Lets all events of the next `time` happen.
    pub fn settle(&mut self, time: Duration) {
        if self.is_real {
            return crate::loopback::settle([&self.a.device, &self.b.device]);
        }
        let deadline = self.lockstep.now() + time;
        self.lockstep.run_until(deadline, || None::<()>);
    }

    /// Runs until `done` returns a value, at most an hour of virtual time.
    pub fn wait<T>(&mut self, done: impl FnMut() -> Option<T>) -> Option<T> {
        if self.is_real {
            return crate::loopback::wait([&self.a.device, &self.b.device], done);
        }
        let deadline = self.lockstep.now() + Duration::from_secs(HOUR.as_secs());
        self.lockstep.run_until(deadline, done)
    }
}

/// Returns settings for real time. A busy machine may delay a test for long, and no time limit must end it.
fn patient(settings: Config) -> Config {
    let patience = Duration::from_secs(HOUR.as_secs());
    Config { startup_timeout: patience, answer_timeout: patience, close_timeout: patience, ..settings }
}

/// Name of the environment variable that puts all pairs on the sockets of the kernel.
pub const HOST: &str = "WEFT_TEST_HOST";
/// The port that `b` listens on.
pub const PORT: u16 = 7174;
const HOUR: RealDuration = RealDuration::from_secs(3600);
