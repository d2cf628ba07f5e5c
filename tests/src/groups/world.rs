//! Hosts, and what they do until nothing is under way any more.

use std::collections::VecDeque;
use std::sync::Arc;

use weft_group::{
    Copy, Done, Op, OpError, OpId, Replica, Replicas, Session, SessionError, Shape, Swap, Terms,
};
use weft_netif::Duration;
use weft_rnic::Region;

use super::ground::Ground;
use super::oracle::Oracle;
use super::plan::{Fault, Plan};
use crate::simulate::trace::Trace;

/// Chains, and sessions that have a range each.
pub(super) struct World {
    plan: Plan,
    pub(super) ground: Ground,
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
        let ground = Ground::new(&mut plan, trace);
        let memory = || Arc::new(Region::owned(plan.sessions * LEN + 2 * EDGE).expect("memory"));
        let memories: Vec<_> = (0..plan.replicas).map(|_| memory()).collect();
        Self {
            ground,
            memories,
            replicas: (0..plan.replicas).map(|_| Vec::new()).collect(),
            clients: Vec::new(),
            begun: 0,
            is_cut: false,
            plan,
        }
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
        self.ground.hub.is_faulty = true;
        let deadline = self.ground.now() + LIMIT;
        while !self.clients.iter().all(Client::is_done) {
            if self.ground.now() >= deadline {
                return self.give_up();
            }
            self.strike();
            for client in 0..self.clients.len() {
                self.work(client)?;
            }
            self.ground.end_sessions(&mut self.replicas);
            if !self.ground.step(None) {
                // A submit may have failed since its client looked.
                (0..self.clients.len()).try_for_each(|client| self.work(client))?;
                if !self.clients.iter().all(Client::is_done) {
                    return self.give_up();
                }
            }
        }
        // What is on its way still must not harm.
        let deadline = self.ground.now() + Duration::from_secs(1);
        while self.ground.now() < deadline && self.ground.step(None) {
            self.ground.end_sessions(&mut self.replicas);
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
        let start = EDGE + session * LEN;
        for index in 0..plan.replicas {
            let shape =
                Shape { index, replicas: plan.replicas, window: plan.window, range: start..start + LEN };
            let device = &self.ground.hosts[index].device;
            let replica = Replica::new(device, &self.memories[index], shape);
            self.replicas[index].push(Some(replica.map_err(|error| error.to_string())?));
        }
        let chain: Vec<_> =
            self.replicas.iter().filter_map(|sessions| sessions.last()?.as_ref()).enumerate().collect();
        let made = self.ground.open(terms, host, &chain)?;
        self.clients.push(Client {
            session: Some(made),
            oracle: Oracle::new(LEN, plan.replicas),
            expected: VecDeque::new(),
            left: plan.operations,
            is_over: false,
        });
        Ok(())
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
                    self.ground.tally.operation("acknowledged", 0);
                }
            }
            Err(error) => {
                client.is_over = true;
                self.ground.tally.end(&error.to_string());
                let text = format!("session {number}: {error}");
                self.ground.note(&text);
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
                        self.ground.tally.operation(name, len);
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
        let Some((_, fault)) = self.plan.faults.pop_if(|(at, _)| *at <= self.begun) else { return };
        let text = format!("{fault:?}");
        self.ground.note(&text);
        match fault {
            Fault::Kill(index) => {
                self.replicas[index].iter_mut().for_each(|replica| *replica = None);
                self.ground.tally.fault("replica killed", 1);
            }
            Fault::Silence(host) => {
                self.ground.switch_off(host);
                self.is_cut = true;
                if let Some(client) = host.checked_sub(self.plan.replicas) {
                    self.clients[client].session = None;
                }
                self.ground.tally.fault("host silent", 1);
            }
            Fault::Away(host, milliseconds) => {
                self.ground.hub.cut(host, self.ground.now() + Duration::from_millis(milliseconds.into()));
                self.is_cut = true;
                self.ground.tally.fault("host away", 1);
            }
            Fault::Leave(client) => {
                self.clients[client].session = None;
                self.ground.tally.fault("client left", 1);
            }
        }
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
}

impl Client {
    fn is_done(&self) -> bool {
        self.session.is_none() || self.is_over || self.left == 0 && self.expected.is_empty()
    }
}

/// Octets of a session's range.
const LEN: usize = 1024;
/// Octets before and behind all ranges.
const EDGE: usize = 64;
const FENCE: u8 = 0xEE;
/// Words that are swapped.
const WORDS: usize = 6;
/// No run takes so long.
const LIMIT: Duration = Duration::from_secs(600);
