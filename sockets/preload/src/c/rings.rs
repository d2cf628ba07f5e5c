//! A filter of system calls that leaves the program without io_uring, whose octets no hook sees.
#![allow(unsafe_code)]

use core::ffi::c_int;

use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter, sock_fprog};

use crate::real::kernel;

/// Makes the kernel answer `io_uring_setup` as one without io_uring does. No program can undo that, and none that comes
/// from this one can gain rights by exec.
pub(super) fn forbid() {
    let load = |at: u32| rule(BPF_LD | BPF_W | BPF_ABS, 0, 0, at);
    // Goes on if it is this value, else over so many rules.
    let only = |value: u32, over: u8| rule(BPF_JMP | BPF_JEQ | BPF_K, 0, over, value);
    let answer = |answer: u32| rule(BPF_RET | BPF_K, 0, 0, answer);
    let number = |number: libc::c_long| number as u32;
    let mut rules = [
        load(ARCHITECTURE_AT),
        only(ARCHITECTURE, 7),
        load(NUMBER_AT),
        only(number(libc::SYS_io_uring_setup), 1),
        answer(libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        only(number(libc::SYS_close), 3),
        load(ARGUMENT_AT),
        only(QUESTION as u32, 1),
        answer(libc::SECCOMP_RET_ERRNO | ANSWER as u32),
        answer(libc::SECCOMP_RET_ALLOW),
    ];
    let program = sock_fprog { len: rules.len() as u16, filter: rules.as_mut_ptr() };
    // SAFETY: the call touches no memory.
    unsafe { kernel!(SYS_prctl, libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    // SAFETY: the kernel reads the rules.
    unsafe { kernel!(SYS_prctl, libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
}

/// True if the filter is there. A program that replaces another one asks by a call that the loader has made before.
pub(super) fn are_forbidden() -> bool {
    // SAFETY: no descriptor has this number.
    unsafe { kernel!(SYS_close, QUESTION) == -(ANSWER as isize) }
}

fn rule(code: u32, then: u8, otherwise: u8, value: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: then, jf: otherwise, k: value }
}

/// Where `struct seccomp_data` has the number of the call, the architecture and the low half of the first argument.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const ARGUMENT_AT: u32 = 16;
/// `AUDIT_ARCH_X86_64`, `AUDIT_ARCH_AARCH64`
const ARCHITECTURE: u32 = if cfg!(target_arch = "x86_64") { 0xc000_003e } else { 0xc000_00b7 };
/// A descriptor that nobody closes, and the error that the filter has for it.
const QUESTION: c_int = 0x5765_6674;
const ANSWER: c_int = 3719;
