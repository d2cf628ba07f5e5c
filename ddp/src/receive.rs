//! Checking that untagged segments arrive in order.

use crate::{Error, Header, Segment, queue::QUEUES};

/// The receiving half of a DDP stream.
///
/// The LLP is TCP, so segments arrive in the order sent. Then the only right MSN is the next one of its queue
/// and the only right MO the next one of its message, and everything else is the peer's error.
#[derive(Debug, Clone)]
pub struct Receiver {
    queues: u32,
    expected: [Expected; QUEUES],
}

impl Receiver {
    /// A receiver that knows queue numbers below `queues`: 3, or 4 with RFC 7306's atomics. More than 4 means 4.
    pub const fn new(queues: u32) -> Self {
        Self::with_msn(queues, 1)
    }

    /// A receiver that expects `msn` first on every queue; for tests of the wrap from 0xFFFFFFFF to 0.
    pub const fn with_msn(queues: u32, msn: u32) -> Self {
        Self { queues, expected: [Expected { msn, mo: 0 }; QUEUES] }
    }

    /// Takes one ULPDU and returns its segment if the version is right and, in an untagged one, queue, MSN and
    /// MO are the expected ones. A segment without payload is held to the same rules, since a zero-length
    /// Send takes a buffer too.
    ///
    /// After an error the stream is broken: report it, and pass no more segments (requirement 5041-7.1-19).
    pub fn accept<'a>(&mut self, ulpdu: &'a [u8]) -> Result<Segment<'a>, Error> {
        let segment = Segment::parse(ulpdu)?;
        if let Header::Untagged { last, queue, msn, mo, .. } = segment.header {
            let index = usize::try_from(queue).map_err(|_| Error::InvalidQueue)?;
            let expected = self.expected.get_mut(index).filter(|_| queue < self.queues);
            expected.ok_or(Error::InvalidQueue)?.advance(last, msn, mo, segment.payload.len())?;
        }
        Ok(segment)
    }
}

/// What the next segment of one queue must carry.
#[derive(Debug, Clone, Copy)]
struct Expected {
    msn: u32,
    mo: u32,
}

impl Expected {
    fn advance(&mut self, last: bool, msn: u32, mo: u32, len: usize) -> Result<(), Error> {
        if msn != self.msn {
            return Err(Error::MsnRange);
        }
        if mo != self.mo {
            return Err(Error::InvalidMo);
        }
        let end = u32::try_from(len).ok().and_then(|len| mo.checked_add(len)).ok_or(Error::TooLong)?;
        *self = if last { Self { msn: msn.wrapping_add(1), mo: 0 } } else { Self { msn, mo: end } };
        Ok(())
    }
}
