//! The receiving side of a direction: where the next octets come from, and what the sender has to be told.

use crate::broken::Broken;
use crate::layout::{Direction, FINAL, MODE_NO_FENCE, OwnInbound, RESET};
use crate::leg::{Carrier, Leg};
use crate::memory::Link;
use crate::outbound::BESIDE;
use crate::ring::{AT_A_TIME, Ring, index};
use crate::sync::{Ordering, compiler_fence, fence};
use crate::waiter::{Sleep, Sleepers, WaiterName};

mod next;
mod wishes;

/// The receiving side of a direction that has a channel.
///
/// All methods but those that only look need the direction's lock. None waits.
#[derive(Clone, Copy, Debug)]
pub struct Inbound<'a> {
    pub(crate) own: &'a OwnInbound,
    pub(crate) shared: &'a Direction,
    link: &'a Link,
    is_nested: bool,
}

/// Where the next octets come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// From the kernel's socket.
    Tcp {
        /// How many at most, if it is known where the ring begins. It is not 0.
        left: Option<u64>,
    },
    /// From the ring.
    Ring {
        /// How many are there.
        available: u64,
    },
}

/// The barrier that a thread has to make between naming itself as a sleeper and its last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[must_use]
pub enum Barrier {
    /// A fence.
    Fence,
    /// The call membarrier(2), since the sender makes no fence until it sees the change of mode.
    Everywhere,
}

/// A ring that had nothing for the reader at a look.
#[derive(Clone, Copy, Debug)]
pub struct Quiet<'a> {
    shared: &'a Direction,
    /// The position up to which octets had come. All were taken.
    tail: u64,
}

impl Quiet<'_> {
    /// True if the sender has told neither octets nor an end of the stream since. Asks one line of memory, and does not see
    /// another leg that has no octets.
    #[inline]
    #[must_use]
    pub fn lasts(&self) -> bool {
        let producer = &self.shared.producer;
        producer.tail.load(Ordering::Relaxed) == self.tail && producer.flags.load(Ordering::Relaxed) == 0
    }

    /// True if the sender finds this waiter, and nobody else, as it does behind an [announcement](Inbound::announce).
    #[must_use]
    pub fn is_announced(&self, waiter: WaiterName) -> bool {
        let reader = &self.shared.reader;
        reader.waiter.load(Ordering::Relaxed) == waiter.to_word()
            && reader.mode.load(Ordering::Relaxed) & MODE_NO_FENCE == 0
    }
}

impl OwnInbound {
    /// Counts octets that came from the kernel's socket.
    #[inline]
    pub fn count(&self, octets: u64) {
        self.consumed.fetch_add(octets, Ordering::Relaxed);
    }

    /// Notes that the reader waits, and that this end has written up to this position. Returns true if it has written
    /// nothing since the wait before: the octets come in a row, and are no answers.
    #[must_use]
    pub fn waits_again(&self, written: u64) -> bool {
        let is_again = self.answered.load(Ordering::Relaxed) == written;
        self.answered.store(written, Ordering::Relaxed);
        is_again
    }

    /// The current leg.
    #[inline]
    #[must_use]
    pub fn leg(&self) -> Leg {
        Leg::from_own_word(self.leg.load(Ordering::Relaxed))
    }
}

impl<'a> Inbound<'a> {
    /// The direction in which `party` of the link receives by this channel. `None`: there is no such channel.
    #[inline]
    #[must_use]
    pub fn new(own: &'a OwnInbound, link: &'a Link, channel: u32, party: u32) -> Option<Self> {
        let shared = &link.channel(channel)?.directions[index(u64::from(1 - (party & 1)))];
        Some(Self { own, shared, link, is_nested: false })
    }

    /// For a signal handler in a thread that is in the middle of a section of this direction. The handler reads as
    /// usual, and the interrupted call begins anew. Only the words of the link and the legs are left alone.
    #[must_use]
    pub const fn nested(self) -> Self {
        Self { is_nested: true, ..self }
    }

