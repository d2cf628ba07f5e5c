//! Connections by place and by 4-tuple.

use core::hash::{BuildHasher, Hasher};
use std::collections::HashMap;

use crate::demux::Tuple;
use crate::random::Random;

/// Names a connection of one [`Stack`](crate::Stack). An id is never used again: a place in the table gets another
/// generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId {
    index: usize,
    generation: u64,
}

impl ConnectionId {
    /// Returns the place in the table, which another connection may have later.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.index
    }

    /// Packs the id into 63 bits, for the kernel to carry; [`Slots::unpack`] finds the connection again.
    pub(crate) const fn pack(self) -> u64 {
        (self.generation & GENERATION_MASK) << 32 | (self.index as u64 & 0xFFFF_FFFF)
    }
}

/// Connections by place.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    entries: Vec<Entry<T>>,
    free: Vec<usize>,
}

/// What has two ends, by which a [`Table`] finds it.
pub(crate) trait Ends {
    fn ends(&self) -> Tuple;
}

/// All connections of a stack, by place. By 4-tuple it finds those for which segments may arrive.
#[derive(Debug)]
pub(crate) struct Table<T> {
    slots: Slots<T>,
    by_tuple: HashMap<Tuple, ConnectionId, Keyed>,
    /// The connection that was found last. Segments of one connection often follow each other.
    last: Option<(Tuple, ConnectionId)>,
}

/// Hashes 4-tuples by multiplication, since each segment needs a hash. This takes a fraction of the time of the
/// standard library's hasher. The hash includes a key, because peers choose half of a tuple.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keyed(u64);

/// The hash so far, and the key.
pub(crate) struct TupleHasher {
    state: u64,
    key: u64,
}

impl Keyed {
    /// Returns a hasher. The seed changes nothing but the time that a look-up takes.
    pub(crate) const fn new(seed: u64) -> Self {
        Self(Random::new(seed).draw())
    }
}

impl BuildHasher for Keyed {
    type Hasher = TupleHasher;

    fn build_hasher(&self) -> TupleHasher {
        TupleHasher { state: !self.0, key: self.0 | 1 }
    }
}

impl TupleHasher {
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.state ^ word) * u128::from(self.key);
        let half = |half: u128| u64::try_from(half & u128::from(u64::MAX)).unwrap_or(0);
        let [low, high] = [half(product), half(product >> 64)];
        self.state = low.rotate_left(23) ^ high ^ self.key;
    }
}

impl Hasher for TupleHasher {
    fn write(&mut self, octets: &[u8]) {
        for chunk in octets.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_ne_bytes(word));
        }
    }

    fn write_u16(&mut self, value: u16) {
        self.mix(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.mix(value.into());
    }

    fn write_isize(&mut self, value: isize) {
        self.mix(value.unsigned_abs() as u64);
    }

    fn finish(&self) -> u64 {
        self.state
    }
}

