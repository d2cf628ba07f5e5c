//! Leaves signals to the program. No thread of the library handles one. A signal that comes while the program waits in
//! a call ends that call, as it would end read(2), by which libibverbs waits.
#![allow(unsafe_code)]

use core::cell::Cell;
use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::ptr::{from_ref, null, null_mut};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use weft_rnic::Poll;

/// While this lives, the calling thread and threads that it starts handle no signals, except for faults of their own.
#[derive(Debug)]
pub(crate) struct Blocked {
    before: libc::sigset_t,
}

impl Blocked {
    pub(crate) fn begin() -> Self {
        let mut all = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: both sets are this function's own. The calls initialize them, and fail only for signals that do not
        // exist.
        let before = unsafe {
            libc::sigfillset(all.as_mut_ptr());
            for signal in FAULTS {
                libc::sigdelset(all.as_mut_ptr(), signal);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            before.assume_init()
        };
        Self { before }
    }

    /// ppoll(2), with the signal mask of before.
    fn poll(&self, fds: &mut [PollFd<'_>], timeout: Option<&Timespec>) -> Result<usize, Errno> {
        let timeout = timeout.map(|time| libc::timespec { tv_sec: time.tv_sec, tv_nsec: time.tv_nsec });
        let timeout = timeout.as_ref().map_or(null(), from_ref);
        let count = libc::nfds_t::try_from(fds.len()).map_err(|_| Errno::INVAL)?;
        // SAFETY: `fds` are as many structs of the system, which is asserted below. The other pointers are of living
        // values.
        let ready = unsafe { libc::ppoll(fds.as_mut_ptr().cast(), count, timeout, &raw const self.before) };
        usize::try_from(ready).map_err(|_| last_errno())
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set is one that the system has given.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, null_mut()) };
    }
}

/// Runs a wait of the program, which sleeps by the poll that it gets. Returns None if it was interrupted and has to
/// begin again.
///
/// # Errors
/// `EINTR` if a signal was handled and not all handlers have `SA_RESTART`; `EBADF` if the program has closed the
/// descriptor.
pub(crate) fn interruptible<T>(wait: impl FnOnce(&Poll<'_>) -> Option<T>) -> Result<Option<T>, Errno> {
    let blocked = Blocked::begin();
    let is_closed = Cell::new(false);
    let event = wait(&|fds, timeout| {
        let ready = blocked.poll(fds, timeout);
        is_closed.set(fds.iter().any(|fd| fd.revents().contains(PollFlags::NVAL)));
        ready
    });
    match event {
        None if is_closed.get() => Err(Errno::BADF),
        None if !calls_go_on() => Err(Errno::INTR),
        event => Ok(event),
    }
}

/// Returns true if all handlers of the program have `SA_RESTART`. Nothing tells which handler has run; programs
/// mostly treat all signals alike.
fn calls_go_on() -> bool {
    (1..=libc::SIGRTMAX()).all(|signal| {
        let mut action = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: the struct is this function's own, and initialized if the call says so; nothing is changed.
        let action = unsafe {
            if libc::sigaction(signal, null(), action.as_mut_ptr()) != 0 {
                return true;
            }
            action.assume_init()
        };
        let is_handled = ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction);
        !is_handled || action.sa_flags & libc::SA_RESTART != 0
    })
}

fn last_errno() -> Errno {
    // SAFETY: the address of this thread's own `errno` is valid as long as the thread lives.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}

/// Signals that a thread raises by its own action. If they were blocked, the process would end without the program's
/// handler.
const FAULTS: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];
const _: () = assert!(
    size_of::<PollFd<'_>>() == size_of::<libc::pollfd>()
        && align_of::<PollFd<'_>>() == align_of::<libc::pollfd>()
);

#[cfg(test)]
mod tests {
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::io::write;

    use super::*;

    #[test]
    fn the_poll_is_the_systems() {
        let fds = [0, 1].map(|_| eventfd(0, EventfdFlags::NONBLOCK).unwrap());
        write(&fds[1], &1_u64.to_ne_bytes()).unwrap();
        let mut polled = fds.each_ref().map(|fd| PollFd::new(fd, PollFlags::IN));
        let blocked = Blocked::begin();
        assert_eq!(blocked.poll(&mut polled, None), Ok(1));
        assert_eq!(polled.map(|fd| fd.revents()), [PollFlags::empty(), PollFlags::IN]);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        assert_eq!(blocked.poll(&mut [PollFd::new(&fds[0], PollFlags::IN)], Some(&now)), Ok(0));
    }
}
