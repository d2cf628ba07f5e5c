//! A child that tries the calls of this library, so that a filter kills the child and not the program.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_long};
use core::sync::atomic::{AtomicU64, Ordering};

use crate::calls::{F_GETSIG, F_SETSIG};
use crate::real::{self, Arguments, arguments, kernel};

/// True if the process's filter allows the calls that this library makes. It must allow `clone`. Costs about as much as
/// a fork.
pub(crate) fn are_calls_allowed() -> bool {
    let calls = calls();
    let Some(shared) = real::share(1) else { return false };
    let passed = &shared[0];
    // SAFETY: the child has a copy of the memory. It makes only the calls below, and then ends.
    let child = unsafe { kernel!(SYS_clone, libc::CLONE_VFORK, 0, 0, 0, 0) };
    if child == 0 {
        try_each(&calls, passed);
    }
    // The first of the calls is `wait4` itself. The parent waits for the child by it, since the child sends no signal.
    if child > 0 && passed.load(Ordering::Relaxed) > 0 {
        // SAFETY: the call writes nothing.
        unsafe { kernel!(SYS_wait4, child, 0, libc::__WCLONE, 0) };
    }
    let are_all = child > 0 && passed.load(Ordering::Relaxed) == calls.len() as u64;
    real::unshare(shared);
    are_all
}

/// Makes the calls, and counts those that are not refused.
fn try_each(calls: &[(c_long, Arguments)], passed: &AtomicU64) -> ! {
    for (number, arguments) in calls {
        // SAFETY: none of these calls changes memory.
        let result = unsafe { real::call(*number, *arguments) };
        let is_refused =
            [libc::EPERM, libc::EACCES, libc::ENOSYS].contains(&c_int::try_from(-result).unwrap_or(0));
        if is_refused {
            break;
        }
        passed.fetch_add(1, Ordering::Relaxed);
    }
    loop {
        // SAFETY: the child ends.
        unsafe { kernel!(SYS_exit_group, 0) };
    }
}

/// Calls with arguments that the kernel refuses for another reason, or that change nothing.
fn calls() -> [(c_long, Arguments); 54] {
    static NO_TIME: [u64; 2] = [0; 2];
    static ALL_SIGNALS: u64 = !0;
    let no_time = NO_TIME.as_ptr() as usize;
    let name = c"weft-probe".as_ptr() as usize;
    let nothing = usize::MAX;
    let unix = libc::AF_UNIX as usize;
    let sequence = (libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC) as usize;
    let sealing = (libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) as usize;
    let pages = (libc::MAP_SHARED | libc::MAP_ANONYMOUS) as usize;
    let all_signals = &raw const ALL_SIGNALS as usize;
    [
        (libc::SYS_wait4, arguments([nothing, 0, (libc::__WALL | libc::WNOHANG) as usize])),
        // No handler of the program's runs in the child.
        (libc::SYS_rt_sigprocmask, arguments([libc::SIG_SETMASK as usize, all_signals, 0, 8])),
        // A child that is killed writes no core.
        (libc::SYS_prctl, arguments([libc::PR_SET_DUMPABLE as usize, 0])),
        (libc::SYS_memfd_create, arguments([name, sealing])),
        (libc::SYS_ftruncate, arguments([nothing])),
        (libc::SYS_fcntl, arguments([nothing, libc::F_ADD_SEALS as usize])),
        (libc::SYS_fcntl, arguments([nothing, libc::F_GET_SEALS as usize])),
        (libc::SYS_fcntl, arguments([nothing, libc::F_DUPFD_CLOEXEC as usize])),
        (libc::SYS_fcntl, arguments([nothing, libc::F_GETFL as usize])),
        (libc::SYS_fcntl, arguments([nothing, F_SETSIG as usize])),
        (libc::SYS_fcntl, arguments([nothing, F_GETSIG as usize])),
        (libc::SYS_mmap, arguments([0, 4096, libc::PROT_READ as usize, pages, nothing])),
        (libc::SYS_munmap, arguments([0])),
        (libc::SYS_madvise, arguments([0, 0, libc::MADV_WIPEONFORK as usize])),
        (libc::SYS_prlimit64, arguments([0, libc::RLIMIT_NOFILE as usize])),
        (libc::SYS_fstat, arguments([nothing])),
        (libc::SYS_openat, arguments([nothing, 0])),
        (libc::SYS_read, arguments([nothing])),
        (libc::SYS_write, arguments([nothing])),
        (libc::SYS_close, arguments([nothing])),
        (libc::SYS_ioctl, arguments([nothing, libc::FIONREAD as usize])),
        (libc::SYS_getsockopt, arguments([nothing])),
        (libc::SYS_setsockopt, arguments([nothing])),
        (libc::SYS_getsockname, arguments([nothing])),
        (libc::SYS_getpeername, arguments([nothing])),
        (libc::SYS_shutdown, arguments([nothing])),
        (libc::SYS_socket, arguments([unix, sequence])),
        (libc::SYS_connect, arguments([nothing])),
        (libc::SYS_sendto, arguments([nothing])),
        (libc::SYS_recvfrom, arguments([nothing])),
        (libc::SYS_sendmsg, arguments([nothing])),
        (libc::SYS_recvmsg, arguments([nothing])),
        (libc::SYS_eventfd2, arguments([0, (libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) as usize])),
        (libc::SYS_epoll_ctl, arguments([nothing])),
        (libc::SYS_epoll_pwait2, arguments([nothing])),
        (libc::SYS_ppoll, arguments([0, 0, no_time])),
        (libc::SYS_pidfd_open, arguments([nothing])),
        (libc::SYS_membarrier, arguments([0])),
        (libc::SYS_futex, arguments([0, libc::FUTEX_WAKE as usize])),
        (libc::SYS_sched_yield, arguments([0])),
        (libc::SYS_rt_sigaction, arguments([0])),
        (libc::SYS_tgkill, arguments([0])),
        (libc::SYS_gettid, arguments([0])),
        (libc::SYS_getpid, arguments([0])),
        (libc::SYS_getuid, arguments([0])),
        (libc::SYS_geteuid, arguments([0])),
        (libc::SYS_getcpu, arguments([0])),
        (libc::SYS_nanosleep, arguments([no_time])),
        (libc::SYS_lseek, arguments([nothing])),
        (libc::SYS_preadv, arguments([nothing])),
        (libc::SYS_preadv2, arguments([nothing])),
        (libc::SYS_pwritev2, arguments([nothing])),
        (libc::SYS_sendfile, arguments([nothing])),
        (libc::SYS_epoll_pwait, arguments([nothing])),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_filter_all_calls_are_allowed() {
        assert!(are_calls_allowed());
    }
}
