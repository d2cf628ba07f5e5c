//! What one daemon tells another for nearly each message: 8 octets of Immediate Data (RFC 7306 section 6).

/// A short message between two daemons.
///
/// The octets are a little-endian number: the kind in the highest 4 bits, the channel in the next 28, the value.
///
/// ```
/// use weft_sockets::far::{Notice, NoticeKind};
/// let notice = Notice { kind: NoticeKind::Data, channel: 5, value: 0x1_0000 };
/// assert_eq!(notice.encode(), [0, 0, 1, 0, 5, 0, 0, 0x10]);
/// assert_eq!(Notice::decode(notice.encode()), Some(notice));
/// assert_eq!(Notice::decode([0; 8]), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// What is told.
    pub kind: NoticeKind,
    /// The number that the receiving daemon has given the channel, below 2^28.
    pub channel: u32,
    /// See the kind.
    pub value: u32,
}

/// What a [`Notice`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NoticeKind {
    /// Octets are in the ring, up to the position of which the value is the low half.
    Data = 1,
    /// The reader has taken the octets up to this position, and their memory may be used again.
    Credit = 2,
    /// The reader has decided: the value is that of [`Reader::attached`](crate::layout::Reader::attached).
    Attached = 3,
    /// The sender has gone back to TCP, or stays there, as the reader has asked. With the value 1: it will do
    /// so without a [record](crate::Record), since the reader has asked before it came to a ring.
    Declined = 4,
    /// The reader is in the leg whose number is the value.
    Adopted = 5,
    /// The low octet of the value is 1 if the reader wants the stream back on TCP, and 0 if it wants that no more. The octet
    /// above it is the number of the [`Reason`](crate::Reason), or 0.
    Please = 6,
    /// The reader wants larger rings than others.
    Wide = 7,
    /// The connection was reset.
    Reset = 8,
    /// The end of this daemon's host is closed, and all that it has sent is told.
    Closed = 9,
    /// The daemon has received all messages before the one whose number has this low half. The channel is 0. This notice
    /// has no number itself.
    Received = 10,
    /// The sender's process has the channel.
    Present = 11,
    /// The word of [`NoticeKind::Present`] has come. Before that the sender begins no ring: so the reader's host knows of the
    /// sender before there is anything to lose.
    Heard = 12,
}

/// The value of a [`NoticeKind::Declined`] that is a promise.
pub(crate) const PROMISED: u32 = 1;
/// The place of the reason in the value of a [`NoticeKind::Please`].
pub(crate) const WHY: u32 = 8;
/// Channels of a host: 28 bits.
pub(crate) const CHANNELS: u32 = 1 << 28;

impl Notice {
    /// Returns the octets.
    #[must_use]
    pub const fn encode(self) -> [u8; 8] {
        let head = (self.kind as u32) << 28 | self.channel & (CHANNELS - 1);
        ((head as u64) << 32 | self.value as u64).to_le_bytes()
    }

    /// Returns the notice in these octets, if there is one.
    #[must_use]
    pub const fn decode(octets: [u8; 8]) -> Option<Self> {
        let [a, b, c, d, e, f, g, h] = octets;
        let kind = match h >> 4 {
            1 => NoticeKind::Data,
            2 => NoticeKind::Credit,
            3 => NoticeKind::Attached,
            4 => NoticeKind::Declined,
            5 => NoticeKind::Adopted,
            6 => NoticeKind::Please,
            7 => NoticeKind::Wide,
            8 => NoticeKind::Reset,
            9 => NoticeKind::Closed,
            10 => NoticeKind::Received,
            11 => NoticeKind::Present,
            12 => NoticeKind::Heard,
            _ => return None,
        };
        let channel = u32::from_le_bytes([e, f, g, h]) & (CHANNELS - 1);
        Some(Self { kind, channel, value: u32::from_le_bytes([a, b, c, d]) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_read_is_what_is_written(octets: [u8; 8]) {
            if let Some(notice) = Notice::decode(octets) {
                prop_assert!(notice.channel < CHANNELS);
                prop_assert_eq!(notice.encode(), octets);
            } else {
                prop_assert!(!(1..=10).contains(&(octets[7] >> 4)));
            }
        }
    }
}
