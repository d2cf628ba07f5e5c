//! Faults of a peer: what an ABORT tells, and why a connection has ended.

use core::fmt;

/// What a side has done against the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Fault {
    /// A message is short, of an unknown type, or has something in a field that its type does not use.
    Malformed = 1,
    /// A message is beyond the credits or the slot.
    BeyondCredits = 2,
    /// A number or a position is out of order.
    OutOfOrder = 3,
    /// DATA is for an advert that is not there, or longer than what is left of it.
    NoAdvert = 4,
    /// DATA is longer than what is free in the ring.
    RingOverfilled = 5,
    /// FREE is beyond what was written, or goes backwards.
    FreedTooMuch = 6,
    /// ACK is for a message that is not out, or came with another STag than that of the message.
    NotOut = 7,
    /// There are more adverts than the sender stores.
    TooManyAdverts = 8,
    /// A message follows SHUTDOWN.
    AfterShutdown = 9,
    /// The socket was closed while it had data that nobody had read. No rule is broken.
    UnreadData = 10,
    /// Anything else that does not fit the state of the connection.
    WrongState = 11,
}

impl Fault {
    /// Returns the fault with this code.
    #[must_use]
    pub fn from_code(code: u32) -> Option<Self> {
        ALL.into_iter().find(|fault| fault.code() == code)
    }

    /// Returns the number of the fault in ABORT.
    #[must_use]
    pub const fn code(self) -> u32 {
        self as u32
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "malformed message",
            Self::BeyondCredits => "message beyond the credits or the slot",
            Self::OutOfOrder => "number or position out of order",
            Self::NoAdvert => "data for an advert that is not there",
            Self::RingOverfilled => "data beyond the free part of the ring",
            Self::FreedTooMuch => "more of the ring freed than was written",
            Self::NotOut => "acknowledgement of a message that is not out",
            Self::TooManyAdverts => "more adverts than are stored",
            Self::AfterShutdown => "message behind the shutdown",
            Self::UnreadData => "closed with unread data",
            Self::WrongState => "message that does not fit the state",
        })
    }
}

impl core::error::Error for Fault {}

const ALL: [Fault; 11] = [
    Fault::Malformed,
    Fault::BeyondCredits,
    Fault::OutOfOrder,
    Fault::NoAdvert,
    Fault::RingOverfilled,
    Fault::FreedTooMuch,
    Fault::NotOut,
    Fault::TooManyAdverts,
    Fault::AfterShutdown,
    Fault::UnreadData,
    Fault::WrongState,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_from_1_to_11_names_a_fault() {
        for code in 1..=11 {
            assert_eq!(Fault::from_code(code).map(Fault::code), Some(code));
        }
        assert_eq!([0, 12, 0x100, u32::MAX].map(Fault::from_code), [None; 4]);
        assert_eq!((Fault::NotOut.code(), Fault::UnreadData.code()), (7, 10));
    }
}
