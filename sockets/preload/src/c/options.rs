//! Options of sockets.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

use libc::socklen_t;

use crate::boundary::answer_int;
use crate::real::kernel;
use crate::{handover, life};

hooks! {
    fn setsockopt(
        descriptor: c_int,
        level: c_int,
        name: c_int,
        value: *const c_void,
        len: socklen_t,
    ) -> c_int {
        handover::set_option(descriptor, level, name);
        // SAFETY: the program's own call.
        let result = unsafe { kernel!(SYS_setsockopt, descriptor, level, name, value, len) };
        if result == 0 && (level, name) == (libc::SOL_SOCKET, libc::SO_RCVLOWAT) {
            life::narrowed(descriptor);
        }
        answer_int(result)
    }
}
