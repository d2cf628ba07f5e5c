//! What happens, until all clients have done what they were to do.

use std::sync::Arc;

use weft_group::Wish;
use weft_netif::{Duration, Instant};

use super::changing::Changing;
use super::client::Client;
use super::plan::Plan;
use super::sabotage::Sabotage;
use super::stage::Stage;
use crate::simulate::trace::Trace;

/// The stage, and those on it.
pub(super) struct World {
    // Sessions end before their devices.
    clients: Vec<Client>,
    /// A coordinator beside the clients, and when it dies.
    other: Option<(Changing, Instant)>,
    stage: Stage,
    /// Hosts that are off, and when they start again.
    off: Vec<(usize, Instant)>,
    next_fault: Instant,
    /// Faults happen until then.
    calm_from: Instant,
}

impl World {
    pub(super) fn new(plan: Plan, trace: Trace, sabotage: Option<Sabotage>) -> Self {
        let clients = (0..plan.clients).map(|number| Client::new(number, plan.servers + number)).collect();
        let (next_fault, calm_from) = (Instant::ZERO + plan.calm, Instant::ZERO + plan.trouble);
        let stage = Stage::new(plan, trace, sabotage);
        Self { clients, other: None, stage, off: Vec::new(), next_fault, calm_from }
    }

    pub(super) fn into_stage(self) -> Stage {
        let Self { clients, other, mut stage, .. } = self;
        drop((clients, other));
        stage.tally.frames = stage.net.frames;
        stage.tally.virtual_micros = stage.now().total_micros().unsigned_abs();
        stage
    }

    pub(super) fn run(&mut self) -> Result<(), String> {
        while self.stage.now() < self.calm_from && !self.stage.is_over {
            self.strike();
            self.turn(self.calm_from)?;
        }
        self.calm();
        let goals: Vec<u64> = self.clients.iter().map(|client| client.done + MORE).collect();
        self.go_on("clients do not go on", |world| {
            world.clients.iter().zip(&goals).all(|(client, goal)| client.done >= *goal)
        })?;
        for client in &mut self.clients {
            client.is_closing = true;
        }
        self.go_on("clients do not come to rest", |world| {
            let epoch = world.stage.register.record.epoch;
            world.clients.iter().all(|client| client.is_at_rest(epoch))
        })?;
        if self.stage.is_over {
            self.stage.tally.end("the group is lost");
            return Ok(());
        }
        self.stage.tally.end("all is done");
        let record = Arc::clone(&self.stage.register.record);
        self.stage.compare(&record)
    }

    /// Goes on until something holds, or the group is lost.
    fn go_on(&mut self, what: &str, holds: impl Fn(&Self) -> bool) -> Result<(), String> {
        let deadline = self.stage.now() + LIMIT;
        while !holds(self) && !self.stage.is_over {
            if self.stage.now() >= deadline {
                let clients = &self.clients;
                return Err(format!("{what}: {clients:?}"));
            }
            self.turn(deadline)?;
        }
        Ok(())
    }

    /// Everybody does what there is to do, and time passes until something happens, or `until`.
    fn turn(&mut self, until: Instant) -> Result<(), String> {
        self.restart();
        self.stage.serve();
        let coordinators = self.stage.hosts.len() - 1;
        if let Some((changing, end)) = &mut self.other {
            let is_dead = self.stage.now() >= *end;
            if is_dead || changing.work(&mut self.stage, coordinators).is_some() {
                self.other = None;
            }
        }
        for client in &mut self.clients {
            client.work(&mut self.stage)?;
        }
        let stage = &self.stage;
        let others = self.other.iter().flat_map(|(changing, end)| [Some(*end), changing.poll_at(stage)]);
        let times = self.clients.iter().map(|client| client.poll_at(stage)).chain(others).flatten();
        let times = times.chain(self.off.iter().map(|(_, at)| *at)).chain(stage.poll_at());
        let next = times.chain((!stage.is_calm).then_some(self.next_fault)).min().unwrap_or(until);
        if self.stage.tally.steps > STEPS {
            return Err(format!("there is no end: {:?}", self.clients));
        }
        self.stage.step(next.clamp(self.stage.now(), until.max(self.stage.now())));
        Ok(())
    }

