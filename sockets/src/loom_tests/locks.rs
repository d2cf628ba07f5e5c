//! The lock of a direction.

use loom::sync::Mutex;

use super::*;
use crate::sync::AtomicU64;
use crate::{Holder, Level, Lock, Owner};

/// A lock, and what it protects.
#[derive(Debug, Default)]
struct Locked {
    lock: AtomicU64,
    sections: AtomicU32,
    futex: Mutex<Futex>,
}

/// A thread that sleeps on the futex, and whether it was woken.
#[derive(Debug, Default)]
struct Futex {
    sleeps: bool,
    was_woken: bool,
}

impl Locked {
    fn lock(&self) -> Lock<'_> {
        Lock::new(&self.lock)
    }

    /// Counts a section. Two at a time would count one.
    fn count(&self) {
        self.sections.store(self.sections.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Runs a section and wakes a thread that waits.
    fn run(&self) {
        self.count();
        if self.lock().unlock(Level::Shared) {
            let mut futex = self.futex.lock().unwrap();
            futex.was_woken |= futex.sleeps;
        }
    }

    /// Runs a section if the lock is free; else announces itself and sleeps, if the lock stays taken.
    fn run_or_sleep(&self, me: Owner, compares: bool) {
        if self.lock().try_lock(me, Level::Shared).is_ok() {
            return self.run();
        }
        let Some(expected) = self.lock().announce() else { return };
        let mut futex = self.futex.lock().unwrap();
        // The kernel compares the futex before it lets the thread sleep.
        futex.sleeps = !compares || self.lock.fetch_add(0, Ordering::SeqCst) as u32 == expected;
    }
}

fn owner(thread: u32) -> Owner {
    Owner::new(1, thread)
}

fn a_thread_that_waits(compares: bool) {
    let locked = Arc::new(Locked::default());
    assert_eq!(locked.lock().try_lock(owner(2), Level::Shared), Ok(()));
    let other = {
        let locked = Arc::clone(&locked);
        loom::thread::spawn(move || locked.run())
    };
    locked.run_or_sleep(owner(1), compares);
    other.join().unwrap();
    let futex = locked.futex.lock().unwrap();
    assert!(!futex.sleeps || futex.was_woken, "model: nobody sleeps beside a free lock");
    assert!(locked.lock().try_lock_after_wait(owner(1)), "model: the lock is free");
}

#[test]
fn a_thread_that_waits_for_the_lock_is_woken() {
    check(&[], || a_thread_that_waits(true));
    find(|| a_thread_that_waits(false));
}

/// Sections of which each sees what those before did.
#[test]
fn sections_do_not_overlap_and_see_each_other() {
    check(&[Weakened::Acquire, Weakened::Release], || {
        let locked = Arc::new(Locked::default());
        let threads = [1, 2].map(|thread| {
            let locked = Arc::clone(&locked);
            loom::thread::spawn(move || {
                let has_lock = locked.lock().try_lock(owner(thread), Level::Shared).is_ok();
                if has_lock {
                    locked.run();
                }
                u32::from(has_lock)
            })
        });
        let sections: u32 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(locked.sections.load(Ordering::Relaxed), sections, "model: each section is counted");
    });
}

/// Two threads find the owner dead, which left the lock taken behind its section.
#[test]
fn one_thread_takes_the_lock_of_a_dead_owner() {
    check(&[Weakened::Acquire, Weakened::Release], || {
        let locked = Arc::new(Locked::default());
        let dead = owner(9);
        assert_eq!(locked.lock().try_lock(dead, Level::Shared), Ok(()));
        locked.count();
        let threads = [1, 2].map(|thread| {
            let locked = Arc::clone(&locked);
            loom::thread::spawn(move || {
                let found = locked.lock().try_lock(owner(thread), Level::Shared);
                let has_lock = match found {
                    Ok(()) => true,
                    Err(Holder::Other(holder)) if holder == dead => {
                        locked.lock().take_over(dead, owner(thread))
                    }
                    Err(_) => false,
                };
                if has_lock {
                    locked.run();
                }
                u32::from(has_lock)
            })
        });
        let sections: u32 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(locked.sections.load(Ordering::Relaxed), sections + 1, "model: each section is counted");
        assert_eq!(locked.lock().owner(), None, "model: the lock is free");
    });
}
