//! A client, and what it is about.

use core::num::NonZeroU16;

use weft_group::{Lock, OpId, Owner, Session};
use weft_netif::Instant;

use super::register::Use;

/// A client, and what it is about.
pub(super) struct Client {
    number: usize,
    /// Its number in histories, which is another one in each epoch.
    pub(super) thread: usize,
    /// `None`: it has ended, or its program has.
    pub(super) session: Option<Session>,
    pub(super) is_gone: bool,
    pub(super) lock: Lock,
    pub(super) doing: Doing,
    pub(super) under_way: Option<OpId>,
    /// How many times it still wants the lock.
    pub(super) left: u64,
    /// How many times in a row it has not got the lock.
    pub(super) attempt: u32,
    /// When it has last got on.
    pub(super) since: Instant,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Doing {
    Resting(Instant),
    Locking,
    /// Reads a register.
    Reading(usize, Use),
    /// Is about to write this value to a register, in which it has found another one.
    Found(usize, u64, u64),
    /// Writes a register, in which it has found this.
    Writing(usize, u64),
    Releasing,
}

impl Client {
    pub(super) fn new(number: usize, turns: u64) -> Self {
        let zero = Instant::from_secs(0);
        Self {
            number,
            thread: number,
            session: None,
            is_gone: false,
            lock: Lock::new(0, 1, owner(0, number)),
            doing: Doing::Resting(zero),
            under_way: None,
            left: turns,
            attempt: 0,
            since: zero,
        }
    }

    /// Goes on with a session in the next epoch. What was under way may be done or not. The lock knows it by this epoch.
    pub(super) fn begin(&mut self, session: Session, epoch: u64, now: Instant) {
        self.lock = Lock::new(0, session.replicas(), owner(epoch, self.number));
        self.thread = usize::try_from(session.terms().session).unwrap_or(0);
        (self.session, self.doing, self.under_way) = (Some(session), Doing::Resting(now), None);
        (self.attempt, self.since) = (0, now);
    }

    pub(super) fn is_done(&self) -> bool {
        self.left == 0 && self.under_way.is_none()
    }

    /// Returns what it is about, in a line.
    pub(super) fn state(&self) -> String {
        format!("{:?}, {} more times", self.doing, self.left)
    }

    /// Returns when it wants to do something by itself.
    pub(super) const fn alarm(&self) -> Option<Instant> {
        match self.doing {
            Doing::Resting(until) if self.left > 0 => Some(until),
            _ => None,
        }
    }
}

fn owner(epoch: u64, number: usize) -> Owner {
    Owner::new(epoch, epoch * 2 + number as u64, NonZeroU16::MIN)
}
