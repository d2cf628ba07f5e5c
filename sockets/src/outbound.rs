//! The sending side of a direction: what may be written where, and what the reader has to be told.

use crate::broken::Broken;
use crate::layout::{
    ATTACHED, COMMITTED, DECLINED, Direction, FINAL, KILLED, MODE_NO_FENCE, NOWHERE, OwnOutbound, RESET,
};
use crate::leg::{Carrier, Leg};
use crate::memory::Link;
use crate::ring::{AT_A_TIME, Ring, index};
use crate::sync::{Ordering, fence, light_fence};
use crate::waiter::{Sleep, Sleepers};

/// The sending side of a direction that has a channel.
///
/// All methods but those that only look need the direction's lock. None waits.
#[derive(Clone, Copy, Debug)]
pub struct Outbound<'a> {
    pub(crate) own: &'a OwnOutbound,
    pub(crate) shared: &'a Direction,
    pub(crate) link: &'a Link,
    channel: u32,
    /// The party that sends.
    party: u32,
}

/// Where the next octets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sink {
    /// To the kernel's socket.
    Tcp,
    /// To the ring.
    Ring,
}

impl OwnOutbound {
    /// Counts octets that the kernel's socket has taken.
    #[inline]
    pub fn count(&self, octets: u64) {
        self.written.fetch_add(octets, Ordering::Relaxed);
    }

    /// The current leg.
    #[inline]
    #[must_use]
    pub fn leg(&self) -> Leg {
        Leg::from_own_word(self.leg.load(Ordering::Relaxed))
    }

    /// The position behind the last octet that was taken from the program: `written`, and behind it what is held.
    #[inline]
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.copied.load(Ordering::Relaxed).max(self.written.load(Ordering::Relaxed))
    }

    /// Notes that the ring was found full at this time, in microseconds. Returns true if that happened within the last
    /// millisecond before, too: then a larger ring is worth it.
    #[must_use]
    pub fn is_full_again(&self, now: u32) -> bool {
        let before = self.full_since.swap(now, Ordering::Relaxed);
        before != 0 && now.wrapping_sub(before) < 1000
    }
}

impl<'a> Outbound<'a> {
    /// The direction in which `party` of the link sends by this channel. `None`: there is no such channel.
    #[inline]
    #[must_use]
    pub fn new(own: &'a OwnOutbound, link: &'a Link, channel: u32, party: u32) -> Option<Self> {
        let shared = &link.channel(channel)?.directions[index(u64::from(party & 1))];
        Some(Self { own, shared, link, channel, party: party & 1 })
    }

    /// Tells where the next octets go.
    #[inline]
    #[must_use]
    pub fn sink(&self) -> Sink {
        if self.own.leg().carrier == Carrier::Tcp { Sink::Tcp } else { Sink::Ring }
    }

    /// Returns how many octets the ring has room for. Looks at the reader's position only if there seems to be less room
    /// than `wanted`.
    ///
    /// # Errors
    /// The reader claims to have taken what was not there.
    pub fn room(&self, wanted: u64) -> Result<u64, Broken> {
        let Some(ring) = self.ring() else { return Ok(0) };
        self.room_behind(&ring, self.own.accepted(), wanted)
    }

    /// True if the reader has told of no room since the last look. Needs no lock: a thread that spins asks it between two
    /// looks.
    #[inline]
    #[must_use]
    pub fn is_still(&self) -> bool {
        self.shared.consumer.head.load(Ordering::Relaxed) == self.own.head.load(Ordering::Relaxed)
            && !self.is_asked_back()
    }

    /// True if a third of the ring is free, or none will ever be: then a poll tells that the socket is writable.
    ///
    /// # Errors
    /// As [`room`](Self::room).
    pub fn is_writable(&self) -> Result<bool, Broken> {
        let third = self.ring().map_or(0, |ring| ring.size() / 3);
        Ok(self.room(third)? >= third || self.is_killed())
    }

