//! The work of two ends, and the octets of their messages.

use super::Outcome;
use crate::case::{Effort, Trouble};
use crate::octets::pattern;

/// The work between two ends, round after round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) kind: Kind,
    /// Octets of a message.
    pub(crate) size: usize,
    /// Messages that are handed over at a time.
    pub(crate) batch: usize,
    /// Messages of a round, whole batches.
    pub(crate) round: usize,
}

/// The directions of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Messages go there and back, one at a time.
    RoundTrips,
    /// Messages go to the server, many at a time. The server answers behind the last one.
    Stream,
}

/// The messages of a round, each different from the others.
#[derive(Debug)]
pub(crate) struct Source {
    octets: Vec<u8>,
    work: Work,
}

impl Work {
    /// Returns messages there and back.
    pub(crate) fn round_trips(size: usize, effort: &Effort) -> Self {
        let round = (ROUND / size).clamp(4, effort.count(1000));
        Self { kind: Kind::RoundTrips, size, batch: 1, round }
    }

    /// Returns messages one way, each handed over by itself.
    pub(crate) fn stream(size: usize, effort: &Effort) -> Self {
        Self::batches(size, 1, effort)
    }

    /// Returns messages one way, handed over `batch` at a time.
    pub(crate) fn batches(size: usize, batch: usize, effort: &Effort) -> Self {
        let batches = (ROUND / size / batch).clamp(4, effort.count(8192 / batch).max(4));
        Self { kind: Kind::Stream, size, batch, round: batches * batch }
    }

    /// Returns the octets of a round. There and back counts once.
    pub(crate) const fn octets(&self) -> u64 {
        (self.round * self.size) as u64
    }

    /// Returns the distance between the first octets of two messages in the source. Large messages overlap there, so
    /// that caches hold little more than one of them.
    const fn stride(&self) -> usize {
        if self.size <= SMALL { self.size } else { STRIDE }
    }
}

impl Source {
    /// Returns the messages of a round of `work`.
    pub(crate) fn of(work: Work) -> Self {
        Self { octets: pattern(work.stride() * (work.round - 1) + work.size), work }
    }

    /// Returns the place in the source where a message begins.
    pub(crate) const fn offset(&self, index: usize) -> usize {
        index * self.work.stride()
    }

    /// Returns one message, or several that lie one behind the other.
    pub(crate) fn messages(&self, index: usize, count: usize) -> &[u8] {
        &self.octets[self.offset(index)..][..count * self.work.size]
    }

    /// Returns all octets.
    pub(crate) fn octets(&self) -> &[u8] {
        &self.octets
    }

    /// Returns a buffer for all messages of a round, one behind the other.
    pub(crate) fn sink(&self) -> Vec<u8> {
        vec![0; self.work.size * self.work.round]
    }

    /// Checks that all messages of a round have come, one behind the other.
    pub(crate) fn check(&self, sink: &[u8]) -> Outcome {
        let mut messages = sink.chunks_exact(self.work.size).enumerate();
        messages.try_for_each(|(index, message)| self.check_one(index, message))
    }

    /// Checks one message.
    pub(crate) fn check_one(&self, index: usize, message: &[u8]) -> Outcome {
        let wanted = self.messages(index, 1);
        if message == wanted {
            return Ok(());
        }
        let octet = message.iter().zip(wanted).take_while(|(is, should)| is == should).count();
        Err(Trouble::failed(format!("octet {octet} of message {index} is wrong")))
    }
}

/// Octets of a round of large messages.
const ROUND: usize = 4 << 20;
/// The largest messages that lie one behind the other in the source.
const SMALL: usize = 4096;
/// From one large message to the next one in the source: a cache line.
const STRIDE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn effort(is_tiny: bool) -> Effort {
        Effort { turn: core::time::Duration::ZERO, pairs: 5, is_tiny }
    }

    #[test]
    fn every_message_is_different_and_every_octet_is_compared() {
        for work in [Work::batches(8, 32, &effort(false)), Work::stream(1 << 20, &effort(false))] {
            let source = Source::of(work);
            let mut sink = source.sink();
            assert!(source.check(&sink).is_err(), "nothing has come");
            for index in 0..work.round {
                sink[index * work.size..][..work.size].copy_from_slice(source.messages(index, 1));
            }
            assert_eq!(source.check(&sink), Ok(()));
            let last = sink.len() - 1;
            sink[last] ^= 1;
            let text = format!("octet {} of message {} is wrong", work.size - 1, work.round - 1);
            assert_eq!(source.check(&sink), Err(Trouble::failed(text)));
            sink[last] ^= 1;
            let (first, second) = sink.split_at_mut(work.size);
            first.swap_with_slice(&mut second[..work.size]);
            assert!(source.check(&sink).is_err(), "two messages have changed places");
        }
    }

    #[test]
    fn rounds_are_whole_batches_of_a_few_megabytes() {
        let sizes = (3..23).map(|power| 1 << power);
        for (size, is_tiny) in sizes.flat_map(|size| [(size, false), (size, true)]) {
            let effort = effort(is_tiny);
            for work in [
                Work::batches(size, 32, &effort),
                Work::stream(size, &effort),
                Work::round_trips(size, &effort),
            ] {
                assert!(work.round >= 4 && work.round % work.batch == 0, "{work:?}");
                assert!(work.batch > 1 || work.octets() <= 16 << 20, "{work:?}");
            }
        }
    }
}
