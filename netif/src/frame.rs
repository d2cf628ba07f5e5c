//! Ethernet frames in buffers that are used again.

use core::fmt;
use core::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::checksum;

/// An Ethernet frame on its way. Its buffer is used again for later frames and stays initialised, so that a frame costs
/// neither an allocation nor zeros.
///
/// The octets may lie in a shared buffer instead: that of a sender that keeps its frames. They change in place while
/// no one else has the buffer, and otherwise in a copy.
#[derive(Default, Clone)]
pub(crate) struct Frame {
    /// Has the length of the longest frame so far.
    buffer: Vec<u8>,
    shared: Option<Arc<[u8]>>,
    len: usize,
    /// The checksums of IPv4 and TCP need no check, and may be missing. Nothing could damage the frame so far, or the
    /// device has verified it.
    pub(crate) is_trusted: bool,
    /// Octets of TCP payload in each segment into which the device cuts the frame; 0 if it does not cut it.
    pub(crate) segment: u16,
}

impl Frame {
    /// Returns a frame with a copy of these octets.
    pub(crate) fn copy_of(octets: &[u8]) -> Self {
        Self { buffer: octets.to_vec(), len: octets.len(), ..Self::default() }
    }

    /// Returns a frame of the first `len` octets of a buffer, without checksums.
    pub(crate) fn in_buffer(buffer: Arc<[u8]>, len: usize) -> Self {
        let len = len.min(buffer.len());
        Self { shared: Some(buffer), len, is_trusted: true, ..Self::default() }
    }

    /// Returns the frame's buffer if it is one that may be shared. The frame is empty then.
    pub(crate) fn take_buffer(&mut self) -> Option<Arc<[u8]>> {
        let buffer = self.shared.take()?;
        self.len = 0;
        Some(buffer)
    }

    /// Returns true if the octets lie in a buffer that may be shared.
    pub(crate) const fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Gives the frame away, and leaves any frame in its place. A frame in a buffer that may be shared stays.
    pub(crate) fn hand_on(&mut self, spare: impl FnOnce() -> Self) -> Self {
        if self.is_shared() { self.clone() } else { core::mem::replace(self, spare()) }
    }

    /// Returns the octets of the buffer, used or not.
    pub(crate) fn size(&self) -> usize {
        self.shared.as_ref().map_or(self.buffer.len(), |shared| shared.len())
    }

    /// Makes it a frame of `len` octets. They hold the octets of earlier frames.
    pub(crate) fn reset(&mut self, len: usize) {
        self.shared = None;
        if self.buffer.len() < len {
            self.buffer.resize(len, 0);
        }
        self.len = len;
        self.is_trusted = false;
        self.segment = 0;
    }

    /// Makes it a frame with these octets.
    pub(crate) fn copy_from(&mut self, octets: &[u8]) {
        self.reset(octets.len());
        self.copy_from_slice(octets);
    }

    /// Exchanges the frame's octets with `octets`.
    pub(crate) fn swap(&mut self, octets: &mut Vec<u8>) {
        self.own();
        self.buffer.truncate(self.len);
        core::mem::swap(&mut self.buffer, octets);
        self.len = self.buffer.len();
        self.is_trusted = false;
        self.segment = 0;
    }

    /// Keeps the first `len` octets.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Puts octets before the one at `at`.
    pub(crate) fn insert(&mut self, at: usize, octets: &[u8]) {
        self.own();
        let (old, new) = (self.len, self.len + octets.len());
        if self.buffer.len() < new {
            self.buffer.resize(new, 0);
        }
        self.buffer.copy_within(at..old, at + octets.len());
        self.buffer[at..at + octets.len()].copy_from_slice(octets);
        self.len = new;
    }

    /// Fills in the checksums of IPv4 and TCP, as a wire has them.
    pub(crate) fn complete(&mut self) {
        if core::mem::take(&mut self.is_trusted) {
            checksum::fill(self);
        }
    }

    /// Has the octets lie in a buffer of its own.
    fn own(&mut self) {
        if let Some(shared) = self.shared.take() {
            if self.buffer.len() < self.len {
                self.buffer.resize(self.len, 0);
            }
            self.buffer[..self.len].copy_from_slice(&shared[..self.len]);
        }
    }

    /// Returns true if the checksums of IPv4 and TCP are good, or need no check.
    pub(crate) fn is_good(&self) -> bool {
        self.is_trusted || checksum::is_good(self)
    }
}

impl Deref for Frame {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.shared {
            None => &self.buffer[..self.len],
            Some(shared) => &shared[..self.len],
        }
    }
}

impl DerefMut for Frame {
    fn deref_mut(&mut self) -> &mut [u8] {
        if self.shared.as_mut().is_some_and(|shared| Arc::get_mut(shared).is_none()) {
            self.own();
        }
        match self.shared.as_mut().and_then(Arc::get_mut) {
            None => &mut self.buffer[..self.len],
            Some(shared) => &mut shared[..self.len],
        }
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { len, is_trusted, segment, .. } = self;
        let mut text = f.debug_struct("Frame");
        text.field("len", len)
            .field("is_trusted", is_trusted)
            .field("segment", segment)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_frame_changes_in_place_or_in_a_copy() {
        let mut frame = Frame::in_buffer(vec![1, 2, 3, 4].into(), 3);
        frame[0] = 9;
        assert!(frame.is_shared() && frame.is_trusted && frame.size() == 4);
        let mut other = frame.hand_on(Frame::default);
        assert!(frame.is_shared() && other.is_shared(), "both have the buffer");
        other[1] = 8;
        assert_eq!((&frame[..], &other[..], other.is_shared()), (&[9, 2, 3][..], &[9, 8, 3][..], false));
        drop(frame.clone());
        frame[2] = 7;
        assert!(frame.is_shared(), "nobody else has it any more");
        assert_eq!(frame.take_buffer().as_deref(), Some(&[9, 2, 7, 4][..]));
        assert!(frame.is_empty() && frame.take_buffer().is_none());
        let given = other.hand_on(|| Frame::copy_of(&[5]));
        assert_eq!((&given[..], &other[..]), (&[9, 8, 3][..], &[5][..]));
    }

    #[test]
    fn a_buffer_serves_for_frames_of_all_lengths() {
        let mut frame = Frame::copy_of(&[1, 2, 3]);
        frame.insert(1, &[7, 8]);
        assert_eq!(frame[..], [1, 7, 8, 2, 3]);
        frame.truncate(9);
        frame.truncate(2);
        assert_eq!(frame[..], [1, 7]);
        frame.segment = 9;
        frame.copy_from(&[5; 6]);
        assert_eq!((&frame[..], frame.segment), (&[5; 6][..], 0));
        let mut octets = vec![8, 9];
        frame.swap(&mut octets);
        assert_eq!((&frame[..], octets), (&[8, 9][..], vec![5; 6]));
        frame.truncate(0);
        assert!(frame.is_empty());
        frame.insert(0, &[4]);
        assert_eq!(frame[..], [4]);
    }
}
