//! Jumps out of signal handlers: the section that a handler has interrupted does not go on.
#![allow(unsafe_code)]

use core::ffi::c_void;

use crate::jump;
use crate::real::Next;

/// Exports functions that jump. The arguments are handed on as they are.
macro_rules! jumps {
    ($($name:ident, $prepare:ident, $symbol:literal;)+) => {$(
        extern "C" fn $prepare() -> *mut c_void {
            static NEXT: Next = Next::new($symbol);
            jump::abandon();
            NEXT.find()
        }

        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                "push rdi", "push rsi", "sub rsp, 8",
                "call {prepare}",
                "add rsp, 8", "pop rsi", "pop rdi",
                "jmp rax",
                prepare = sym $prepare,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                "stp x29, x30, [sp, #-16]!", "stp x0, x1, [sp, #-16]!",
                "bl {prepare}",
                "mov x16, x0",
                "ldp x0, x1, [sp], #16", "ldp x29, x30, [sp], #16",
                "br x16",
                prepare = sym $prepare,
            );
        }
    )+};
}

jumps! {
    longjmp, before_longjmp, c"longjmp";
    _longjmp, before_plain_longjmp, c"_longjmp";
    siglongjmp, before_siglongjmp, c"siglongjmp";
    __longjmp_chk, before_longjmp_chk, c"__longjmp_chk";
}