    /// Tells where the next octets come from, and goes on to the next leg if the current one is read.
    ///
    /// # Errors
    /// The sender broke a rule of the link.
    #[inline]
    pub fn source(&self) -> Result<Source, Broken> {
        match self.own.tail.load(Ordering::Relaxed).saturating_sub(self.own.consumed.load(Ordering::Relaxed))
        {
            available @ 1.. if self.own.leg().carrier != Carrier::Tcp => Ok(Source::Ring { available }),
            _ => self.look(),
        }
    }

    /// Returns how many octets the ring has, as far as they matter to a reader of `wanted`: looks at the sender's tail
    /// only if there seem to be fewer. 0 in a leg by TCP.
    ///
    /// # Errors
    /// As [`source`](Self::source).
    #[inline]
    pub fn available(&self, wanted: u64) -> Result<u64, Broken> {
        Ok(self.there(wanted)?.map_or(0, |(_, available)| available))
    }

    /// Takes octets from the ring, and tells the sender now and then that there is room. Returns how many: at most
    /// 32 KiB, 0 if there are none, or the direction goes by TCP. [`sleepers`](Self::sleepers) has to follow.
    ///
    /// # Errors
    /// As [`source`](Self::source).
    #[inline]
    pub fn read(&self, octets: &mut [u8]) -> Result<usize, Broken> {
        loop {
            let consumed = self.own.consumed.load(Ordering::Relaxed);
            let Some((ring, available)) = self.there(octets.len() as u64)? else { return Ok(0) };
            let len = self.copy(&ring, available.min(AT_A_TIME as u64), consumed, octets);
            if len == 0 || self.take(&ring, consumed, len) {
                return Ok(len);
            }
        }
    }

    /// True if the sender has told nothing since the last look. Needs no lock: a thread that spins asks it between two
    /// looks.
    #[inline]
    #[must_use]
    pub fn is_still(&self) -> bool {
        let (producer, own) = (&self.shared.producer, self.own);
        let is_still = producer.tail.load(Ordering::Relaxed) == own.tail.load(Ordering::Relaxed)
            && self.shared.legs.leg.load(Ordering::Relaxed) == own.leg.load(Ordering::Relaxed)
            && producer.flags.load(Ordering::Relaxed) == 0;
        is_still || self.has_left()
    }