#[derive(Debug)]
struct Entry<T> {
    generation: u64,
    connection: Option<Box<T>>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    pub(crate) fn insert(&mut self, connection: T) -> ConnectionId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { generation: 0, connection: None });
            self.entries.len() - 1
        });
        self.entries[index].connection = Some(Box::new(connection));
        ConnectionId { index, generation: self.entries[index].generation }
    }

    pub(crate) fn remove(&mut self, id: ConnectionId) -> Option<Box<T>> {
        let entry = self.entries.get_mut(id.index).filter(|entry| entry.generation == id.generation)?;
        let connection = entry.connection.take()?;
        entry.generation += 1;
        self.free.push(id.index);
        Some(connection)
    }

    pub(crate) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut T> {
        let entry = self.entries.get_mut(id.index).filter(|entry| entry.generation == id.generation)?;
        entry.connection.as_deref_mut()
    }

    pub(crate) fn get(&self, id: ConnectionId) -> Option<&T> {
        let entry = self.entries.get(id.index).filter(|entry| entry.generation == id.generation)?;
        entry.connection.as_deref()
    }

    /// Returns the connection that has this place now.
    pub(crate) fn at(&self, index: usize) -> Option<ConnectionId> {
        let entry = self.entries.get(index).filter(|entry| entry.connection.is_some())?;
        Some(ConnectionId { index, generation: entry.generation })
    }

    /// Returns the id that was packed, if its connection is still there.
    pub(crate) fn unpack(&self, packed: u64) -> Option<ConnectionId> {
        let id = self.at(usize::try_from(packed & 0xFFFF_FFFF).ok()?)?;
        (id.pack() == packed).then_some(id)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = ConnectionId> {
        (0..self.entries.len()).filter_map(|index| self.at(index))
    }

    pub(crate) const fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

impl<T: Ends> Table<T> {
    /// Returns an empty table. The seed changes nothing but the time that a look-up takes.
    pub(crate) fn new(seed: u64) -> Self {
        Self { slots: Slots::default(), by_tuple: HashMap::with_hasher(Keyed::new(seed)), last: None }
    }

    pub(crate) fn insert(&mut self, connection: T) -> ConnectionId {
        let tuple = connection.ends();
        self.last = None;
        let id = self.slots.insert(connection);
        self.by_tuple.insert(tuple, id);
        id
    }

    pub(crate) fn remove(&mut self, id: ConnectionId) -> Option<Box<T>> {
        self.unmap(id);
        self.slots.remove(id)
    }

    /// Frees the 4-tuple of a connection for another one.
    pub(crate) fn unmap(&mut self, id: ConnectionId) {
        let Some(tuple) = self.get(id).map(Ends::ends) else { return };
        if self.by_tuple.get(&tuple) == Some(&id) {
            self.last = None;
            self.by_tuple.remove(&tuple);
        }
    }

    pub(crate) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut T> {
        self.slots.get_mut(id)
    }

    pub(crate) fn get(&self, id: ConnectionId) -> Option<&T> {
        self.slots.get(id)
    }

    pub(crate) fn find(&self, tuple: &Tuple) -> Option<ConnectionId> {
        self.by_tuple.get(tuple).copied()
    }

    /// Does the same as [`Self::find`], and faster for the connection that was found last.
    pub(crate) fn find_next(&mut self, tuple: &Tuple) -> Option<ConnectionId> {
        match self.last {
            Some((last, id)) if last == *tuple => Some(id),
            _ => {
                let id = self.find(tuple)?;
                self.last = Some((*tuple, id));
                Some(id)
            }
        }
    }

    /// Returns true if a connection has `port` at this end.
    pub(crate) fn has_local_port(&self, port: u16) -> bool {
        self.by_tuple.keys().any(|tuple| tuple.local.port() == port)
    }

    /// Returns the connection that is at a place now.
    pub(crate) fn at(&self, index: usize) -> Option<ConnectionId> {
        self.slots.at(index)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = ConnectionId> {
        self.slots.ids()
    }

    pub(crate) const fn len(&self) -> usize {
        self.slots.len()
    }
}

/// The bits of a generation that fit beside a place and one bit for other purposes.
const GENERATION_MASK: u64 = 0x7FFF_FFFF;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::SocketAddr;

    use super::*;

    /// A peer that chooses addresses and ports must not be able to put all its connections into one bucket.
    #[test]
    fn tuples_of_one_peer_get_different_hashes_that_depend_on_the_key() {
        for (local, remote) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
            let tuple = |port| Tuple {
                local: SocketAddr::new(local.parse().unwrap(), 4791),
                remote: SocketAddr::new(remote.parse().unwrap(), port),
            };
            let [one, other]: [HashSet<u64>; 2] =
                [1, 2].map(|key| (0..10_000).map(|port| Keyed(key).hash_one(tuple(port))).collect());
            assert_eq!(one.len(), 10_000);
            assert!(one.is_disjoint(&other));
        }
    }
}
