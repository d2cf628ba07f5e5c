//! Which completion queues a WAIT may name.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::cq::CompletionQueue;
use crate::ids::PdId;

/// The completion queues in use on one engine, by number, with the protection domains that use them.
///
/// A WAIT may name any queue that takes completions of a queue pair of the same protection domain: a peer that can
/// write the entry learns no more than how many of these there were.
#[derive(Debug, Default)]
pub struct CqTable {
    cqs: Mutex<HashMap<u32, InUse>>,
}

/// A completion queue, and how many queue pairs of which domains complete to it.
#[derive(Debug)]
struct InUse {
    queue: Weak<CompletionQueue>,
    users: Vec<(PdId, usize)>,
}

impl CqTable {
    /// Notes that a queue pair of `pd` completes to `queue`.
    pub fn attach(&self, queue: &Arc<CompletionQueue>, pd: PdId) {
        let mut cqs = self.cqs.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || InUse { queue: Arc::downgrade(queue), users: Vec::new() };
        let users = &mut cqs.entry(queue.number()).or_insert_with(new).users;
        match users.iter_mut().find(|(user, _)| *user == pd) {
            Some((_, count)) => *count += 1,
            None => users.push((pd, 1)),
        }
    }

    /// Notes that a queue pair of `pd` completes to `queue` no more.
    pub fn detach(&self, queue: &CompletionQueue, pd: PdId) {
        let mut cqs = self.cqs.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = cqs.get_mut(&queue.number()) else { return };
        for (_, count) in entry.users.iter_mut().filter(|(user, _)| *user == pd) {
            *count -= 1;
        }
        entry.users.retain(|&(_, count)| count > 0);
        if entry.users.is_empty() {
            cqs.remove(&queue.number());
        }
    }

    /// Returns the queue with this number, if a queue pair of `pd` completes to it.
    pub fn find(&self, number: u32, pd: PdId) -> Option<Arc<CompletionQueue>> {
        let cqs = self.cqs.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = cqs.get(&number).filter(|entry| entry.users.iter().any(|(user, _)| *user == pd))?;
        entry.queue.upgrade()
    }

    /// Returns whether any queue pair completes to the queue with this number.
    pub fn contains(&self, number: u32) -> bool {
        self.cqs.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_there_for_the_domains_that_use_it() {
        let table = CqTable::default();
        let queue = Arc::new(CompletionQueue::numbered(7, 1, false));
        assert!(table.find(7, PdId(1)).is_none());
        table.attach(&queue, PdId(1));
        table.attach(&queue, PdId(1));
        table.attach(&queue, PdId(2));
        assert!(table.find(7, PdId(1)).is_some() && table.find(7, PdId(3)).is_none());
        assert!(table.find(8, PdId(1)).is_none());
        table.detach(&queue, PdId(1));
        assert!(table.find(7, PdId(1)).is_some());
        table.detach(&queue, PdId(1));
        assert!(table.find(7, PdId(1)).is_none() && table.contains(7));
        table.detach(&queue, PdId(2));
        table.detach(&queue, PdId(2));
        assert!(!table.contains(7));
    }
}
