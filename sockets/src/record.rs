//! The record by which a sender goes back to TCP between hosts.
//!
//! Between hosts a word in the link may be lost with the lane or the daemon that carries it. So a sender that leaves the
//! ring writes a record to the kernel's socket, before all else that goes there. The record names the position of the first
//! octet behind it. Octets that the reader has taken from the ring already come again, and the reader drops them. Neither
//! a lane nor a daemon nor an answer is needed.
//!
//! | octets | meaning |
//! |---|---|
//! | 16 | the secret of the channel, which only its two ends and their daemons know |
//! | 7 | the position, little-endian |
//! | 1 | why the sender goes back: 0 the lane or a daemon is lost, 1 the stream ends, 2 the process is drained, 3 it needs TCP |

use crate::broken::Broken;
use crate::end::{ENDING, RECORD};
use crate::inbound::Inbound;
use crate::layout::{
    ASKED, ATTACHED, COMMITTED, DECLINED, FINAL, LOST, LOST_BEFORE_RING, LOWERED, RESET, SILENT, STAYING,
};
use crate::leg::{Carrier, Leg, MAX_LOG2};
use crate::outbound::Outbound;
use crate::reason::Reason;
use crate::sync::{Ordering, fence};

/// The secret of a channel. All zero: the channel has none.
pub type Secret = [u64; 2];

/// A record, as it stands in the kernel's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The position of the first octet behind the record.
    pub position: u64,
    /// Why the sender goes back.
    pub cause: Cause,
}

/// Why a sender goes back to TCP behind a [record](Record).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Cause {
    /// The lane is lost, or a daemon. Also any cause without a number of its own.
    #[default]
    Lost = 0,
    /// The stream ends. Its last octets go by the kernel's socket as well.
    Ended = 1,
    /// The sender's process is drained.
    Drained = 2,
    /// The sender's program does something for which the connection has to be on TCP, as to hand it to another program.
    Refused = 3,
}

impl Cause {
    const ALL: [Self; 4] = [Self::Lost, Self::Ended, Self::Drained, Self::Refused];

    /// Returns the reason that the reader notes. `None`: the end of a stream is no reason.
    #[must_use]
    pub const fn reason(self) -> Option<Reason> {
        match self {
            Self::Lost => Some(Reason::Lane),
            Self::Ended => None,
            Self::Drained => Some(Reason::Drained),
            Self::Refused => Some(Reason::Refused),
        }
    }
}

impl Record {
    /// A record of this position, of a sender that has lost its lane.
    #[must_use]
    pub const fn new(position: u64) -> Self {
        Self { position, cause: Cause::Lost }
    }

    /// Octets of a record.
    pub const LEN: usize = 24;

    /// Returns the octets to be sent.
    #[must_use]
    pub fn encode(self, secret: Secret) -> [u8; Self::LEN] {
        let last = self.position & POSITION | u64::from(self.cause as u8) << POSITION_BITS;
        let words = [secret[0], secret[1], last].map(u64::to_le_bytes);
        let mut octets = [0; Self::LEN];
        octets.iter_mut().zip(words.as_flattened()).for_each(|(to, from)| *to = *from);
        octets
    }

    /// Looks for a record at the beginning of these octets. An error says that there is none. `Ok(None)`: too few octets
    /// are there to tell. A cause without a meaning gives a position that no reader has come to.
    ///
    /// # Errors
    /// The octets are none of a record.
    pub fn decode(octets: &[u8], secret: Secret) -> Result<Option<Self>, Broken> {
        let known = Self::new(0).encode(secret);
        let known = known.get(..SECRET_LEN).unwrap_or_default();
        if secret == [0; 2] || !octets.iter().zip(known).all(|(octet, known)| octet == known) {
            return Err(Broken);
        }
        let last = octets.get(SECRET_LEN..Self::LEN).and_then(|octets| octets.try_into().ok());
        Ok(last.map(|octets| Self::from_last(u64::from_le_bytes(octets))))
    }

