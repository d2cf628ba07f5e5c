//! The send window.

use super::terms::Acknowledgement;
use crate::Seq;

/// What the peer lets go (RFC 9293 section 3.3.1). The right edge is kept rather than SND.WND: an ACK that is no news of the
/// window does not move it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// SND.UNA + SND.WND as of the last news.
    edge: Seq,
    /// SND.WL1 and SND.WL2.
    wl1: Seq,
    wl2: Seq,
    /// MAX.SND.WND (RFC 5961 section 5.2).
    max: u32,
    /// The window of the last segment that had one, which tells a duplicate ACK (RFC 5681 section 2).
    last: u32,
}

/// What an acknowledgement does to the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Update {
    /// The window is another one than that of the acknowledgement before.
    pub(super) is_other: bool,
    /// The right edge has moved on.
    pub(super) has_opened: bool,
}

impl Window {
    pub(super) fn new(una: Seq, window: u32, wl1: Seq) -> Self {
        Self { edge: una + window, wl1, wl2: una, max: window, last: window }
    }

    /// Takes the window of an acceptable acknowledgement, if it is news (RFC 9293 section 3.10.7.4).
    pub(super) fn update(&mut self, ack: &Acknowledgement<'_>) -> Update {
        let is_other = self.last != ack.window;
        self.last = ack.window;
        let is_news = self.wl1.is_before(ack.seq) || self.wl1 == ack.seq && !ack.ack.is_before(self.wl2);
        if !is_news {
            return Update { is_other, has_opened: false };
        }
        (self.wl1, self.wl2) = (ack.seq, ack.ack);
        self.max = self.max.max(ack.window);
        let edge = ack.ack + ack.window;
        let has_opened = self.edge.is_before(edge);
        self.edge = edge;
        Update { is_other, has_opened }
    }

    /// Returns the octets that may go from `from` on.
    pub(super) const fn room(&self, from: Seq) -> u32 {
        if from.is_before(self.edge) { self.edge.since(from) } else { 0 }
    }

    pub(super) const fn max(&self) -> u32 {
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::{Update, Window};
    use crate::{Acknowledgement, Seq};

    fn ack(seq: u32, ack: u32, window: u32) -> Acknowledgement<'static> {
        let (seq, ack) = (Seq(seq), Seq(ack));
        Acknowledgement { seq, ack, window, sack: &[], echo: None, ece: false, occupies: false }
    }

    /// RFC 9293 section 3.10.7.4: an old segment does not change the window.
    // Covers 7323-2.4-1.
    #[test]
    fn the_window_is_that_of_the_newest_segment() {
        let mut window = Window::new(Seq(100), 1000, Seq(1));
        assert_eq!(window.update(&ack(1, 200, 1000)), Update { is_other: false, has_opened: true });
        assert_eq!((window.room(Seq(200)), window.max()), (1000, 1000));
        assert_eq!(window.update(&ack(2, 200, 0)), Update { is_other: true, has_opened: false });
        assert_eq!(window.room(Seq(200)), 0, "a window may shrink");
        assert_eq!(window.update(&ack(1, 300, 5000)), Update { is_other: true, has_opened: false });
        assert_eq!(
            (window.room(Seq(150)), window.max()),
            (50, 1000),
            "the edge stays where the newest put it"
        );
        assert!(window.update(&ack(2, 250, 5000)).has_opened);
        assert!(!window.update(&ack(2, 240, 9000)).has_opened, "an older ACK of the same number");
    }
}
