//! Engines, network and lanes on one virtual clock, and the loop that moves them.

use weft_netif::{Congestion, Duration, Instant, IpSetting};
use weft_rnic::{
    Clock, CompChannel, Config, Cq, Device, EventChannel, Listener, Pd, Progress, Qp, QpCapacity, QpInit,
};

use super::lane::{End, Lane};
use super::memory::{Memory, Owners};
use super::network::Network;
use super::plan::{EndPlan, HostPlan, LanePlan, Plan};
use super::random::Random;
use super::sabotage::Saboteur;
use super::tally::Tally;
use super::trace::Trace;

/// All parts of a run.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) lanes: Vec<Lane>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) network: Network,
    pub(crate) forges: bool,
    pub(crate) random: Random,
    pub(crate) trace: Trace,
    pub(crate) tally: Tally,
    pub(crate) saboteur: Saboteur,
    pub(crate) enhanced: bool,
    clock: Clock,
    /// A run that lasts longer has failed.
    deadline: Instant,
}

/// An engine and the objects of its application.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) plan: HostPlan,
    pub(crate) events: EventChannel,
    pub(crate) cqs: Vec<Cq>,
    pub(crate) channel: CompChannel,
    pub(crate) pds: Vec<Pd>,
    /// Queue pairs that are never connected, one in each domain.
    others: Vec<Qp>,
    pub(crate) device: Device,
    _listener: Listener,
}

impl World {
    pub(crate) fn new(plan: Plan, trace: Trace, saboteur: Saboteur) -> Result<Self, String> {
        let clock = Clock::virtual_time();
        let mut random = plan.random.clone();
        let (network, wires) = Network::new(&plan, &mut random);
        let mut hosts = Vec::new();
        for (index, wire) in wires.into_iter().enumerate() {
            hosts.push(Host::new(&plan, index, wire, (&clock, random.next()))?);
        }
        let forges = plan.faults.forged > 0;
        let last_cut = plan.faults.cuts.iter().map(|cut| cut.to.unwrap_or(cut.from)).max();
        let mut world = Self {
            lanes: Vec::new(),
            hosts,
            network,
            forges,
            random,
            trace,
            tally: Tally::default(),
            saboteur,
            enhanced: plan.enhanced,
            clock,
            deadline: last_cut.unwrap_or(Instant::ZERO) + MOST_TIME,
        };
        let facts: Vec<(bool, bool)> =
            plan.lanes.iter().map(|lane| (plan.has_crc(lane), plan.is_doomed(lane))).collect();
        for (index, lane) in plan.lanes.into_iter().enumerate() {
            let lane = world.lane(index, lane)?;
            let (has_crc, is_doomed) = facts[index];
            world.lanes.push(Lane { has_crc, is_doomed, ..lane });
        }
        Ok(world)
    }

