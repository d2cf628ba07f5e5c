//! Checking that untagged segments arrive in order.

use crate::{Error, Header, Segment, queue::QUEUES};

/// The receiving half of a DDP stream.
///
/// The LLP is TCP, so segments arrive in the order sent. Then the only right MSN is the next one of its queue
/// and the only right MO the next one of its message, and everything else is the peer's error.
///
/// `S` is the storage for what the queues expect: an array of the four that RDMAP uses or, for another ULP, what its owner lends.
#[derive(Debug, Clone)]
pub struct Receiver<S = [Expected; QUEUES]> {
    queues: u32,
    expected: S,
}

impl Receiver {
    /// A receiver that knows queue numbers below `queues`: 3, or 4 with RFC 7306's atomics. More than 4 means 4.
    pub const fn new(queues: u32) -> Self {
        Self::with_msn(queues, 1)
    }

    /// A receiver that expects `msn` first on every queue; for tests of the wrap from 0xFFFFFFFF to 0.
    pub const fn with_msn(queues: u32, msn: u32) -> Self {
        Self { queues, expected: [Expected::new(msn); QUEUES] }
    }
}

impl<S: AsMut<[Expected]>> Receiver<S> {
    /// A receiver that knows as many queues as `expected` has entries, numbered from 0.
    pub fn with_queues(mut expected: S) -> Self {
        let queues = u32::try_from(expected.as_mut().len()).unwrap_or(u32::MAX);
        Self { queues, expected }
    }

    /// Takes one ULPDU and returns its segment if the version is right and, in an untagged one, queue, MSN and
    /// MO are the expected ones. A segment without payload is held to the same rules, since a zero-length
    /// Send takes a buffer too.
    ///
    /// After an error the stream is broken: report it, and pass no more segments (requirement 5041-7.1-19).
    #[inline]
    pub fn accept<'a>(&mut self, ulpdu: &'a [u8]) -> Result<Segment<'a>, Error> {
        let segment = Segment::parse(ulpdu)?;
        if let Header::Untagged { last, queue, msn, mo, .. } = segment.header {
            let index = usize::try_from(queue).map_err(|_| Error::InvalidQueue)?;
            let expected = self.expected.as_mut().get_mut(index).filter(|_| queue < self.queues);
            expected.ok_or(Error::InvalidQueue)?.advance(last, msn, mo, segment.payload.len())?;
        }
        Ok(segment)
    }
}

/// What the next segment of one queue must carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    msn: u32,
    mo: u32,
}

impl Expected {
    /// The beginning of message `msn`; on a fresh stream that is 1 (RFC 5041 section 4.3).
    pub const fn new(msn: u32) -> Self {
        Self { msn, mo: 0 }
    }

    #[inline]
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

impl Default for Expected {
    fn default() -> Self {
        Self::new(1)
    }
}
