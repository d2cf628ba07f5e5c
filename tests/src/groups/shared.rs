//! Two clients that share registers under a lock, while replicas are lost and the epoch of the group changes.
//!
//! The clients, their sessions and their locks are the real ones. The world changes the epoch as a coordinator does that
//! reaches some hosts: it ends their sessions, copies the memory of the first member to the others, and opens sessions anew.

mod client;
mod register;
mod turns;

use std::sync::Arc;

use stateright::semantics::ConsistencyTester;
use weft_group::{Durability, Replica, Session, Shape, Terms};
use weft_netif::{Duration, Instant};
use weft_rnic::Region;

use super::ground::Ground;
use super::plan::{Fault, Plan};
use super::sabotage::Sabotage;
use crate::simulate::trace::Trace;
use client::Client;
use register::{History, REGISTERS, Word};

/// All hosts, and what the clients have seen.
pub(super) struct Shared {
    plan: Plan,
    sabotage: Option<Sabotage>,
    pub(super) ground: Ground,
    /// The memory of each replica.
    memories: Vec<Arc<Region>>,
    /// The sessions at each replica, by client; none where one has ended.
    replicas: Vec<Vec<Option<Replica>>>,
    /// Replicas whose program has ended.
    is_dead: Vec<bool>,
    epoch: u64,
    /// The replicas of the epoch, the head first.
    members: Vec<usize>,
    clients: Vec<Client>,
    /// What the clients have seen of each register. Each has a history of its own: linearizability is a property of each
    /// object, and the search takes long for long histories.
    histories: Vec<History>,
    /// Operations that were begun, of all sessions.
    begun: u64,
    /// Something has gone wrong since the epoch began.
    is_struck: bool,
}

impl Shared {
    pub(super) fn new(mut plan: Plan, sabotage: Option<Sabotage>, trace: Trace) -> Self {
        let ground = Ground::new(&mut plan, trace);
        let memory = || Arc::new(Region::owned(LEN).expect("memory"));
        Self {
            ground,
            memories: (0..plan.replicas).map(|_| memory()).collect(),
            replicas: (0..plan.replicas).map(|_| (0..plan.sessions).map(|_| None).collect()).collect(),
            is_dead: vec![false; plan.replicas],
            epoch: 0,
            members: (0..plan.replicas).collect(),
            clients: (0..plan.sessions).map(|number| Client::new(number, plan.operations)).collect(),
            histories: vec![History::new(Word(0)); REGISTERS],
            begun: 0,
            is_struck: false,
            sabotage,
            plan,
        }
    }

    /// Runs until the clients are done, or no member of the group is left.
    pub(super) fn run(&mut self) -> Result<(), String> {
        let deadline = self.ground.now() + LIMIT;
        self.change_epoch()?;
        self.ground.hub.is_faulty = true;
        while !(0..self.clients.len()).all(|number| self.is_done(number)) {
            if self.ground.now() >= deadline {
                let states: Vec<_> = self.clients.iter().map(Client::state).collect();
                return Err(format!("the clients do not end in epoch {}: {states:?}", self.epoch));
            }
            self.strike();
            for number in 0..self.clients.len() {
                self.work(number)?;
            }
            self.ground.end_sessions(&mut self.replicas);
            if self.needs_epoch() && !self.change_epoch()? {
                return self.judge();
            }
            let alarm = self.alarm();
            self.ground.step(Some(alarm));
        }
        self.judge()
    }

    /// A host takes part: it has power, and is not cut off.
    fn is_there(&self, host: usize) -> bool {
        self.ground.hosts[host].is_on && !self.ground.hub.is_away(host, self.ground.now())
    }

    /// A client has done all, or its program has ended.
    fn is_done(&self, number: usize) -> bool {
        let client = &self.clients[number];
        client.is_gone || client.is_done() || !self.ground.hosts[self.plan.replicas + number].is_on
    }

    /// A client that is there has no session, or gets on no more: the owner of the lock may be dead.
    fn needs_epoch(&self) -> bool {
        let now = self.ground.now();
        let wants = |number: &usize| {
            let client = &self.clients[*number];
            let is_there = self.is_there(self.plan.replicas + number) && !self.is_done(*number);
            is_there && (client.session.is_none() || now >= client.since + PATIENCE)
        };
        (0..self.clients.len()).any(|number| wants(&number))
    }

    /// Returns when to look again if no device and no frame brings news.
    fn alarm(&self) -> Instant {
        let now = self.ground.now();
        let clients = self.clients.iter().filter_map(Client::alarm);
        let alarms = clients.chain(self.ground.hub.back_at(now)).filter(|at| *at > now);
        alarms.min().unwrap_or(now + PATIENCE).min(now + PATIENCE)
    }

