//! A client: one session of one epoch. Each step happens at one member.

use stateright::semantics::ConsistencyTester;
use stateright::semantics::register::{RegisterOp, RegisterRet};
use weft_group::{Record, Seat, Topology};

use super::{Broken, Memory, Plan, State};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) epoch: u64,
    pub(crate) has_read: bool,
    /// Hosts and their incarnations.
    chain: Vec<(usize, u64)>,
    /// How many members have the session.
    opened: usize,
    done: usize,
    write: Option<Write>,
    /// The write has ended, beside which a read is under way.
    has_written: bool,
    read: Option<Read>,
}

/// A write under way: which members have the octet, and which have executed the message, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Write {
    placed: u8,
    executed: u8,
}

/// A read under way: what the tail has answered, and how many members have executed the operation that confirms it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Read {
    value: Option<u8>,
    confirmed: usize,
}

/// A step, and the place of its member in the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Open(usize),
    Place(usize),
    Execute(usize),
    FailFlush(usize),
    Read(usize),
    Confirm(usize),
}

impl Client {
    /// The client that has had a session since epoch 1 began.
    pub(crate) fn founding(members: usize) -> Self {
        Self { opened: members, ..Self::with(1, (0..members).map(|at| (at, 1)).collect()) }
    }

    /// A client that will open a session.
    pub(crate) fn of(record: &Record) -> Self {
        let place = |seat: &Seat| (seat.host.id.parse().unwrap(), seat.incarnation);
        Self::with(record.epoch, record.members.iter().map(place).collect())
    }

    const fn with(epoch: u64, chain: Vec<(usize, u64)>) -> Self {
        Self {
            epoch,
            has_read: false,
            chain,
            opened: 0,
            done: 0,
            write: None,
            has_written: false,
            read: None,
        }
    }

    pub(crate) const fn is_open(&self) -> bool {
        self.opened == self.chain.len()
    }

    pub(crate) const fn is_done(&self, program: &str) -> bool {
        self.is_open() && self.done == program.len() && self.write.is_none()
    }

    /// Steps of the write, which is under way or about to be.
    fn write_steps(&self, topology: Topology, steps: &mut Vec<Step>) {
        let Write { placed, executed } = self.write.unwrap_or(Write { placed: 0, executed: 0 });
        let has = |bits: u8, at: usize| bits & 1 << at != 0;
        for at in 0..self.chain.len() {
            // In a chain octets come by the message of the member before, which goes ahead when the one before it has
            // executed its own.
            let is_sent = topology == Topology::Fan
                || (at < 1 || has(placed, at - 1)) && (at < 2 || has(executed, at - 2));
            let is_told = topology == Topology::Fan || at < 1 || has(executed, at - 1);
            if !has(placed, at) && is_sent {
                steps.push(Step::Place(at));
            } else if has(placed, at) && !has(executed, at) && is_told {
                steps.extend([Step::Execute(at), Step::FailFlush(at)]);
            }
        }
    }

    /// The next step of the read, which is under way or about to be.
    fn read_step(&self, is_early: bool) -> Step {
        let tail = self.chain.len() - 1;
        match self.read.unwrap_or(Read { value: None, confirmed: 0 }) {
            Read { confirmed, .. } if is_early && confirmed <= tail => Step::Confirm(confirmed),
            Read { value: None, .. } => Step::Read(tail),
            Read { confirmed, .. } => Step::Confirm(confirmed),
        }
    }
}

impl Plan {
    /// Which steps a client can make. A step needs the session at its member.
    pub(crate) fn client_steps(&self, state: &State, at: usize) -> Vec<Step> {
        let client = &state.clients[at];
        let next = self.programs[at].as_bytes().get(client.done);
        let mut steps = Vec::new();
        let is_early = self.broken == Some(Broken::ConfirmedEarly);
        match next {
            _ if !client.is_open() => steps.push(Step::Open(client.opened)),
            Some(b'W') => client.write_steps(self.topology, &mut steps),
            Some(b'R') => steps.push(client.read_step(is_early)),
            Some(_) => {
                let read = client.read_step(is_early);
                let is_confirm = matches!(read, Step::Confirm(_));
                // A session's operations are executed in the order in which they were sent.
                let is_behind = !is_early && is_confirm && client.write.is_some();
                let is_ahead = is_early && is_confirm;
                if !is_ahead && !client.has_written {
                    client.write_steps(self.topology, &mut steps);
                }
                if !is_behind && (client.write.is_some() || client.has_written || is_confirm) {
                    steps.push(read);
                }
            }
            None => (),
        }
        steps.retain(|step| self.may_step(state, client, *step));
        steps
    }

