//! Processes that come from this one.
#![allow(unsafe_code)]

use core::ffi::c_int;

use libc::pid_t;

use crate::boundary::answer_int;
use crate::fork;
use crate::real::Next;

hooks! {
    fn fork() -> pid_t {
        // SAFETY: the C library's function has this type.
        unsafe { fork_by(&FORK) }
    }

    fn _Fork() -> pid_t {
        // SAFETY: as above.
        let process = unsafe { fork_by(&PLAIN_FORK) };
        if process == 0 {
            // It runs no handlers.
            fork::child();
        }
        process
    }

    fn daemon(stays_in_folder: c_int, keeps_output: c_int) -> c_int {
        // SAFETY: any numbers may be given.
        match unsafe { fork() } {
            0 => {}
            -1 => return -1,
            // SAFETY: the parent's life ends here, as in the C library.
            _ => unsafe { libc::_exit(0) },
        }
        let _session = rustix::process::setsid();
        if stays_in_folder == 0 {
            let _moved = rustix::process::chdir(c"/");
        }
        if keeps_output == 0 {
            // SAFETY: the path ends with a zero, and each number may be given.
            unsafe {
                let null = super::life::open(c"/dev/null".as_ptr(), libc::O_RDWR, 0);
                if null < 0 {
                    return -1;
                }
                for descriptor in 0..3 {
                    super::life::dup2(null, descriptor);
                }
                if null > 2 {
                    super::life::close(null);
                }
            }
        }
        0
    }
}

/// Registers what runs in each child.
pub(super) fn register() {
    extern "C" fn child() {
        fork::child();
    }
    // SAFETY: the function is there as long as the library, which is never unloaded. Without memory for the entry,
    // children stay out of the table by `fork::is_guest`.
    let _no_memory = unsafe { libc::pthread_atfork(None, None, Some(child)) };
}

/// Forks by a function of the C library.
///
/// # Safety
/// The function has no arguments and returns a process id.
unsafe fn fork_by(next: &Next) -> pid_t {
    // SAFETY: as the caller promises.
    let next: Option<unsafe extern "C" fn() -> pid_t> = unsafe { core::mem::transmute(next.find()) };
    let Some(next) = next else { return answer_int(-(libc::ENOSYS as isize)) };
    fork::prepare();
    // SAFETY: as the caller promises.
    let process = unsafe { next() };
    if process != 0 {
        fork::parent(process > 0);
    }
    process
}

extern "C" fn begin_vfork() {
    fork::begin_vfork();
}

extern "C" fn end_vfork(result: isize) -> pid_t {
    fork::end_vfork();
    answer_int(result)
}

/// Its child runs on the parent's stack, below this frame: the address to return to must be in a register, and nothing
/// else may be on the stack.
#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn vfork() -> pid_t {
    core::arch::naked_asm!(
        "sub rsp, 8",
        "call {begin}",
        "add rsp, 8",
        "pop rdi",
        "mov eax, {number}",
        "syscall",
        "push rdi",
        "test rax, rax",
        "jz 2f",
        "mov rdi, rax",
        "sub rsp, 8",
        "call {end}",
        "add rsp, 8",
        "2:",
        "ret",
        begin = sym begin_vfork,
        end = sym end_vfork,
        number = const libc::SYS_vfork,
    )
}

/// As above: `clone` with `CLONE_VM`, `CLONE_VFORK` and `SIGCHLD`.
#[cfg(target_arch = "aarch64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn vfork() -> pid_t {
    core::arch::naked_asm!(
        "stp x29, x30, [sp, #-16]!",
        "bl {begin}",
        "ldp x29, x30, [sp], #16",
        "mov x0, #0x4111",
        "mov x1, #0",
        "mov x8, {number}",
        "svc #0",
        "cbz x0, 2f",
        "stp x29, x30, [sp, #-16]!",
        "bl {end}",
        "ldp x29, x30, [sp], #16",
        "2:",
        "ret",
        begin = sym begin_vfork,
        end = sym end_vfork,
        number = const libc::SYS_clone,
    )
}

/// The alias of [`vfork`].
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn __vfork() -> pid_t {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!("jmp {vfork}", vfork = sym vfork);
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!("b {vfork}", vfork = sym vfork);
}

static FORK: Next = Next::new(c"fork");
static PLAIN_FORK: Next = Next::new(c"_Fork");