    /// True if a third of the ring is free by what is known of the reader already. Needs no lock, and asks no memory of
    /// the link. After `false`, [`is_writable`](Self::is_writable) may still find room.
    #[inline]
    #[must_use]
    pub fn is_known_writable(&self) -> bool {
        let accepted = self.own.accepted();
        // The head behind the position: one that has passed it meanwhile makes the difference large.
        let used = accepted.wrapping_sub(self.own.head.load(Ordering::Relaxed));
        self.ring().is_some_and(|ring| ring.size().saturating_sub(used) >= ring.size() / 3)
    }

    /// Copies octets to the ring, as many as it has room for, and publishes them. Returns how many: 0 if the ring is
    /// full or if the direction goes by TCP.
    ///
    /// # Errors
    /// As [`room`](Self::room).
    #[inline]
    pub fn write(&self, octets: &[u8]) -> Result<usize, Broken> {
        let Some(ring) = self.ring() else { return Ok(0) };
        let written = self.own.written.load(Ordering::Relaxed);
        let is_held = self.own.copied.load(Ordering::Relaxed) > written;
        if is_held || octets.len() > BESIDE || octets.is_empty() {
            return self.gather([octets], false);
        }
        let len = octets.len() as u64;
        if self.room_behind(&ring, written, len)? < len {
            return self.gather([octets], false);
        }
        ring.write(written, octets);
        self.publish_short(octets);
        Ok(octets.len())
    }

