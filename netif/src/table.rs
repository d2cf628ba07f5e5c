use std::collections::HashMap;

use crate::connection::Connection;
use crate::demux::Tuple;

/// Names a connection of one [`Stack`](crate::Stack), for good: a place that is used again gets another
/// generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId {
    index: usize,
    generation: u64,
}

impl ConnectionId {
    /// The place in the table; keys of the timer wheel are made of it.
    pub(crate) const fn index(self) -> usize {
        self.index
    }
}

/// All connections of a stack: by place, and by 4-tuple as long as segments may arrive for them.
#[derive(Debug, Default)]
pub(crate) struct Table {
    entries: Vec<Entry>,
    free: Vec<usize>,
    by_tuple: HashMap<Tuple, ConnectionId>,
}

#[derive(Debug, Default)]
struct Entry {
    generation: u64,
    connection: Option<Box<Connection>>,
}

impl Table {
    pub(crate) fn insert(&mut self, connection: Connection) -> ConnectionId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry::default());
            self.entries.len() - 1
        });
        let id = ConnectionId { index, generation: self.entries[index].generation };
        self.by_tuple.insert(connection.tuple, id);
        self.entries[index].connection = Some(Box::new(connection));
        id
    }

    pub(crate) fn remove(&mut self, id: ConnectionId) -> Option<Box<Connection>> {
        self.unmap(id);
        let entry = self.entries.get_mut(id.index).filter(|entry| entry.generation == id.generation)?;
        let connection = entry.connection.take()?;
        entry.generation += 1;
        self.free.push(id.index);
        Some(connection)
    }

    /// Frees the 4-tuple of a connection for another one.
    pub(crate) fn unmap(&mut self, id: ConnectionId) {
        let Some(tuple) = self.get(id).map(|connection| connection.tuple) else { return };
        if self.by_tuple.get(&tuple) == Some(&id) {
            self.by_tuple.remove(&tuple);
        }
    }

    pub(crate) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let entry = self.entries.get_mut(id.index).filter(|entry| entry.generation == id.generation)?;
        entry.connection.as_deref_mut()
    }

    pub(crate) fn get(&self, id: ConnectionId) -> Option<&Connection> {
        let entry = self.entries.get(id.index).filter(|entry| entry.generation == id.generation)?;
        entry.connection.as_deref()
    }

    pub(crate) fn find(&self, tuple: &Tuple) -> Option<ConnectionId> {
        self.by_tuple.get(tuple).copied()
    }

    /// The connection that is at a place now.
    pub(crate) fn at(&self, index: usize) -> Option<ConnectionId> {
        let entry = self.entries.get(index).filter(|entry| entry.connection.is_some())?;
        Some(ConnectionId { index, generation: entry.generation })
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = ConnectionId> {
        (0..self.entries.len()).filter_map(|index| self.at(index))
    }

    pub(crate) const fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}
