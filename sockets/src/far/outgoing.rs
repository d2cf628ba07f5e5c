//! The sending direction of an end of this host: its daemon reads what the sender publishes, and sends it on.

use crate::broken::Broken;
use crate::far::notice::{NoticeKind, PROMISED, WHY};
use crate::far::{low_half, widen};
use crate::layout::{
    ASKED, ATTACHED, COMMITTED, DECLINED, Direction, FINAL, LOST, LOST_BEFORE_RING, LOWERED, RESET, SILENT,
    STAYING,
};
use crate::leg::{Carrier, Leg, RingPlace};
use crate::sync::{Ordering, fence};
use crate::waiter::{Sleepers, WaiterName};

/// What a daemon knows of a direction whose sender is on its host.
///
/// The words of the link are the sender's. They are checked against what stands here.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The leg that the other daemon was told of, and where it begins.
    leg: Leg,
    start: u64,
    /// The position behind the last octet that was sent by a ring.
    sent: u64,
    /// The position up to which the reader has taken octets.
    head: u64,
    /// The rings of the sender, each with its place in the link of the reader.
    rings: Vec<(RingPlace, RingPlace)>,
    /// The reader has asked, and no record was due then.
    is_asked_back: bool,
    /// What the reader has decided. The sender hears of it once the other host knows of the sender.
    decision: u32,
    is_present_told: bool,
    is_heard: bool,
    /// The reader has to hear that no record will come.
    owes_promise: bool,
    is_end_told: bool,
    is_reset_told: bool,
    is_declined_told: bool,
}

/// What has to be sent to the other daemon next. Each is to be sent before the next is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// Octets from one ring to the other, by an RDMA Write, and behind them a [`NoticeKind::Data`] with this value.
    Write {
        /// The octets in the link of the sender.
        from: u64,
        /// The place for them in the link of the reader.
        to: u64,
        /// How many.
        len: u32,
        /// The low half of the position behind them.
        value: u32,
    },
    /// A leg by a ring begins.
    Leg {
        /// Its number.
        number: u16,
        /// The ring in the link of the reader.
        ring: RingPlace,
        /// The position of its first octet.
        start: u64,
    },
    /// The stream ends behind this position.
    Final {
        /// The position.
        end: u64,
    },
    /// A notice without further fields.
    Notice {
        /// Its kind.
        kind: NoticeKind,
        /// Its value.
        value: u32,
    },
}

impl Outgoing {
    /// A direction that has begun no leg but that by TCP. `first` is the sender's first ring, with its place in the link
    /// of the reader.
    #[must_use]
    pub fn new(first: (RingPlace, RingPlace)) -> Self {
        Self {
            leg: Leg::default(),
            start: 0,
            sent: 0,
            head: 0,
            rings: vec![first],
            is_asked_back: false,
            decision: 0,
            is_present_told: false,
            is_heard: false,
            owes_promise: false,
            is_end_told: false,
            is_reset_told: false,
            is_declined_told: false,
        }
    }

    /// Takes a further ring, with its place in the link of the reader.
    pub fn add_ring(&mut self, here: RingPlace, there: RingPlace) {
        self.rings.push((here, there));
    }

    /// Forgets a ring that the sender gives back. Returns its place in the link of the reader.
    pub fn remove_ring(&mut self, here: RingPlace) -> Option<RingPlace> {
        let at = self.rings.iter().position(|(own, _)| *own == here)?;
        Some(self.rings.swap_remove(at).1)
    }

    /// Names the daemon as the one who sleeps until there are octets. It stays named.
    pub fn announce(words: &Direction, waiter: WaiterName) {
        words.reader.waiter.store(waiter.to_word(), Ordering::SeqCst);
    }

