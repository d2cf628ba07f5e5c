//! The send queue: the application posts, the engine consumes. `entry.rs` has the layout of an entry.
//!
//! The queue is private memory of the process that opened the device. Only its entries can be registered as memory.
//! Then a peer with that right writes into them at any moment, so that the engine trusts no field of them.

use std::sync::PoisonError;

use crate::entry::{BadEntry, EntryFormat, SendWork};
use crate::layout::SendQueueLayout;
use crate::ring::{Counter, Ring};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::work::{MAX_INLINE, MAX_SGE, PostError, SendWr};

/// The part of a send queue that the application and the engine share.
#[derive(Debug)]
pub struct SendQueue {
    ring: Ring,
    posting: Mutex<()>,
    format: EntryFormat,
    is_cyclic: AtomicBool,
}

impl SendQueue {
    /// Makes a queue for at least `entries` requests of up to `max_sge` elements and `max_inline` inline octets.
    pub fn new(entries: u32, max_sge: usize, max_inline: usize) -> Self {
        let format = EntryFormat { max_sge: max_sge.min(MAX_SGE), max_inline: max_inline.min(MAX_INLINE) };
        let (ring, posting) = (Ring::new(entries, format.octets()), Mutex::new(()));
        Self { ring, posting, format, is_cyclic: AtomicBool::new(false) }
    }

    /// Queues a request. The engine reads it when it starts it.
    ///
    /// # Errors
    /// [`PostError`]; nothing was queued then.
    #[inline]
    pub fn post(&self, wr: &SendWr<'_>) -> Result<(), PostError> {
        self.post_all(core::slice::from_ref(wr)).map_err(|(_none, error)| error)
    }

    /// Queues requests with one doorbell: all of them, or those before the first that is refused.
    ///
    /// # Errors
    /// The number of requests that were queued, and why the next one was not.
    #[inline]
    pub fn post_all(&self, wrs: &[SendWr<'_>]) -> Result<(), (usize, PostError)> {
        let _one_at_a_time = self.posting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_cyclic() && !wrs.is_empty() {
            return Err((0, PostError::Cyclic));
        }
        let (tail, mut posted) = (self.ring.tail(), 0);
        let mut room = self.ring.entries().saturating_sub(tail.saturating_sub(self.ring.head()));
        let refused = wrs.iter().find_map(|wr| {
            let counts = match self.format.validate(wr) {
                Ok(_) if room == 0 => return Some(PostError::QueueFull),
                Ok(counts) => counts,
                Err(error) => return Some(error),
            };
            let entry = self.ring.entry(tail + posted);
            EntryFormat::pack(wr, counts, |index, value| entry[index].store(value, Ordering::Relaxed));
            (room, posted) = (room - 1, posted + 1);
            None
        });
        if posted > 0 {
            self.ring.count(Counter::Doorbells);
            self.ring.publish(tail + posted);
        }
        refused.map_or(Ok(()), |error| Err((usize::try_from(posted).unwrap_or(usize::MAX), error)))
    }

    /// Copies entry number `index` out into `work` and checks every field: if the entries are registered, a peer may
    /// have written this one.
    ///
    /// # Errors
    /// [`BadEntry`] when a field makes no sense; `work.wr_id` and `work.signaled` are set all the same.
    #[inline]
    pub fn load(&self, index: u64, work: &mut SendWork) -> Result<(), BadEntry> {
        self.format.unpack(self.ring.entry(index), work)
    }

    /// Returns the words of entry number `index`. If the entries are registered, a peer may write into them at any
    /// moment.
    #[inline]
    pub(crate) fn entry(&self, index: u64) -> &[AtomicU64] {
        self.ring.entry(index)
    }

    /// Returns what a peer has to know to write into the entries when they are registered.
    pub fn layout(&self) -> SendQueueLayout {
        let EntryFormat { max_sge, max_inline } = self.format;
        let stride = size_of_val(self.ring.entry(0));
        SendQueueLayout { entries: self.ring.entries(), stride, max_sge, max_inline }
    }

    /// Returns the ring, for its entries to be registered as memory.
    pub(crate) const fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Returns the number of requests posted so far.
    pub fn posted(&self) -> u64 {
        self.ring.tail()
    }

    /// Returns the number of doorbells that were rung for them: calls that posted one or more.
    pub fn doorbells(&self) -> u64 {
        self.ring.counted(Counter::Doorbells)
    }

    /// Returns the number of requests whose places are not free.
    pub fn len(&self) -> u64 {
        self.ring.tail().saturating_sub(self.ring.head()).min(self.ring.entries())
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives the entries before `index` back for posting. In a cyclic queue they are posted again, with what stands in
    /// them now.
    #[inline]
    pub fn release(&self, index: u64) {
        self.ring.release(index);
        if self.is_cyclic() {
            self.ring.publish(index + self.ring.entries());
        }
    }

    /// Makes the queue cyclic if all its entries are posted, and returns whether they are. Only the engine calls it, and
    /// only for a queue whose places it frees itself.
    pub(crate) fn cycle(&self) -> bool {
        let _one_at_a_time = self.posting.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = self.ring.tail() == self.ring.head() + self.ring.entries();
        self.is_cyclic.store(is_full, Ordering::Relaxed);
        is_full
    }

    /// Has no entry posted again from now on. Only the engine calls it.
    pub(crate) fn end_cycle(&self) {
        self.is_cyclic.store(false, Ordering::Relaxed);
    }

    /// Returns whether each entry is posted again as soon as its request is done.
    #[inline]
    pub fn is_cyclic(&self) -> bool {
        self.is_cyclic.load(Ordering::Relaxed)
    }

    /// Returns the number of requests that fit.
    pub const fn capacity(&self) -> u64 {
        self.ring.entries()
    }

    /// Returns the elements that a request can have.
    pub const fn max_sge(&self) -> usize {
        self.format.max_sge
    }

    /// Returns the inline octets that a request can have.
    pub const fn max_inline(&self) -> usize {
        self.format.max_inline
    }
}

#[cfg(test)]
mod tests {
    use weft_ddp::Stag;

    use super::*;
    use crate::access::Access;
    use crate::entry::{FLAG_INLINE, Operation, SendWork};
    use crate::work::{Bind, Data, FastRegister, SendOpcode, Sge};

    fn wr<'a>(opcode: SendOpcode, data: Data<'a>) -> SendWr<'a> {
        SendWr { wr_id: 9, opcode, data, signaled: true, fence: false, solicited: false }
    }

