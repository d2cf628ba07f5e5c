//! Tasks of a change of epoch, as they begin, go on and end.

use std::sync::Arc;

use weft_rnic::{Access, Mr, Pd, Region, Stag};

use crate::control::{Answer, Copying, Lent, Named, Request};
use crate::epoch::Refusal;
use crate::link::{Gone, Link};
use crate::resync::{BLOCK, Hash, Hashing, differing};

use super::fetching::Fetching;
use super::peer::Peer;
use super::task::{CopyTask, Flushing, Lend, Task};
use super::{MORE, Role, Server};

impl Server {
    /// Lets another replica read the memory. The answer follows when the blocks are hashed.
    pub(super) fn lend(&mut self, number: u64, named: Named) -> Option<Answer> {
        if let Some(refusal) = self.refusal(number, named) {
            return Some(refusal);
        }
        let data = self.register(number, Access::REMOTE_READ);
        let (Some(data), Some(peer)) = (data, self.peers.get_mut(&number)) else { return Some(no_room()) };
        let hashing = Hashing::new(self.size);
        peer.task = Some(Task::Lend(Lend { named, hashing, data, hashes: None }));
        self.queue.post(0, MORE);
        None
    }

    /// Begins to copy from another replica.
    pub(super) fn copy(&mut self, number: u64, copy: Copying) -> Option<Answer> {
        if let Some(refusal) = self.refusal(number, copy.to) {
            return Some(refusal);
        }
        let Ok(link) = Link::new(&self.device, &self.pd, &self.completions) else { return Some(no_room()) };
        let Ok(own) = self.dial(&link, copy.from, Role::Source(number)) else {
            return Some(Answer::SourceLost(format!("there is no way to {}", copy.from)));
        };
        let hashing = Hashing::new(self.size);
        let (lent, fetching, is_compared) = (None, None, false);
        let copying = CopyTask { copy, number: own, link, hashing, lent, fetching, is_compared };
        self.peers.get_mut(&number)?.task = Some(Task::Copy(Box::new(copying)));
        self.queue.post(0, MORE);
        None
    }

    /// Begins to make the memory durable.
    pub(super) fn flush(&mut self, number: u64, named: Named) -> Option<Answer> {
        if let Some(refusal) = self.refusal(number, named) {
            return Some(refusal);
        }
        let memory = self.register(number, Access::LOCAL_READ);
        let (Some(memory), Some(peer)) = (memory, self.peers.get_mut(&number)) else {
            return Some(no_room());
        };
        peer.task = Some(Task::Flush(Flushing { named, memory, flushed: 0, under_way: 0 }));
        self.advance_flush(number);
        None
    }

    /// Returns how much of a copy or of a flush is done, in parts of how much.
    pub(super) fn progress(&self) -> Option<[u64; 2]> {
        let done = self.peers.values().find_map(|peer| match peer.task.as_ref()? {
            Task::Lend(_) => None,
            Task::Copy(copying) => Some(copying.hashing.hashed() + copying.fetched(self.size)),
            Task::Flush(flushing) => Some(2 * self.size + flushing.flushed),
        });
        Some([done?, 3 * self.size])
    }

    /// Hashes some more blocks of those tasks that need it.
    pub(super) fn work(&mut self) {
        let (memory, mut hashed) = (Arc::clone(&self.memory), Vec::new());
        for (number, peer) in &mut self.peers {
            let hashing = match &mut peer.task {
                Some(Task::Lend(lend)) => &mut lend.hashing,
                Some(Task::Copy(copying)) => &mut copying.hashing,
                _ => continue,
            };
            if hashing.hashes().is_some() {
                continue;
            }
            // The memory is at least as long as what is given to sessions.
            let read = |at: u64, out: &mut [u8]| {
                usize::try_from(at).ok().filter(|at| memory.copy_out(*at, out)).map(drop).ok_or(())
            };
            let is_read = hashing.step(SLICE, read).is_ok();
            if hashing.hashes().is_some() || !is_read {
                hashed.push((*number, is_read));
            } else {
                self.queue.post(0, MORE);
            }
        }
        for (number, is_read) in hashed {
            if is_read { self.advance(number) } else { self.drop_peer(number) }
        }
    }

