//! Calls that wait for descriptors by lists.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_ulong};
use core::slice;

use libc::{fd_set, nfds_t, pollfd, sigset_t, size_t, timespec, timeval};

use crate::boundary::answer_int;
use crate::calls::Signals;
use crate::poll;
use crate::real::point;
use crate::select::Sets;
use crate::{strict, table};

/// Makes the list of a program a slice. An impossible one is for the kernel to refuse.
///
/// # Safety
/// So many items can be read and written.
unsafe fn list<'a>(items: *mut pollfd, count: nfds_t) -> Option<&'a mut [pollfd]> {
    let count =
        usize::try_from(count).ok().filter(|&count| count <= MOST && (count == 0 || !items.is_null()))?;
    if !strict::is_readable(items, count) {
        return None;
    }
    // SAFETY: as the caller promises.
    Some(if count == 0 { &mut [] } else { unsafe { slice::from_raw_parts_mut(items, count) } })
}

/// Makes a set of `select` a slice of words.
///
/// # Safety
/// The set is null, or has words for `limit` descriptors.
unsafe fn set<'a>(set: *mut fd_set, limit: c_int) -> Option<&'a mut [u64]> {
    let words = usize::try_from(limit).ok()?.div_ceil(64);
    // SAFETY: as the caller promises.
    (!set.is_null()).then(|| unsafe { slice::from_raw_parts_mut(set.cast(), words) })
}

/// Reads what a program points to, unless it is null.
///
/// # Safety
/// The pointer is null or can be read.
unsafe fn read<T: Copy>(pointer: *const T) -> Option<T> {
    // SAFETY: as the caller promises.
    (!pointer.is_null()).then(|| unsafe { *pointer })
}

hooks! {
    fn poll(items: *mut pollfd, count: nfds_t, milliseconds: c_int) -> c_int {
        #[cfg(target_arch = "x86_64")]
        if !table::is_open() {
            // SAFETY: the program's own call.
            return answer_int(unsafe { point!(SYS_poll, items, count, milliseconds) });
        }
        let limit = u64::try_from(milliseconds).ok().map(|milliseconds| crate::clock::span(milliseconds * 1_000_000));
        let limit_pointer = limit.as_ref().map_or(core::ptr::null(), |limit| &raw const *limit);
        // SAFETY: the program's own arguments.
        unsafe { ppoll(items, count, limit_pointer, core::ptr::null()) }
    }

    fn __poll(items: *mut pollfd, count: nfds_t, milliseconds: c_int) -> c_int {
        // SAFETY: the program's own call.
        unsafe { poll(items, count, milliseconds) }
    }

    fn ppoll(items: *mut pollfd, count: nfds_t, limit: *const timespec, mask: *const sigset_t) -> c_int {
        // SAFETY: the limit is null or can be read.
        let limit_value = unsafe { read(limit) };
        // SAFETY: the C library's sets of signals begin with the kernel's.
        let mask_value = unsafe { read(mask.cast::<Signals>()) };
        // SAFETY: the program's own items.
        let Some(items) = (unsafe { list(items, count) }).filter(|_| poll::is_valid(limit_value)) else {
            // SAFETY: the program's own call, which the kernel refuses.
            return answer_int(unsafe { point!(SYS_ppoll, items, count, limit, mask, size_of::<Signals>()) });
        };
        answer_int(poll::wait(items, limit_value, mask_value))
    }

    fn __poll_chk(items: *mut pollfd, count: nfds_t, milliseconds: c_int, len: size_t) -> c_int {
        // SAFETY: the program's own call.
        unsafe {
            check(count, len);
            poll(items, count, milliseconds)
        }
    }

    fn __ppoll_chk(
        items: *mut pollfd,
        count: nfds_t,
        limit: *const timespec,
        mask: *const sigset_t,
        len: size_t,
    ) -> c_int {
        // SAFETY: the program's own call.
        unsafe {
            check(count, len);
            ppoll(items, count, limit, mask)
        }
    }

    fn select(
        limit: c_int,
        read_set: *mut fd_set,
        write_set: *mut fd_set,
        except_set: *mut fd_set,
        time: *mut timeval,
    ) -> c_int {
        // SAFETY: the time is null or can be read.
        let span = match unsafe { read(time) } {
            Some(time) if time.tv_sec < 0 || time.tv_usec < 0 => return answer_int(-libc::EINVAL as isize),
            Some(time) => {
                let (more, rest) = (time.tv_usec / 1_000_000, time.tv_usec % 1_000_000);
                Some(timespec { tv_sec: time.tv_sec.saturating_add(more), tv_nsec: rest * 1000 })
            }
            None => None,
        };
        if !table::is_open() {
            let mut span = span;
            let left = span.as_mut().map_or(core::ptr::null_mut(), |span| &raw mut *span);
            // SAFETY: the program's own sets.
            let result = unsafe { point!(SYS_pselect6, limit, read_set, write_set, except_set, left, 0) };
            if let Some(left) = span {
                // SAFETY: the program's own time, which Linux changes.
                unsafe { *time = timeval { tv_sec: left.tv_sec, tv_usec: left.tv_nsec / 1000 } };
            }
            return answer_int(result);
        }
        // SAFETY: the program's own sets.
        let sets = unsafe { [read_set, write_set, except_set].map(|words| set(words, limit)) };
        let (result, left) = poll::select(limit, &mut Sets { sets }, span, None);
        if let Some(left) = left && !time.is_null() {
            // SAFETY: the program's own time, which Linux changes.
            unsafe { *time = timeval { tv_sec: left.tv_sec, tv_usec: left.tv_nsec / 1000 } };
        }
        answer_int(result)
    }

    fn __select(
        limit: c_int,
        read_set: *mut fd_set,
        write_set: *mut fd_set,
        except_set: *mut fd_set,
        time: *mut timeval,
    ) -> c_int {
        // SAFETY: the program's own call.
        unsafe { select(limit, read_set, write_set, except_set, time) }
    }

    fn pselect(
        limit: c_int,
        read_set: *mut fd_set,
        write_set: *mut fd_set,
        except_set: *mut fd_set,
        time: *const timespec,
        mask: *const sigset_t,
    ) -> c_int {
        // SAFETY: the time is null or can be read.
        let mut span = unsafe { read(time) };
        if !table::is_open() {
            let left = span.as_mut().map_or(core::ptr::null_mut(), |span| &raw mut *span);
            let mask = [mask as usize, size_of::<Signals>()];
            // SAFETY: the program's own sets and mask.
            return answer_int(unsafe {
                point!(SYS_pselect6, limit, read_set, write_set, except_set, left, mask.as_ptr())
            });
        }
        if !poll::is_valid(span) {
            return answer_int(-libc::EINVAL as isize);
        }
        // SAFETY: the C library's sets of signals begin with the kernel's.
        let mask = unsafe { read(mask.cast::<Signals>()) };
        // SAFETY: the program's own sets.
        let sets = unsafe { [read_set, write_set, except_set].map(|words| set(words, limit)) };
        answer_int(poll::select(limit, &mut Sets { sets }, span, mask).0)
    }
}

/// Ends the program if its list is longer than the memory behind it.
///
/// # Safety
/// None is needed: the C library's function returns never.
unsafe fn check(count: c_ulong, len: size_t) {
    if usize::try_from(count).is_ok_and(|count| len / size_of::<pollfd>() >= count) {
        return;
    }
    // SAFETY: this function of the C library takes nothing and never returns.
    unsafe { __chk_fail() };
}

unsafe extern "C" {
    fn __chk_fail() -> !;
}

/// Longer lists are no program's.
const MOST: usize = 1 << 22;
