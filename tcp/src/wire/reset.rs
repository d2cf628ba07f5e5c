//! Resets.

use crate::{Flags, Segment, Seq};

impl Segment {
    /// Returns the RST that answers a segment for which there is no connection, or which acknowledges what was never sent
    /// (RFC 9293 section 3.10.7.1). A RST is not answered.
    pub fn reset(&self) -> Option<Self> {
        if self.flags.has(Flags::RST) {
            return None;
        }
        let (seq, ack) = match self.ack {
            Some(ack) => (ack, None),
            None => (Seq(0), Some(self.end())),
        };
        Some(Self { flags: Flags::RST, ..Self::new(seq, ack) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_has_a_number_that_its_receiver_believes() {
        let segment = Segment { len: 10, flags: Flags::FIN, ..Segment::new(Seq(5), Some(Seq(70))) };
        assert_eq!(segment.reset(), Some(Segment { flags: Flags::RST, ..Segment::new(Seq(70), None) }));
        let syn = Segment { flags: Flags::SYN, ..Segment::new(Seq(5), None) };
        assert_eq!(syn.reset(), Some(Segment { flags: Flags::RST, ..Segment::new(Seq(0), Some(Seq(6))) }));
        assert_eq!(Segment { flags: Flags::RST, ..syn }.reset(), None);
    }
}
