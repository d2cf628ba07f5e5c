//! Errors between MPA and its peer, and their codes in a Terminate (RFC 5044 8, RFC 6581 8).

use core::fmt;

use crate::StartupError;

/// An MPA error, fatal for the stream in which it happened.
///
/// A Terminate message carries it as layer 2, type 0 and [`Error::code`]. [`Error::Closed`] and [`Error::Startup`]
/// can only be reported locally: the connection is gone, or not yet in Full Operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// The TCP connection was closed, terminated or lost inside an FPDU (code 0x01).
    Closed,
    /// The CRC field of an FPDU differs from the CRC of its octets (code 0x02).
    Crc {
        /// The CRC of the octets.
        expected: u32,
        /// The value of the field.
        received: u32,
    },
    /// A Marker does not point to the FPDU that the length fields lead to (code 0x03).
    Marker {
        /// The FPDUPTR by the length fields, in octets.
        expected: u16,
        /// FPDUPTR in the Marker, its two reserved bits cleared.
        received: u16,
    },
    /// The Request or Reply Frame is malformed or does not fit the other one (code 0x04).
    Startup(StartupError),
    /// An FPDU does not fit into the staging buffer. This is an error of the buffer's owner, not of the peer (code
    /// 0x05).
    TooLong {
        /// The octets that had to be staged.
        len: usize,
        /// The octets that the staging buffer holds.
        capacity: usize,
    },
    /// A local failure without a code of its own (code 0x05).
    LocalCatastrophic,
    /// The peer wants to have more reads outstanding than this end can answer (code 0x06).
    InsufficientIrd,
    /// The two ends have no connection model or RTR message in common (code 0x07).
    NoRtr,
}

impl Error {
    /// Returns the error code for layer 2 (LLP), type 0 (MPA) of a Terminate message.
    pub const fn code(&self) -> u8 {
        match self {
            Self::Closed => 0x01,
            Self::Crc { .. } => 0x02,
            Self::Marker { .. } => 0x03,
            Self::Startup(_) => 0x04,
            Self::TooLong { .. } | Self::LocalCatastrophic => 0x05,
            Self::InsufficientIrd => 0x06,
            Self::NoRtr => 0x07,
        }
    }
}

impl From<StartupError> for Error {
    fn from(error: StartupError) -> Self {
        Self::Startup(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => write!(f, "TCP connection closed or lost inside an FPDU"),
            Self::Crc { expected, received } => {
                write!(f, "CRC mismatch: computed 0x{expected:08x}, received 0x{received:08x}")
            }
            Self::Marker { expected, received } => {
                write!(f, "Marker mismatch: expected FPDUPTR 0x{expected:04x}, received 0x{received:04x}")
            }
            Self::Startup(error) => write!(f, "MPA startup failed: {error}"),
            Self::TooLong { len, capacity } => {
                write!(f, "FPDU of {len} octets exceeds the staging buffer of {capacity} octets")
            }
            Self::LocalCatastrophic => write!(f, "local catastrophic error in MPA"),
            Self::InsufficientIrd => write!(f, "insufficient IRD resources for the peer's ORD"),
            Self::NoRtr => write!(f, "no matching connection model or RTR option"),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Startup(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn every_code_of_the_two_rfcs() {
        let cases = [
            (Error::Closed, 0x01),
            (Error::Crc { expected: 1, received: 2 }, 0x02),
            (Error::Marker { expected: 4, received: 8 }, 0x03),
            (Error::Startup(StartupError::Key), 0x04),
            (Error::TooLong { len: 9, capacity: 8 }, 0x05),
            (Error::LocalCatastrophic, 0x05),
            (Error::InsufficientIrd, 0x06),
            (Error::NoRtr, 0x07),
        ];
        for (error, code) in cases {
            assert_eq!(error.code(), code, "{error}");
        }
    }

    #[test]
    fn messages_contain_the_numbers() {
        let crc = Error::Crc { expected: 0xE306_9283, received: 0x17 };
        assert_eq!(crc.to_string(), "CRC mismatch: computed 0xe3069283, received 0x00000017");
        let marker = Error::Marker { expected: 0x1F4, received: 4 };
        assert_eq!(marker.to_string(), "Marker mismatch: expected FPDUPTR 0x01f4, received 0x0004");
        let startup = Error::from(StartupError::Revision(9));
        assert_eq!(startup.to_string(), "MPA startup failed: MPA revision 9 cannot be used here");
        let source = core::error::Error::source(&startup).map(ToString::to_string);
        assert_eq!(source.as_deref(), Some("MPA revision 9 cannot be used here"));
        assert!(core::error::Error::source(&crc).is_none());
    }
}
