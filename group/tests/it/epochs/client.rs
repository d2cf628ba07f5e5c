//! A client: one session of one epoch. Each step happens at one member.

use weft_group::{Record, Seat, Topology};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) epoch: u64,
    pub(crate) has_read: bool,
    /// Hosts and their incarnations.
    pub(crate) chain: Vec<(usize, u64)>,
    /// How many members have the session.
    pub(crate) opened: usize,
    pub(crate) done: usize,
    pub(crate) write: Option<Write>,
    /// The write has ended, beside which a read is under way.
    pub(crate) has_written: bool,
    pub(crate) read: Option<Read>,
}

/// A write under way: which members have the octet, and which have executed the message, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Write {
    pub(crate) placed: u8,
    pub(crate) executed: u8,
}

/// A read under way: what the tail has answered, and how many members have executed the operation that confirms it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Read {
    pub(crate) value: Option<u8>,
    pub(crate) confirmed: usize,
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
    pub(crate) fn write_steps(&self, topology: Topology, steps: &mut Vec<Step>) {
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
    pub(crate) fn read_step(&self, is_early: bool) -> Step {
        let tail = self.chain.len() - 1;
        match self.read.unwrap_or(Read { value: None, confirmed: 0 }) {
            Read { confirmed, .. } if is_early && confirmed <= tail => Step::Confirm(confirmed),
            Read { value: None, .. } => Step::Read(tail),
            Read { confirmed, .. } => Step::Confirm(confirmed),
        }
    }
}

impl Step {
    pub(crate) const fn place(self) -> usize {
        match self {
            Self::Open(at) | Self::Place(at) | Self::Execute(at) | Self::FailFlush(at) => at,
            Self::Read(at) | Self::Confirm(at) => at,
        }
    }
}