    fn from_last(word: u64) -> Self {
        let cause = Cause::ALL.into_iter().find(|cause| u64::from(*cause as u8) == word >> POSITION_BITS);
        cause.map_or(Self::new(u64::MAX), |cause| Self { position: word & POSITION, cause })
    }

    /// Returns the place of a whole secret in these octets.
    #[must_use]
    pub fn find(octets: &[u8], secret: Secret) -> Option<usize> {
        let known = Self::new(0).encode(secret);
        let known = known.get(..SECRET_LEN).filter(|_| secret != [0; 2])?;
        octets.windows(SECRET_LEN).position(|window| window == known)
    }
}

impl Outbound<'_> {
    /// Goes back to TCP for good, behind a [record](Self::record). What the reader may not have taken becomes the
    /// [backlog](Self::backlog). Returns false, and changes nothing, if the stream has ended: the kernel takes nothing behind
    /// the end. A sender that has not begun a ring stays on TCP, and owes no record. Nor does one whose reader has asked
    /// before it came to the first ring: that reader stays on TCP, and its daemon is told so.
    ///
    /// # Errors
    /// As [`room`](Self::room).
    pub fn depart(&self) -> Result<bool, Broken> {
        if self.shared.producer.flags.load(Ordering::Relaxed) & (FINAL | RESET) != 0 {
            return Ok(false);
        }
        let leg = self.own.leg();
        if leg.carrier != Carrier::Tcp {
            // Before the look at the question: the daemon promises no answer without a record behind this word. It is set
            // before the leg, so that a daemon that finds the leg by TCP finds it, too.
            self.shared.producer.flags.fetch_or(LOWERED, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            // A reader tells that it has come to a ring before it asks, and comes to none while it asks.
            let is_asked = self.shared.reader.please.load(Ordering::Acquire) == ASKED;
            let is_before_ring = leg.number == 1 && self.shared.consumer.adopted.load(Ordering::Acquire) == 0;
            if is_asked && is_before_ring {
                self.shared.producer.flags.fetch_or(SILENT, Ordering::SeqCst);
            } else {
                // Before the leg. A process that is killed in between leaves a sender in the ring that owes a record.
                self.own.flags.fetch_or(RECORD, Ordering::Relaxed);
            }
            self.give_back()?;
        }
        self.shared.reader.attached.store(DECLINED, Ordering::Release);
        Ok(true)
    }

    /// True if this sender has told where its stream ends.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.shared.producer.flags.load(Ordering::Relaxed) & FINAL != 0
    }

    /// True if the reader waits for a ring that this sender has not begun and will not begin: nobody carries its octets any
    /// more. Without a [word](Self::renounce) the reader cannot tell that from a ring of which it has not heard.
    #[must_use]
    pub fn is_awaited_in_vain(&self) -> bool {
        self.is_before_ring() && self.shared.reader.please.load(Ordering::Acquire) == LOST_BEFORE_RING
    }

    /// True if the reader waits for a ring that this sender has not begun.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.is_before_ring() && self.shared.reader.attached.load(Ordering::Acquire) == ATTACHED
    }

    /// True if the sender has begun no ring, and the stream goes on.
    fn is_before_ring(&self) -> bool {
        let flags = self.shared.producer.flags.load(Ordering::Relaxed);
        self.own.leg() == Leg::default() && flags & (FINAL | RESET) == 0
    }

    /// Stays on TCP for good behind a [record](Self::record), though the reader [waits](Self::is_awaited) for a ring. Returns
    /// false if no record is due: the reader waits for none, or asks for TCP already. The gate has to be closed.
    #[must_use]
    pub fn renounce(&self) -> bool {
        let attached = &self.shared.reader.attached;
        let is_early =
            attached.compare_exchange(ATTACHED, DECLINED, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if !self.is_before_ring() || !is_early && !self.is_awaited_in_vain() {
            return false;
        }
        // As in `depart`.
        self.shared.producer.flags.fetch_or(LOWERED, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.shared.reader.please.load(Ordering::Acquire) == ASKED {
            self.shared.producer.flags.fetch_or(SILENT, Ordering::SeqCst);
            return false;
        }
        let (leg, start) = (self.own.leg(), self.own.written.load(Ordering::Relaxed));
        let next = leg.next(Carrier::Tcp);
        self.own.before.store(leg.to_word(), Ordering::Relaxed);
        self.own.starts[usize::from(next.number & 1)].store(start, Ordering::Relaxed);
        self.own.head.store(start, Ordering::Relaxed);
        self.own.leg.store(next.to_word(), Ordering::Release);
        // Behind the leg: the record names its start.
        self.own.flags.fetch_or(RECORD, Ordering::Relaxed);
        self.republish();
        true
    }

    /// Sends no record to a reader that waits in vain, since it may not be sent for good.
    pub fn keep_silent(&self) {
        let please = &self.shared.reader.please;
        let _asked = please.compare_exchange(LOST_BEFORE_RING, LOST, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Goes on with a [departure](Self::depart) in the middle of which a process was killed: no daemon carries this ring any
    /// more.
    ///
    /// # Errors
    /// As [`room`](Self::room).
    pub fn depart_for_the_dead(&self) -> Result<(), Broken> {
        let is_lowered = self.shared.producer.flags.load(Ordering::Relaxed) & LOWERED != 0;
        if is_lowered && self.own.leg().carrier != Carrier::Tcp {
            self.depart()?;
        }
        Ok(())
    }

    /// As [`depart`](Self::depart), because the stream ends: its reader notes no reason.
    ///
    /// # Errors
    /// As [`room`](Self::room).
    pub fn depart_at_end(&self) -> Result<bool, Broken> {
        // Before the record is due.
        self.own.flags.fetch_or(ENDING, Ordering::Relaxed);
        self.depart()
    }

    /// Goes back to TCP, as [`depart`](Self::depart), if the reader asks for that, because the stream is about to end in its
    /// ring. A reader that has come to no ring may have the promise already that it misses nothing by TCP.
    ///
    /// # Errors
    /// As [`room`](Self::room).
    pub fn obey_at_end(&self) -> Result<(), Broken> {
        // As in `depart`: either the daemon finds this word and promises nothing, or this finds the question.
        self.shared.producer.flags.fetch_or(STAYING, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.shared.reader.please.load(Ordering::Acquire) == ASKED {
            self.depart()?;
        }
        Ok(())
    }

    /// Returns the record that has to go out before all else, if one is due. Why the stream does not go on in the ring is
    /// told only if it ends.
    #[must_use]
    pub fn record(&self) -> Option<Record> {
        let (leg, flags) = (self.own.leg(), self.own.flags.load(Ordering::Relaxed));
        let cause = if flags & ENDING == 0 { Cause::Lost } else { Cause::Ended };
        let is_due = flags & RECORD != 0 && leg.carrier == Carrier::Tcp;
        is_due.then(|| Record { position: self.start_of(leg), cause })
    }

    /// True if the reader has come to a ring. Else it may know of none.
    #[must_use]
    pub fn was_adopted(&self) -> bool {
        self.shared.consumer.adopted.load(Ordering::Acquire) != 0
    }

    /// Notes that the kernel's socket has taken the record.
    pub fn record_sent(&self) {
        self.own.kernel.fetch_add(Record::LEN as u64, Ordering::Relaxed);
        self.own.flags.fetch_and(!RECORD, Ordering::Relaxed);
    }
}

impl Inbound<'_> {
    /// True if a far sender may begin a ring of which this reader does not know yet. It begins none before the reader's daemon
    /// knows that it has the channel.
    #[must_use]
    pub fn expects_ring(&self) -> bool {
        self.is_before_decision() && self.shared.legs.present.load(Ordering::Acquire) != 0
    }

    /// True if a record may stand in the kernel's stream by the time that this reader takes its next octets: the reader has
    /// attached, and has come to no ring. The word that the sender has the channel, and then the record, may come between a
    /// look and the receive behind it.
    #[must_use]
    pub fn is_before_decision(&self) -> bool {
        let attached = self.shared.reader.attached.load(Ordering::Relaxed);
        self.own.leg() == Leg::default() && matches!(attached, ATTACHED | COMMITTED)
    }

    /// As [`expects_ring`](Self::expects_ring), if the sender has ended its stream: it may have begun a ring if it was told that
    /// the reader has attached.
    #[must_use]
    pub fn may_miss_ring(&self) -> bool {
        self.expects_ring() && self.shared.reader.attached.load(Ordering::Relaxed) == COMMITTED
    }

    /// True if the reader has never come to a ring.
    #[must_use]
    pub fn is_before_ring(&self) -> bool {
        self.own.leg() == Leg::default()
    }

    /// Leaves the ring for the kernel's stream, whose next octets are this record. The [octets to be dropped](Self::skip)
    /// begin with the record.
    ///
    /// # Errors
    /// The record names octets that the reader has not come to, or more than two rings of octets before that.
    pub fn leave(&self, record: Record) -> Result<(), Broken> {
        let consumed = self.own.consumed.load(Ordering::Relaxed);
        let again = consumed.checked_sub(record.position).filter(|again| *again <= MOST).ok_or(Broken)?;
        // First: from now on the daemon of this host carries nothing between this reader and its sender.
        self.shared.reader.left.store(1, Ordering::SeqCst);
        self.own.skip.store(again + Record::LEN as u64, Ordering::Relaxed);
        self.own.tail.store(consumed, Ordering::Relaxed);
        self.own.leg.store(self.own.leg().word_behind_record(), Ordering::Release);
        Ok(())
    }

    /// Stays on TCP for good, behind the [answer](Self::is_answered) of a sender on another host whose ring the reader has
    /// never come to.
    pub fn remain(&self) {
        self.shared.reader.left.store(1, Ordering::SeqCst);
        self.own.leg.store(self.own.leg().word_behind_record(), Ordering::Release);
    }

    /// True if the reader has left the ring behind a record: the link tells nothing any more.
    #[inline]
    #[must_use]
    pub fn has_left(&self) -> bool {
        Leg::is_behind_record(self.own.leg.load(Ordering::Relaxed))
    }

    /// Octets of the kernel's stream that have to be dropped before the next one is read.
    #[inline]
    #[must_use]
    pub fn skip(&self) -> u64 {
        self.own.skip.load(Ordering::Relaxed)
    }

    /// Notes that octets were dropped.
    pub fn skipped(&self, octets: u64) {
        self.own.skip.store(self.skip().saturating_sub(octets), Ordering::Relaxed);
    }
}

const SECRET_LEN: usize = 16;
const POSITION_BITS: u32 = 56;
const POSITION: u64 = (1 << POSITION_BITS) - 1;
/// A reader may be a ring behind the sender's.
const MOST: u64 = 2 << MAX_LOG2;

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    const SECRET: Secret = [0x0807_0605_0403_0201, 0x100f_0e0d_0c0b_0a09];

    #[test]
    fn a_record_has_the_secret_the_position_and_the_cause() {
        for (number, cause) in (0..).zip(Cause::ALL) {
            let record = Record { position: 0x03_0201, cause };
            let octets = record.encode(SECRET);
            assert!(octets[..16].iter().copied().eq(1..=16));
            assert_eq!(octets[16..], [1, 2, 3, 0, 0, 0, 0, number]);
            assert_eq!(Record::decode(&octets, SECRET), Ok(Some(record)));
            assert_eq!(Record::decode(&octets[..23], SECRET), Ok(None));
        }
    }

    #[test]
    fn a_record_with_an_unknown_cause_names_octets_that_never_come() {
        let mut octets = Record::new(0).encode(SECRET);
        octets[23] = 4;
        let record = Record::decode(&octets, SECRET).expect("a record").expect("all of it");
        assert_eq!(record.position, u64::MAX);
    }
}
