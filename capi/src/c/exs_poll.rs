//! Extended Sockets: poll(2) and select(2), for sockets and other descriptors.
#![allow(unsafe_code)]

use core::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::PollFlags;

use super::boundary::Outcome;
use super::fork::process;
use super::sets;
use super::trace::args;
use crate::exs::{Polled, poll};

#[unsafe(no_mangle)]
unsafe extern "C" fn exs_sync_poll(fds: *mut libc::pollfd, count: libc::nfds_t, timeout: c_int) -> c_int {
    let limit = u64::try_from(timeout).ok().map(Duration::from_millis);
    // SAFETY: the program's array has as many.
    args![count, timeout].number(|| unsafe { sets::poll(fds, count, |all| wait(all, limit)) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exs_sync_select(
    count: c_int,
    readable: *mut libc::fd_set,
    writable: *mut libc::fd_set,
    exceptional: *mut libc::fd_set,
    timeout: *mut libc::timeval,
) -> c_int {
    // SAFETY: null, or sets and a time of the program's.
    args![count].number(|| unsafe { sets::select(count, [readable, writable, exceptional], timeout, wait) })
}

/// Waits for sockets and descriptors, and returns the events that were found.
fn wait(all: &[sets::Asked], timeout: Option<Duration>) -> Outcome<Vec<PollFlags>> {
    let polled = |&(number, events): &sets::Asked| {
        // SAFETY: poll(2) reports a number that is no descriptor as POLLNVAL. Nothing else is done to it.
        let fd = (number >= 0).then(|| unsafe { BorrowedFd::borrow_raw(number) });
        Polled { fd, socket: process().exs.socket(number).ok(), events, ready: PollFlags::empty() }
    };
    let mut all: Vec<Polled<'_>> = all.iter().map(polled).collect();
    poll(&mut all, timeout)?;
    Ok(all.iter().map(|one| one.ready).collect())
}
