//! Calls that wait for descriptors by sets.
#![allow(unsafe_code)]

use core::ffi::c_int;
use core::slice;

use libc::{epoll_event, sigset_t, timespec};

use crate::boundary::answer_int;
use crate::calls::Signals;
use crate::clock;
use crate::real::{kernel, point};
use crate::{control, epoll, poll, sets, strict, table, upgrade};

/// Enters a set that the kernel has made, if it has.
fn made(result: isize) -> c_int {
    if let Ok(descriptor @ 0..) = c_int::try_from(result) {
        sets::enter(descriptor);
    }
    answer_int(result)
}

/// Waits with the program's own arguments.
///
/// # Safety
/// So many events can be written, and the mask is null or can be read.
unsafe fn wait(
    set: c_int,
    events: *mut epoll_event,
    count: c_int,
    span: Option<timespec>,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the C library's sets of signals begin with the kernel's.
    let mask = (!mask.is_null()).then(|| unsafe { *mask.cast::<Signals>() });
    if !strict::is_readable(events, 1) {
        return answer_int(-(libc::EFAULT as isize));
    }
    let count = usize::try_from(count).ok().filter(|count| (1..=MOST).contains(count) && !events.is_null());
    let (Some(count), true) = (count, poll::is_valid(span)) else {
        // SAFETY: the kernel refuses this number of events.
        return answer_int(unsafe { kernel!(SYS_epoll_pwait, set, events, 0, 0, 0, 0) });
    };
    // SAFETY: as the caller promises.
    answer_int(epoll::wait(set, unsafe { slice::from_raw_parts_mut(events, count) }, span, mask))
}

hooks! {
    fn epoll_create(size: c_int) -> c_int {
        if size <= 0 {
            return answer_int(-(libc::EINVAL as isize));
        }
        // SAFETY: the call takes no memory.
        #[cfg(target_arch = "x86_64")]
        let result = unsafe { kernel!(SYS_epoll_create, size) };
        // SAFETY: as above.
        #[cfg(not(target_arch = "x86_64"))]
        let result = unsafe { kernel!(SYS_epoll_create1, 0) };
        made(result)
    }

    fn epoll_create1(flags: c_int) -> c_int {
        // SAFETY: the program's own call.
        made(unsafe { kernel!(SYS_epoll_create1, flags) })
    }

    fn epoll_ctl(set: c_int, operation: c_int, descriptor: c_int, event: *mut epoll_event) -> c_int {
        if operation != libc::EPOLL_CTL_DEL && (event.is_null() || !strict::is_readable(event, 1)) {
            // SAFETY: the program's own call, which the kernel refuses.
            return answer_int(unsafe { kernel!(SYS_epoll_ctl, set, operation, descriptor, event) });
        }
        // SAFETY: the event is null or can be read. It is not read for a removal.
        let event = (operation != libc::EPOLL_CTL_DEL).then(|| unsafe { event.read_unaligned() });
        let event = event.map(|event| (event.events, event.u64));
        let result = control::control(set, operation, descriptor, event);
        if result == 0 && operation == libc::EPOLL_CTL_ADD {
            upgrade::greet(descriptor);
        }
        answer_int(result)
    }

    fn epoll_wait(set: c_int, events: *mut epoll_event, count: c_int, milliseconds: c_int) -> c_int {
        #[cfg(target_arch = "x86_64")]
        if !table::is_open() {
            // SAFETY: the program's own call.
            return answer_int(unsafe { point!(SYS_epoll_wait, set, events, count, milliseconds) });
        }
        // SAFETY: the program's own call.
        unsafe { epoll_pwait(set, events, count, milliseconds, core::ptr::null()) }
    }

    fn epoll_pwait(
        set: c_int,
        events: *mut epoll_event,
        count: c_int,
        milliseconds: c_int,
        mask: *const sigset_t,
    ) -> c_int {
        if !table::is_open() {
            let len = size_of::<Signals>();
            // SAFETY: the program's own call.
            return answer_int(unsafe { point!(SYS_epoll_pwait, set, events, count, milliseconds, mask, len) });
        }
        let span = u64::try_from(milliseconds).ok().map(|milliseconds| clock::span(milliseconds * 1_000_000));
        // SAFETY: the program's own call.
        unsafe { wait(set, events, count, span, mask) }
    }

    fn epoll_pwait2(
        set: c_int,
        events: *mut epoll_event,
        count: c_int,
        span: *const timespec,
        mask: *const sigset_t,
    ) -> c_int {
        // SAFETY: the span is null or can be read.
        let span = (!span.is_null()).then(|| unsafe { *span });
        // SAFETY: the program's own call.
        unsafe { wait(set, events, count, span, mask) }
    }
}

/// More events than the kernel takes.
const MOST: usize = i32::MAX as usize / size_of::<epoll_event>();