    #[test]
    fn entries_come_out_as_they_went_in() {
        let queue = SendQueue::new(4, 2, 20);
        let sges = [
            Sge { addr: u64::MAX, length: 7, lkey: Stag(0xFFFF_FFFF) },
            Sge { addr: 1, length: 0, lkey: Stag(2) },
        ];
        let read = SendOpcode::Read { stag: Stag(3), to: 1 << 60 };
        queue.post(&SendWr { fence: true, ..wr(read, Data::Sges(&sges)) }).unwrap();
        let inline = SendOpcode::SendInvalidate { stag: Stag(0x8000_0000) };
        queue.post(&SendWr { solicited: true, ..wr(inline, Data::Inline(b"twelve octet")) }).unwrap();
        let mut work = SendWork::new();
        assert_eq!(queue.load(0, &mut work), Ok(()));
        assert_eq!((work.opcode, work.fence, work.signaled, work.solicited), (read, true, true, false));
        assert_eq!(work.sges, sges);
        assert_eq!(queue.load(1, &mut work), Ok(()));
        assert_eq!((work.opcode, work.fence, work.solicited), (inline, false, true));
        assert_eq!((work.inline.as_slice(), work.sges.len(), work.len), (&b"twelve octet"[..], 0, 12));
    }

    #[test]
    fn requests_before_the_first_bad_one_are_queued_with_one_doorbell() {
        let queue = SendQueue::new(4, 0, 4);
        let good = wr(SendOpcode::Send, Data::Inline(b"good"));
        let long = wr(SendOpcode::Send, Data::Inline(b"too long"));
        assert_eq!(queue.post_all(&[long, good]), Err((0, PostError::InlineTooLong)));
        assert_eq!((queue.posted(), queue.doorbells()), (0, 0));
        assert_eq!(queue.post_all(&[good, good, long]), Err((2, PostError::InlineTooLong)));
        assert_eq!((queue.posted(), queue.doorbells()), (2, 1));
        assert_eq!(queue.post_all(&[good; 3]), Err((2, PostError::QueueFull)));
        assert_eq!((queue.posted(), queue.doorbells()), (4, 2));
        let mut work = SendWork::new();
        assert_eq!(queue.load(3, &mut work), Ok(()));
        assert_eq!(work.inline, b"good");
    }

