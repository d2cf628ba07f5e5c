//! The C library's streams move octets past the hooks: a socket that gets one stays on TCP.
#![allow(unsafe_code)]

use core::ffi::{c_char, c_int};

use libc::FILE;

use crate::real::Next;
use crate::{closing, life};

hooks! {
    fn fdopen(descriptor: c_int, mode: *const c_char) -> *mut FILE {
        life::given_to_stdio(descriptor);
        let next: Option<unsafe extern "C" fn(c_int, *const c_char) -> *mut FILE> =
            // SAFETY: the C library's function has this type.
            unsafe { core::mem::transmute(FDOPEN.find()) };
        // SAFETY: as in the program's call.
        next.map_or(core::ptr::null_mut(), |next| unsafe { next(descriptor, mode) })
    }

    fn freopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE {
        // SAFETY: the program's stream.
        unsafe { forget(stream) };
        let next: Option<unsafe extern "C" fn(*const c_char, *const c_char, *mut FILE) -> *mut FILE> =
            // SAFETY: the C library's function has this type.
            unsafe { core::mem::transmute(FREOPEN.find()) };
        // SAFETY: as in the program's call.
        next.map_or(core::ptr::null_mut(), |next| unsafe { next(path, mode, stream) })
    }

    fn fclose(stream: *mut FILE) -> c_int {
        // SAFETY: the program's stream.
        unsafe { forget(stream) };
        let next: Option<unsafe extern "C" fn(*mut FILE) -> c_int> =
            // SAFETY: the C library's function has this type.
            unsafe { core::mem::transmute(FCLOSE.find()) };
        // SAFETY: as in the program's call.
        next.map_or(libc::EOF, |next| unsafe { next(stream) })
    }
}

/// Forgets the descriptor of a stream that is about to be closed.
///
/// # Safety
/// The stream is open.
unsafe fn forget(stream: *mut FILE) {
    // SAFETY: each thread has an `errno`. A stream without a descriptor changes it.
    let error = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *error };
    // SAFETY: as the caller promises.
    closing::close(unsafe { libc::fileno(stream) });
    // SAFETY: as above.
    unsafe { *error = before };
}

/// Prepares a descriptor for a print, and returns where the C library's function is.
macro_rules! prints {
    ($($name:ident, $target:ident, $symbol:ident;)+) => {$(
        extern "C" fn $target(descriptor: c_int) -> *mut core::ffi::c_void {
            static NEXT: Next = Next::new($symbol);
            life::given_to_stdio(descriptor);
            NEXT.find()
        }

        /// Jumps to the C library's function with all arguments as they are, since their number is not known.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push rax",
                "sub rsp, 128",
                "movups [rsp], xmm0", "movups [rsp + 16], xmm1", "movups [rsp + 32], xmm2",
                "movups [rsp + 48], xmm3", "movups [rsp + 64], xmm4", "movups [rsp + 80], xmm5",
                "movups [rsp + 96], xmm6", "movups [rsp + 112], xmm7",
                "call {target}",
                "mov r11, rax",
                "movups xmm0, [rsp]", "movups xmm1, [rsp + 16]", "movups xmm2, [rsp + 32]",
                "movups xmm3, [rsp + 48]", "movups xmm4, [rsp + 64]", "movups xmm5, [rsp + 80]",
                "movups xmm6, [rsp + 96]", "movups xmm7, [rsp + 112]",
                "add rsp, 128",
                "pop rax", "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
                "jmp r11",
                target = sym $target,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                "stp x29, x30, [sp, #-16]!",
                "stp x0, x1, [sp, #-16]!", "stp x2, x3, [sp, #-16]!",
                "stp x4, x5, [sp, #-16]!", "stp x6, x7, [sp, #-16]!",
                "stp q0, q1, [sp, #-32]!", "stp q2, q3, [sp, #-32]!",
                "stp q4, q5, [sp, #-32]!", "stp q6, q7, [sp, #-32]!",
                "bl {target}",
                "mov x16, x0",
                "ldp q6, q7, [sp], #32", "ldp q4, q5, [sp], #32",
                "ldp q2, q3, [sp], #32", "ldp q0, q1, [sp], #32",
                "ldp x6, x7, [sp], #16", "ldp x4, x5, [sp], #16",
                "ldp x2, x3, [sp], #16", "ldp x0, x1, [sp], #16",
                "ldp x29, x30, [sp], #16",
                "br x16",
                target = sym $target,
            );
        }
    )+};
}

prints! {
    dprintf, before_dprintf, DPRINTF;
    vdprintf, before_vdprintf, VDPRINTF;
    __dprintf_chk, before_dprintf_chk, DPRINTF_CHK;
    __vdprintf_chk, before_vdprintf_chk, VDPRINTF_CHK;
}

static FDOPEN: Next = Next::new(c"fdopen");
static FREOPEN: Next = Next::new(c"freopen");
static FCLOSE: Next = Next::new(c"fclose");
const DPRINTF: &core::ffi::CStr = c"dprintf";
const VDPRINTF: &core::ffi::CStr = c"vdprintf";
const DPRINTF_CHK: &core::ffi::CStr = c"__dprintf_chk";
const VDPRINTF_CHK: &core::ffi::CStr = c"__vdprintf_chk";
