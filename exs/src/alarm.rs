//! What wakes a thread that waits for an operation.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Wake;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, write};

/// A descriptor on which a thread sleeps. It becomes readable when a task of the thread is woken meanwhile.
///
/// A ring while the thread is awake costs no call of the system. So a thread that does by itself what it waits for
/// does not ring at its own descriptor.
#[derive(Debug)]
pub(crate) struct Alarm {
    fd: OwnedFd,
    state: AtomicU8,
}

impl Alarm {
    pub(crate) fn new() -> Result<Self, Errno> {
        Ok(Self { fd: eventfd(0, EventfdFlags::CLOEXEC)?, state: AtomicU8::new(AWAKE) })
    }

    /// Begins a look of the thread at what it waits for. The descriptor is not readable any more.
    pub(crate) fn begin_look(&self) {
        if self.state.swap(AWAKE, Ordering::AcqRel) == SIGNALED {
            // If the thread that rings has not come to its write yet, this waits for it.
            while read(&self.fd, &mut [0; 8]) == Err(Errno::INTR) {}
        }
    }

    /// Ends the look: from now on a ring makes the descriptor readable. Returns false if it rang during the look. Then
    /// the thread has to look again.
    pub(crate) fn begin_sleep(&self) -> bool {
        self.state.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let ring = |state| match state {
            AWAKE => Some(RUNG),
            ASLEEP => Some(SIGNALED),
            _ => None,
        };
        if self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, ring) == Ok(ASLEEP) {
            // One write for each read: the counter is never at the top.
            let _readable = write(&self.fd, &1_u64.to_ne_bytes());
        }
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The thread looks at what it waits for.
const AWAKE: u8 = 0;
/// The thread sleeps, or is about to.
const ASLEEP: u8 = 1;
/// It rang during a look.
const RUNG: u8 = 2;
/// It rang in a sleep. The descriptor is readable, or will be at once.
const SIGNALED: u8 = 3;

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::Wake;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::Alarm;

    fn is_readable(alarm: &Alarm) -> bool {
        poll(&mut [PollFd::new(alarm, PollFlags::IN)], Some(&Timespec::default())) == Ok(1)
    }

    #[test]
    fn a_ring_during_a_look_makes_the_thread_look_again_and_one_in_a_sleep_wakes_it() {
        let alarm = Arc::new(Alarm::new().unwrap());
        alarm.begin_look();
        alarm.wake_by_ref();
        assert!(!alarm.begin_sleep() && !is_readable(&alarm));
        alarm.begin_look();
        assert!(alarm.begin_sleep());
        alarm.wake_by_ref();
        alarm.wake_by_ref();
        assert!(is_readable(&alarm));
        alarm.begin_look();
        assert!(!is_readable(&alarm) && alarm.begin_sleep());
    }

    #[test]
    fn no_ring_of_another_thread_is_lost() {
        const RINGS: u64 = 20_000;
        let (alarm, told) = (Arc::new(Alarm::new().unwrap()), AtomicU64::new(0));
        let heard = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for ring in 1..=RINGS {
                    told.store(ring, Ordering::Release);
                    alarm.wake_by_ref();
                    while heard.load(Ordering::Acquire) < ring {
                        std::thread::yield_now();
                    }
                }
            });
            while heard.load(Ordering::Acquire) < RINGS {
                alarm.begin_look();
                heard.store(told.load(Ordering::Acquire), Ordering::Release);
                if heard.load(Ordering::Acquire) < RINGS && alarm.begin_sleep() {
                    let patience = Timespec { tv_sec: 60, tv_nsec: 0 };
                    let woken = poll(&mut [PollFd::new(&alarm.as_fd(), PollFlags::IN)], Some(&patience));
                    assert_eq!(woken, Ok(1), "a ring was lost");
                }
            }
        });
    }
}
