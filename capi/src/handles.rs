//! Tables that lead from a name of the program's to an object.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::{Arc, PoisonError, RwLock};

use rustix::io::Errno;

use crate::raw::{Origin, Visible};

/// The objects of one kind by their names: addresses that the program got, or numbers. A name is looked up here and its
/// address is never followed. So null, foreign and destroyed handles are refused.
#[derive(Debug)]
pub(crate) struct Handles<K, T> {
    live: RwLock<HashMap<K, Entry<T>, BuildHasherDefault<Mix>>>,
}

/// An object, and its origin if calls are traced.
type Entry<T> = (Arc<T>, Option<Origin>);

impl<K, T> Default for Handles<K, T> {
    fn default() -> Self {
        Self { live: RwLock::default() }
    }
}

impl<K: Hash + Eq, T> Handles<K, T> {
    /// Returns the object of this name.
    ///
    /// # Errors
    /// `EINVAL` if there is none.
    pub(crate) fn get(&self, name: K) -> Result<Arc<T>, Errno> {
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        live.get(&name).map(|(object, _)| Arc::clone(object)).ok_or(Errno::INVAL)
    }

    pub(crate) fn insert(&self, name: K, object: &Arc<T>) {
        let entry = (Arc::clone(object), Origin::here());
        self.live.write().unwrap_or_else(PoisonError::into_inner).insert(name, entry);
    }

    /// Removes the name, and returns its object. The object lives on for the threads that use it.
    pub(crate) fn remove(&self, name: K) -> Option<Arc<T>> {
        self.live.write().unwrap_or_else(PoisonError::into_inner).remove(&name).map(|(object, _)| object)
    }

    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        live.values().map(|(object, _)| Arc::clone(object)).collect()
    }
}

impl<T> Handles<usize, T> {
    /// Returns the names that are left, and their origins. Returns nothing while a thread has the lock: it may have
    /// ended inside.
    pub(crate) fn left(&self) -> Vec<(usize, Option<Origin>)> {
        let Ok(live) = self.live.try_read() else { return Vec::new() };
        live.iter().map(|(&name, &(_, origin))| (name, origin)).collect()
    }
}

/// Arrays that the program gets, and gives back later.
pub(crate) struct Lists<T> {
    given: Handles<usize, Visible<T>>,
}

impl<T: Copy> Lists<T> {
    pub(crate) fn add(&self, list: T) -> *mut T {
        let list = Arc::new(Visible::new(list));
        self.given.insert(list.as_ptr().addr(), &list);
        list.as_ptr()
    }

    /// Frees a list. Does nothing for an address that is no list.
    pub(crate) fn free(&self, list: usize) {
        drop(self.given.remove(list));
    }
}

impl<T> Default for Lists<T> {
    fn default() -> Self {
        Self { given: Handles::default() }
    }
}

impl<T> core::fmt::Debug for Lists<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.given.fmt(f)
    }
}

/// A hash by one multiplication. A peer does not choose the addresses and numbers, so it cannot cause collisions.
#[derive(Debug, Default)]
pub(crate) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, octets: &[u8]) {
        for &octet in octets {
            self.write_u64(octet.into());
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        // The middle of the product depends on all bits of both.
        let product = u128::from(self.0 ^ number) * u128::from(SPREAD);
        self.0 = u64::try_from(product >> 64).unwrap_or(0) ^ u64::try_from(product & LOW).unwrap_or(0);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}

/// Odd, with as many ones as zeros.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
const LOW: u128 = u64::MAX as u128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_object_is_not_found_and_lives_on_for_its_users() {
        let handles = Handles::default();
        let object = Arc::new(5);
        handles.insert(0x7000_usize, &object);
        let user = handles.get(0x7000).unwrap();
        assert_eq!(handles.get(0x7040), Err(Errno::INVAL));
        assert_eq!(handles.remove(0x7000), Some(object));
        assert_eq!(handles.remove(0x7000), None);
        assert_eq!(handles.get(0x7000), Err(Errno::INVAL));
        assert_eq!(*user, 5);
    }

    #[test]
    fn addresses_of_a_page_are_spread() {
        let buckets: std::collections::HashSet<u64> = (0..64_usize)
            .map(|index| {
                let mut mix = Mix::default();
                (0x7F00_0000_0000 + 64 * index).hash(&mut mix);
                mix.finish() % 64
            })
            .collect();
        assert!(buckets.len() > 32, "{}", buckets.len());
    }
}