    /// Asks the sender to go back to TCP behind a [record](crate::Record), because nobody carries its octets any more. Returns
    /// those who have to be woken. A question of the reader stays: a sender that answers it sends no record before a reader
    /// that has not come to a ring. A sender that has begun no ring begins none any more. It hears whether its reader waits for
    /// one.
    pub fn lower(words: &Direction) -> Option<Sleepers> {
        let attached = &words.reader.attached;
        let decide = |undecided| {
            attached.compare_exchange(undecided, DECLINED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let is_before_ring = !decide(0) && decide(ATTACHED);
        let please = &words.reader.please;
        let lost = if is_before_ring { LOST_BEFORE_RING } else { LOST };
        let _asked_already = please.compare_exchange(0, lost, Ordering::AcqRel, Ordering::Relaxed);
        (attached.load(Ordering::Relaxed) == COMMITTED).then_some(Sleepers::Everybody)
    }

    /// Takes the question of a reader that has come to no ring, and whose session has ended before the answer came. Returns
    /// true if the sender stays on TCP, or goes back to it, without a [record](crate::Record). With false a record comes, as far
    /// as is known, or octets of a ring are lost. Also returns those who have to be woken.
    pub fn handle_late_question(words: &Direction) -> (bool, Option<Sleepers>) {
        let attached = &words.reader.attached;
        for undecided in [0, ATTACHED] {
            let _decided =
                attached.compare_exchange(undecided, DECLINED, Ordering::AcqRel, Ordering::Relaxed);
        }
        words.reader.please.store(ASKED, Ordering::SeqCst);
        // As in `handle_question`.
        fence(Ordering::SeqCst);
        let flags = words.producer.flags.load(Ordering::Acquire);
        let has_ring = words.legs.leg.load(Ordering::Acquire) != 0;
        let is_before_ring = words.consumer.adopted.load(Ordering::Relaxed) == 0;
        let is_back = flags & SILENT != 0;
        let is_whole = flags & RESET == 0 && (flags & FINAL == 0 || !has_ring || is_back);
        let is_silent = flags & (LOWERED | STAYING) == 0 || is_back;
        let is_committed = attached.load(Ordering::Relaxed) == COMMITTED;
        (is_before_ring && is_whole && is_silent, is_committed.then_some(Sleepers::Everybody))
    }

    /// Ends the stream for a sender that is gone and has not told its end: behind the last octet in the ring. The end of
    /// what went by TCP is the kernel's to tell.
    pub fn end_for_sender(&self, words: &Direction) {
        let flags = words.producer.flags.load(Ordering::Acquire);
        let leg = Leg::from_word(words.legs.leg.load(Ordering::Acquire)).unwrap_or_default();
        if flags & (FINAL | RESET) == 0 && leg.carrier != Carrier::Tcp {
            words.legs.end.store(words.producer.tail.load(Ordering::Acquire), Ordering::Relaxed);
            words.producer.flags.store(flags | FINAL, Ordering::Release);
        }
    }

    /// True if the sender has begun no ring, and has not told the end of its stream.
    #[must_use]
    pub fn may_end_before_ring(&self) -> bool {
        self.leg.number == 0 && !self.is_end_told
    }

    /// Ends the stream of a sender that has shut down what it sends before it heard of the channel, behind `end` octets by
    /// TCP. It begins no ring.
    pub fn end_before_ring(&mut self, end: u64) -> Option<Duty> {
        if !self.may_end_before_ring() {
            return None;
        }
        self.is_end_told = true;
        Some(Duty::Final { end })
    }

    /// Tells what the other daemon has to hear next. A `Write` has at most `most` octets. With `may_write` false, the
    /// octets wait, and all that comes behind them.
    ///
    /// # Errors
    /// The sender broke a rule of the link.
    pub fn poll(&mut self, words: &Direction, most: u32, may_write: bool) -> Result<Option<Duty>, Broken> {
        if !self.is_present_told && words.legs.present.load(Ordering::Acquire) != 0 {
            self.is_present_told = true;
            return Ok(Some(Duty::Notice { kind: NoticeKind::Present, value: 0 }));
        }
        if core::mem::take(&mut self.owes_promise) {
            return Ok(Some(Duty::Notice { kind: NoticeKind::Declined, value: PROMISED }));
        }
        // What is seen here first covers what was published before: the end comes behind the last octet, and a tail in the
        // next leg behind that leg.
        let flags = words.producer.flags.load(Ordering::Acquire);
        let tail = words.producer.tail.load(Ordering::Acquire);
        let leg = Leg::from_word(words.legs.leg.load(Ordering::Acquire)).ok_or(Broken)?;
        // Before the look at the word: the start may be that of the leg by TCP.
        let start = words.legs.start.load(Ordering::Acquire);
        // Behind the leg: a sender that goes back to TCP behind a record says so before it begins the leg. The reader hears
        // of all that follows by the kernel's stream.
        if words.producer.flags.load(Ordering::Acquire) & LOWERED != 0 {
            return Ok(self.declined(words));
        }
        // A thread may begin a ring behind the end that another one has told meanwhile. Nothing goes by that ring.
        let is_void = self.is_end_told && tail <= start;
        let is_next = self.is_next(leg, start)? && !is_void;
        if let Some(ring) = self.ring() {
            // The sender has published all octets of a leg before it begins the next. This tail may be older.
            let end = if is_next { start } else { tail };
            if end > self.sent {
                return if may_write { self.write(ring, end, most).map(Some) } else { Ok(None) };
            }
        }
        if is_next {
            return self.begin(leg, start).map(Some);
        }
        if flags & FINAL != 0 && !self.is_end_told {
            self.is_end_told = true;
            let end = words.legs.end.load(Ordering::Relaxed);
            let is_sound = self.leg.carrier == Carrier::Tcp || end == self.sent;
            return if is_sound { Ok(Some(Duty::Final { end })) } else { Err(Broken) };
        }
        if flags & RESET != 0 && !self.is_reset_told {
            self.is_reset_told = true;
            return Ok(Some(Duty::Notice { kind: NoticeKind::Reset, value: 0 }));
        }
        Ok(self.declined(words))
    }

    /// The answer to a reader that has asked for TCP, once the sender has given it.
    fn declined(&mut self, words: &Direction) -> Option<Duty> {
        let is_declined = words.reader.attached.load(Ordering::Acquire) == DECLINED;
        // A question that came while the sender went back may have found it before it knew whether a record is due.
        let is_asked = self.is_asked_back || words.producer.flags.load(Ordering::Acquire) & SILENT != 0;
        if !is_declined || !is_asked || self.is_declined_told {
            return None;
        }
        self.is_declined_told = true;
        Some(Duty::Notice { kind: NoticeKind::Declined, value: 0 })
    }

    /// Takes what the daemon of the reader has told. Returns those who have to be woken.
    ///
    /// # Errors
    /// That daemon broke a rule.
    pub fn handle(
        &mut self,
        words: &Direction,
        kind: NoticeKind,
        value: u32,
    ) -> Result<Option<Sleepers>, Broken> {
        match kind {
            NoticeKind::Credit => return self.handle_credit(words, value),
            NoticeKind::Adopted if value == u32::from(self.leg.number) => {
                self.head = self.head.max(self.start.min(self.sent));
                words.consumer.head.store(self.head, Ordering::Relaxed);
                words.consumer.adopted.store(u64::from(self.leg.number), Ordering::Release);
            }
            NoticeKind::Attached if value == ATTACHED || value == DECLINED => {
                self.decision = value;
                self.publish_decision(words);
            }
            NoticeKind::Heard if value == 0 => {
                self.is_heard = true;
                self.publish_decision(words);
            }
            NoticeKind::Please if value & LOW <= 1 && value >> WHY <= LOW => {
                words.reader.why.store(value >> WHY, Ordering::Relaxed);
                return Ok(self.handle_question(words, value & LOW));
            }
            NoticeKind::Wide => words.reader.wide.store(1, Ordering::Relaxed),
            _ => return Err(Broken),
        }
        Ok(None)
    }

    /// Tells the sender what the reader has decided. A sender that may begin a ring hears of that only when the reader's host
    /// knows of the sender: else nobody there could tell the end of its stream from a loss.
    fn publish_decision(&self, words: &Direction) {
        if self.decision == DECLINED || self.decision != 0 && self.is_heard {
            let attached = &words.reader.attached;
            let _decided = attached.compare_exchange(0, self.decision, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    fn handle_credit(&mut self, words: &Direction, value: u32) -> Result<Option<Sleepers>, Broken> {
        let head = widen(self.head, value, self.sent.saturating_sub(self.head))?;
        self.head = head;
        words.consumer.head.store(head, Ordering::Release);
        fence(Ordering::SeqCst);
        Ok(Sleepers::from_word(words.legs.waiter.load(Ordering::Relaxed)))
    }

    /// The reader wants the stream back on TCP. If the sender has not promised a ring yet, the daemon answers for it.
    fn handle_question(&mut self, words: &Direction, value: u32) -> Option<Sleepers> {
        let attached = &words.reader.attached;
        if value == ASKED {
            self.decision = DECLINED;
            self.publish_decision(words);
            let _answered =
                attached.compare_exchange(ATTACHED, DECLINED, Ordering::AcqRel, Ordering::Relaxed);
        }
        words.reader.please.store(value, Ordering::SeqCst);
        if value == ASKED {
            // As in `Outbound::depart`, the other way round: either the sender finds the question, or this finds its word.
            fence(Ordering::SeqCst);
            let flags = words.producer.flags.load(Ordering::Relaxed);
            self.is_asked_back |= flags & LOWERED == 0;
            let is_before_ring = words.consumer.adopted.load(Ordering::Relaxed) == 0;
            self.owes_promise = is_before_ring && flags & (LOWERED | STAYING | FINAL | RESET) == 0;
        }
        (attached.load(Ordering::Relaxed) == COMMITTED).then_some(Sleepers::Everybody)
    }

    /// True if the sender has begun a leg that the other daemon does not know.
    fn is_next(&self, leg: Leg, start: u64) -> Result<bool, Broken> {
        match (leg.number.wrapping_sub(self.leg.number), leg.carrier) {
            (0, carrier) if carrier == self.leg.carrier => Ok(false),
            (1, Carrier::Ring(_)) if start >= self.sent.max(self.start) => Ok(true),
            _ => Err(Broken),
        }
    }

    fn begin(&mut self, leg: Leg, start: u64) -> Result<Duty, Broken> {
        let Carrier::Ring(here) = leg.carrier else { return Err(Broken) };
        let ring = self.there(here).ok_or(Broken)?;
        if self.leg.carrier == Carrier::Tcp {
            (self.sent, self.head) = (start, start);
        }
        (self.leg, self.start) = (leg, start);
        Ok(Duty::Leg { number: leg.number, ring, start })
    }

    fn write(&mut self, (here, there): (RingPlace, RingPlace), end: u64, most: u32) -> Result<Duty, Broken> {
        if end - self.head.max(self.start) > here.len() {
            return Err(Broken);
        }
        let at = self.sent & (here.len() - 1);
        let len = (end - self.sent).min(here.len() - at).min(u64::from(most));
        self.sent += len;
        Ok(Duty::Write {
            from: here.offset() + at,
            to: there.offset() + at,
            len: low_half(len),
            value: low_half(self.sent),
        })
    }

    /// The ring of the current leg, and its place in the link of the reader.
    fn ring(&self) -> Option<(RingPlace, RingPlace)> {
        let Carrier::Ring(here) = self.leg.carrier else { return None };
        Some((here, self.there(here)?))
    }

    fn there(&self, here: RingPlace) -> Option<RingPlace> {
        self.rings.iter().find(|(own, _)| *own == here).map(|(_, there)| *there)
    }
}

/// The question in the value of a [`NoticeKind::Please`], below the reason.
const LOW: u32 = (1 << WHY) - 1;
