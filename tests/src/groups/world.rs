//! Hosts, and what they do until nothing is under way any more.

use std::collections::VecDeque;
use std::sync::Arc;

use weft_group::{
    Copy, Done, Op, OpError, OpId, Replica, Replicas, Session, SessionError, Shape, Swap, Terms,
};
use weft_netif::{Duration, Instant};
use weft_rnic::{
    Clock, CmEvent, Config, ConnParam, Device, EventChannel, Listener, Progress, Qp, QpState, Region,
};

use super::hub::Hub;
use super::oracle::Oracle;
use super::plan::{Fault, Plan};
use crate::simulate::tally::Tally;
use crate::simulate::trace::Trace;

/// All hosts: first the replicas, then the clients.
pub(super) struct World {
    plan: Plan,
    pub(super) trace: Trace,
    pub(super) tally: Tally,
    clock: Clock,
    hub: Hub,
    hosts: Vec<Host>,
    /// The memory of each replica.
    memories: Vec<Arc<Region>>,
    /// The sessions at each replica; none where one has ended.
    replicas: Vec<Vec<Option<Replica>>>,
    clients: Vec<Client>,
    /// Operations that were begun, of all sessions.
    begun: u64,
    /// A host has lost its power, or its links for long.
    is_cut: bool,
}

struct Host {
    device: Device,
    events: EventChannel,
    listener: Listener,
    /// Its power is on.
    is_on: bool,
}

struct Client {
    /// `None`: its program has ended.
    session: Option<Session>,
    oracle: Oracle,
    /// What is to come next of those under way.
    expected: VecDeque<Done>,
    left: u64,
    /// The session has told its end.
    is_over: bool,
}

impl World {
    pub(super) fn new(mut plan: Plan, trace: Trace) -> Self {
        let count = plan.replicas + plan.sessions;
        let (hub, wires) = Hub::new(count, plan.mtu, &plan.impairment, &mut plan.random);
        let clock = Clock::virtual_time();
        let hosts =
            wires.into_iter().zip(1..).map(|(wire, number)| Host::new(wire, number, &plan, &clock)).collect();
        let memory = || Arc::new(Region::owned(plan.sessions * LEN + 2 * EDGE).expect("memory"));
        let memories: Vec<_> = (0..plan.replicas).map(|_| memory()).collect();
        let mut world = Self {
            trace,
            tally: Tally::default(),
            clock,
            hub,
            hosts,
            memories,
            replicas: (0..plan.replicas).map(|_| Vec::new()).collect(),
            clients: Vec::new(),
            begun: 0,
            is_cut: false,
            plan,
        };
        let text = format!("{:?}", world.plan);
        world.note(&text);
        world
    }

    /// Runs until all sessions are done or over. With `is_spoiled` an octet changes by itself.
    pub(super) fn run(&mut self, is_spoiled: bool) -> Result<(), String> {
        for memory in &self.memories {
            assert!(memory.copy_in(0, &[FENCE; EDGE]));
            assert!(memory.copy_in(EDGE + self.plan.sessions * LEN, &[FENCE; EDGE]));
        }
        for session in 0..self.plan.sessions {
            self.open(session)?;
        }
        self.hub.is_faulty = true;
        let deadline = self.clock.now() + LIMIT;
        while !self.clients.iter().all(Client::is_done) {
            if self.clock.now() >= deadline {
                return self.give_up();
            }
            self.strike();
            for client in 0..self.clients.len() {
                self.work(client)?;
            }
            self.end_sessions();
            if !self.step() {
                // A submit may have failed since its client looked.
                (0..self.clients.len()).try_for_each(|client| self.work(client))?;
                if !self.clients.iter().all(Client::is_done) {
                    return self.give_up();
                }
            }
        }
        self.tally.frames = self.hub.frames;
        // What is on its way still must not harm.
        let deadline = self.clock.now() + Duration::from_secs(1);
        while self.clock.now() < deadline && self.step() {
            self.end_sessions();
        }
        if is_spoiled {
            let octet = [self.contents(0, 0)[7] ^ 1];
            assert!(self.memories[0].copy_in(EDGE + 7, &octet));
        }
        self.judge()
    }