    /// Runs until all connections have ended and no event is left, and judges the result.
    pub(crate) fn run(&mut self) -> Result<(), String> {
        self.arm();
        let is_over = |world: &Self| world.lanes.iter().all(Lane::is_over);
        while !is_over(self) {
            if self.step(self.deadline)?.is_none() && !is_over(self) {
                return Err(format!("nothing more happens: {}", self.waiting()));
            }
        }
        let end = self.now() + SETTLE_TIME;
        while self.step(end)?.is_some() {}
        self.saboteur.spoil_memory(&self.lanes);
        self.judge()
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Counts the run's faults of frames.
    pub(crate) fn count_faults(&mut self) {
        let [lost, duplicated, held_back, damaged] = self.network.impairments();
        let counts = self.network.counts;
        self.tally.frames = counts.frames;
        self.tally.virtual_micros = self.now().total_micros().unsigned_abs();
        for (name, count) in [
            ("frame lost", lost),
            ("frame duplicated", duplicated),
            ("frame held back", held_back),
            ("frame damaged", damaged),
            ("frame lost on a cut link", counts.cut),
            ("segment forged behind TCP's back", counts.forged),
            ("frame lost on a full wire", self.network.overflows()),
            ("link cut for a while", self.network.cut_links(self.now(), false)),
            ("link cut for ever", self.network.cut_links(self.now(), true)),
            ("application stalled", self.stalls()),
        ] {
            self.tally.fault(name, count);
        }
    }

    /// Returns how often an application did nothing for a while.
    fn stalls(&self) -> u64 {
        let stalls = self.hosts.iter().flat_map(|host| &host.plan.stalls);
        stalls.filter(|stall| stall.start < self.now()).count() as u64
    }

    /// Jumps to the next event. Returns `None` if there is none up to `deadline`.
    fn step(&mut self, deadline: Instant) -> Result<Option<()>, String> {
        self.act()?;
        let now = self.now();
        let devices = self.hosts.iter().filter_map(|host| host.device.poll_at(now));
        let next = devices.chain(self.network.poll_at(now)).chain(self.next_act(now)).min();
        let Some(next) = next.map(|next| next.max(now)).filter(|next| *next <= deadline) else {
            return Ok(None);
        };
        self.clock.set(next);
        for host in &self.hosts {
            host.device.poll(next);
        }
        self.network.forward(next, &mut self.trace);
        self.tally.steps += 1;
        if self.tally.steps > MOST_STEPS {
            return Err(format!("it takes more than {MOST_STEPS} steps: {}", self.waiting()));
        }
        if self.random.below(AUDIT_EVERY) == 0 {
            for lane in &self.lanes {
                lane.audit(0).and_then(|()| lane.audit(1))?;
            }
        }
        Ok(Some(()))
    }

    /// Returns the states of the lanes that have not ended.
    fn waiting(&self) -> String {
        let open = self.lanes.iter().filter(|lane| !lane.is_over());
        let name = |lane: &Lane| {
            let [a, b] = [0, 1].map(|side| {
                let end = &lane.ends[side];
                format!(
                    "{:?}, sends {} of {} posted and {} done, receives {} of {} posted and {} done",
                    end.state,
                    end.sends.posted,
                    end.planned,
                    end.sends.done,
                    end.recvs.posted,
                    end.plan.receives.len(),
                    end.recvs.done
                )
            });
            format!("lane {} ({}): [{a}] [{b}]", lane.index, lane.terms.fate.name())
        };
        format!("at {} us: {}", self.now().total_micros(), open.map(name).collect::<Vec<_>>().join("; "))
    }

    fn lane(&mut self, index: usize, plan: LanePlan) -> Result<Lane, String> {
        let LanePlan { ends: [initiator, responder], terms } = plan;
        let ends = [self.hosts[initiator.host].end(initiator)?, self.hosts[responder.host].end(responder)?];
        for end in &ends {
            let (octets, requests) = (end.memory.len(), end.planned);
            self.trace
                .note(Instant::ZERO, format_args!("lane {index}: {octets} octets, {requests} requests"));
        }
        self.trace.note(Instant::ZERO, format_args!("lane {index}: {:?}", terms.fate));
        Ok(Lane::new(index, terms, ends))
    }

    /// Arms all queues: their completions are announced from now on.
    fn arm(&self) {
        for host in self.hosts.iter().filter(|host| host.plan.notified) {
            host.cqs.iter().for_each(|cq| cq.request_notification(false));
        }
    }
}

impl Host {
    fn new(
        plan: &Plan,
        index: usize,
        wire: weft_netif::Wire,
        (clock, seed): (&Clock, u64),
    ) -> Result<Self, String> {
        let host = plan.hosts[index].clone();
        let mut config = Config::new(address(plan.ipv6, index)?, seed);
        config.stack.mac = Network::mac(index);
        config.stack.mtu = host.mtu;
        config.stack.tcp_buffer = host.tcp_buffer;
        config.stack.congestion = if host.congestion { Congestion::Cubic } else { Congestion::None };
        // Long enough for every link that comes back, and still bounded.
        config.stack.timeout = Some(PATIENCE);
        config.stack.keep_alive = Some(KEEP_ALIVE);
        config.stack.half_open_timeout = PATIENCE;
        config.stack.linger_timeout = PATIENCE;
        config.startup_timeout = PATIENCE;
        config.answer_timeout = PATIENCE;
        config.close_timeout = PATIENCE;
        config.mpa = weft_mpa::Config {
            crc: host.crc,
            markers: host.markers,
            enhanced: plan.enhanced,
            ..weft_mpa::Config::default()
        };
        config.clock = clock.clone();
        config.progress = Progress::External;
        let device = Device::open(wire, config).map_err(|it| it.to_string())?;
        let events = device.create_event_channel().map_err(|it| it.to_string())?;
        let channel = device.create_comp_channel().map_err(|it| it.to_string())?;
        let listener = device.listen(&events, PORT).map_err(|it| it.to_string())?;
        let mut cqs = Vec::new();
        for cq in 0..host.cqs {
            let entries = plan.completions(index, cq);
            let channel = host.notified.then_some(&channel);
            cqs.push(device.create_cq(entries, channel).map_err(|it| it.to_string())?);
        }
        let pds: Vec<Pd> = (0..=DOMAINS).map(|_| device.alloc_pd()).collect();
        let capacity = QpCapacity { send_wr: 1, recv_wr: 1, ..QpCapacity::default() };
        let init = QpInit { capacity, ..QpInit::new(&cqs[0], &cqs[0]) };
        let others = pds.iter().take(DOMAINS).map(|pd| device.create_qp(pd, &init)).collect::<Result<_, _>>();
        let others = others.map_err(|it| it.to_string())?;
        Ok(Self { plan: host, events, cqs, channel, pds, others, device, _listener: listener })
    }