    #[test]
    fn refusals() {
        let queue = SendQueue::new(1, 1, 4);
        let sge = Sge { addr: 0, length: u32::MAX, lkey: Stag(1) };
        let write = SendOpcode::Write { stag: Stag(1), to: 0 };
        let read = SendOpcode::Read { stag: Stag(1), to: 0 };
        assert_eq!(queue.post(&wr(write, Data::Sges(&[sge, sge]))), Err(PostError::TooManySges));
        assert_eq!(queue.post(&wr(write, Data::Inline(b"12345"))), Err(PostError::InlineTooLong));
        assert_eq!(queue.post(&wr(read, Data::Inline(b"1"))), Err(PostError::BadFlags));
        assert_eq!(
            queue.post(&SendWr { solicited: true, ..wr(write, Data::Sges(&[])) }),
            Err(PostError::BadFlags)
        );
        let wide = SendQueue::new(1, 2, 0);
        assert_eq!(wide.post(&wr(write, Data::Sges(&[sge, sge]))), Err(PostError::TooLong));
        assert_eq!(queue.post(&wr(write, Data::Sges(&[sge]))), Ok(()));
        assert_eq!(queue.post(&wr(write, Data::Sges(&[sge]))), Err(PostError::QueueFull));
        queue.release(1);
        assert_eq!(queue.post(&wr(write, Data::Sges(&[sge]))), Ok(()));
    }

    #[test]
    fn atomics_and_immediate_data_come_out_as_they_went_in() {
        let queue = SendQueue::new(4, 1, 0);
        let sges = [Sge { addr: 1 << 40, length: 8, lkey: Stag(5) }];
        let (stag, to) = (Stag(0xFFFF_FFFF), u64::MAX);
        let add = SendOpcode::FetchAdd { stag, to, add: 1, mask: u64::MAX };
        let swap =
            SendOpcode::CompareSwap { stag, to, swap: 2, swap_mask: 3, compare: 4, compare_mask: u64::MAX };
        let immediate = SendOpcode::Immediate { data: *b"\x01\x02\x03\x04\x05\x06\x07\xFF" };
        for opcode in [add, swap] {
            queue.post(&wr(opcode, Data::Sges(&sges))).unwrap();
        }
        queue.post(&SendWr { solicited: true, ..wr(immediate, Data::Inline(b"")) }).unwrap();
        let mut work = SendWork::new();
        for (index, opcode, local) in [(0, add, &sges[..]), (1, swap, &sges), (2, immediate, &[])] {
            assert_eq!(queue.load(index, &mut work), Ok(()));
            assert_eq!((work.opcode, work.sges.as_slice(), work.solicited), (opcode, local, index == 2));
        }
    }

    #[test]
    fn binds_and_registrations_come_out_as_they_went_in() {
        let queue = SendQueue::new(4, 0, 0);
        let (all, length) = (Access::ALL | Access::MW_BIND | Access::ZERO_BASED, 1 << 40);
        let bind = Bind { window: Stag(1), region: Stag(u32::MAX), addr: u64::MAX, length, access: all };
        let access = Access::REMOTE_READ;
        let register = FastRegister { stag: Stag(u32::MAX), offset: 1 << 50, iova: 1 << 60, length, access };
        let local = [
            SendOpcode::BindWindow(bind),
            SendOpcode::FastRegister(register),
            SendOpcode::LocalInvalidate { stag: Stag(5) },
        ];
        let mut work = SendWork::new();
        for (index, opcode) in (0..).zip(local) {
            assert_eq!(queue.post(&wr(opcode, Data::Sges(&[]))), Ok(()));
            assert_eq!(queue.load(index, &mut work), Ok(()));
            assert_eq!((work.opcode, work.signaled), (opcode, true));
        }
        // Bits that are no rights.
        for bits in [0x40, 0x80, 0x100, u64::MAX] {
            queue.ring.entry(0)[7].store(bits, Ordering::Relaxed);
            assert_eq!(queue.load(0, &mut work), Err(BadEntry));
        }
    }

    /// A SYNC names memory. In an entry with an element nothing else that is local makes sense.
    #[test]
    fn syncs_take_elements_and_nothing_else() {
        let queue = SendQueue::new(4, 2, 8);
        let sges =
            [Sge { addr: 1 << 40, length: 9, lkey: Stag(5) }, Sge { addr: 7, length: 0, lkey: Stag(6) }];
        queue.post(&wr(SendOpcode::Sync, Data::Sges(&sges))).unwrap();
        assert_eq!(queue.post(&wr(SendOpcode::Sync, Data::Inline(b""))), Err(PostError::BadFlags));
        let solicited = SendWr { solicited: true, ..wr(SendOpcode::Sync, Data::Sges(&sges)) };
        assert_eq!(queue.post(&solicited), Err(PostError::BadFlags));
        let mut work = SendWork::new();
        assert_eq!(queue.load(0, &mut work), Ok(()));
        assert_eq!((work.opcode, work.sges.as_slice(), work.signaled), (SendOpcode::Sync, &sges[..], true));
        queue.post(&wr(SendOpcode::Nop, Data::Sges(&sges[..1]))).unwrap();
        let control = queue.ring.entry(1)[1].load(Ordering::Relaxed) & !0xFF;
        let poke = |control: u64| queue.ring.entry(1)[1].store(control, Ordering::Relaxed);
        for number in 0..=u8::MAX {
            poke(control | u64::from(number));
            let is_good = queue.load(1, &mut work).is_ok();
            let known = Operation::from_number(number);
            use Operation as Op;
            let wants_none = [Op::BindWindow, Op::FastRegister, Op::LocalInvalidate, Op::Wait, Op::Immediate];
            let is_bad = known.is_none_or(|it| wants_none.contains(&it))
                || matches!(known, Some(Op::FetchAdd | Op::CompareSwap));
            assert_eq!(is_good, !is_bad, "{number:#x}");
        }
        poke(Operation::Sync as u64 | u64::from(FLAG_INLINE) << 8 | 8 << 32);
        assert_eq!(queue.load(1, &mut work), Err(BadEntry));
        poke(Operation::Sync as u64 | 0x10 << 8);
        assert_eq!(queue.load(1, &mut work), Err(BadEntry));
    }