    fn may_step(&self, state: &State, client: &Client, step: Step) -> bool {
        let (host, incarnation) = client.chain[step.place()];
        let mut host = state.hosts[host];
        match step {
            Step::Open(_) => host.open(client.epoch, incarnation, self.broken),
            Step::FailFlush(_) => {
                let is_possible = self.memory == Memory::Flushed && state.failures > 0;
                is_possible && state.failed_flushes > 0 && host.has(client.epoch)
            }
            _ => host.has(client.epoch),
        }
    }

    pub(crate) fn step(&self, state: &mut State, at: usize, step: Step) {
        match step {
            Step::Open(place) => self.open(state, at, place),
            Step::Read(place) => self.read(state, at, place),
            Step::Confirm(place) => self.confirm(state, at, place),
            Step::FailFlush(place) => {
                let host = state.clients[at].chain[place].0;
                state.hosts[host].fail_flush();
                state.failures -= 1;
                state.failed_flushes -= 1;
            }
            Step::Place(_) | Step::Execute(_) => self.write(state, at, step),
        }
    }

    fn open(&self, state: &mut State, at: usize, place: usize) {
        let client = &mut state.clients[at];
        let (host, incarnation) = client.chain[place];
        state.hosts[host].open(client.epoch, incarnation, self.broken);
        client.opened += 1;
        if client.is_open() {
            let first = state.hosts[host].memory;
            let mut there = client.chain.iter().map(|(host, _)| &state.hosts[*host]);
            state.is_equal &= there.all(|host| !host.has(client.epoch) || host.memory == first);
        }
    }

    fn write(&self, state: &mut State, at: usize, step: Step) {
        let client = &mut state.clients[at];
        let host = &mut state.hosts[client.chain[step.place()].0];
        let bit = 1 << step.place();
        if client.write.is_none() {
            let op = RegisterOp::Write(written(at, client.done));
            state.history.on_invoke(2 * at, op).unwrap();
        }
        let write = client.write.get_or_insert(Write { placed: 0, executed: 0 });
        if matches!(step, Step::Place(_)) {
            host.memory = written(at, client.done);
            write.placed |= bit;
            return;
        }
        if self.memory == Memory::Flushed {
            host.flush();
        }
        write.executed |= bit;
        if usize::try_from(write.executed.count_ones()) == Ok(client.chain.len()) {
            client.write = None;
            // A read that is under way beside the write ends later.
            client.done += usize::from(client.read.is_none());
            client.has_written = client.read.is_some();
            state.history.on_return(2 * at, RegisterRet::WriteOk).unwrap();
            state.is_linear &= state.history.is_consistent();
        }
    }

    fn read(&self, state: &mut State, at: usize, place: usize) {
        let client = &mut state.clients[at];
        let value = state.hosts[client.chain[place].0].memory;
        if client.read.is_none() {
            state.history.on_invoke(2 * at + 1, RegisterOp::Read).unwrap();
        }
        client.read.get_or_insert(Read { value: None, confirmed: 0 }).value = Some(value);
        if matches!(self.broken, Some(Broken::Unconfirmed | Broken::ConfirmedEarly)) {
            end_read(state, at, value);
        }
    }

    fn confirm(&self, state: &mut State, at: usize, place: usize) {
        let client = &mut state.clients[at];
        if client.read.is_none() {
            state.history.on_invoke(2 * at + 1, RegisterOp::Read).unwrap();
        }
        let read = client.read.get_or_insert(Read { value: None, confirmed: 0 });
        read.confirmed = place + 1;
        let value = read.value.filter(|_| read.confirmed == client.chain.len());
        if let Some(value) = value {
            end_read(state, at, value);
        }
    }
}

impl Step {
    const fn place(self) -> usize {
        match self {
            Self::Open(at) | Self::Place(at) | Self::Execute(at) | Self::FailFlush(at) => at,
            Self::Read(at) | Self::Confirm(at) => at,
        }
    }
}

fn end_read(state: &mut State, at: usize, value: u8) {
    let client = &mut state.clients[at];
    client.read = None;
    client.has_written = false;
    client.done += 1;
    client.has_read = true;
    state.history.on_return(2 * at + 1, RegisterRet::ReadOk(value)).unwrap();
    state.is_linear &= state.history.is_consistent();
}

/// No two writes write the same.
fn written(client: usize, done: usize) -> u8 {
    u8::try_from(client * 8 + done + 1).unwrap()
}