    /// Begins an epoch with the replicas that are there. Returns false if no member of the last one will ever be.
    fn change_epoch(&mut self) -> Result<bool, String> {
        let lives = |host: &usize| !self.is_dead[*host] && self.ground.hosts[*host].is_on;
        let sealed: Vec<usize> =
            (0..self.plan.replicas).filter(lives).filter(|host| self.is_there(*host)).collect();
        let Some(source) = self.members.iter().copied().find(|member| sealed.contains(member)) else {
            return Ok(self.members.iter().any(lives));
        };
        for host in &sealed {
            self.replicas[*host].iter_mut().for_each(|replica| *replica = None);
        }
        let octets = self.contents(source);
        if self.sabotage != Some(Sabotage::Copy) {
            sealed.iter().for_each(|host| assert!(self.memories[*host].copy_in(0, &octets)));
        }
        self.epoch += 1;
        self.members = sealed;
        self.is_struck = false;
        let text = format!("epoch {} of replicas {:?}", self.epoch, self.members);
        self.ground.note(&text);
        self.ground.tally.fault("epoch begun", 1);
        for number in 0..self.clients.len() {
            let host = self.plan.replicas + number;
            if self.is_there(host) && !self.clients[number].is_gone {
                let session = self.open(number, host)?;
                let epoch = if self.sabotage == Some(Sabotage::Age) { 1 } else { self.epoch };
                let now = self.ground.now();
                self.clients[number].begin(session, epoch, now);
            }
        }
        Ok(true)
    }

    fn open(&mut self, number: usize, host: usize) -> Result<Session, String> {
        let (window, replicas) = (self.plan.window, self.members.len());
        let terms = Terms {
            replicas,
            window,
            len: LEN as u64,
            piece: self.plan.piece,
            durability: Durability::Volatile,
            epoch: self.epoch,
            session: self.epoch * 2 + number as u64,
        };
        for (index, member) in self.members.iter().enumerate() {
            let shape = Shape { index, replicas, window, range: 0..LEN };
            let replica = Replica::new(&self.ground.hosts[*member].device, &self.memories[*member], shape);
            self.replicas[*member][number] = Some(replica.map_err(|error| error.to_string())?);
        }
        let chain =
            self.members.iter().filter_map(|host| Some((*host, self.replicas[*host][number].as_ref()?)));
        self.ground.open(terms, host, &chain.collect::<Vec<_>>())
    }

    /// Lets happen what goes wrong, if its time has come.
    fn strike(&mut self) {
        let Some((_, fault)) = self.plan.faults.pop_if(|(at, _)| *at <= self.begun) else { return };
        let text = format!("{fault:?}");
        self.ground.note(&text);
        self.is_struck = true;
        let name = match fault {
            Fault::Kill(index) => {
                self.replicas[index].iter_mut().for_each(|replica| *replica = None);
                self.is_dead[index] = true;
                "replica killed"
            }
            Fault::Silence(host) => {
                self.ground.switch_off(host);
                "host silent"
            }
            Fault::Away(host, milliseconds) => {
                let until = self.ground.now() + Duration::from_millis(milliseconds.into());
                self.ground.hub.cut(host, until);
                "host away"
            }
            Fault::Leave(number) => {
                let client = &mut self.clients[number];
                (client.session, client.is_gone) = (None, true);
                "client left"
            }
        };
        self.ground.tally.fault(name, 1);
    }

    /// Looks for an order of what the clients have done that explains what they have read.
    fn judge(&self) -> Result<(), String> {
        for (register, history) in self.histories.iter().enumerate() {
            if !history.is_consistent() {
                return Err(format!("register {register} is not linearizable: {history:?}"));
            }
        }
        if self.is_struck || self.clients.iter().any(|client| !client.is_done()) {
            return Ok(());
        }
        let first = self.contents(self.members[0]);
        if first[..8] != [0; 8] {
            return Err("all clients are done, and the lock is not free".into());
        }
        match self.members.iter().find(|member| self.contents(**member) != first) {
            None => Ok(()),
            Some(member) => Err(format!("all clients are done, and replica {member} has other octets")),
        }
    }

    fn contents(&self, index: usize) -> Vec<u8> {
        let mut octets = vec![0; LEN];
        assert!(self.memories[index].copy_out(0, &mut octets));
        octets
    }
}

/// The lock is the first word. Behind it are the registers, and a word of each client.
const LEN: usize = 8 * (1 + REGISTERS + 2);
/// A client that has to wait for so long changes the epoch.
const PATIENCE: Duration = Duration::from_secs(8);
/// No run takes so long.
const LIMIT: Duration = Duration::from_secs(150);
