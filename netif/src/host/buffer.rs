//! Octets between a connection and its socket, in memory that a connection has only while something is in it.

/// A ring of octets. An empty ring holds no memory, so that an idle connection costs nothing. The memory comes from a
/// [`Pool`] and returns there, so that busy connections share memory that is in the processor's caches.
#[derive(Debug)]
pub(super) struct Ring {
    memory: Option<Box<[u8]>>,
    head: usize,
    len: usize,
}

/// Memory for rings, all of the same length.
#[derive(Debug)]
pub(super) struct Pool {
    len: usize,
    free: Vec<Box<[u8]>>,
}

impl Pool {
    pub(super) const fn new(len: usize) -> Self {
        Self { len, free: Vec::new() }
    }

    /// Octets of each ring.
    pub(super) const fn ring_len(&self) -> usize {
        self.len
    }

    fn take(&mut self) -> Box<[u8]> {
        self.free.pop().unwrap_or_else(|| vec![0; self.len].into_boxed_slice())
    }

    fn give_back(&mut self, memory: Box<[u8]>) {
        if self.free.len() < KEPT {
            self.free.push(memory);
        }
    }
}

impl Ring {
    pub(super) const fn new() -> Self {
        Self { memory: None, head: 0, len: 0 }
    }

    /// Returns the free octets behind the last one, as far as they lie in one piece.
    pub(super) fn free_piece(&mut self, pool: &mut Pool) -> &mut [u8] {
        let memory = self.memory.get_or_insert_with(|| pool.take());
        let tail = self.head + self.len;
        let range = if tail < memory.len() { tail..memory.len() } else { tail - memory.len()..self.head };
        &mut memory[range]
    }

    /// Adds the `n` octets that were written into the free piece.
    pub(super) fn push(&mut self, n: usize) {
        let capacity = self.memory.as_ref().map_or(0, |memory| memory.len());
        self.len = (self.len + n).min(capacity);
    }

    /// Adds as many of `octets` as there is room for, and returns how many.
    pub(super) fn push_slice(&mut self, octets: &[u8], pool: &mut Pool) -> usize {
        let mut taken = 0;
        while taken < octets.len() && self.len < pool.ring_len() {
            let piece = self.free_piece(pool);
            let step = piece.len().min(octets.len() - taken);
            piece[..step].copy_from_slice(&octets[taken..taken + step]);
            self.push(step);
            taken += step;
        }
        taken
    }

    /// Returns the first octets, as far as they lie in one piece, and the rest.
    pub(super) fn pieces(&self) -> [&[u8]; 2] {
        let Some(memory) = &self.memory else { return [&[], &[]] };
        let end = self.head + self.len;
        if end <= memory.len() {
            [&memory[self.head..end], &[]]
        } else {
            [&memory[self.head..], &memory[..end - memory.len()]]
        }
    }

    /// Copies the first octets, as many as `octets` holds, and returns how many there were.
    pub(super) fn copy_to(&self, octets: &mut [u8]) -> usize {
        let mut copied = 0;
        for piece in self.pieces() {
            let len = piece.len().min(octets.len() - copied);
            octets[copied..copied + len].copy_from_slice(&piece[..len]);
            copied += len;
        }
        copied
    }

    /// Takes the first `n` octets away, at most as many as there are.
    pub(super) fn pop(&mut self, n: usize) {
        let Some(memory) = &self.memory else { return };
        let n = n.min(self.len);
        self.len -= n;
        self.head = if self.len == 0 { 0 } else { (self.head + n) % memory.len() };
    }

    /// Gives the memory back if the ring is empty.
    pub(super) fn relax(&mut self, pool: &mut Pool) {
        if self.len == 0
            && let Some(memory) = self.memory.take()
        {
            self.head = 0;
            pool.give_back(memory);
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Unused memory that is kept, in rings.
const KEPT: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_come_out_in_order_also_across_the_end_of_the_memory() {
        let mut pool = Pool::new(8);
        let mut ring = Ring::new();
        assert_eq!(ring.pieces(), [&[][..], &[]]);
        let all: Vec<u8> = (0..=250).cycle().take(2000).collect();
        let (mut taken, mut gone) = (0, 0);
        for round in 0..400 {
            let room = 8 - ring.len();
            let wanted = round % 9;
            let step = ring.push_slice(&all[taken..taken + wanted], &mut pool);
            assert_eq!(step, wanted.min(room));
            taken += step;
            assert_eq!(ring.pieces().concat(), all[gone..taken]);
            let mut copy = vec![0; round % 11];
            let copied = ring.copy_to(&mut copy);
            assert_eq!((copied, &copy[..copied]), (ring.len().min(round % 11), &all[gone..gone + copied]));
            let step = (round % 5).min(ring.len());
            ring.pop(round % 5);
            gone += step;
        }
        assert!(gone > 500);
    }

    #[test]
    fn memory_is_held_only_while_something_is_in_it() {
        let mut pool = Pool::new(8);
        let (mut one, mut other) = (Ring::new(), Ring::new());
        one.push_slice(b"abc", &mut pool);
        one.relax(&mut pool);
        assert_eq!((pool.free.len(), one.pieces()[0]), (0, &b"abc"[..]));
        one.pop(3);
        one.relax(&mut pool);
        assert_eq!((pool.free.len(), one.memory.is_none()), (1, true));
        assert_eq!(other.free_piece(&mut pool).len(), 8);
        assert_eq!(pool.free.len(), 0);
    }
}
