//! A queue of records in storage that is lent.

use super::sent::Sent;

/// Records in order of their numbers.
#[derive(Debug)]
pub(super) struct Ring<S> {
    storage: S,
    head: usize,
    len: usize,
}

impl<S: AsRef<[Sent]> + AsMut<[Sent]>> Ring<S> {
    pub(super) const fn new(storage: S) -> Self {
        Self { storage, head: 0, len: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn capacity(&self) -> usize {
        self.storage.as_ref().len()
    }

    fn place(&self, index: usize) -> usize {
        let (place, capacity) = (self.head + index, self.capacity());
        if place < capacity { place } else { place - capacity }
    }

    pub(super) fn get(&self, index: usize) -> Option<&Sent> {
        if index < self.len { self.storage.as_ref().get(self.place(index)) } else { None }
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Sent> {
        let place = self.place(index);
        if index < self.len { self.storage.as_mut().get_mut(place) } else { None }
    }

    /// Appends a record. Returns false if the storage is full.
    pub(super) fn push(&mut self, sent: Sent) -> bool {
        self.insert(self.len, sent)
    }

    /// Takes the first record.
    pub(super) fn pop(&mut self) -> Option<Sent> {
        let first = *self.get(0)?;
        self.head = self.place(1);
        self.len -= 1;
        Some(first)
    }

    /// Puts a record at `index`, before the one that is there. Returns false if the storage is full.
    ///
    /// The shorter side moves: cuts are made near the front or near the back.
    pub(super) fn insert(&mut self, index: usize, sent: Sent) -> bool {
        if self.len >= self.capacity() || index > self.len {
            return false;
        }
        self.len += 1;
        if index < self.len / 2 {
            self.head = self.place(self.capacity() - 1);
            (0..index).for_each(|i| self.copy(i + 1, i));
        } else {
            (index + 1..self.len).rev().for_each(|i| self.copy(i - 1, i));
        }
        if let Some(place) = self.get_mut(index) {
            *place = sent;
        }
        true
    }

    fn copy(&mut self, from: usize, to: usize) {
        let Some(sent) = self.get(from).copied() else { return };
        if let Some(place) = self.get_mut(to) {
            *place = sent;
        }
    }

    /// Returns the first index whose record does not satisfy `is_before`. Those that do stand in front.
    pub(super) fn partition(&self, is_before: impl Fn(&Sent) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = low.midpoint(high);
            if self.get(middle).is_some_and(&is_before) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Moves all records into other storage and returns the former, or the new one if that is too small.
    pub(super) fn swap(&mut self, mut storage: S) -> Result<S, S> {
        let places = storage.as_mut();
        if places.len() < self.len {
            return Err(storage);
        }
        places
            .iter_mut()
            .enumerate()
            .for_each(|(i, place)| *place = self.get(i).copied().unwrap_or_default());
        self.head = 0;
        Ok(core::mem::replace(&mut self.storage, storage))
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::Ring;
    use crate::{Sent, Seq};

    fn sent(seq: u32) -> Sent {
        Sent { seq: Seq(seq), ..Sent::EMPTY }
    }

    fn numbers(ring: &Ring<Vec<Sent>>) -> Vec<u32> {
        (0..ring.len()).map(|i| ring.get(i).unwrap().seq.0).collect()
    }

    #[test]
    fn records_are_inserted_on_both_sides_and_around_the_end() {
        for popped in 0..8 {
            for index in 0..=6 {
                let mut ring = Ring::new(std::vec![Sent::EMPTY; 8]);
                (0..popped).for_each(|i| assert!(ring.push(sent(i)) && ring.pop() == Some(sent(i))));
                (0..6).for_each(|i| assert!(ring.push(sent(i))));
                assert!(ring.insert(index, sent(99)));
                let mut expected: Vec<u32> = (0..6).collect();
                expected.insert(index, 99);
                assert_eq!(numbers(&ring), expected, "{popped} {index}");
                assert!(ring.push(sent(7)) && !ring.push(sent(8)));
            }
        }
    }

    #[test]
    fn records_move_to_other_storage() {
        let mut ring = Ring::new(std::vec![Sent::EMPTY; 4]);
        (0..4).for_each(|i| assert!(ring.push(sent(i))));
        assert_eq!(ring.pop(), Some(sent(0)));
        assert!(ring.push(sent(4)));
        assert_eq!(ring.swap(std::vec![Sent::EMPTY; 3]).unwrap_err().len(), 3);
        assert_eq!(ring.swap(std::vec![Sent::EMPTY; 9]).unwrap().len(), 4);
        assert_eq!((numbers(&ring), ring.capacity()), (std::vec![1, 2, 3, 4], 9));
        assert_eq!(ring.partition(|sent| sent.seq.is_before(Seq(3))), 2);
    }
}
