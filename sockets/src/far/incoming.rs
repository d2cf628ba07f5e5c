//! The receiving direction of an end of this host: its daemon publishes what the other daemon tells of the sender.

use crate::broken::Broken;
use crate::far::notice::{NoticeKind, PROMISED, WHY};
use crate::far::{low_half, widen};
use crate::layout::{ASKED, ATTACHED, CLOSED, COMMITTED, DECLINED, Direction, FINAL, KILLED, NOWHERE, RESET};
use crate::leg::{Carrier, Leg, RingPlace};
use crate::sync::{Ordering, fence};
use crate::waiter::{Sleepers, WaiterName};

/// What a daemon knows of a direction whose reader is on its host.
#[derive(Clone, Debug)]
pub struct Incoming {
    leg: Leg,
    start: u64,
    /// The position behind the last octet that has come by a ring.
    tail: u64,
    /// The head that the other daemon was told.
    credited: u64,
    /// The rings that the other daemon may write to.
    rings: Vec<RingPlace>,
    adopted: u16,
    attached: u32,
    is_asked_back: bool,
    /// The reader has asked at least once.
    was_asked_back: bool,
    /// The sender goes back to TCP without a record.
    is_promised: bool,
    is_wide: bool,
    is_ended: bool,
    owes_heard: bool,
}

impl Incoming {
    /// A direction that has begun no leg but that by TCP. `first` is the ring that the other daemon may write to.
    #[must_use]
    pub fn new(first: RingPlace) -> Self {
        Self {
            leg: Leg::default(),
            start: 0,
            tail: 0,
            credited: 0,
            rings: vec![first],
            adopted: 0,
            attached: 0,
            is_asked_back: false,
            was_asked_back: false,
            is_promised: false,
            is_wide: false,
            is_ended: false,
            owes_heard: false,
        }
    }

    /// Lets the other daemon write to a further ring.
    pub fn add_ring(&mut self, ring: RingPlace) {
        self.rings.push(ring);
    }

    /// Takes a ring back that the sender has given back. Returns false if it is none of this direction, or in use.
    pub fn remove_ring(&mut self, ring: RingPlace) -> bool {
        let at = self.rings.iter().position(|own| *own == ring);
        let Some(at) = at.filter(|_| self.leg.carrier != Carrier::Ring(ring)) else { return false };
        self.rings.swap_remove(at);
        true
    }

    /// Names the daemon as the one who sleeps until the reader says something. It stays named.
    pub fn announce(words: &Direction, waiter: WaiterName) {
        words.legs.waiter.store(waiter.to_word(), Ordering::SeqCst);
    }

    /// Begins the sender's next leg, by a ring. The sender announces a leg by TCP with a [record](crate::Record) in the
    /// kernel's stream, and no letter tells it.
    ///
    /// # Errors
    /// The other daemon broke a rule.
    pub fn handle_leg(
        &mut self,
        words: &Direction,
        number: u16,
        ring: RingPlace,
        start: u64,
    ) -> Result<Option<Sleepers>, Broken> {
        if has_left(words) {
            return Ok(None);
        }
        let is_first = self.leg.carrier == Carrier::Tcp;
        let follows = if is_first { start >= self.tail } else { start == self.tail };
        let is_next = number == self.leg.number.wrapping_add(1) && self.adopted == self.leg.number;
        if !follows || !is_next || !self.rings.contains(&ring) || self.is_ended {
            return Err(Broken);
        }
        if is_first {
            self.credited = start;
        }
        let leg = Leg { number, carrier: Carrier::Ring(ring) };
        (self.leg, self.start, self.tail) = (leg, start, start);
        words.producer.beside_start.store(NOWHERE, Ordering::Relaxed);
        words.producer.tail.store(start, Ordering::Release);
        words.legs.start.store(start, Ordering::Relaxed);
        words.legs.leg.store(self.leg.to_word(), Ordering::Release);
        Ok(sleepers(words))
    }

