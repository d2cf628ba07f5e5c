//! A turn of a client: it takes the lock, reads a register, perhaps writes another value, and gives the lock back.

use stateright::semantics::ConsistencyTester;
use weft_group::{Copy, Done, Op, OpId, Originals, Replicas, Session, SessionError, Step, Swap, backoff};
use weft_netif::Duration;

use super::Shared;
use super::client::Doing;
use super::register::{REGISTERS, Use};
use crate::groups::sabotage::Sabotage;

impl Shared {
    /// A client takes what is done, and begins what comes next.
    pub(super) fn work(&mut self, number: usize) -> Result<(), String> {
        loop {
            let client = &mut self.clients[number];
            let Some(session) = &mut client.session else { return Ok(()) };
            let mut out = [Done { id: OpId(0), originals: [0; 16] }];
            match session.poll(&mut out) {
                Ok(0) if client.under_way.is_some() => return Ok(()),
                Ok(0) => {}
                Ok(_) => {
                    let id = client.under_way.take();
                    if id != Some(out[0].id) {
                        return Err(format!("client {number}: {:?} is done instead of {id:?}", out[0].id));
                    }
                    self.take(number, &out[0].originals)?;
                }
                Err(error) => {
                    client.session = None;
                    self.ground.tally.end(&error.to_string());
                    return Ok(());
                }
            }
            let Some((op, octets)) = self.next(number) else { return Ok(()) };
            let client = &mut self.clients[number];
            let Some(session) = &mut client.session else { return Ok(()) };
            match session.submit(&op, &octets) {
                Ok(id) => client.under_way = Some(id),
                Err(error @ SessionError::Op(_)) => return Err(format!("client {number}: {error}")),
                // The session is over, as the next poll tells. What was invoked just now is never done.
                Err(_) => return Ok(()),
            }
            self.begun += 1;
        }
    }

    /// Returns the next operation of a client that has none under way.
    fn next(&mut self, number: usize) -> Option<(Op, Vec<u8>)> {
        let (now, is_unlocked) = (self.ground.now(), self.sabotage == Some(Sabotage::Lock));
        loop {
            let client = &mut self.clients[number];
            match client.doing {
                Doing::Resting(until) if client.left == 0 || now < until => return None,
                Doing::Resting(_) => {
                    client.lock.acquire();
                    client.doing = Doing::Locking;
                }
                Doing::Locking if is_unlocked => return Some(self.read(number)),
                Doing::Locking | Doing::Releasing => match client.lock.next() {
                    Step::Swap(swap) => return Some((Op { swap: Some(swap), ..Op::default() }, Vec::new())),
                    Step::Owned => return Some(self.read(number)),
                    Step::Busy(_) => self.back_off(number),
                    Step::Free => self.end_turn(number),
                },
                Doing::Found(register, value, found) => {
                    client.doing = Doing::Writing(register, found);
                    return Some(self.write(number, register, value));
                }
                // It was invoked, and its session was over before it was sent.
                Doing::Reading(..) | Doing::Writing(..) => return None,
            }
        }
    }

    /// Begins to read a register. A swap of 0 by 0 only tells what is there.
    fn read(&mut self, number: usize) -> (Op, Vec<u8>) {
        let random = &mut self.plan.random;
        let register = random.below(REGISTERS);
        // No two values are the same.
        let value = self.begun << 8 | number as u64 | 0x80;
        let wanted = if random.percent(50) { Use::Read } else { Use::Exchange(value) };
        let client = &mut self.clients[number];
        let history = &mut self.histories[register];
        history.on_invoke(client.thread, wanted).expect("a thread with nothing under way");
        client.doing = Doing::Reading(register, wanted);
        let swap = Swap { at: place(register), compare: 0, swap: 0, on: Replicas::ALL };
        (Op { swap: Some(swap), ..Op::default() }, Vec::new())
    }

    /// Begins to write a register, or a word of the client's own that is copied to it.
    fn write(&mut self, number: usize, register: usize, value: u64) -> (Op, Vec<u8>) {
        let (at, own) = (place(register), place(REGISTERS + number));
        let octets = value.to_le_bytes().to_vec();
        if self.plan.random.percent(50) {
            let copy = Some(Copy { from: own, to: at, len: 8 });
            return (Op { write: Some(own..own + 8), copy, ..Op::default() }, octets);
        }
        (Op { write: Some(at..at + 8), ..Op::default() }, octets)
    }

    /// The operation of a client is done.
    fn take(&mut self, number: usize, found: &Originals) -> Result<(), String> {
        let client = &mut self.clients[number];
        match client.doing {
            Doing::Reading(register, wanted) => {
                let found = &found[..client.session.as_ref().map_or(1, Session::replicas)];
                let is_same = found.iter().all(|word| *word == found[0]);
                // Without the lock the histories alone have to tell.
                if !is_same && self.sabotage != Some(Sabotage::Lock) {
                    return Err(format!("register {register}: the replicas have {found:?}"));
                }
                let found = found[found.len() - 1];
                match wanted {
                    Use::Read => self.end_use(number, (register, found), "locked read"),
                    Use::Exchange(value) => client.doing = Doing::Found(register, value, found),
                }
            }
            Doing::Writing(register, found) => self.end_use(number, (register, found), "locked exchange"),
            Doing::Releasing if !client.lock.take(found) => {
                return Err(format!("client {number} had lost the lock: {found:?}"));
            }
            Doing::Locking if !client.lock.take(found) => self.back_off(number),
            _ => {}
        }
        Ok(())
    }

    /// Tries to get the lock again, or the rest of its words, after a while.
    fn back_off(&mut self, number: usize) {
        let client = &mut self.clients[number];
        let pause = backoff(self.plan.random.next(), client.attempt);
        // The owner may be gone: looking less often saves frames.
        let more = if client.attempt < 10 { Duration::ZERO } else { Duration::from_secs(1) };
        client.attempt += 1;
        client.doing = Doing::Resting(self.ground.now() + Duration::from_micros(micros(pause)) + more);
        self.ground.tally.operation("lock busy", 0);
    }

    fn end_use(&mut self, number: usize, (register, found): (usize, u64), name: &str) {
        let client = &mut self.clients[number];
        let history = &mut self.histories[register];
        history.on_return(client.thread, found).expect("a thread with this under way");
        self.ground.tally.operation(name, 8);
        if self.sabotage == Some(Sabotage::Lock) {
            self.end_turn(number);
        } else {
            client.lock.release();
            client.doing = Doing::Releasing;
        }
    }

    fn end_turn(&mut self, number: usize) {
        let now = self.ground.now();
        let pause = Duration::from_micros(self.plan.random.below(500) as u64);
        let client = &mut self.clients[number];
        client.left = client.left.saturating_sub(1);
        (client.attempt, client.since, client.doing) = (0, now, Doing::Resting(now + pause));
    }
}

/// Returns where a register is. The lock is the first word.
const fn place(register: usize) -> u64 {
    8 + 8 * register as u64
}

fn micros(time: core::time::Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