    // Covers 7306-6.1-1.
    #[test]
    fn atomics_and_immediate_data_have_fixed_lengths() {
        let queue = SendQueue::new(4, 2, 8);
        let sge = |length| Sge { addr: 0, length, lkey: Stag(5) };
        let (stag, to) = (Stag(1), 0);
        let add = SendOpcode::FetchAdd { stag, to, add: 1, mask: 0 };
        let swap = SendOpcode::CompareSwap { stag, to, swap: 2, swap_mask: 3, compare: 4, compare_mask: 5 };
        for opcode in [add, swap] {
            for sges in [&[][..], &[sge(7)], &[sge(9)], &[sge(4), sge(4)], &[sge(8), sge(0)]] {
                assert_eq!(queue.post(&wr(opcode, Data::Sges(sges))), Err(PostError::BadData));
            }
            assert_eq!(queue.post(&wr(opcode, Data::Inline(b"12345678"))), Err(PostError::BadFlags));
            let sges = [sge(8)];
            let solicited = SendWr { solicited: true, ..wr(opcode, Data::Sges(&sges)) };
            assert_eq!(queue.post(&solicited), Err(PostError::BadFlags));
        }
        let immediate = SendOpcode::Immediate { data: [0; 8] };
        assert_eq!(queue.post(&wr(immediate, Data::Inline(b"1"))), Err(PostError::BadData));
        assert_eq!(queue.post(&wr(immediate, Data::Sges(&[sge(1)]))), Err(PostError::BadData));
        assert_eq!(queue.posted(), 0);
        // The same when a peer has written the entry.
        let mut work = SendWork::new();
        let poke = |kind: u64| queue.ring.entry(0)[1].store(kind, Ordering::Relaxed);
        for opcode in [Operation::FetchAdd, Operation::CompareSwap] {
            poke(opcode as u64);
            assert_eq!(queue.load(0, &mut work), Err(BadEntry));
            poke(opcode as u64 | 1 << 16);
            assert_eq!(queue.load(0, &mut work), Err(BadEntry));
            poke(opcode as u64 | u64::from(FLAG_INLINE) << 8 | 8 << 32);
            assert_eq!(queue.load(0, &mut work), Err(BadEntry));
        }
        poke(Operation::Immediate as u64 | u64::from(FLAG_INLINE) << 8 | 1 << 32);
        assert_eq!(queue.load(0, &mut work), Err(BadEntry));
    }

    #[test]
    fn every_field_of_an_entry_is_checked() {
        let queue = SendQueue::new(1, 1, 4);
        let mut work = SendWork::new();
        let poke = |kind: u64| queue.ring.entry(0)[1].store(kind, Ordering::Relaxed);
        assert_eq!(queue.load(0, &mut work), Err(BadEntry), "an entry that was not written");
        poke(Operation::Write as u64 | 2 << 16);
        assert_eq!(queue.load(0, &mut work), Err(BadEntry), "too many SGEs");
        poke(Operation::Write as u64 | u64::from(FLAG_INLINE) << 8 | 5 << 32);
        assert_eq!(queue.load(0, &mut work), Err(BadEntry), "too much inline data");
        poke(Operation::Read as u64 | u64::from(FLAG_INLINE) << 8 | 4 << 32);
        assert_eq!(queue.load(0, &mut work), Err(BadEntry), "inline Read");
        poke(0xFF);
        assert_eq!(queue.load(0, &mut work), Err(BadEntry), "unknown opcode");
        poke(Operation::Send as u64);
        assert_eq!(queue.load(0, &mut work), Ok(()));
    }
}
