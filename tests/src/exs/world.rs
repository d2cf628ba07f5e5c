//! Two hosts with sockets, and what goes wrong.

use std::net::IpAddr;

use weft_exs::{Context, Error, Plain};
use weft_exs_core::{Kind, RejectCode};
use weft_netif::{Duration, Instant};
use weft_rnic::{Clock, Config, Device, Progress};

use super::ledger::{Direction, Ledger, Rules};
use super::plan::{ConnectionPlan, Fault, Plan};
use super::sabotage::Sabotage;
use super::side::Side;
use super::socket::{Coming, Listener, connect};
use crate::simulate::hub::Hub;
use crate::simulate::random::Random;
use crate::simulate::tally::Tally;
use crate::simulate::trace::Trace;

/// Two hosts with sockets between them.
pub(super) struct World {
    pub(super) trace: Trace,
    pub(super) tally: Tally,
    pub(super) hub: Hub,
    contexts: Vec<Context>,
    connections: Vec<Connection>,
    faults: Vec<(u64, Fault)>,
    random: Random,
    clock: Clock,
    sabotage: Option<Sabotage>,
    /// Things that programs have done.
    done: u64,
}

struct Connection {
    plan: Terms,
    /// Before the right attempt, one with the other kind.
    mistake: Option<Coming>,
    listener: Option<Listener>,
    /// First the side that connects, then the one that accepts.
    sides: [Side; 2],
    /// Something has gone wrong that ends it, or may.
    may_break: bool,
}

/// What is left of a plan when its sides have theirs.
struct Terms {
    kind: Kind,
    port: u16,
    options: [weft_exs::Options; 2],
}