    /// True if all octets that the last look has found are taken, and none can follow by another leg.
    #[inline]
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.own.tail.load(Ordering::Relaxed) == self.own.consumed.load(Ordering::Relaxed)
            && self.shared.legs.leg.load(Ordering::Relaxed) == self.own.leg.load(Ordering::Relaxed)
            || self.has_left()
    }

    /// Returns what the sender has told, if a ring has nothing for the reader: all octets are taken, and there is no end of
    /// the stream and no other leg. Needs no lock.
    #[inline]
    #[must_use]
    pub fn quiet(&self) -> Option<Quiet<'a>> {
        let tail = self.own.tail.load(Ordering::Relaxed);
        let is_quiet = self.is_still() && self.is_drained() && self.own.leg().carrier != Carrier::Tcp;
        let is_taken = self.own.consumed.load(Ordering::Relaxed) == tail;
        (is_quiet && is_taken).then_some(Quiet { shared: self.shared, tail })
    }

    /// Copies octets from place `offset` behind the next octet on, and leaves them in the ring. Returns how many.
    ///
    /// # Errors
    /// As [`source`](Self::source).
    pub fn peek(&self, offset: u64, octets: &mut [u8]) -> Result<usize, Broken> {
        let wanted = offset.saturating_add(octets.len() as u64);
        let Some((ring, available)) = self.there(wanted)? else { return Ok(0) };
        let from = self.own.consumed.load(Ordering::Relaxed).wrapping_add(offset);
        Ok(self.copy(&ring, available.saturating_sub(offset), from, octets))
    }

    /// Takes up to `len` octets from the ring and drops them. Returns how many. It also follows a system call that
    /// wrote [`filled`](Self::filled) octets elsewhere.
    ///
    /// # Errors
    /// As [`source`](Self::source).
    pub fn discard(&self, len: usize) -> Result<usize, Broken> {
        loop {
            let consumed = self.own.consumed.load(Ordering::Relaxed);
            let Some((ring, available)) = self.there(len as u64)? else { return Ok(0) };
            let len = len.min(index(available));
            if len == 0 || self.take(&ring, consumed, len) {
                return Ok(len);
            }
        }
    }

    /// Returns the ring's memory with the next octets, up to `wanted`, for system calls that write them elsewhere:
    /// address and length of at most two pieces.
    ///
    /// # Errors
    /// As [`source`](Self::source).
    #[cfg(not(loom))]
    pub fn filled(&self, wanted: usize) -> Result<[(*mut u8, usize); 2], Broken> {
        let Some((ring, available)) = self.there(wanted as u64)? else {
            return Ok([(core::ptr::null_mut(), 0); 2]);
        };
        Ok(ring.pieces(self.own.consumed.load(Ordering::Relaxed), wanted.min(index(available))))
    }

    /// Returns the sleepers that have to hear of room, if half of the ring has become free since the last look. Call it
    /// behind [`read`](Self::read) and [`discard`](Self::discard).
    ///
    /// A sender sleeps only if more than half of the ring is full by the head that it has seen. It has seen `checked` at
    /// least, or this thread saw it there. So it cannot sleep before the tail is more than half a ring behind that, and
    /// each such sender is found, though most publications need no fence.
    #[inline]
    #[must_use]
    pub fn sleepers(&self) -> Option<Sleepers> {
        let own = self.own;
        let (tail, published) = (own.tail.load(Ordering::Relaxed), own.published.load(Ordering::Relaxed));
        let checked = own.checked.load(Ordering::Relaxed);
        let half = self.ring()?.size() / 2;
        if tail.saturating_sub(checked) <= half || tail.saturating_sub(published) > half || self.is_nested {
            return None;
        }
        own.checked.store(published, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        Sleepers::from_word(self.shared.legs.waiter.load(Ordering::Relaxed))
    }

    /// Names this thread as one that sleeps until there are octets. Its line must say that it is asleep already. The
    /// caller makes the barrier, then looks once more, then sleeps. `goes_on` tells whether another sleep of the family
    /// goes on.
    pub fn announce(&self, sleep: Sleep, goes_on: impl Fn(Sleep) -> bool) -> Barrier {
        let (word, names) = (&self.shared.reader.waiter, Sleepers::add(&self.own.sleeps, sleep, goes_on));
        if word.load(Ordering::Relaxed) != names {
            word.store(names, Ordering::Relaxed);
        }
        self.own.awake.store(0, Ordering::Relaxed);
        self.demand_fences()
    }

    /// When the first octets of those that wait in the ring came, as the sender says. `None` in a leg by TCP.
    #[inline]
    #[must_use]
    pub fn stamp(&self) -> Option<u32> {
        (self.own.leg().carrier != Carrier::Tcp).then(|| self.shared.producer.stamp.load(Ordering::Relaxed))
    }

    /// Counts a message that was taken without sleeping. From a number of them on the sender is told to make no fences.
    /// Call it only if membarrier(2) works: the next sleep needs it.
    #[inline]
    pub fn stay_awake(&self) {
        let awake = self.own.awake.load(Ordering::Relaxed);
        if awake < AWAKE {
            self.own.awake.store(awake + 1, Ordering::Relaxed);
            if awake + 1 == AWAKE {
                self.shared.reader.mode.store(MODE_NO_FENCE, Ordering::Relaxed);
            }
        }
    }

    /// Publishes all words again. The thread that takes the lock of a dead owner calls it, since the owner may have been
    /// killed between its own words and the link's; so does a thread that finds itself [behind](Self::is_behind).
    pub fn republish(&self) {
        self.own.behind.fetch_and(!TAKEN, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let leg = self.own.leg();
        if leg.number != 0 {
            self.publish(self.own.consumed.load(Ordering::Relaxed));
            self.shared.consumer.adopted.store(u64::from(leg.number), Ordering::Release);
        }
    }

    /// True if a signal handler took octets in the middle of a section, or if the reader [has adopted](Self::take_adopted) a
    /// leg. The thread looks behind each section, without the lock, and if so, takes the lock again,
    /// [publishes](Self::republish) what was left to it, and asks for [sleepers](Self::sleepers).
    #[inline]
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.own.behind.load(Ordering::Relaxed) != 0
    }

    /// Returns the position behind the last octet of the stream, once the sender has told it.
    #[inline]
    #[must_use]
    pub fn end(&self) -> Option<u64> {
        let is_final = self.shared.producer.flags.load(Ordering::Acquire) & FINAL != 0 && !self.has_left();
        is_final.then(|| self.shared.legs.end.load(Ordering::Relaxed))
    }

    /// True if all octets of the stream are taken, as far as the sender has told its end.
    #[inline]
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.end() == Some(self.own.consumed.load(Ordering::Relaxed))
    }

    /// True if the sender has reset the connection.
    #[inline]
    #[must_use]
    pub fn is_reset(&self) -> bool {
        self.shared.producer.flags.load(Ordering::Acquire) & RESET != 0 && !self.has_left()
    }

    /// How many octets the ring holds, 0 in a leg by TCP.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.ring().map_or(0, |ring| ring.size())
    }

    /// The CPU on which the sender ran when it published last.
    #[inline]
    #[must_use]
    pub fn sender_cpu(&self) -> u16 {
        self.shared.producer.cpu.load(Ordering::Relaxed)
    }

    #[inline]
    fn ring(&self) -> Option<Ring<'a>> {
        match self.own.leg().carrier {
            Carrier::Tcp => None,
            Carrier::Ring(place) => Some(Ring::new(self.link.ring(place))),
        }
    }

    /// The ring and how many octets it has, as far as they matter to a reader of `wanted`. `None` in a leg by TCP.
    #[inline]
    fn there(&self, wanted: u64) -> Result<Option<(Ring<'a>, u64)>, Broken> {
        let consumed = self.own.consumed.load(Ordering::Relaxed);
        let available = self.own.tail.load(Ordering::Relaxed).saturating_sub(consumed);
        if available >= wanted
            && let Some(ring) = self.ring()
        {
            return Ok(Some((ring, available)));
        }
        match self.look()? {
            Source::Tcp { .. } => Ok(None),
            Source::Ring { available } => Ok(self.ring().map(|ring| (ring, available))),
        }
    }

    /// Looks at what the sender has published.
    fn look(&self) -> Result<Source, Broken> {
        // A sender needs this reader's word for each leg, so a few empty ones at a time are many.
        for _ in 0..LEGS_AT_A_TIME {
            let consumed = self.own.consumed.load(Ordering::Relaxed);
            // The tail first: if it is in the next leg, that leg is seen.
            let tail = self.shared.producer.tail.load(Ordering::Acquire);
            let next = self.next_leg(consumed)?;
            if let Some((leg, start)) = next
                && start == consumed
                && !self.is_nested
                && !self.asks_before_ring()
            {
                self.adopt(leg);
                continue;
            }
            let Some(ring) = self.ring() else {
                let left = next.map(|(_, start)| start - consumed);
                return if left == Some(0) && self.asks_before_ring() && self.is_answered() {
                    Ok(Source::Tcp { left: None })
                } else if left == Some(0) {
                    Ok(Source::Ring { available: 0 })
                } else {
                    Ok(Source::Tcp { left })
                };
            };
            let tail = next.map_or(tail, |(_, start)| tail.min(start));
            return match tail.checked_sub(consumed) {
                Some(available) if available <= ring.size() => {
                    self.own.tail.store(tail, Ordering::Relaxed);
                    Ok(Source::Ring { available })
                }
                _ => Err(Broken),
            };
        }
        Err(Broken)
    }

    /// Goes on to the next leg, which begins at the next octet.
    fn adopt(&self, leg: Leg) {
        let consumed = self.own.consumed.load(Ordering::Relaxed);
        self.own.leg.store(leg.to_word(), Ordering::Release);
        self.publish(consumed);
        self.shared.consumer.adopted.store(u64::from(leg.number), Ordering::Release);
        if self.shared.legs.waiter.load(Ordering::Relaxed) != 0 {
            self.own.behind.fetch_or(ADOPTED, Ordering::Relaxed);
        }
    }

    /// Copies up to `available` octets from position `from` on. Returns how many.
    #[inline]
    fn copy(&self, ring: &Ring<'_>, available: u64, from: u64, octets: &mut [u8]) -> usize {
        let len = octets.len().min(index(available));
        let octets = octets.get_mut(..len).unwrap_or_default();
        if available > BESIDE as u64 || !self.copy_beside(from, octets) {
            ring.read(from, octets);
        }
        len
    }

    /// Copies the octets beside the tail, if they are those from `consumed` on.
    #[inline]
    fn copy_beside(&self, consumed: u64, octets: &mut [u8]) -> bool {
        let producer = &self.shared.producer;
        if producer.beside_start.load(Ordering::Acquire) != consumed {
            return false;
        }
        let mut rest = octets;
        for word in &producer.beside {
            let word = word.load(Ordering::Relaxed).to_ne_bytes();
            if rest.len() < word.len() {
                rest.iter_mut().zip(word).for_each(|(to, from)| *to = from);
                break;
            }
            let Some((octets, behind)) = rest.split_first_chunk_mut() else { break };
            *octets = word;
            rest = behind;
        }
        fence(Ordering::Acquire);
        producer.beside_start.load(Ordering::Relaxed) == consumed
    }

    /// Takes `len` octets from `consumed` on. Returns false if a signal handler was faster.
    #[inline]
    fn take(&self, ring: &Ring<'_>, consumed: u64, len: usize) -> bool {
        let now = consumed.wrapping_add(len as u64);
        // Between a look and a store a signal handler could take the same octets.
        compiler_fence(Ordering::SeqCst);
        if self.own.consumed.compare_exchange(consumed, now, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return false;
        }
        let published = self.own.published.load(Ordering::Relaxed);
        let is_much = now.wrapping_sub(published) >= (ring.size() / 2).min(AT_A_TIME as u64);
        if is_much || now >= self.own.tail.load(Ordering::Relaxed) {
            if self.is_nested {
                self.own.behind.fetch_or(TAKEN, Ordering::Relaxed);
            } else {
                self.publish(now);
            }
        }
        true
    }

    /// Goes back to the mode in which the sender fences.
    fn demand_fences(&self) -> Barrier {
        let mode = &self.shared.reader.mode;
        if mode.load(Ordering::Relaxed) & MODE_NO_FENCE == 0 {
            return Barrier::Fence;
        }
        mode.store(0, Ordering::Relaxed);
        Barrier::Everywhere
    }

    /// Publishes the head. The octets before it have been copied.
    #[inline]
    fn publish(&self, head: u64) {
        self.own.published.store(head, Ordering::Relaxed);
        self.shared.consumer.head.store(head, Ordering::Release);
    }
}

/// Messages without sleep behind which the sender makes no fences. Their fences cost about as much as the membarrier(2) of
/// the next sleep.
const AWAKE: u32 = if cfg!(loom) {
    1
} else if cfg!(stepped) {
    4
} else {
    1000
};
/// In [`OwnInbound::behind`]: a signal handler took octets.
const TAKEN: u32 = 1;
/// The reader has come to another leg.
const ADOPTED: u32 = 2;
/// Legs without an octet that a reader goes through at a time.
const LEGS_AT_A_TIME: u32 = 16;