    /// Goes on with a task whose blocks are hashed.
    fn advance(&mut self, number: u64) {
        match self.peers.get(&number).and_then(|peer| peer.task.as_ref()) {
            Some(Task::Lend(_)) => self.tell_lent(number),
            Some(Task::Copy(_)) => self.advance_copy(number),
            _ => {}
        }
    }

    fn tell_lent(&mut self, number: u64) {
        let size = self.size;
        let Some(peer) = self.peers.get_mut(&number) else { return };
        let Some(Task::Lend(lend)) = &mut peer.task else { return };
        let table = lend.hashing.hashes().unwrap_or_default().concat();
        let region = Region::owned(table.len().max(1)).filter(|region| region.copy_in(0, &table));
        let register = |region| peer.pd.register_at(region, Access::REMOTE_READ, 0).ok();
        let Some(hashes) = region.and_then(register) else { return self.drop_peer(number) };
        let lent = Lent { data: lend.data.rkey().0, hashes: hashes.rkey().0, size };
        lend.hashes = Some(hashes);
        self.answer(number, &Answer::Lent(lent));
    }

    pub(super) fn greet_source(&mut self, peer: u64) {
        let hello = self.own_hello();
        let Some(copying) = self.copying(peer) else { return };
        if copying.link.send(&hello.encode()).is_err() {
            self.lose_source(peer, GONE);
        }
    }

    /// Reads what the replica has sent from which this one copies.
    pub(super) fn read_source(&mut self, peer: u64) {
        let Some(copying) = self.copying(peer) else { return };
        copying.link.collect();
        loop {
            let Some(copying) = self.copying(peer) else { return };
            let answer = match copying.link.receive() {
                Ok(Some(octets)) => Answer::parse(&octets),
                Ok(None) => break,
                Err(Gone) => return self.lose_source(peer, GONE),
            };
            let named = Named { epoch: copying.copy.to.epoch, incarnation: copying.copy.from_incarnation };
            let reason = match answer {
                Ok(Answer::Welcome(_)) if copying.link.send(&Request::Fetch(named).encode()).is_ok() => {
                    continue;
                }
                Ok(Answer::Lent(lent)) if copying.lent.replace(lent).is_none() => continue,
                Ok(Answer::Denied(refusal)) => refusal.to_string(),
                Ok(Answer::Refused(reason)) => reason,
                Ok(_) => "it has answered something else than was asked".into(),
                Err(error) => error.to_string(),
            };
            return self.lose_source(peer, &reason);
        }
        self.advance_copy(peer);
    }

    /// Goes on with a copy: the hashes, then the blocks, then the flush.
    fn advance_copy(&mut self, peer: u64) {
        let (size, memory, pd) = (self.size, Arc::clone(&self.memory), self.pd.clone());
        let Some(copying) = self.copying(peer) else { return };
        let Some(lent) = copying.lent else { return };
        let Some(own) = copying.hashing.hashes() else { return };
        if copying.fetching.is_none() {
            let len = own.len() as u64 * HASH;
            // Its Reads tell the other replica offsets, and no address of this process.
            let sink = usize::try_from(len).ok().and_then(Region::owned);
            let sink = sink.and_then(|region| pd.register_at(region, Access::LOCAL_WRITE, 0).ok());
            let Some(sink) = sink.filter(|_| lent.size == size) else {
                return self.lose_source(peer, "its memory has another size, or there is no room here");
            };
            copying.fetching =
                Some(Fetching::new((Stag(lent.hashes), sink), core::iter::once(0..len).collect()));
        }
        let Some(fetching) = &mut copying.fetching else { return };
        if fetching.advance(&mut copying.link).is_err() {
            return self.lose_source(peer, GONE);
        }
        if fetching.missing > 0 {
            return;
        }
        if copying.is_compared {
            return self.flush_copy(peer);
        }
        let differing = fetching.hashes(own.len()).and_then(|other| differing(size, own, &other));
        let sink = register((&memory, size), &pd, Access::LOCAL_WRITE);
        let (Some(differing), Some(sink)) = (differing, sink) else {
            return self.lose_source(peer, "there is no room here");
        };
        copying.is_compared = true;
        copying.fetching = Some(Fetching::new((Stag(lent.data), sink), differing));
        // Nothing may differ.
        self.advance_copy(peer);
    }

