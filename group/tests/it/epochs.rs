//! A model of changes of epoch: every order of events that a few hosts, coordinators and clients can come to.
//!
//! Coordinators and members are the code that the crate runs. Hosts' memory is one word, since blocks are independent.
//! A host may always leave a coordinator or a client without an answer, which stands for cut links and dead hosts. So
//! only those failures are counted that take memory away. An epoch has one client at a time, as locks have it,
//! and a client that has lost its session comes back in another epoch only.

mod client;
mod coordinator;
mod host;
mod plan;
mod state;
mod steps;
mod variants;

use std::sync::Arc;

use stateright::semantics::{LinearizabilityTester, register::Register};
use stateright::{Model, Property};
use weft_group::{Host as Name, Record, Seat};

use client::Client;
use host::Host;
use plan::Plan;
use state::{Event, Fate, State};

impl Model for Plan {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        let name = |at: usize| Name { id: at.to_string(), addr: String::new() };
        let seat = |at| Seat { host: name(at), incarnation: 1 };
        let register = Record {
            next_epoch: 2,
            epoch: 1,
            members: (0..self.members).map(seat).collect(),
            ..Record::found("g", Vec::new(), self.members, (self.topology, 1))
        };
        let spares = (self.members..self.members + self.spares).map(name).collect();
        let mut state = State {
            register: Arc::new(Record { spares, ..register }),
            hosts: (0..self.members + self.spares).map(|at| Host::new(at < self.members)).collect(),
            coordinators: vec![None; self.coordinators],
            clients: vec![Client::founding(self.members)],
            failures: self.failures,
            power_losses: self.power_losses,
            failed_flushes: self.failed_flushes,
            lost_answers: self.lost_answers,
            history: LinearizabilityTester::new(Register(0)),
            is_linear: true,
            is_equal: true,
        };
        for at in 0..self.claimed {
            self.begin(&mut state, at);
            self.coordinate(&mut state, at, Fate::Answered);
        }
        vec![state]
    }

    fn actions(&self, state: &State, events: &mut Vec<Event>) {
        // Nothing that follows can be seen, or all has been seen.
        if !state.is_linear || !state.is_equal {
            return;
        }
        let is_done = |(at, client): (usize, &Client)| client.is_done(self.programs[at]);
        if state.clients.len() == self.programs.len() && state.clients.iter().enumerate().all(is_done) {
            return;
        }
        for (at, change) in state.coordinators.iter().enumerate() {
            self.coordinator_events(state, at, change.as_ref(), events);
        }
        let mut present =
            state.clients.iter().enumerate().filter(|(_, client)| client.epoch == state.register.epoch);
        if present.all(is_done) && state.clients.len() < self.programs.len() {
            events.push(Event::Meet);
        }
        for at in 0..state.clients.len() {
            events.extend(self.client_steps(state, at).into_iter().map(|step| Event::Client(at, step)));
        }
        if state.failures > 0 {
            events.extend((0..state.hosts.len()).map(Event::Restart));
            if state.power_losses > 0 {
                events.push(Event::PowerLoss);
            }
        }
    }

    fn next_state(&self, state: &State, event: Event) -> Option<State> {
        let mut state = state.clone();
        match event {
            Event::Begin(at) => self.begin(&mut state, at),
            Event::Coordinator(at, fate) => self.coordinate(&mut state, at, fate),
            Event::Meet => {
                let client = Client::of(&state.register);
                state.clients.push(client);
            }
            Event::Client(at, step) => self.step(&mut state, at, step),
            Event::Restart(at) => {
                state.failures -= 1;
                state.hosts[at].restart(self.memory);
            }
            Event::PowerLoss => {
                state.failures -= 1;
                state.power_losses -= 1;
                state.hosts.iter_mut().for_each(|host| host.restart(self.memory));
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("linearizable", |_, state: &State| state.is_linear),
            Property::always("members hold the same octets", |_, state: &State| state.is_equal),
            Property::sometimes("another epoch is read", |_, state: &State| {
                state.clients.iter().any(|client| client.epoch > 1 && client.has_read)
            }),
            Property::sometimes("the epoch changes twice", |_, state: &State| {
                state.clients.iter().filter(|client| client.epoch > 1 && client.is_open()).count() > 1
            }),
        ]
    }
}
