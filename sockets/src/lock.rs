//! The lock of a direction, between the threads of all processes that hold its end.
//!
//! The word names the owner, so that a signal handler finds its own thread in it, and others find out that the owner
//! died. The system calls to wait and to wake are the caller's.

use crate::sync::{AtomicU64, Ordering};

/// The lock of a direction: member in bits 32 to 47, waiting in bit 31, thread in bits 0 to 29. 0 is free.
#[derive(Clone, Copy, Debug)]
pub struct Lock<'a>(&'a AtomicU64);

/// A thread that may have locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner(u64);

/// Which threads a lock has to keep apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The process has one thread, and no other process holds the end: plain stores are enough.
    Alone,
    /// Other threads or processes use the end, too.
    Shared,
}

/// The thread that has a lock which this thread wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// This thread itself: the caller is a signal handler that interrupted a section.
    Itself,
    /// Another one.
    Other(Owner),
}

impl Owner {
    /// The owner for a thread: its member's place in the family, and the kernel's thread id, which is not 0.
    #[must_use]
    pub const fn new(member: u16, thread: u32) -> Self {
        Self((member as u64) << 32 | (thread & THREAD) as u64)
    }

    /// The place of its process in the family.
    #[must_use]
    pub const fn member(self) -> u16 {
        (self.0 >> 32 & 0xffff) as u16
    }

    /// The thread, as the kernel numbers it.
    #[must_use]
    pub const fn thread(self) -> u32 {
        (self.0 & 0x3fff_ffff) as u32
    }
}

impl<'a> Lock<'a> {
    /// The lock of this word: [`OwnOutbound::lock`](crate::layout::OwnOutbound::lock) or
    /// [`OwnInbound::lock`](crate::layout::OwnInbound::lock).
    #[inline]
    #[must_use]
    pub const fn new(word: &'a AtomicU64) -> Self {
        Self(word)
    }

    /// Takes the lock if it is free.
    ///
    /// # Errors
    /// The thread that has it.
    #[inline]
    pub fn try_lock(self, me: Owner, level: Level) -> Result<(), Holder> {
        let found = match level {
            Level::Alone => {
                let found = self.0.load(Ordering::Relaxed);
                if found == 0 {
                    self.0.store(me.0, Ordering::Relaxed);
                }
                found
            }
            Level::Shared => {
                let taken = self.0.compare_exchange(0, me.0, Ordering::Acquire, Ordering::Relaxed);
                taken.unwrap_or_else(|found| found)
            }
        };
        crate::sync::compiler_fence(Ordering::Acquire);
        match Owner(found & OWNER) {
            Owner(0) => Ok(()),
            owner if owner == me => Err(Holder::Itself),
            owner => Err(Holder::Other(owner)),
        }
    }

    /// Announces that this thread waits. Returns what the futex has as long as the lock stays as it is, or `None` if
    /// the lock is free meanwhile.
    #[must_use]
    pub fn announce(self) -> Option<u32> {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if word == 0 {
                return None;
            }
            match self.0.compare_exchange_weak(word, word | WAITING, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(low(word | WAITING)),
                Err(now) => word = now,
            }
        }
    }

    /// Takes the lock, if it is free, for a thread that has waited. Others may wait still: so its unlocking wakes.
    #[must_use]
    pub fn try_lock_after_wait(self, me: Owner) -> bool {
        self.0.compare_exchange(0, me.0 | WAITING, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Frees the lock. Returns true if the caller has to wake one thread that waits on the futex.
    #[inline]
    #[must_use]
    pub fn unlock(self, level: Level) -> bool {
        match level {
            Level::Alone => {
                self.0.store(0, Ordering::Release);
                false
            }
            Level::Shared => self.0.swap(0, Ordering::Release) & WAITING != 0,
        }
    }

    /// Takes the lock of a thread whose process is dead. Returns false if another thread was faster.
    ///
    /// The dead owner may have been in the middle of a section: the caller publishes the end's words again.
    #[must_use]
    pub fn take_over(self, dead: Owner, me: Owner) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        while word & OWNER == dead.0 {
            match self.0.compare_exchange_weak(word, me.0 | WAITING, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// The thread that has the lock.
    #[must_use]
    pub fn owner(self) -> Option<Owner> {
        let owner = self.0.load(Ordering::Relaxed) & OWNER;
        if owner == 0 { None } else { Some(Owner(owner)) }
    }

    /// True if this thread has the lock: then the caller is in a section or in a signal handler that interrupted it.
    #[inline]
    #[must_use]
    pub fn is_mine(self, me: Owner) -> bool {
        self.0.load(Ordering::Relaxed) & OWNER == me.0
    }

    /// The address of the futex: the word's low half.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn futex(self) -> *mut u32 {
        self.0.as_ptr().cast()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the low half")]
const fn low(word: u64) -> u32 {
    word as u32
}

const WAITING: u64 = 1 << 31;
const THREAD: u32 = (1 << 30) - 1;
const OWNER: u64 = 0xffff << 32 | THREAD as u64;
#[cfg(not(loom))]
const _: () = assert!(cfg!(target_endian = "little"), "the futex is the low half, which lies first");

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    const ME: Owner = Owner::new(3, 77);
    const OTHER: Owner = Owner::new(4, 77);

    #[test]
    fn a_lock_has_one_owner_and_names_it() {
        for level in [Level::Alone, Level::Shared] {
            let word = AtomicU64::default();
            let lock = Lock::new(&word);
            assert_eq!((lock.owner(), lock.is_mine(ME)), (None, false));
            assert_eq!(lock.try_lock(ME, level), Ok(()));
            assert_eq!((lock.owner(), lock.is_mine(ME), lock.is_mine(OTHER)), (Some(ME), true, false));
            assert_eq!(lock.try_lock(ME, level), Err(Holder::Itself));
            assert_eq!(lock.try_lock(OTHER, level), Err(Holder::Other(ME)));
            assert_eq!((ME.member(), OTHER.member()), (3, 4));
            assert!(!lock.unlock(level));
            assert_eq!(lock.try_lock(OTHER, level), Ok(()));
        }
    }

    #[test]
    fn a_waiting_thread_is_woken_and_so_is_the_next() {
        let word = AtomicU64::default();
        let lock = Lock::new(&word);
        assert_eq!(lock.announce(), None);
        assert_eq!(lock.try_lock(ME, Level::Shared), Ok(()));
        assert_eq!(lock.announce(), Some(1 << 31 | 77));
        assert_eq!(low(word.load(Ordering::Relaxed)), 1 << 31 | 77);
        assert_eq!(lock.try_lock(ME, Level::Shared), Err(Holder::Itself));
        assert!(!lock.try_lock_after_wait(OTHER));
        assert!(lock.unlock(Level::Shared));
        assert!(lock.try_lock_after_wait(OTHER));
        assert!(lock.unlock(Level::Shared), "a third thread may wait");
    }

    #[test]
    fn a_lock_is_taken_from_its_dead_owner_only() {
        let word = AtomicU64::default();
        let lock = Lock::new(&word);
        assert!(!lock.take_over(OTHER, ME), "a free lock is taken by try_lock");
        assert_eq!(lock.try_lock(OTHER, Level::Shared), Ok(()));
        let _futex = lock.announce();
        assert!(!lock.take_over(ME, ME));
        assert!(lock.take_over(OTHER, ME));
        assert!(lock.is_mine(ME) && !lock.take_over(OTHER, ME));
        assert!(lock.unlock(Level::Shared));
    }
}