    /// Copies several slices to the ring, behind each other, and publishes them at once. With `more` (`MSG_MORE`) they
    /// are held until the next publication, unless less than half of the ring is free behind them. Returns how many
    /// octets were copied: at most 32 KiB, so that the reader copies them out while the next ones come in.
    ///
    /// # Errors
    /// As [`room`](Self::room).
    pub fn gather<'b>(
        &self,
        slices: impl IntoIterator<Item = &'b [u8]>,
        more: bool,
    ) -> Result<usize, Broken> {
        let Some(ring) = self.ring() else { return Ok(0) };
        let begin = self.own.accepted();
        let mut end = begin;
        for octets in slices {
            let room = self.room_behind(&ring, end, octets.len() as u64)?;
            let left = AT_A_TIME.saturating_sub(index(end.wrapping_sub(begin)));
            let len = octets.len().min(index(room)).min(left);
            ring.write(end, octets.get(..len).unwrap_or_default());
            end = end.wrapping_add(len as u64);
            if len < octets.len() {
                if len == index(room) {
                    self.note_full(end);
                }
                break;
            }
        }
        if end != begin {
            self.take(&ring, end, more)?;
        }
        Ok(index(end.wrapping_sub(begin)))
    }

    /// Returns the ring's free memory, up to `wanted` octets, for system calls that read into it: address and length
    /// of at most two pieces. [`publish`](Self::publish) takes what they wrote.
    ///
    /// # Errors
    /// As [`room`](Self::room).
    #[cfg(not(loom))]
    pub fn free(&self, wanted: usize) -> Result<[(*mut u8, usize); 2], Broken> {
        let Some(ring) = self.ring() else { return Ok([(core::ptr::null_mut(), 0); 2]) };
        let end = self.own.accepted();
        let room = self.room_behind(&ring, end, wanted as u64)?;
        if room < wanted as u64 {
            self.note_full(end.wrapping_add(room));
        }
        Ok(ring.pieces(end, wanted.min(index(room))))
    }

    /// Takes `len` octets that are in the ring's [`free`](Self::free) memory by now, as [`gather`](Self::gather) does.
    /// With 0 and not `more`, publishes what is held.
    ///
    /// # Errors
    /// As [`room`](Self::room), or if there is no room for so many.
    pub fn publish(&self, len: usize, more: bool) -> Result<(), Broken> {
        let Some(ring) = self.ring() else { return Ok(()) };
        let end = self.own.accepted();
        if self.room_behind(&ring, end, len as u64)? < len as u64 {
            return Err(Broken);
        }
        self.take(&ring, end.wrapping_add(len as u64), more)
    }

    /// Returns the sleepers that the latest publication has to wake. Call it behind each publication. Those who are named
    /// need a wake-up only if their line says that they are asleep.
    #[inline]
    #[must_use]
    pub fn sleepers(&self) -> Option<Sleepers> {
        light_fence(Ordering::SeqCst);
        let reader = &self.shared.reader;
        if reader.mode.load(Ordering::Relaxed) & MODE_NO_FENCE == 0 {
            fence(Ordering::SeqCst);
        }
        Sleepers::from_word(reader.waiter.load(Ordering::Relaxed))
    }

    /// Names this thread as one that sleeps until half of the ring is free, and looks once more. Returns false if that
    /// much is free, or the other end is gone: the thread must not sleep. Its line must say that it is asleep already.
    /// `goes_on` tells whether another sleep of the family goes on.
    ///
    /// # Errors
    /// As [`room`](Self::room).
    pub fn ask_for_room(&self, sleep: Sleep, goes_on: impl Fn(Sleep) -> bool) -> Result<bool, Broken> {
        let Some(ring) = self.ring() else { return Ok(false) };
        let names = Sleepers::add(&self.own.sleeps, sleep, goes_on);
        self.shared.legs.waiter.store(names, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let half = ring.size() / 2;
        let is_full = self.room_behind(&ring, self.own.accepted(), u64::MAX)? < half;
        Ok(is_full && !self.is_told(RESET | KILLED))
    }

    /// Returns the sleepers of this end that have [asked for room](Self::ask_for_room), for a thread that has begun a
    /// larger ring: the reader wakes them only once it has left the ring before.
    #[must_use]
    pub fn own_sleepers(&self) -> Option<Sleepers> {
        Sleepers::from_word(self.shared.legs.waiter.load(Ordering::Relaxed))
    }

    /// Begins the next leg at the octet behind the last one. Returns false, and begins nothing, unless the reader is in
    /// the current leg. From TCP to a ring, the gate has to be closed. What is held is published.
    ///
    /// # Errors
    /// As [`room`](Self::room).
    pub fn begin_leg(&self, carrier: Carrier) -> Result<bool, Broken> {
        if !self.is_adopted() {
            return Ok(false);
        }
        self.publish(0, false)?;
        let (leg, start) = (self.own.leg(), self.own.written.load(Ordering::Relaxed));
        let next = leg.next(carrier);
        self.own.before.store(leg.to_word(), Ordering::Relaxed);
        self.own.starts[usize::from(next.number & 1)].store(start, Ordering::Relaxed);
        self.own.leg.store(next.to_word(), Ordering::Release);
        // Only behind the leg: with the old one, this head would free octets that the reader has not taken yet.
        self.own.head.store(start, Ordering::Relaxed);
        self.republish();
        Ok(true)
    }

    /// Publishes all words again. The thread that takes the lock of a dead owner calls it, since the owner may have been
    /// killed between its own words and the link's.
    pub fn republish(&self) {
        let leg = self.own.leg();
        let start = self.own.starts[usize::from(leg.number & 1)].load(Ordering::Relaxed);
        let (producer, legs) = (&self.shared.producer, &self.shared.legs);
        // Before the leg, so that a reader in a ring finds no tail before the leg's start.
        let tail = if leg.carrier == Carrier::Tcp { start } else { self.own.written.load(Ordering::Relaxed) };
        producer.tail.store(tail, Ordering::Release);
        legs.start.store(start, Ordering::Relaxed);
        legs.leg.store(leg.to_word(), Ordering::Release);
    }

    /// Ends the stream behind what was accepted.
    ///
    /// # Errors
    /// As [`room`](Self::room).
    pub fn finish(&self) -> Result<(), Broken> {
        self.publish(0, false)?;
        self.shared.legs.end.store(self.own.written.load(Ordering::Relaxed), Ordering::Relaxed);
        self.set(FINAL);
        Ok(())
    }

    /// Tells the reader that the connection was reset.
    pub fn reset(&self) {
        self.set(RESET);
    }

    /// Notes the CPU on which this thread runs, for the reader's choice to spin or not. Call it before publications.
    #[inline]
    pub fn note_cpu(&self, cpu: u16) {
        self.shared.producer.cpu.store(cpu, Ordering::Relaxed);
    }

    /// True if the reader wants [stamps](Self::stamp).
    #[inline]
    #[must_use]
    pub fn wants_stamps(&self) -> bool {
        self.shared.reader.stamps.load(Ordering::Relaxed) != 0
    }

    /// Notes when the next octets come, unless earlier ones are there still. Call it before publications.
    pub fn stamp(&self, now: impl FnOnce() -> u32) {
        // A reader that is not in this leg yet shows a head of the one before.
        let head =
            self.shared.consumer.head.load(Ordering::Relaxed).max(self.own.head.load(Ordering::Relaxed));
        if head >= self.own.written.load(Ordering::Relaxed) {
            self.shared.producer.stamp.store(now(), Ordering::Relaxed);
        }
    }

    /// Returns how many octets the reader has not taken yet, in a leg by ring. Needs no lock, and stores nothing: a thread that
    /// has the lock may take the direction back to TCP meanwhile. Then the error may be none.
    ///
    /// # Errors
    /// As [`room`](Self::room).
    pub fn unread(&self) -> Result<u64, Broken> {
        let Some(ring) = self.ring() else { return Ok(0) };
        let head = self.head()?;
        Ok(self.own.accepted().saturating_sub(head).min(ring.size()))
    }

    /// Tells whether the reader will take octets from a ring, once it has decided.
    #[inline]
    #[must_use]
    pub fn is_attached(&self) -> Option<bool> {
        match self.shared.reader.attached.load(Ordering::Acquire) {
            ATTACHED | COMMITTED => Some(true),
            DECLINED => Some(false),
            _ => None,
        }
    }

    /// Says that the sender has the channel. Returns true the first time.
    #[must_use]
    pub fn appear(&self) -> bool {
        let present = &self.shared.legs.present;
        present.load(Ordering::Relaxed) == 0 && present.swap(1, Ordering::Release) == 0
    }

    /// True if the reader is in the current leg: it has left the ring of the leg before.
    #[must_use]
    pub fn is_adopted(&self) -> bool {
        self.shared.consumer.adopted.load(Ordering::Acquire) == u64::from(self.own.leg().number)
    }

    /// True if the other end has told that it is closed: nobody will read what is sent.
    #[inline]
    #[must_use]
    pub fn is_deserted(&self) -> bool {
        self.is_told(RESET)
    }

    /// True if the other end was killed before it had read all that was sent to it.
    #[must_use]
    pub fn is_killed(&self) -> bool {
        self.is_told(KILLED)
    }

    /// True if the other end has set one of these flags.
    #[inline]
    fn is_told(&self, flags: u16) -> bool {
        let other = self
            .link
            .channel(self.channel)
            .map(|channel| &channel.directions[index(u64::from(1 - self.party))]);
        other.is_some_and(|other| other.producer.flags.load(Ordering::Acquire) & flags != 0)
    }

    /// True if the reader wants a larger ring than others.
    #[must_use]
    pub fn is_wanted_wide(&self) -> bool {
        self.shared.reader.wide.load(Ordering::Relaxed) != 0
    }

    /// True if the reader wants the stream back on TCP.
    #[inline]
    #[must_use]
    pub fn is_asked_back(&self) -> bool {
        self.shared.reader.please.load(Ordering::Relaxed) != 0
    }

    /// The ring of the current leg.
    #[inline]
    fn ring(&self) -> Option<Ring<'a>> {
        match self.own.leg().carrier {
            Carrier::Tcp => None,
            Carrier::Ring(place) => Some(Ring::new(self.link.ring(place))),
        }
    }

    /// The room behind position `end`.
    #[inline]
    fn room_behind(&self, ring: &Ring<'_>, end: u64, wanted: u64) -> Result<u64, Broken> {
        let room = ring.size().saturating_sub(end.wrapping_sub(self.own.head.load(Ordering::Relaxed)));
        if room >= wanted { Ok(room) } else { self.look_for_room(ring, end) }
    }

    #[cold]
    fn look_for_room(&self, ring: &Ring<'_>, end: u64) -> Result<u64, Broken> {
        let head = self.head()?;
        self.own.head.store(head, Ordering::Relaxed);
        Ok(ring.size().saturating_sub(end.wrapping_sub(head)))
    }

    /// The reader's head, of the current leg.
    fn head(&self) -> Result<u64, Broken> {
        let believed = self.own.head.load(Ordering::Relaxed);
        let head = self.shared.consumer.head.load(Ordering::Acquire);
        let start = self.own.starts[usize::from(self.own.leg().number & 1)].load(Ordering::Relaxed);
        // A reader that is not yet in this leg has taken nothing of it.
        if head > self.own.written.load(Ordering::Relaxed) || head < believed && head >= start {
            return Err(Broken);
        }
        Ok(head.max(believed))
    }

    /// Takes the octets up to `end`, which are in the ring.
    fn take(&self, ring: &Ring<'_>, end: u64, more: bool) -> Result<(), Broken> {
        // A sender that sleeps until there is room holds nothing: the reader wakes it by what is published.
        let half = ring.size() / 2;
        if more && self.room_behind(ring, end, half)? >= half {
            self.own.copied.store(end, Ordering::Relaxed);
            return Ok(());
        }
        let written = self.own.written.load(Ordering::Relaxed);
        let len = end.wrapping_sub(written);
        if len == 0 {
            return Ok(());
        }
        let mut short = [0; BESIDE];
        match short.get_mut(..index(len)) {
            Some(short) => {
                ring.read(written, short);
                self.publish_short(short);
            }
            None => self.store_tail(end),
        }
        Ok(())
    }

    /// Publishes octets that are in the ring already, at most 40, beside the tail as well.
    ///
    /// The reader takes octets beside only if all that it has not read are at most 40. So each publication of at most 40
    /// puts its own there: those of an earlier one are then at an earlier position.
    #[inline]
    fn publish_short(&self, octets: &[u8]) {
        let producer = &self.shared.producer;
        let written = self.own.written.load(Ordering::Relaxed);
        producer.beside_start.store(NOWHERE, Ordering::Relaxed);
        fence(Ordering::Release);
        let mut rest = octets;
        for word in &producer.beside {
            let Some((octets, behind)) = rest.split_first_chunk() else {
                word.store(word_of(rest), Ordering::Relaxed);
                break;
            };
            word.store(u64::from_ne_bytes(*octets), Ordering::Relaxed);
            rest = behind;
            if rest.is_empty() {
                break;
            }
        }
        producer.beside_start.store(written, Ordering::Release);
        self.store_tail(written.wrapping_add(octets.len() as u64));
    }

    #[inline]
    fn store_tail(&self, end: u64) {
        self.own.written.store(end, Ordering::Relaxed);
        self.shared.producer.tail.store(end, Ordering::Release);
    }

    /// Notes that a send has found less room than it wanted, behind position `end`. A set that waits for an edge hears of
    /// room then.
    fn note_full(&self, end: u64) {
        let [a, b, c, d, ..] = end.wrapping_add(1).to_le_bytes();
        self.own.full.store(u32::from_le_bytes([a, b, c, d]), Ordering::Relaxed);
    }

    fn set(&self, flag: u16) {
        let flags = &self.shared.producer.flags;
        flags.store(flags.load(Ordering::Relaxed) | flag, Ordering::Release);
    }
}

/// The word of less than 8 octets.
#[inline]
fn word_of(octets: &[u8]) -> u64 {
    let mut word = [0; 8];
    for (to, from) in word.iter_mut().zip(octets) {
        *to = *from;
    }
    u64::from_ne_bytes(word)
}

/// Octets beside the tail. A model has few.
pub(crate) const BESIDE: usize = if cfg!(loom) { 2 } else { 40 };