    /// Makes durable what was copied, and what was there before.
    fn flush_copy(&mut self, number: u64) {
        let Some(Task::Copy(copying)) = self.peers.get_mut(&number).and_then(|peer| peer.task.take()) else {
            return;
        };
        self.forget(copying.number, copying.link.announced_as());
        if let Some(answer) = self.flush(number, copying.copy.to) {
            self.answer(number, &answer);
        }
    }

    /// Goes on with a flush, if this connection has one.
    pub(super) fn advance_flush(&mut self, number: u64) {
        let size = self.size;
        let Some(peer) = self.peers.get_mut(&number) else { return };
        let Some(Task::Flush(flushing)) = &mut peer.task else { return };
        if peer.link.take_done() > 0 {
            flushing.flushed += flushing.under_way;
            flushing.under_way = 0;
        }
        if flushing.under_way > 0 {
            return;
        }
        let left = flushing.flushed..size.min(flushing.flushed + AT_ONCE);
        if !left.is_empty() {
            flushing.under_way = left.end - left.start;
            let place = usize::try_from(left.start).and_then(|at| Ok(at..usize::try_from(left.end)?));
            let is_begun = place.is_ok_and(|place| peer.link.sync(&flushing.memory, place).is_ok());
            if !is_begun {
                self.drop_peer(number);
            }
            return;
        }
        let named = flushing.named;
        peer.task = None;
        let mended = self.change(|state| {
            state.check(named.epoch, named.incarnation)?;
            state.mend();
            Ok(())
        });
        self.answer(number, &mended.unwrap_or_else(|answer| answer));
    }

    /// Ends a copy because of the other replica.
    pub(super) fn lose_source(&mut self, peer: u64, reason: &str) {
        if self.copying(peer).is_some() {
            self.drop_task(peer);
            self.answer(peer, &Answer::SourceLost(reason.to_owned()));
        }
    }

    /// Ends a task by the rules of epochs.
    pub(super) fn deny(&mut self, number: u64, refusal: Refusal) {
        if self.peers.get(&number).is_some_and(|peer| peer.task.is_some()) {
            self.drop_task(number);
            self.answer(number, &Answer::Denied(refusal));
        }
    }

    /// Drops a task, with what was registered for it.
    pub(super) fn drop_task(&mut self, number: u64) {
        let task = self.peers.get_mut(&number).and_then(|peer| peer.task.take());
        if let Some(Task::Copy(copying)) = task {
            self.forget(copying.number, copying.link.announced_as());
        }
    }

    fn copying(&mut self, peer: u64) -> Option<&mut CopyTask> {
        match &mut self.peers.get_mut(&peer)?.task {
            Some(Task::Copy(copying)) => Some(copying),
            _ => None,
        }
    }

    /// Returns why a task does not begin.
    fn refusal(&self, number: u64, named: Named) -> Option<Answer> {
        if let Err(refusal) = self.keeper.state().check(named.epoch, named.incarnation) {
            return Some(Answer::Denied(refusal));
        }
        match self.peers.get(&number).is_some_and(Peer::is_free) {
            true => None,
            false => Some(Answer::Refused("this connection has something under way".into())),
        }
    }

    /// Registers the memory for a connection alone.
    fn register(&self, number: u64, access: Access) -> Option<Mr> {
        register((&self.memory, self.size), &self.peers.get(&number)?.pd, access)
    }
}

/// Registers so many octets of a memory.
fn register((memory, size): (&Arc<Region>, u64), pd: &Pd, access: Access) -> Option<Mr> {
    pd.register_at(Region::part(memory, 0..usize::try_from(size).ok()?)?, access, 0).ok()
}

fn no_room() -> Answer {
    Answer::Refused("the device of this replica has no room".into())
}

const GONE: &str = "it has gone";
/// Octets of a hash.
const HASH: u64 = size_of::<Hash>() as u64;
/// Blocks that are hashed at a time: a millisecond or two.
const SLICE: usize = 32;
/// Octets that become durable at a time: a slow disk makes progress within seconds, too.
const AT_ONCE: u64 = 1024 * BLOCK;
