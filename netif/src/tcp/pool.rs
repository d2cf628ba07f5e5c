//! Buffers that are used again.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::frame::Frame;

/// The free buffers of a stack.
///
/// What a connection sends for the first time lies in a buffer that the wire, the peer on `pair`, and the connection
/// share until it is acknowledged. There are buffers of three sizes. All other frames have buffers of their own.
#[derive(Debug)]
pub(crate) struct Pool {
    classes: [Class; 3],
    spare: Vec<Frame>,
}

/// Buffers of one size. The one that was given back first is used first: the peer on `pair` may still have the last
/// ones.
#[derive(Debug)]
struct Class {
    size: usize,
    free: VecDeque<Arc<[u8]>>,
}

impl Pool {
    /// Returns a pool whose largest buffers have room for a frame of `largest` octets.
    pub(crate) fn new(largest: usize) -> Self {
        let class = |size| Class { size, free: VecDeque::new() };
        Self { classes: [class(SMALL), class(MEDIUM), class(largest.max(MEDIUM))], spare: Vec::new() }
    }

    /// Returns a buffer of at least `len` octets, or one of the largest. Nobody else has it.
    pub(crate) fn take(&mut self, len: usize) -> Arc<[u8]> {
        let index = self.classes.iter().position(|class| class.size >= len).unwrap_or(self.classes.len() - 1);
        self.classes[index].take()
    }

    /// Takes a buffer back. Others may still have it.
    pub(crate) fn give(&mut self, buffer: Arc<[u8]>) {
        if let Some(class) = self.classes.iter_mut().find(|class| class.size == buffer.len())
            && class.free.len() * class.size < MOST_FREE
        {
            class.free.push_back(buffer);
        }
    }

    /// Takes back a buffer that nobody else has, for the next use.
    pub(crate) fn give_unused(&mut self, buffer: Arc<[u8]>) {
        if let Some(class) = self.classes.iter_mut().find(|class| class.size == buffer.len()) {
            class.free.push_front(buffer);
        }
    }

    /// Returns the size of the smallest buffers that have room for `len` octets.
    pub(crate) fn size_for(&self, len: usize) -> usize {
        self.classes.iter().map(|class| class.size).find(|&size| size >= len).unwrap_or(len)
    }

    /// Returns a frame with a buffer of its own.
    pub(crate) fn frame(&mut self) -> Frame {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes a frame back.
    pub(crate) fn recycle(&mut self, frame: Frame) {
        if !frame.is_shared() && frame.size() > 0 && self.spare.len() < MOST_SPARE {
            self.spare.push(frame);
        }
    }
}

impl Class {
    fn take(&mut self) -> Arc<[u8]> {
        for _ in 0..LOOKS.min(self.free.len()) {
            let Some(mut buffer) = self.free.pop_front() else { break };
            if Arc::get_mut(&mut buffer).is_some() {
                return buffer;
            }
            self.free.push_back(buffer);
        }
        vec![0; self.size].into()
    }
}

/// For acknowledgements and short messages.
const SMALL: usize = 256;
/// For the segments of most networks.
const MEDIUM: usize = 2048;
/// Free buffers that are looked at before a new one is made.
const LOOKS: usize = 4;
/// Octets of free buffers of one size.
const MOST_FREE: usize = 8 << 20;
/// Frames with buffers of their own that are kept.
const MOST_SPARE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_that_was_given_back_first_is_used_first_unless_the_peer_has_it() {
        let mut pool = Pool::new(9100);
        let [first, second, third] = [0; 3].map(|_| pool.take(1500));
        assert_eq!([first.len(), pool.take(256).len(), pool.take(2049).len()], [2048, 256, 9100]);
        let peers = Arc::clone(&first);
        let places = [&first, &second, &third].map(|buffer| buffer.as_ptr());
        for buffer in [first, second, third] {
            pool.give(buffer);
        }
        let taken = [0; 3].map(|_| pool.take(1500));
        let is_old = taken.each_ref().map(|buffer| places.iter().position(|place| *place == buffer.as_ptr()));
        assert_eq!(is_old, [Some(1), Some(2), None]);
        drop(peers);
        assert_eq!(pool.take(1500).as_ptr(), places[0]);
    }
}
