//! The process changes its rights, or its place in the system.
#![allow(unsafe_code)]

use core::ffi::c_int;

use libc::uid_t;
use weft_sockets::Reason;

use crate::boundary::answer_int;
use crate::real::{Next, kernel};
use crate::rights;

hooks! {
    fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
        if option == libc::PR_SET_SECCOMP {
            rights::retire(Reason::Seccomp);
        }
        // SAFETY: the program's own call.
        answer_int(unsafe { kernel!(SYS_prctl, option, a, b, c, d) })
    }

    fn setuid(user: uid_t) -> c_int {
        // SAFETY: the C library's function has this type.
        let next: Option<unsafe extern "C" fn(uid_t) -> c_int> = unsafe { core::mem::transmute(SETUID.find()) };
        // SAFETY: any number may be given.
        rights::changed_user(next.map_or(-1, |next| unsafe { next(user) }))
    }

    fn setreuid(real: uid_t, effective: uid_t) -> c_int {
        // SAFETY: the C library's function has this type.
        let next: Option<unsafe extern "C" fn(uid_t, uid_t) -> c_int> =
            unsafe { core::mem::transmute(SETREUID.find()) };
        // SAFETY: any numbers may be given.
        rights::changed_user(next.map_or(-1, |next| unsafe { next(real, effective) }))
    }

    fn setresuid(real: uid_t, effective: uid_t, saved: uid_t) -> c_int {
        // SAFETY: the C library's function has this type.
        let next: Option<unsafe extern "C" fn(uid_t, uid_t, uid_t) -> c_int> =
            unsafe { core::mem::transmute(SETRESUID.find()) };
        // SAFETY: any numbers may be given.
        rights::changed_user(next.map_or(-1, |next| unsafe { next(real, effective, saved) }))
    }

    fn unshare(flags: c_int) -> c_int {
        // SAFETY: the program's own call.
        let result = unsafe { kernel!(SYS_unshare, flags) };
        if result == 0 && flags & libc::CLONE_NEWNET != 0 {
            rights::changed_network();
        }
        answer_int(result)
    }

    fn setns(place: c_int, kind: c_int) -> c_int {
        // SAFETY: the program's own call.
        let result = unsafe { kernel!(SYS_setns, place, kind) };
        if result == 0 && (kind == 0 || kind & libc::CLONE_NEWNET != 0) {
            rights::changed_network();
        }
        answer_int(result)
    }
}

static SETUID: Next = Next::new(c"setuid");
static SETREUID: Next = Next::new(c"setreuid");
static SETRESUID: Next = Next::new(c"setresuid");