    /// Takes a notice of the sender's daemon.
    ///
    /// # Errors
    /// That daemon broke a rule.
    pub fn handle(
        &mut self,
        words: &Direction,
        kind: NoticeKind,
        value: u32,
    ) -> Result<Option<Sleepers>, Broken> {
        if has_left(words) {
            return Ok(None);
        }
        match kind {
            NoticeKind::Data => self.handle_data(words, value),
            NoticeKind::Present => {
                words.legs.present.store(1, Ordering::Release);
                self.owes_heard = true;
                Ok(None)
            }
            NoticeKind::Reset => {
                set(words, RESET);
                Ok(sleepers(words))
            }
            NoticeKind::Declined if self.was_asked_back && value == PROMISED => {
                self.is_promised = true;
                Ok(None)
            }
            // The reader may have given up meanwhile.
            NoticeKind::Declined if self.was_asked_back => {
                words.reader.attached.store(DECLINED, Ordering::Release);
                Ok(sleepers(words))
            }
            _ => Err(Broken),
        }
    }

    /// The stream ends behind this position.
    ///
    /// # Errors
    /// The other daemon broke a rule.
    pub fn handle_final(&mut self, words: &Direction, end: u64) -> Result<Option<Sleepers>, Broken> {
        if has_left(words) {
            return Ok(None);
        }
        let is_at_tail = self.leg.carrier == Carrier::Tcp || end == self.tail;
        if !is_at_tail || self.is_ended {
            return Err(Broken);
        }
        self.is_ended = true;
        words.legs.end.store(end, Ordering::Relaxed);
        set(words, FINAL);
        Ok(sleepers(words))
    }

    /// The other end is closed, and tells nothing more. Of a ring it has told the [end](Self::handle_final) before. `ours` are
    /// the words of the other direction: a sender that waits for room there waits for a reader that may have been killed.
    pub fn handle_closed(&self, words: &Direction, ours: &Direction) -> Option<Sleepers> {
        let is_without_ring = self.leg.number == 0 && !has_left(words);
        set(words, if is_without_ring { KILLED | CLOSED } else { KILLED });
        let readers = sleepers(words);
        match (readers, Sleepers::from_word(ours.legs.waiter.load(Ordering::Relaxed))) {
            (one, None) | (None, one) => one,
            (Some(_), Some(_)) => Some(Sleepers::Everybody),
        }
    }

    /// Answers the reader's question, if that is certain, because the sender's daemon is not heard any more. A reader that waits
    /// for a ring hears that none comes, if this host does not know that the sender has the channel. Returns those who have to
    /// be woken.
    pub fn lower(&self, words: &Direction) -> Option<Sleepers> {
        let attached = &words.reader.attached;
        let is_unmet = self.leg.number == 0 && words.legs.present.load(Ordering::Acquire) == 0;
        let is_waiting = matches!(attached.load(Ordering::Acquire), ATTACHED | COMMITTED);
        if has_left(words) || !(self.is_promised || is_unmet && is_waiting) {
            return None;
        }
        attached.store(DECLINED, Ordering::Release);
        sleepers(words)
    }

    /// Answers the question of a reader that has come to no ring, and whose session has ended before the answer came: the
    /// sender stays on TCP, and sends no record. Returns those who have to be woken.
    pub fn answer_late(words: &Direction) -> Option<Sleepers> {
        let is_asked = words.reader.please.load(Ordering::Acquire) == ASKED;
        let is_before_ring = words.consumer.adopted.load(Ordering::Relaxed) == 0;
        if !is_asked || !is_before_ring || has_left(words) {
            return None;
        }
        words.reader.attached.store(DECLINED, Ordering::Release);
        sleepers(words)
    }