    /// Sessions go on for ever only where a host is cut off and nobody has told them.
    fn give_up(&self) -> Result<(), String> {
        if self.is_cut {
            return self.judge();
        }
        let stuck = self.clients.iter().position(|client| !client.is_done()).unwrap_or_default();
        Err(format!("session {stuck} does not end: {} under way", self.clients[stuck].expected.len()))
    }

    /// Sets a session up, from the tail on, as servers and their client do.
    fn open(&mut self, session: usize) -> Result<(), String> {
        let (plan, host) = (&self.plan, self.plan.replicas + session);
        let terms = Terms {
            replicas: plan.replicas,
            window: plan.window,
            len: LEN as u64,
            piece: plan.piece,
            durability: plan.durability,
            epoch: 1,
            session: session as u64,
        };
        let made = Session::new(&self.hosts[host].device, terms).map_err(|error| error.to_string())?;
        let start = EDGE + session * LEN;
        for index in 0..plan.replicas {
            let shape =
                Shape { index, replicas: plan.replicas, window: plan.window, range: start..start + LEN };
            let replica = Replica::new(&self.hosts[index].device, &self.memories[index], shape);
            self.replicas[index].push(Some(replica.map_err(|error| error.to_string())?));
        }
        self.clients.push(Client {
            session: None,
            oracle: Oracle::new(LEN, plan.replicas),
            expected: VecDeque::new(),
            left: plan.operations,
            is_over: false,
        });
        let tail = self.plan.replicas - 1;
        self.connect(made.tail(), (host, tail), Replica::outward, session)?;
        for index in (0..=tail).rev() {
            let next = (index < tail).then(|| self.replica(index + 1, session).data_in());
            if next.is_some() {
                // A queue pair is a handle: connecting it needs no more of its replica.
                let outward = self.replicas[index][session].take().expect("a replica");
                let connected = self.connect(outward.outward(), (index, index + 1), Replica::inward, session);
                self.replicas[index][session] = Some(outward);
                connected?;
            }
            self.replica(index, session).begin(next).map_err(|error| error.to_string())?;
        }
        self.connect(made.head(), (host, 0), Replica::inward, session)?;
        let mut made = made;
        made.set_target(self.replica(0, session).data_in());
        self.clients[session].session = Some(made);
        Ok(())
    }

    fn replica(&self, index: usize, session: usize) -> &Replica {
        self.replicas[index][session].as_ref().expect("a replica")
    }

    fn connect(
        &mut self,
        qp: &Qp,
        (from, to): (usize, usize),
        target: fn(&Replica) -> &Qp,
        session: usize,
    ) -> Result<(), String> {
        let param = ConnParam { peer_to_peer: Some(true), ..ConnParam::NONE };
        let address = self.hosts[to].listener.local_addr();
        let host = &self.hosts[from];
        host.device.connect(&host.events, qp, address, param).map_err(|error| error.to_string())?;
        let Some(CmEvent::ConnectRequest(request)) = self.event(to) else {
            return Err(format!("host {from} does not reach host {to}"));
        };
        let replica = self.replicas[to][session].as_ref().ok_or("no replica")?;
        let accepted = self.hosts[to].device.accept(request.id, target(replica), ConnParam::NONE);
        accepted.map_err(|error| error.to_string())?;
        for host in [from, to] {
            let event = self.event(host);
            if !matches!(event, Some(CmEvent::Established { .. })) {
                return Err(format!("host {host} is not connected: {event:?}"));
            }
        }
        Ok(())
    }

    fn event(&mut self, host: usize) -> Option<CmEvent> {
        let deadline = self.clock.now() + Duration::from_secs(60);
        loop {
            if let Some(event) = self.hosts[host].events.next() {
                return Some(event);
            }
            if self.clock.now() >= deadline || !self.step() {
                return None;
            }
        }
    }