impl World {
    pub(super) fn new(plan: Plan, sabotage: Option<Sabotage>, mut trace: Trace) -> Self {
        trace.note(Instant::ZERO, format_args!("{plan:?}"));
        let Plan { mtu, impairment, connections, faults, mut random } = plan;
        let (mut hub, wires) = Hub::new(HOSTS, mtu, &impairment, &mut random);
        hub.is_faulty = true;
        let clock = Clock::virtual_time();
        let contexts: Vec<_> =
            wires.into_iter().enumerate().map(|(host, wire)| context(wire, host, mtu, &clock)).collect();
        let mut world = Self {
            trace,
            tally: Tally::default(),
            hub,
            contexts,
            connections: Vec::new(),
            faults,
            random,
            clock,
            sabotage,
            done: 0,
        };
        for (plan, port) in connections.into_iter().zip(PORT..) {
            let connection = Connection::new(plan, port, &world.contexts, &mut world.random);
            world.connections.push(connection);
        }
        world
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Runs until all programs have ended and nothing is left of their sockets, and judges what has come.
    pub(super) fn run(&mut self) -> Result<(), String> {
        // A program may have something to do that no time tells.
        let mut idle = 0;
        while !self.is_over() {
            let next = self.step()?;
            idle = if next.is_none() { idle + 1 } else { 0 };
            let next = next.or_else(|| (idle <= 9).then(|| self.now()));
            let Some(next) = next.filter(|next| *next < LIMIT && self.tally.steps < MOST_STEPS) else {
                return Err(format!("it does not end: {}", self.waiting()));
            };
            self.clock.set(next.max(self.now()));
        }
        for connection in &self.connections {
            // A device that is shut down sends FIN, as a kernel whose program ends. Over TCP alone that is all of an end.
            let is_plain = connection.plan.options[0].plain == Plain::Always;
            let may_end = is_plain && self.tally.faults.contains_key(SHUT_DOWN);
            for side in 0..2 {
                let [sender, receiver] = [side, 1 - side].map(|side| &connection.sides[side]);
                let may_be_cut = receiver.has_stopped || may_end;
                let judged = sender.ledger.judge(&receiver.ledger, may_be_cut);
                judged
                    .map_err(|reason| format!("port {}, from side {side}: {reason}", connection.plan.port))?;
            }
        }
        for side in self.connections.iter().flat_map(|connection| &connection.sides) {
            self.tally.add(&side.ledger.tally);
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.connections.iter().all(|connection| connection.sides.iter().all(Side::is_over))
            && self.contexts.iter().all(|context| context.sockets() == 0)
    }

    /// Does all that is to be done now. Returns when to go on.
    fn step(&mut self) -> Result<Option<Instant>, String> {
        let now = self.now();
        self.tally.steps += 1;
        // Frames have addresses of rings, which are other ones in each run.
        let mut frames = Trace::new(false);
        self.strike(now);
        let mut has_done = false;
        for connection in 0..self.connections.len() {
            has_done |= self.work(connection, now)?;
        }
        self.hub.forward(now, &mut frames);
        let mut next: Option<Instant> = None;
        for context in &self.contexts {
            let time = context.drive(now);
            next = next.into_iter().chain(time).min();
        }
        self.hub.forward(now, &mut frames);
        for connection in &mut self.connections {
            has_done |= connection.collect(&mut self.sabotage, &mut self.trace, now)?;
        }
        if has_done {
            return Ok(Some(now));
        }
        let devices = self.contexts.iter().filter_map(|context| context.device().poll_at(now));
        let programs = self.connections.iter().flat_map(|it| &it.sides).filter_map(Side::next_time);
        let programs = programs.filter(|at| *at > now);
        Ok(next.into_iter().chain(devices).chain(programs).chain(self.hub.poll_at(now)).min())
    }

    /// Lets happen what goes wrong, if its time has come.
    fn strike(&mut self, now: Instant) {
        let Some((_, fault)) = self.faults.pop_if(|(at, _)| *at <= self.done) else { return };
        self.trace.note(now, format_args!("{fault:?}"));
        match fault {
            Fault::Shutdown(host) => {
                self.contexts[host].device().shutdown(std::time::Duration::ZERO);
                self.tally.fault(SHUT_DOWN, 1);
            }
            Fault::Cut(Some(time)) => {
                self.hub.cut(0, now + time);
                self.tally.fault("link cut for a while", 1);
                if time < PATIENCE / 4 {
                    return;
                }
            }
            Fault::Cut(None) => {
                self.hub.cut(0, LIMIT);
                self.tally.fault("link cut for ever", 1);
            }
        }
        self.connections.iter_mut().for_each(|connection| connection.may_break = true);
    }

    /// Goes on with the programs of a connection. Returns whether one of them has done something.
    fn work(&mut self, number: usize, now: Instant) -> Result<bool, String> {
        let connection = &mut self.connections[number];
        let mut has_done = connection.collect(&mut self.sabotage, &mut self.trace, now)?;
        has_done |= connection.connect(&self.contexts)?;
        for number in 0..2 {
            let side = &mut connection.sides[number];
            match side.work(&self.contexts[side.host], now, &mut self.random)? {
                Ok(has_worked) => {
                    has_done |= has_worked;
                    self.done += u64::from(has_worked);
                }
                Err(error) if connection.may_break => {
                    self.tally.end(&format!("not connected: {error}"));
                    self.trace.note(now, format_args!("side {number} is not connected: {error}"));
                    has_done = true;
                }
                Err(error) => return Err(format!("side {number} is not connected: {error}")),
            }
            match connection.sides[number].close_error.take() {
                None => {}
                Some(Error::TimedOut | Error::Reset | Error::Canceled) if connection.may_break => {}
                Some(error) => return Err(format!("the close of side {number} fails: {error}")),
            }
            // Octets that a side does not take may hold the other one's close until it has waited enough.
            connection.may_break |= connection.sides[number].has_stopped;
        }
        if connection.sides[0].is_over() && connection.sides[1].is_waiting() && connection.may_break {
            connection.listener = None;
            connection.sides[1].give_up();
        }
        if connection.sides.iter().all(|side| !side.is_waiting()) {
            connection.listener = None;
        }
        Ok(has_done)
    }

    fn waiting(&self) -> String {
        let sides = self.connections.iter().flat_map(|connection| {
            let port = connection.plan.port;
            connection.sides.iter().enumerate().map(move |(side, it)| {
                let open =
                    [Direction::Send, Direction::Receive].map(|direction| it.ledger.under_way(direction));
                let (is_over, is_waiting) = (it.is_over(), it.is_waiting());
                format!("port {port} side {side}: over {is_over}, waiting {is_waiting}, under way {open:?}")
            })
        });
        let sockets: Vec<_> = self.contexts.iter().map(Context::sockets).collect();
        let text = sides.collect::<Vec<_>>().join("; ");
        format!("at {}, in step {}: {text}; sockets left {sockets:?}", self.now(), self.tally.steps)
    }
}

impl Connection {
    fn new(plan: ConnectionPlan, port: u16, contexts: &[Context], random: &mut Random) -> Self {
        let may_break = plan.is_harsh();
        let ConnectionPlan { kind, is_mistaken, options, sides } = plan;
        let server = random.below(HOSTS);
        let hosts = [HOSTS - 1 - server, server];
        let listener = Listener::new(&contexts[server], kind, port, &options[1]).expect("a port");
        let mut ends = hosts.into_iter().zip(sides).map(|(host, plan)| {
            let queue = plan.has_queue.then(|| contexts[host].queue(QUEUE).expect("a queue"));
            Side::new(host, plan, Ledger::new(kind, queue))
        });
        let sides = [(); 2].map(|()| ends.next().expect("there are two"));
        let terms = Terms { kind, port, options };
        let other = match kind {
            Kind::Message => Kind::Stream,
            Kind::Stream => Kind::Message,
        };
        let peer = contexts[server].device().address(port);
        let mistake = is_mistaken.then(|| connect(&contexts[hosts[0]], other, peer, &Default::default()));
        let mut connection = Self { plan: terms, mistake, listener: Some(listener), sides, may_break };
        let coming = connection.listener.as_ref().map(Listener::accept);
        connection.sides[1].await_socket(coming.expect("it is there"));
        if connection.mistake.is_none() {
            connection.begin(contexts);
        }
        connection
    }

    /// Begins to connect.
    fn begin(&mut self, contexts: &[Context]) {
        let Terms { kind, port, options } = &self.plan;
        let [client, server] = [0, 1].map(|side| &contexts[self.sides[side].host]);
        let coming = connect(client, *kind, server.device().address(*port), &options[0]);
        self.sides[0].await_socket(coming);
    }

    /// Goes on after an attempt with the wrong kind. Returns whether it has.
    fn connect(&mut self, contexts: &[Context]) -> Result<bool, String> {
        let Some(outcome) = self.mistake.as_mut().and_then(|mistake| mistake()) else { return Ok(false) };
        self.mistake = None;
        match outcome {
            Err(Error::Refused(Some(RejectCode::Kind))) => {}
            Err(_) if self.may_break => {}
            Ok(_) => return Err("a socket of the wrong kind comes".into()),
            Err(error) => return Err(format!("a socket of the wrong kind: {error}")),
        }
        self.begin(contexts);
        Ok(true)
    }

    /// Takes what has come of the operations of both sides. Returns whether something has.
    fn collect(
        &mut self,
        sabotage: &mut Option<Sabotage>,
        trace: &mut Trace,
        now: Instant,
    ) -> Result<bool, String> {
        let stopped = [0, 1].map(|side| self.sides[side].has_stopped);
        let mut has_done = false;
        for number in 0..2 {
            let side = &mut self.sides[number];
            let options = &self.plan.options[number];
            let rules = Rules {
                may_break: self.may_break,
                has_limit: [options.send_timeout.is_some(), options.recv_timeout.is_some()],
                is_closed: side.is_closed,
                has_stopped: [stopped[number], stopped[1 - number]],
            };
            let name = format!("port {}, side {number}", self.plan.port);
            let ended = side.ledger.collect(&rules, sabotage);
            for (direction, operation) in ended.map_err(|reason| format!("{name}: {reason}"))? {
                has_done = true;
                let result = side.ledger.result(direction, operation);
                trace.note(now, format_args!("{name}: {direction:?} {operation}: {result:?}"));
            }
        }
        Ok(has_done)
    }
}

/// Opens a host on its end of a wire.
pub(super) fn context(wire: weft_netif::Wire, host: usize, mtu: usize, clock: &Clock) -> Context {
    let ip: IpAddr = [10, 0, 0, if host == 0 { 1 } else { 2 }].into();
    let setting = format!("{ip}/24").parse().expect("an address");
    let mut config = Config::new(setting, host as u64 + 1);
    config.stack.mac = Hub::mac(host);
    config.stack.mtu = mtu;
    config.stack.timeout = Some(PATIENCE);
    config.stack.keep_alive = Some(Duration::from_secs(5));
    config.stack.half_open_timeout = PATIENCE;
    config.stack.linger_timeout = PATIENCE;
    config.startup_timeout = PATIENCE;
    config.answer_timeout = PATIENCE;
    config.close_timeout = PATIENCE;
    config.clock = clock.clone();
    config.progress = Progress::External;
    let device = Device::open(wire, config).expect("a device");
    Context::stepped(&device).expect("a context")
}

const SHUT_DOWN: &str = "device shut down";
const HOSTS: usize = 2;
const PORT: u16 = 7000;
/// More events than a side has operations at a time.
const QUEUE: usize = 256;
/// TCP gives up then.
const PATIENCE: Duration = Duration::from_secs(30);
/// No run takes so long.
const LIMIT: Instant = Instant::from_micros_const(3_600_000_000);
const MOST_STEPS: u64 = 200_000;
