//! What another daemon says it has received.

use std::collections::BTreeSet;

use crate::far::Session;

/// Reads `data` as steps of nine octets: messages, queue pairs that come and go, and numbers of messages that another
/// daemon says it has received. Each message is done once, and none that the other daemon cannot have. A number that is
/// false changes nothing.
///
/// # Panics
/// If a message is lost, is done twice, or is sent out of order.
pub fn session(data: &[u8]) {
    let mut model = Model::default();
    for step in data.as_chunks::<9>().0 {
        let [kind, value @ ..] = *step;
        model.step(kind, u64::from_le_bytes(value));
        model.check();
    }
}

/// A session whose messages are their numbers, and what is known of it.
#[derive(Default)]
struct Model {
    session: Session<u64>,
    pushed: u64,
    first: u64,
    posted: u64,
    tried: u64,
    received: u64,
    told: u64,
    done: BTreeSet<u64>,
}

impl Model {
    fn step(&mut self, kind: u8, value: u64) {
        // Most numbers are near those that are right.
        let near = if kind & 0x80 == 0 { (self.first + value % 300).saturating_sub(2) } else { value };
        match kind % 8 {
            0 => {
                for _ in 0..=value % 64 {
                    self.session.push(self.pushed);
                    self.pushed += 1;
                }
            }
            1 => (0..=value % 64).for_each(|_| self.post()),
            2 => self.complete(near),
            3 => self.acknowledge(near),
            4 => self.resume(near),
            5 => {
                (0..=value % 512).for_each(|_| self.session.receive());
                self.received += value % 512 + 1;
            }
            6 => {
                let is_due = value % 2 == 1;
                let is_wanted = self.received - self.told >= if is_due { 1 } else { 256 };
                let told = self.session.acknowledgment(is_due);
                assert_eq!(told.map(u64::from), is_wanted.then_some(self.received & LOW));
                self.told = if is_wanted { self.received } else { self.told };
            }
            _ => {}
        }
    }

    fn post(&mut self) {
        let next = (self.posted < self.pushed).then_some(self.posted);
        assert_eq!(self.session.post(), next.as_ref().map(|number| (*number, number)));
        self.posted += u64::from(next.is_some());
        self.tried = self.tried.max(self.posted);
    }

    fn complete(&mut self, number: u64) {
        let is_new = (self.first..self.pushed).contains(&number) && !self.done.contains(&number);
        assert_eq!(self.session.complete(number), is_new.then_some(&number));
        if is_new {
            self.done.insert(number);
        }
    }

    /// The low half of a number, of messages that this queue pair has.
    fn acknowledge(&mut self, number: u64) {
        let Ok(low) = u32::try_from(number & LOW) else { return };
        let step = (number & LOW).wrapping_sub(self.first & LOW) & LOW;
        let is_true = step <= self.posted - self.first;
        let mut dropped = Vec::new();
        assert_eq!(self.session.acknowledge(low, |message| dropped.push(message)).is_ok(), is_true);
        self.forget(if is_true { self.first + step } else { self.first }, &dropped);
    }

    /// The number, of messages that any queue pair had.
    fn resume(&mut self, number: u64) {
        let is_true = (self.first..=self.tried).contains(&number);
        let mut dropped = Vec::new();
        assert_eq!(self.session.resume(number, |message| dropped.push(message)).is_ok(), is_true);
        self.forget(if is_true { number } else { self.first }, &dropped);
        if is_true {
            self.posted = self.first;
            self.told = self.received;
        }
    }

    /// All messages before this one are done, and `dropped` has those that were not done before, in order.
    fn forget(&mut self, first: u64, dropped: &[u64]) {
        let undone: Vec<u64> = (self.first..first).filter(|number| !self.done.contains(number)).collect();
        assert_eq!(dropped, undone);
        self.first = first;
        self.posted = self.posted.max(first);
        self.done.retain(|number| *number >= first);
    }

    fn check(&self) {
        assert_eq!(self.session.oldest(), self.first);
        assert_eq!(self.session.len() as u64, self.pushed - self.first);
        assert_eq!(self.session.is_posted(), self.posted == self.pushed);
        assert_eq!(self.session.received(), self.received);
        assert_eq!(self.session.owes_acknowledgment(), self.received != self.told);
    }
}

const LOW: u64 = 0xffff_ffff;
