//! Options of sockets.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

use libc::{SO_RCVBUF, SO_RCVBUFFORCE, SO_SNDBUF, SO_SNDBUFFORCE, socklen_t};

use crate::boundary::answer_int;
use crate::real::kernel;
use crate::{handover, info, life};

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
        // SAFETY: the kernel has read so many octets there.
        let number = || unsafe { value.cast::<c_int>().read_unaligned() };
        match (result, level, name) {
            (0, libc::SOL_SOCKET, libc::SO_RCVLOWAT) => life::narrowed(descriptor),
            (0, libc::SOL_SOCKET, SO_SNDBUF | SO_RCVBUF | SO_SNDBUFFORCE | SO_RCVBUFFORCE) if number() > LARGE => {
                life::widened(descriptor);
            }
            _ => {}
        }
        answer_int(result)
    }

    fn getsockopt(
        descriptor: c_int,
        level: c_int,
        name: c_int,
        value: *mut c_void,
        len: *mut socklen_t,
    ) -> c_int {
        // SAFETY: the program's own call.
        let result = unsafe { kernel!(SYS_getsockopt, descriptor, level, name, value, len) };
        if result == 0 && matches!((level, name), ERROR | INFO) {
            // SAFETY: the kernel has filled so many octets, and may have been given no place for none.
            let octets = || unsafe { core::slice::from_raw_parts_mut(value.cast(), *len as usize) };
            let octets: &mut [u8] = if value.is_null() { &mut [] } else { octets() };
            match (level, name) {
                ERROR if octets.iter().any(|octet| *octet != 0) => life::failed(descriptor),
                ERROR => {}
                _ => info::complete(descriptor, octets),
            }
        }
        answer_int(result)
    }
}

/// Programs that ask for larger buffers get larger rings.
const LARGE: c_int = 1 << 20;
const ERROR: (c_int, c_int) = (libc::SOL_SOCKET, libc::SO_ERROR);
const INFO: (c_int, c_int) = (libc::IPPROTO_TCP, libc::TCP_INFO);