    fn end(&self, mut plan: EndPlan) -> Result<End, String> {
        let [send, recv] = plan.cqs;
        let init = QpInit {
            capacity: plan.capacity,
            signal_all: plan.signal_all,
            ..QpInit::new(&self.cqs[send], &self.cqs[recv])
        };
        let pd = &self.pds[plan.domain];
        let qp = self.device.create_qp(pd, &init).map_err(|it| it.to_string())?;
        let (foreign, other) = (&self.pds[DOMAINS], &self.others[plan.domain]);
        let owners = Owners { own: pd, foreign, qp: &qp, other };
        let memory = Memory::new(std::mem::take(&mut plan.regions), &owners)?;
        Ok(End::new(plan, qp, memory))
    }

    /// Returns the time until which the application does nothing.
    pub(crate) fn stalled_until(&self, now: Instant) -> Option<Instant> {
        self.plan.stalls.iter().find(|stall| stall.contains(&now)).map(|stall| stall.end)
    }
}

impl Plan {
    /// Returns the completions that a queue of a host has to hold: as many as its users may have under way.
    fn completions(&self, host: usize, cq: usize) -> u32 {
        let ends = self.lanes.iter().flat_map(|lane| &lane.ends).filter(|end| end.host == host);
        let users = ends.flat_map(|end| end.cqs.into_iter().zip(end.quota));
        let sum: usize = users.filter(|&(used, _)| used == cq).map(|(_, quota)| quota).sum();
        u32::try_from(sum.max(1)).unwrap_or(u32::MAX)
    }

    fn is_doomed(&self, lane: &LanePlan) -> bool {
        let [a, b] = [0, 1].map(|side| lane.ends[side].host);
        let cuts = self.faults.cuts.iter().filter(|cut| cut.to.is_none());
        cuts.into_iter().any(|cut| cut.hosts == [a, b] || cut.hosts == [b, a])
    }
}

fn address(ipv6: bool, host: usize) -> Result<IpSetting, String> {
    let text = if ipv6 { format!("fd00::{}/64", host + 1) } else { format!("10.0.0.{}/24", host + 1) };
    text.parse().map_err(|it| format!("{text}: {it}"))
}

pub(crate) const PORT: u16 = 7174;
/// The protection domains of queue pairs. One more has no queue pair.
const DOMAINS: usize = 2;
const MOST_STEPS: u64 = 2_000_000;
/// The average number of steps between two checks of all memory.
const AUDIT_EVERY: usize = 1000;
const PATIENCE: Duration = Duration::from_secs(600);
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// The virtual time of a run after the last cut of a link.
const MOST_TIME: Duration = Duration::from_secs(6 * 3600);
/// Longer than any time limit.
const SETTLE_TIME: Duration = Duration::from_secs(2000);
