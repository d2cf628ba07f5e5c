//! rsocket: waits for several sockets and other descriptors.
#![allow(unsafe_code)]

use core::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::Errno;

use super::boundary::{Outcome, read, read_optional, write};
use super::fork::process;
use super::trace::args;
use crate::rsocket::{Polled, poll};

#[unsafe(no_mangle)]
unsafe extern "C" fn rpoll(fds: *mut libc::pollfd, count: libc::nfds_t, timeout: c_int) -> c_int {
    args![count, timeout].number(|| {
        let count = usize::try_from(count).map_err(|_| Errno::INVAL)?;
        if count > MAX_DESCRIPTORS {
            return Err(Errno::INVAL);
        }
        let mut all = Vec::with_capacity(count);
        for index in 0..count {
            // SAFETY: the program's array has as many.
            let wanted = unsafe { read(fds.wrapping_add(index)) }?;
            // SAFETY: poll(2) reports a number that is no descriptor as POLLNVAL. Nothing else is done to it.
            all.push(unsafe {
                polled(wanted.fd, PollFlags::from_bits_retain(wanted.events.cast_unsigned()))
            });
        }
        let timeout = u64::try_from(timeout).ok().map(Duration::from_millis);
        let ready = poll(&mut all, timeout)?;
        for (index, one) in all.iter().enumerate() {
            let place = fds.wrapping_add(index);
            // SAFETY: as above.
            unsafe {
                let mut told = read(place)?;
                told.revents = one.ready.bits().cast_signed();
                write(place, told)?;
            }
        }
        c_int::try_from(ready).map_err(|_| Errno::INVAL)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rselect(
    count: c_int,
    readable: *mut libc::fd_set,
    writable: *mut libc::fd_set,
    exceptional: *mut libc::fd_set,
    timeout: *mut libc::timeval,
) -> c_int {
    args![count].number(|| {
        if !usize::try_from(count).is_ok_and(|count| count <= libc::FD_SETSIZE) {
            return Err(Errno::INVAL);
        }
        let kinds = [
            (readable, PollFlags::IN, PollFlags::IN | PollFlags::HUP | PollFlags::ERR),
            (writable, PollFlags::OUT, PollFlags::OUT | PollFlags::ERR),
            (exceptional, PollFlags::PRI, PollFlags::PRI),
        ];
        // SAFETY: null, or sets of the program's.
        let sets = kinds.map(|(set, _, _)| unsafe { read_optional(set) });
        let mut all: Vec<(c_int, Polled<'_>)> = Vec::new();
        for fd in 0..count {
            let mut events = PollFlags::empty();
            let mut is_wanted = false;
            for (set, (_, wanted, _)) in sets.iter().zip(kinds) {
                if has(set.as_ref(), fd) {
                    (events, is_wanted) = (events | wanted, true);
                }
            }
            if is_wanted {
                // SAFETY: as in `rpoll`.
                all.push((fd, unsafe { polled(fd, events) }));
            }
        }
        // SAFETY: null, or a time of the program's.
        let timeout = unsafe { read_optional(timeout) }.map(duration).transpose()?;
        let (fds, mut polled): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        poll(&mut polled, timeout)?;
        let mut found = 0;
        for ((set, _, meant), before) in kinds.into_iter().zip(sets) {
            let Some(mut told) = before else { continue };
            // SAFETY: the sets are copies of ours, and the numbers are those that were in them.
            unsafe { libc::FD_ZERO(&raw mut told) };
            for (&fd, one) in fds.iter().zip(&polled) {
                if has(before.as_ref(), fd) && one.ready.intersects(meant) {
                    // SAFETY: as above.
                    unsafe { libc::FD_SET(fd, &raw mut told) };
                    found += 1;
                }
            }
            // SAFETY: the program's set, which was there before.
            unsafe { write(set, told) }?;
        }
        Ok(found)
    })
}

/// # Safety
/// The number is negative, or a descriptor during `'a`, or only poll(2) gets it.
unsafe fn polled<'a>(number: c_int, events: PollFlags) -> Polled<'a> {
    // SAFETY: as the caller says.
    let fd = (number >= 0).then(|| unsafe { BorrowedFd::borrow_raw(number) });
    let socket = process().rsockets.get(number).ok();
    Polled { fd, socket, events, ready: PollFlags::empty() }
}

/// Returns the time of a program.
pub(super) fn duration(time: libc::timeval) -> Outcome<Duration> {
    let seconds = u64::try_from(time.tv_sec).map_err(|_| Errno::INVAL)?;
    let micros = u64::try_from(time.tv_usec).map_err(|_| Errno::INVAL)?;
    Ok(Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros)))
}

/// Returns whether a set has a descriptor.
pub(super) fn has(set: Option<&libc::fd_set>, fd: c_int) -> bool {
    let has_room = usize::try_from(fd).is_ok_and(|fd| fd < libc::FD_SETSIZE);
    // SAFETY: the set is a copy of ours, and has room for the number.
    has_room && set.is_some_and(|set| unsafe { libc::FD_ISSET(fd, set) })
}

/// More than a process can have.
pub(super) const MAX_DESCRIPTORS: usize = 1 << 20;