    /// Tells what the other daemon has to hear next of the reader. `is_idle`: the daemon is about to sleep.
    ///
    /// # Errors
    /// The reader broke a rule of the link.
    pub fn poll(&mut self, words: &Direction, is_idle: bool) -> Result<Option<(NoticeKind, u32)>, Broken> {
        if core::mem::take(&mut self.owes_heard) {
            return Ok(Some((NoticeKind::Heard, 0)));
        }
        // Before the head: a reader takes nothing behind its question.
        let is_asked_back = words.reader.please.load(Ordering::Acquire) != 0;
        let head = words.consumer.head.load(Ordering::Acquire);
        // Behind the head, and told before it: a head in a leg comes behind the word that the reader has come to that leg.
        let adopted = words.consumer.adopted.load(Ordering::Acquire);
        // Behind the words: a reader that leaves the ring behind a record says so before it changes them.
        if has_left(words) {
            return Ok(None);
        }
        if adopted == u64::from(self.leg.number) && self.adopted != self.leg.number {
            self.adopted = self.leg.number;
            return Ok(Some((NoticeKind::Adopted, u32::from(self.adopted))));
        }
        let is_last = is_idle && head == self.tail || is_asked_back || self.is_ended;
        if self.is_credit_due(head, is_last)? {
            self.credited = head;
            return Ok(Some((NoticeKind::Credit, low_half(head))));
        }
        if self.attached == 0 {
            // From now on the reader has to ask: the sender may begin a ring at any moment.
            let attached = &words.reader.attached;
            let _committed =
                attached.compare_exchange(ATTACHED, COMMITTED, Ordering::AcqRel, Ordering::Relaxed);
            let told = match attached.load(Ordering::Acquire) {
                COMMITTED => ATTACHED,
                DECLINED => DECLINED,
                _ => 0,
            };
            self.attached = told;
            if told != 0 {
                return Ok(Some((NoticeKind::Attached, told)));
            }
        }
        if is_asked_back != self.is_asked_back {
            self.is_asked_back = is_asked_back;
            self.was_asked_back = true;
            let why = if is_asked_back { words.reader.why.load(Ordering::Relaxed) & 0xff } else { 0 };
            return Ok(Some((NoticeKind::Please, u32::from(is_asked_back) | why << WHY)));
        }
        if !self.is_wide && words.reader.wide.load(Ordering::Relaxed) != 0 {
            self.is_wide = true;
            return Ok(Some((NoticeKind::Wide, 0)));
        }
        Ok(None)
    }

    /// True if the other daemon has to hear of this head: behind a quarter of the ring, if it is the last for now, or if the
    /// sender may wait for it.
    ///
    /// A sender may sleep while more than half of the ring is full by the head that it was told. The reader rings when it has
    /// taken so much that half of the ring is free, and then not again until more octets come: see `Inbound::sleepers`. So
    /// that head has to be told at once, however few octets are between it and the one before.
    fn is_credit_due(&self, head: u64, is_last: bool) -> Result<bool, Broken> {
        // A reader that is not in this leg yet shows a head of the one before.
        if head <= self.credited {
            return Ok(false);
        }
        if head > self.tail {
            return Err(Broken);
        }
        let Carrier::Ring(ring) = self.leg.carrier else { return Err(Broken) };
        let half = ring.len() / 2;
        let frees_half = self.tail - head <= half && self.tail - self.credited > half;
        Ok(is_last || frees_half || head - self.credited >= ring.len() / 4)
    }

    fn handle_data(&mut self, words: &Direction, value: u32) -> Result<Option<Sleepers>, Broken> {
        let Carrier::Ring(ring) = self.leg.carrier else { return Err(Broken) };
        let end = self.credited.max(self.start).checked_add(ring.len()).ok_or(Broken)?;
        if self.is_ended {
            return Err(Broken);
        }
        self.tail = widen(self.tail, value, end.checked_sub(self.tail).ok_or(Broken)?)?;
        words.producer.tail.store(self.tail, Ordering::Release);
        Ok(sleepers(words))
    }
}

/// True if the reader goes on by the kernel's stream, and hears nothing of the link any more.
fn has_left(words: &Direction) -> bool {
    words.reader.left.load(Ordering::Acquire) != 0
}

/// The readers who sleep.
fn sleepers(words: &Direction) -> Option<Sleepers> {
    fence(Ordering::SeqCst);
    Sleepers::from_word(words.reader.waiter.load(Ordering::Relaxed))
}

fn set(words: &Direction, flag: u16) {
    let flags = &words.producer.flags;
    flags.store(flags.load(Ordering::Relaxed) | flag, Ordering::Release);
}
