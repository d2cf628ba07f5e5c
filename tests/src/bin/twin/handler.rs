//! A signal handler of an agent, which makes one call on a connection.

#![allow(unsafe_code, reason = "the calls of C programs, which a preloaded library takes")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use crate::calls::{Returned, returned};
use crate::stream;

/// What the handler does once: a call by this descriptor.
struct Task {
    is_send: bool,
    fd: i32,
    octets: Vec<u8>,
}

/// Has the next signal handled by a send or a receive, and returns this process's number. With `restarts`, interrupted
/// calls go on: `[len, stream, position]`.
pub(crate) fn handle(how: &str, restarts: bool, fd: i32, [len, stream, position]: [i64; 3]) -> Returned {
    let octets = stream::pieces(stream, position as u64, &[len as usize]).remove(0);
    *TASK.lock().map_err(|_| libc::EDEADLK)? = Some(Task { is_send: how == "out", fd, octets });
    RESULT.store(0, Ordering::SeqCst);
    IS_ARMED.store(true, Ordering::SeqCst);
    // SAFETY: the handler only makes a system call with memory that waits for it.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = run as *const () as usize;
        action.sa_flags = if restarts { libc::SA_RESTART } else { 0 };
        returned(libc::sigaction(libc::SIGUSR1, &raw const action, core::ptr::null_mut()).into())?;
    }
    Ok(std::process::id().into())
}

/// Returns what the handler's call returned, and the hash of what it received. The signal is ignored from now on.
pub(crate) fn handled() -> String {
    // SAFETY: no handler is installed.
    unsafe { libc::signal(libc::SIGUSR1, libc::SIG_IGN) };
    let result = RESULT.load(Ordering::SeqCst);
    let task = TASK.lock().ok().and_then(|mut task| task.take());
    let hash = match task {
        Some(Task { is_send: false, octets, .. }) if result > 0 => {
            stream::hash(stream::START, octets.iter().take(result as usize))
        }
        _ => 0,
    };
    format!("{} {result} {hash:x}", u8::from(IS_ARMED.swap(false, Ordering::SeqCst)))
}

extern "C" fn run(_signal: i32) {
    if !IS_ARMED.swap(false, Ordering::SeqCst) {
        return;
    }
    // SAFETY: the place is the thread's own.
    let errno = unsafe { *libc::__errno_location() };
    // The agent's thread is in the call that it was told to make: nobody has the lock.
    if let Ok(mut task) = TASK.try_lock()
        && let Some(Task { is_send, fd, octets }) = task.as_mut()
    {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the octets are there as long as the lock is held.
        let result = unsafe {
            match is_send {
                true => libc::send(*fd, octets.as_ptr().cast(), octets.len(), flags),
                false => libc::recv(*fd, octets.as_mut_ptr().cast(), octets.len(), flags),
            }
        };
        // SAFETY: as above.
        let error = i64::from(unsafe { *libc::__errno_location() });
        RESULT.store(if result < 0 { -error } else { result as i64 }, Ordering::SeqCst);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

static TASK: Mutex<Option<Task>> = Mutex::new(None);
static IS_ARMED: AtomicBool = AtomicBool::new(false);
static RESULT: AtomicI64 = AtomicI64::new(0);
