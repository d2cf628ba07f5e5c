//! The check that untagged segments arrive in order.

use crate::{Error, Header, Segment, queue::QUEUES};

/// The receiving half of a DDP stream.
///
/// The LLP is TCP, so segments arrive in the order sent. The only right MSN is the next one of its queue. The only
/// right MO is the next one of its message. Every other number is the peer's error.
///
/// `S` is the storage for the expected numbers of the queues. It is an array for the four queues of RDMAP, or the
/// caller's own storage for another ULP.
#[derive(Debug, Clone)]
pub struct Receiver<S = [Expected; QUEUES]> {
    queues: u32,
    expected: S,
}

impl Receiver {
    /// A receiver with the queue numbers below `queues`: 3, or 4 with RFC 7306's Atomics. More than 4 means 4.
    pub const fn new(queues: u32) -> Self {
        Self::with_msn(queues, 1)
    }

    /// A receiver that expects `msn` first on every queue. Tests of the wrap from 0xFFFFFFFF to 0 use it.
    pub const fn with_msn(queues: u32, msn: u32) -> Self {
        Self { queues, expected: [Expected::new(msn); QUEUES] }
    }
}

impl<S: AsMut<[Expected]>> Receiver<S> {
    /// A receiver with as many queues as `expected` has entries, numbered from 0.
    pub fn with_queues(mut expected: S) -> Self {
        let queues = u32::try_from(expected.as_mut().len()).unwrap_or(u32::MAX);
        Self { queues, expected }
    }

    /// Takes one ULPDU and returns its segment. The version must be right. In an untagged segment, queue, MSN and MO
    /// must be the expected ones. A segment without payload follows the same rules, since a zero-length Send takes a
    /// buffer too.
    ///
    /// After an error the stream is broken: the caller reports it and passes no more segments (requirement
    /// 5041-7.1-19).
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

/// The numbers that the next segment of one queue must carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    msn: u32,
    mo: u32,
}

impl Expected {
    /// The beginning of message `msn`, which is 1 on a fresh stream (RFC 5041 section 4.3).
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
