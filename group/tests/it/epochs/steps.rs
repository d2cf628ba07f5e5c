//! What clients do, step by step, and what they have seen.

use stateright::semantics::ConsistencyTester;
use stateright::semantics::register::{RegisterOp, RegisterRet};

use super::client::{Client, Read, Step, Write};
use super::plan::{Broken, Memory, Plan};
use super::state::State;

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
