//! The ring: the intermediate buffer of one direction. Which of its octets are in use, and where they lie.

/// The octets of a ring that are in use. Both sides have one: the receiver, to whom the memory belongs, and the sender.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ring {
    len: u32,
    /// Where the first unread octet lies.
    start: u32,
    unread: u32,
    /// Octets read since the start of the connection.
    read: u64,
}

/// A stretch of a ring's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) at: u32,
    pub(crate) len: u32,
}

impl Ring {
    /// An empty ring of so many octets. It may have none.
    pub(crate) const fn new(len: u32) -> Self {
        Self { len, start: 0, unread: 0, read: 0 }
    }

    /// Takes the next `len` octets into use, at most [`Self::free`], and returns where they lie. The second span is
    /// empty unless the first reaches the end of the ring.
    pub(crate) fn write(&mut self, len: u32) -> [Span; 2] {
        let len = len.min(self.free());
        let spans = self.spans(self.behind(self.start, self.unread), len);
        self.unread += len;
        spans
    }

    /// Frees the oldest `len` octets, at most [`Self::unread`], and returns where they lie, as [`Self::write`] does.
    pub(crate) fn read(&mut self, len: u32) -> [Span; 2] {
        let len = len.min(self.unread);
        let spans = self.spans(self.start, len);
        self.start = self.behind(self.start, len);
        self.unread -= len;
        self.read += u64::from(len);
        spans
    }

    /// Frees the octets before this count of octets read. Returns false if it is not between those that are read and
    /// those that are written.
    pub(crate) fn read_to(&mut self, read: u64) -> bool {
        let len = read.checked_sub(self.read).and_then(|len| u32::try_from(len).ok());
        let Some(len) = len.filter(|&len| len <= self.unread) else { return false };
        self.read(len);
        true
    }

    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    pub(crate) const fn free(&self) -> u32 {
        self.len - self.unread
    }

    pub(crate) const fn unread(&self) -> u32 {
        self.unread
    }

    /// Returns how many octets were read since the start of the connection.
    pub(crate) const fn total_read(&self) -> u64 {
        self.read
    }

    /// The place `len` octets behind `at`. `len` is at most the ring's length.
    const fn behind(&self, at: u32, len: u32) -> u32 {
        let to_end = self.len - at;
        if len < to_end { at + len } else { len - to_end }
    }

    fn spans(&self, at: u32, len: u32) -> [Span; 2] {
        let first = len.min(self.len - at);
        [Span { at, len: first }, Span { at: 0, len: len - first }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(at: u32, len: u32) -> Span {
        Span { at, len }
    }

    #[test]
    fn octets_that_reach_the_end_go_on_at_the_start() {
        let mut ring = Ring::new(5);
        assert_eq!(ring.write(3), [span(0, 3), span(0, 0)]);
        assert_eq!(ring.read(2), [span(0, 2), span(0, 0)]);
        assert_eq!(ring.write(4), [span(3, 2), span(0, 2)]);
        assert_eq!((ring.free(), ring.unread(), ring.total_read()), (0, 5, 2));
        assert_eq!(ring.read(4), [span(2, 3), span(0, 1)]);
        assert_eq!(ring.write(4), [span(2, 3), span(0, 1)]);
    }

    #[test]
    fn a_count_of_read_octets_lies_between_those_read_and_those_written() {
        let mut ring = Ring::new(4);
        ring.write(3);
        assert!(ring.read_to(2) && ring.read_to(2) && ring.read_to(3));
        assert!(!ring.read_to(2) && !ring.read_to(4) && !ring.read_to(u64::MAX));
        assert_eq!((ring.free(), ring.total_read()), (4, 3));
    }

    #[test]
    fn a_ring_without_octets_has_room_for_none() {
        let mut ring = Ring::new(0);
        assert_eq!(ring.write(1), [span(0, 0); 2]);
        assert_eq!(ring.read(1), [span(0, 0); 2]);
        assert_eq!((ring.free(), ring.unread()), (0, 0));
    }
}