    /// A client takes what is done, and begins what it may.
    fn work(&mut self, number: usize) -> Result<(), String> {
        let client = &mut self.clients[number];
        let Some(session) = client.session.as_mut().filter(|_| !client.is_over) else { return Ok(()) };
        let mut out = [Done { id: OpId(0), originals: [0; 16] }; 8];
        match session.poll(&mut out) {
            Ok(taken) => {
                for done in &out[..taken] {
                    let expected = client.expected.pop_front();
                    if expected != Some(*done) {
                        return Err(format!("session {number}: {done:?} is done instead of {expected:?}"));
                    }
                    client.oracle.acknowledge();
                    self.tally.operation("acknowledged", 0);
                }
            }
            Err(error) => {
                client.is_over = true;
                self.tally.end(&error.to_string());
                let text = format!("session {number}: {error}");
                self.note(&text);
                return Ok(());
            }
        }
        while (self.clients[number].expected.len() as u64) < self.plan.depth && self.clients[number].left > 0
        {
            if !self.begin(number)? {
                break;
            }
        }
        Ok(())
    }

    /// Begins an operation. Returns false if it has to wait.
    fn begin(&mut self, number: usize) -> Result<bool, String> {
        let op = self.draw();
        let len = op.write.as_ref().map_or(0, |write| usize::try_from(write.end - write.start).unwrap_or(0));
        let octets = self.plan.random.octets(len);
        let client = &mut self.clients[number];
        let Some(session) = &mut client.session else { return Ok(false) };
        match session.submit(&op, &octets) {
            Ok(id) => {
                let originals = client.oracle.begin(&op, &octets);
                client.expected.push_back(Done { id, originals });
                client.left -= 1;
                self.begun += 1;
                for (name, is) in [
                    ("write", op.write.is_some()),
                    ("copy", op.copy.is_some()),
                    ("swap", op.swap.is_some()),
                    ("flush", op.flush.is_some()),
                ] {
                    if is {
                        self.tally.operation(name, len);
                    }
                }
                Ok(true)
            }
            Err(SessionError::Op(OpError::Full | OpError::Conflict)) => Ok(false),
            // It makes no sense: another one is drawn.
            Err(SessionError::Op(_)) => Ok(true),
            // The next poll tells the same.
            Err(_) => Ok(false),
        }
    }

    /// Returns an operation, which may make no sense.
    fn draw(&mut self) -> Op {
        let random = &mut self.plan.random;
        let len = LEN as u64;
        let mut op = Op::default();
        if random.percent(60) {
            let at = random.below(LEN) as u64;
            let size = random.below(self.plan.piece as usize + 1) as u64;
            op.write = Some(at..(at + size).min(len));
        }
        if random.percent(30) {
            let (from, to) = (random.below(LEN / 2), random.between(LEN / 2, LEN - 1));
            let copied = random.below((LEN - to).min(LEN / 2 - from) + 1);
            let (from, to) = (from as u64, to as u64);
            op.copy = Some(Copy { from, to, len: u32::try_from(copied).unwrap_or(0) });
        }
        if random.percent(40) {
            let at = random.below(WORDS) as u64 * 8;
            // Words are counters, so that something that happens twice shows.
            let compare = random.below(3) as u64;
            op.swap = Some(Swap { at, compare, swap: compare + 1, on: Replicas::ALL });
        }
        if random.percent(20) {
            op.flush = Some(0..len);
        }
        op
    }

    /// Lets happen what goes wrong, if its time has come.
    fn strike(&mut self) {
        let Some((_, fault)) = self.plan.fault.take_if(|(at, _)| *at <= self.begun) else { return };
        let text = format!("{fault:?}");
        self.note(&text);
        match fault {
            Fault::Kill(index) => {
                self.replicas[index].iter_mut().for_each(|replica| *replica = None);
                self.tally.fault("replica killed", 1);
            }
            Fault::Silence(host) => {
                self.hosts[host].is_on = false;
                self.hub.cut(host, Instant::from_secs(1_000_000));
                self.is_cut = true;
                if let Some(client) = host.checked_sub(self.plan.replicas) {
                    self.clients[client].session = None;
                }
                self.tally.fault("host silent", 1);
            }
            Fault::Away(host, milliseconds) => {
                self.hub.cut(host, self.clock.now() + Duration::from_millis(milliseconds.into()));
                self.is_cut = true;
                self.tally.fault("host away", 1);
            }
            Fault::Leave(client) => {
                self.clients[client].session = None;
                self.tally.fault("client left", 1);
            }
        }
    }

