//! Processes that come from this one.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_long, c_void};

use libc::pid_t;

use crate::boundary::answer_int;
use crate::fork;
use crate::guest;
use crate::real::{self, Arguments, Next};

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

    fn clone(
        function: *mut c_void,
        stack: *mut c_void,
        flags: c_int,
        argument: *mut c_void,
        parent: *mut pid_t,
        local: *mut c_void,
        child: *mut pid_t,
    ) -> c_int {
        // SAFETY: the C library's function has this type. What the caller did not give is not used.
        let Some(next) = (unsafe { core::mem::transmute::<*mut c_void, Option<Clone>>(CLONE.find()) }) else {
            return answer_int(-(libc::ENOSYS as isize));
        };
        if flags & libc::CLONE_VM == 0 {
            let mut start = Start { function, argument };
            fork::prepare();
            // SAFETY: as in the program's call. The child has a copy of `start`.
            let process = unsafe {
                next(begin_child as *mut c_void, stack, flags, (&raw mut start).cast(), parent, local, child)
            };
            fork::parent(process as isize);
            return process;
        }
        let is_guest = flags & (libc::CLONE_VM | libc::CLONE_THREAD) == libc::CLONE_VM;
        if is_guest {
            guest::begin();
        }
        // SAFETY: as in the program's call.
        let process = unsafe { next(function, stack, flags, argument, parent, local, child) };
        if is_guest && (flags & libc::CLONE_VFORK != 0 || process < 0) {
            guest::end();
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

/// What a child of `clone` runs.
struct Start {
    function: *mut c_void,
    argument: *mut c_void,
}

/// Runs first in a child of `clone`.
unsafe extern "C" fn begin_child(start: *mut c_void) -> c_int {
    fork::child();
    // SAFETY: `clone` gives a `Start`, with the program's function in it.
    unsafe {
        let Start { function, argument } = &*start.cast::<Start>();
        let function: Option<unsafe extern "C" fn(*mut c_void) -> c_int> = core::mem::transmute(*function);
        function.map_or(0, |function| function(*argument))
    }
}

/// The type of `clone`.
type Clone = unsafe extern "C" fn(
    *mut c_void,
    *mut c_void,
    c_int,
    *mut c_void,
    *mut pid_t,
    *mut c_void,
    *mut pid_t,
) -> c_int;

/// Forks by a bare system call.
///
/// # Safety
/// The call makes a process with a copy of this one's memory, on the same stack.
pub(super) unsafe fn fork_by_number(number: c_long, arguments: Arguments) -> isize {
    fork::prepare();
    // SAFETY: as the caller promises.
    let process = unsafe { real::call(number, arguments) };
    if process == 0 {
        fork::child();
    } else {
        fork::parent(process);
    }
    process
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
        fork::parent(process as isize);
    }
    process
}

extern "C" fn begin_vfork() {
    guest::begin();
}

extern "C" fn end_vfork(result: isize) -> pid_t {
    guest::end();
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

static CLONE: Next = Next::new(c"clone");
static FORK: Next = Next::new(c"fork");
static PLAIN_FORK: Next = Next::new(c"_Fork");
