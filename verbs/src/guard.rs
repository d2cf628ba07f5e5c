//! The guard of registered memory: an access to memory that the program has taken away is an error of that access, not
//! the end of the process.
//!
//! It is a handler of SIGSEGV and SIGBUS in front of those of the program. It handles faults in the functions of
//! [`copy`](crate::copy) only. It passes all other signals on as if it were not there.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::mem::{MaybeUninit, transmute};
use core::ptr::{null, null_mut};
use std::sync::{Once, OnceLock};

use crate::copy::machine;

/// Installs the guard, once in a process. Handlers that the program has at that moment stay in force behind it. A
/// handler that the program installs later takes the guard's place, unless it passes unknown signals on.
///
/// Does nothing on machines other than x86-64.
pub fn guard_memory() {
    static INSTALLED: Once = Once::new();
    if machine::IS_GUARDED {
        INSTALLED.call_once(|| {
            SIGNALS.into_iter().zip(&BEFORE).for_each(|(signal, before)| step_in(signal, before))
        });
    }
}

/// Takes the place of the present handler. Its mask and flags stay those of the signal, so that it runs as before.
fn step_in(signal: c_int, before: &OnceLock<libc::sigaction>) {
    let mut present = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: the struct is this function's own, and initialized if the call says so; nothing is changed.
    let present = unsafe {
        if libc::sigaction(signal, null(), present.as_mut_ptr()) != 0 {
            return;
        }
        *before.get_or_init(|| present.assume_init())
    };
    let mut ours = present;
    ours.sa_sigaction = handle as *const () as usize;
    // SA_RESETHAND would take the guard away, so that `pass_on` sees to it.
    ours.sa_flags = libc::SA_SIGINFO
        | if has_handler(&present) {
            present.sa_flags & !libc::SA_RESETHAND
        } else {
            libc::SA_ONSTACK | libc::SA_RESTART
        };
    // SAFETY: `handle` is a handler for SA_SIGINFO, and calls nothing that a handler must not call.
    unsafe { libc::sigaction(signal, &raw const ours, null_mut()) };
}

/// Handles the signal. It runs in the thread that has faulted, or in any other if the signal was sent.
unsafe extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives a handler for SA_SIGINFO both structs, for as long as it runs.
    unsafe {
        let code = (*info).si_code;
        // Sent signals have no positive code; an asynchronous machine check is for no access in particular.
        let is_fault = code > 0 && (signal, code) != (libc::SIGBUS, BUS_MCEERR_AO);
        if !(is_fault && machine::resume(&mut *context.cast())) {
            pass_on(signal, info, context);
        }
    }
}

/// Does what would have happened without the guard.
///
/// # Safety
/// As for a handler for SA_SIGINFO.
unsafe fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let before = SIGNALS.into_iter().zip(&BEFORE).find(|(known, _)| *known == signal);
    let Some(before) = before.and_then(|(_, before)| before.get()) else { return };
    // SAFETY: the structs are the kernel's, as the caller promises. The address of a handler is a function of C that
    // takes three arguments with SA_SIGINFO and one without.
    unsafe {
        if !has_handler(before) {
            // A fault cannot be ignored.
            if before.sa_sigaction == libc::SIG_IGN && (*info).si_code <= 0 {
                return;
            }
            reset(signal);
            // It is blocked until this handler returns, and then ends the process with what the kernel has told of it.
            let (process, thread) = (libc::getpid(), libc::gettid());
            libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, signal, info);
            return;
        }
        if before.sa_flags & libc::SA_RESETHAND != 0 {
            reset(signal);
        }
        if before.sa_flags & libc::SA_SIGINFO != 0 {
            let handler: unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                transmute(before.sa_sigaction);
            handler(signal, info, context);
        } else {
            let handler: unsafe extern "C" fn(c_int) = transmute(before.sa_sigaction);
            handler(signal);
        }
    }
}

/// Gives a signal its default action.
fn reset(signal: c_int) {
    // SAFETY: all-zero octets are a valid sigaction, that of the default action with an empty mask.
    unsafe {
        let default: libc::sigaction = core::mem::zeroed();
        libc::sigaction(signal, &raw const default, null_mut());
    }
}

fn has_handler(action: &libc::sigaction) -> bool {
    ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction)
}

/// What an access to memory that is not there, or to a page behind the end of a mapped file, raises.
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];
/// What was in force when the guard was installed.
static BEFORE: [OnceLock<libc::sigaction>; 2] = [const { OnceLock::new() }; 2];
/// The code of a memory error that was not read yet (sigaction(2)).
const BUS_MCEERR_AO: c_int = 5;
