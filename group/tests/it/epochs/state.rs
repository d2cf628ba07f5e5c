//! One state of everything, and what can happen in it.

use std::sync::Arc;

use stateright::semantics::{LinearizabilityTester, register::Register};
use weft_group::{Change, Record};

use super::client::{Client, Step};
use super::host::Host;

/// One state of everything.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) struct State {
    pub(crate) register: Arc<Record>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) coordinators: Vec<Option<Change>>,
    pub(crate) clients: Vec<Client>,
    pub(crate) failures: u8,
    pub(crate) power_losses: u8,
    pub(crate) failed_flushes: u8,
    pub(crate) lost_answers: u8,
    pub(crate) history: LinearizabilityTester<usize, Register<u8>>,
    pub(crate) is_linear: bool,
    pub(crate) is_equal: bool,
}

/// What can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A coordinator that is not at work reads the record.
    Begin(usize),
    /// A coordinator's request.
    Coordinator(usize, Fate),
    /// A client reads the record and will open a session.
    Meet,
    /// A client's session is opened at its next member, or its operation makes a step there.
    Client(usize, Step),
    Restart(usize),
    PowerLoss,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Answered,
    /// It is carried out, in part if it is a copy, and the answer is lost.
    Lost,
    /// It never arrives.
    Silent,
}