    /// Lets something go wrong, if it is time.
    fn strike(&mut self) {
        let now = self.stage.now();
        if now < self.next_fault {
            return;
        }
        let plan = &mut self.stage.plan;
        let micros = usize::try_from(plan.calm.total_micros()).unwrap_or(1);
        self.next_fault = now + Duration::from_micros(plan.random.between(1, 2 * micros) as u64);
        let (server, kind) = (plan.random.below(plan.servers), plan.random.below(100));
        let client = plan.random.below(plan.clients);
        match kind {
            0..45 => self.kill(server),
            45..60 => {
                let hosts = self.stage.hosts.len();
                let from = self.stage.plan.random.below(hosts);
                let to = (from + 1 + self.stage.plan.random.below(hosts - 1)) % hosts;
                self.cut("link cut", &[[from, to]]);
            }
            60..67 => {
                let others = (0..self.stage.hosts.len()).filter(|other| *other != server);
                let links: Vec<_> = others.map(|other| [server, other]).collect();
                self.cut("host cut off", &links);
            }
            67..77 => {
                self.clients[client].end();
                self.off(self.stage.plan.servers + client, "client killed");
            }
            77..95 => self.coordinate(),
            _ => {
                if let Some(disk) = &self.stage.hosts[server].disk
                    && (!self.stage.plan.is_gentle || self.stage.is_spare(server))
                {
                    disk.fail();
                    self.stage.tally.fault("flush fails", 1);
                }
            }
        }
    }

    fn kill(&mut self, server: usize) {
        let is_off = self.stage.hosts[server].device.is_none();
        if is_off || self.stage.plan.is_gentle && !self.stage.is_spare(server) {
            return;
        }
        self.off(server, "host killed");
    }

    fn off(&mut self, host: usize, what: &str) {
        if self.stage.hosts[host].device.is_none() {
            return;
        }
        let (now, random) = (self.stage.now(), &mut self.stage.plan.random);
        let is_orderly = random.percent(50);
        let millis = random.pick(&[1, 50, 500, 3_000, 8_000]);
        self.stage.note(&format!("{what}: {host}, for {millis} ms, {is_orderly}"));
        self.stage.tally.fault(what, 1);
        self.stage.switch_off(host, is_orderly);
        self.off.push((host, now + Duration::from_millis(millis)));
    }

    fn cut(&mut self, what: &str, links: &[[usize; 2]]) {
        let millis = self.stage.plan.random.pick(&[30, 1_000, 6_000]);
        let until = self.stage.now() + Duration::from_millis(millis);
        links.iter().for_each(|link| self.stage.net.cut(*link, until));
        self.stage.note(&format!("{what}: {links:?}, for {millis} ms"));
        self.stage.tally.fault(what, 1);
    }

    /// Another coordinator begins, and may die in the midst of it.
    fn coordinate(&mut self) {
        if self.other.is_some() {
            return;
        }
        let (now, record) = (self.stage.now(), Arc::clone(&self.stage.register.record));
        let micros = self.stage.plan.random.pick(&[2_000, 20_000, 300_000, 100_000_000]);
        let end = now + Duration::from_micros(self.stage.plan.random.between(1, micros) as u64);
        self.other = Some((Changing::new(record, Wish::default(), now), end));
        self.stage.tally.fault("epoch changed by another one", 1);
    }

    /// Starts hosts again, and ends those that are of no use.
    fn restart(&mut self) {
        let now = self.stage.now();
        for (host, _) in self.off.extract_if(.., |(_, at)| *at <= now).collect::<Vec<_>>() {
            self.stage.switch_on(host);
            if let Some(client) = host.checked_sub(self.stage.plan.servers) {
                self.clients[client].begin(now);
            }
        }
        for server in 0..self.stage.plan.servers {
            if self.stage.hosts[server].is_spoiled() && self.stage.plan.random.percent(2) {
                self.off(server, "host killed");
            }
        }
    }

    /// Nothing goes wrong any more.
    fn calm(&mut self) {
        self.stage.net.mend();
        self.stage.is_calm = true;
        let now = self.stage.now();
        self.off.iter_mut().for_each(|(_, at)| *at = now);
    }
}

/// Operations that each client does when nothing goes wrong any more.
const MORE: u64 = 10;
/// How long that may take.
const LIMIT: Duration = Duration::from_secs(300);
/// No run takes so many steps.
const STEPS: u64 = 5_000_000;
