//! What poll(2) and select(2) take of a program and tell it, for functions with their names on other sockets.
#![allow(unsafe_code)]

use core::ffi::c_int;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::Errno;

use super::boundary::{Outcome, read, read_optional, write};

/// A number of the program's, perhaps that of a descriptor, and the events that it waits for.
pub(super) type Asked = (c_int, PollFlags);

/// Does what poll(2) does with an array. `wait` returns the events that it has found, in the order of the array.
///
/// # Errors
/// `EINVAL` for more than a process can have; `EFAULT` without an array; those of `wait`.
///
/// # Safety
/// `fds` points to `count` entries that may be written, or is null.
pub(super) unsafe fn poll(
    fds: *mut libc::pollfd,
    count: libc::nfds_t,
    wait: impl FnOnce(&[Asked]) -> Outcome<Vec<PollFlags>>,
) -> Outcome<c_int> {
    let count = usize::try_from(count).map_err(|_| Errno::INVAL)?;
    if count > MAX_DESCRIPTORS {
        return Err(Errno::INVAL);
    }
    let mut all = Vec::with_capacity(count);
    for index in 0..count {
        // SAFETY: the program's array has as many.
        let wanted = unsafe { read(fds.wrapping_add(index)) }.map_err(|_| Errno::FAULT)?;
        all.push((wanted.fd, PollFlags::from_bits_retain(wanted.events.cast_unsigned())));
    }
    let found = wait(&all)?;
    for (index, ready) in found.iter().enumerate().take(count) {
        let place = fds.wrapping_add(index);
        // SAFETY: as above.
        unsafe {
            let mut told = read(place)?;
            told.revents = ready.bits().cast_signed();
            write(place, told)?;
        }
    }
    c_int::try_from(found.iter().filter(|ready| !ready.is_empty()).count()).map_err(|_| Errno::INVAL)
}

/// Does what select(2) does with the sets of descriptors to read, to write, and with urgent data. `wait` has a time at
/// most, and returns the events that it has found, in the order of the numbers.
///
/// # Errors
/// `EINVAL`; `EBADF` if a number is no descriptor; those of `wait`.
///
/// # Safety
/// Each set, and the time, is the program's or null.
pub(super) unsafe fn select(
    count: c_int,
    sets: [*mut libc::fd_set; 3],
    timeout: *const libc::timeval,
    wait: impl FnOnce(&[Asked], Option<Duration>) -> Outcome<Vec<PollFlags>>,
) -> Outcome<c_int> {
    if !usize::try_from(count).is_ok_and(|count| count <= libc::FD_SETSIZE) {
        return Err(Errno::INVAL);
    }
    // SAFETY: as the caller says.
    let befores = sets.map(|set| unsafe { read_optional(set) });
    let wanted = |fd| {
        let chosen = befores.iter().zip(KINDS).filter(move |(set, _)| has(set.as_ref(), fd));
        chosen.map(|(_, (events, _))| events).reduce(|all, one| all | one)
    };
    let all: Vec<Asked> = (0..count).filter_map(|fd| Some((fd, wanted(fd)?))).collect();
    // SAFETY: as the caller says.
    let timeout = unsafe { read_optional(timeout) }.map(duration).transpose()?;
    let found = wait(&all, timeout)?;
    if found.iter().any(|ready| ready.contains(PollFlags::NVAL)) {
        return Err(Errno::BADF);
    }
    let mut number = 0;
    for ((set, before), (_, meant)) in sets.into_iter().zip(befores).zip(KINDS) {
        let Some(mut told) = before else { continue };
        // SAFETY: the set is a copy of ours.
        unsafe { libc::FD_ZERO(&raw mut told) };
        for (&(fd, _), ready) in all.iter().zip(&found) {
            if has(before.as_ref(), fd) && ready.intersects(meant) {
                // SAFETY: the set has room for the number, which was in it before.
                unsafe { libc::FD_SET(fd, &raw mut told) };
                number += 1;
            }
        }
        // SAFETY: the program's set, which was there before.
        unsafe { write(set, told) }?;
    }
    Ok(number)
}

/// Returns the time of a program.
pub(super) fn duration(time: libc::timeval) -> Outcome<Duration> {
    let seconds = u64::try_from(time.tv_sec).map_err(|_| Errno::INVAL)?;
    let micros = u64::try_from(time.tv_usec).map_err(|_| Errno::INVAL)?;
    Ok(Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros)))
}

/// Returns whether a set has a descriptor.
fn has(set: Option<&libc::fd_set>, fd: c_int) -> bool {
    let has_room = usize::try_from(fd).is_ok_and(|fd| fd < libc::FD_SETSIZE);
    // SAFETY: the set is a copy of ours, and has room for the number.
    has_room && set.is_some_and(|set| unsafe { libc::FD_ISSET(fd, set) })
}

/// What each set of select(2) waits for, and which events are meant by it.
const KINDS: [(PollFlags, PollFlags); 3] = [
    (PollFlags::IN, PollFlags::IN.union(PollFlags::HUP).union(PollFlags::ERR)),
    (PollFlags::OUT, PollFlags::OUT.union(PollFlags::ERR)),
    (PollFlags::PRI, PollFlags::PRI),
];
/// More than a process can have.
const MAX_DESCRIPTORS: usize = 1 << 20;
