//! Messages: 32 bits in the octet order of the two hosts. The upper three bits say the kind.

/// A message of one end to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Octets were written into the buffer.
    Data(u32),
    /// Messages may come up to this number, and the table of buffers may have changed.
    Credits(u16),
    /// This entry of the table of mappings has changed.
    Mapping(u32),
    /// The sender sends and receives nothing more.
    Disconnect,
    /// Means nothing but that the sender lives.
    KeepAlive,
    /// The sender sends nothing more.
    Shutdown,
    /// Any other value.
    Unknown,
}

impl Message {
    pub(crate) const LEN: usize = 4;
    /// The most octets that one message of data can report.
    pub(crate) const MAX_DATA: u32 = MASK;

    pub(crate) fn read(octets: [u8; Self::LEN]) -> Self {
        let word = u32::from_ne_bytes(octets);
        let value = word & MASK;
        match (word >> SHIFT, value) {
            (DATA, octets) => Self::Data(octets),
            // The sender counts in more bits than the format has.
            (CREDITS, limit) => Self::Credits(u16::try_from(limit & 0xFFFF).unwrap_or(u16::MAX)),
            (MAPPING, index) => Self::Mapping(index),
            (CONTROL, 0) => Self::Disconnect,
            (CONTROL, 1) => Self::KeepAlive,
            (CONTROL, 2) => Self::Shutdown,
            _ => Self::Unknown,
        }
    }

    pub(crate) fn octets(self) -> [u8; Self::LEN] {
        let (kind, value) = match self {
            Self::Data(octets) => (DATA, octets),
            Self::Credits(limit) => (CREDITS, limit.into()),
            Self::Mapping(index) => (MAPPING, index),
            Self::Disconnect => (CONTROL, 0),
            Self::KeepAlive => (CONTROL, 1),
            Self::Shutdown => (CONTROL, 2),
            Self::Unknown => (RESERVED, 0),
        };
        (kind << SHIFT | value & MASK).to_ne_bytes()
    }
}

const SHIFT: u32 = 29;
const MASK: u32 = (1 << SHIFT) - 1;
const DATA: u32 = 0;
const CREDITS: u32 = 4;
const RESERVED: u32 = 5;
const MAPPING: u32 = 6;
const CONTROL: u32 = 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_has_its_bits() {
        for (message, word) in [
            (Message::Data(0x1234_5678), 0x1234_5678_u32),
            (Message::Data(Message::MAX_DATA), 0x1FFF_FFFF),
            (Message::Credits(0xBEEF), 0x8000_BEEF),
            (Message::Mapping(7), 0xC000_0007),
            (Message::Disconnect, 0xE000_0000),
            (Message::KeepAlive, 0xE000_0001),
            (Message::Shutdown, 0xE000_0002),
        ] {
            assert_eq!(message.octets(), word.to_ne_bytes(), "{message:?}");
            assert_eq!(Message::read(word.to_ne_bytes()), message);
        }
    }

    #[test]
    fn credits_are_counted_in_16_bits_and_the_rest_is_unknown() {
        assert_eq!(Message::read(0x8001_0002_u32.to_ne_bytes()), Message::Credits(2));
        for word in [0x2000_0001_u32, 0x4000_0000, 0x6000_0000, 0xA000_0000, 0xE000_0003, 0xFFFF_FFFF] {
            assert_eq!(Message::read(word.to_ne_bytes()), Message::Unknown, "{word:#x}");
        }
    }
}
