//! Extended Sockets: poll(2) and select(2), for sockets and other descriptors.
#![allow(unsafe_code)]

use core::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::Errno;

use super::boundary::{read, read_optional, write};
use super::fork::process;
use super::rsocket_poll::{MAX_DESCRIPTORS, duration, has};
use super::trace::args;
use crate::exs::{Polled, poll};

#[unsafe(no_mangle)]
unsafe extern "C" fn exs_sync_poll(fds: *mut libc::pollfd, count: libc::nfds_t, timeout: c_int) -> c_int {
    args![count, timeout].number(|| {
        let count = usize::try_from(count).map_err(|_| Errno::INVAL)?;
        if count > MAX_DESCRIPTORS {
            return Err(Errno::INVAL);
        }
        let mut all = Vec::with_capacity(count);
        for index in 0..count {
            // SAFETY: the program's array has as many. poll(2) reports a number that is no descriptor as POLLNVAL.
            unsafe {
                let wanted = read(fds.wrapping_add(index)).map_err(|_| Errno::FAULT)?;
                all.push(polled(wanted.fd, PollFlags::from_bits_retain(wanted.events.cast_unsigned())));
            }
        }
        let ready = poll(&mut all, u64::try_from(timeout).ok().map(Duration::from_millis))?;
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
unsafe extern "C" fn exs_sync_select(
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
        let sets = kinds.map(|(set, ..)| unsafe { read_optional(set) });
        let mut all: Vec<(c_int, Polled<'_>)> = Vec::new();
        for fd in 0..count {
            let wanted = sets.iter().zip(kinds).filter(|(set, _)| has(set.as_ref(), fd));
            let events = wanted.map(|(_, (_, events, _))| events).reduce(|all, one| all | one);
            // SAFETY: poll(2) reports a number that is no descriptor as POLLNVAL.
            all.extend(events.map(|events| (fd, unsafe { polled(fd, events) })));
        }
        // SAFETY: null, or a time of the program's.
        let timeout = unsafe { read_optional(timeout) }.map(duration).transpose()?;
        let (fds, mut polled): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        poll(&mut polled, timeout)?;
        if polled.iter().any(|one| one.ready.contains(PollFlags::NVAL)) {
            return Err(Errno::BADF);
        }
        let mut found = 0;
        for ((set, _, meant), before) in kinds.into_iter().zip(sets) {
            let Some(mut told) = before else { continue };
            // SAFETY: the set is a copy of ours.
            unsafe { libc::FD_ZERO(&raw mut told) };
            for (&fd, one) in fds.iter().zip(&polled) {
                if has(before.as_ref(), fd) && one.ready.intersects(meant) {
                    // SAFETY: the set has room for the number, which was in it before.
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
    let socket = process().exs.socket(number).ok();
    Polled { fd, socket, events, ready: PollFlags::empty() }
}