    /// Ends a session where one of its connections has ended, as the server of a replica does.
    fn end_sessions(&mut self) {
        for (index, sessions) in self.replicas.iter_mut().enumerate() {
            for replica in sessions.iter_mut().filter(|_| self.hosts[index].is_on) {
                let works = |replica: &Replica| {
                    let qps = [replica.inward(), replica.own(), replica.outward()];
                    qps.into_iter().all(|qp| qp.state() == QpState::Rts)
                };
                let _ended = replica.take_if(|replica| !works(replica));
            }
        }
    }

    /// Lets time pass until something happens. Returns false if nothing ever will.
    fn step(&mut self) -> bool {
        let now = self.clock.now();
        let devices = self.hosts.iter().filter(|host| host.is_on).filter_map(|host| host.device.poll_at(now));
        let Some(next) = devices.chain(self.hub.poll_at(now)).min() else { return false };
        let now = next.max(now);
        self.clock.set(now);
        self.hub.forward(now, &mut self.trace);
        for host in self.hosts.iter().filter(|host| host.is_on) {
            host.device.poll(now);
        }
        self.hub.forward(now, &mut self.trace);
        self.tally.steps += 1;
        true
    }

    /// Compares the memory of all replicas that are there with what it may hold.
    fn judge(&self) -> Result<(), String> {
        for (index, memory) in self.memories.iter().enumerate() {
            let mut edge = [0; EDGE];
            for at in [0, EDGE + self.plan.sessions * LEN] {
                assert!(memory.copy_out(at, &mut edge));
                if edge != [FENCE; EDGE] {
                    return Err(format!("replica {index}: octets outside of all ranges have changed"));
                }
            }
            for (session, client) in self.clients.iter().enumerate() {
                let wrong = client.oracle.check(&self.contents(index, session));
                wrong.map_err(|reason| format!("replica {index}, session {session}: {reason}"))?;
            }
        }
        Ok(())
    }

    fn contents(&self, index: usize, session: usize) -> Vec<u8> {
        let mut octets = vec![0; LEN];
        assert!(self.memories[index].copy_out(EDGE + session * LEN, &mut octets));
        octets
    }

    fn note(&mut self, text: &str) {
        self.trace.note(self.clock.now(), format_args!("{text}"));
    }
}

impl Client {
    fn is_done(&self) -> bool {
        self.session.is_none() || self.is_over || self.left == 0 && self.expected.is_empty()
    }
}

impl Host {
    fn new(wire: weft_netif::Wire, number: u8, plan: &Plan, clock: &Clock) -> Self {
        let ip = format!("10.0.0.{number}/24").parse().expect("an address");
        let mut config = Config::new(ip, number.into());
        config.stack.mac = Hub::mac(usize::from(number) - 1);
        config.stack.mtu = plan.mtu;
        config.stack.timeout = Some(PATIENCE);
        config.stack.keep_alive = Some(Duration::from_secs(1));
        config.clock = clock.clone();
        config.progress = Progress::External;
        let device = Device::open(wire, config).expect("a device");
        let events = device.create_event_channel().expect("a channel");
        let listener = device.listen(&events, PORT).expect("a port");
        Self { device, events, listener, is_on: true }
    }
}

/// Octets of a session's range.
const LEN: usize = 1024;
/// Octets before and behind all ranges.
const EDGE: usize = 64;
const FENCE: u8 = 0xEE;
/// Words that are swapped.
const WORDS: usize = 6;
const PORT: u16 = 7471;
/// The user timeout.
const PATIENCE: Duration = Duration::from_secs(5);
/// No run takes so long.
const LIMIT: Duration = Duration::from_secs(600);
