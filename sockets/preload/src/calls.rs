//! Safe forms of the kernel's calls that the waits and the questions about a socket make.
#![allow(unsafe_code)]

use core::ffi::c_int;

use libc::{epoll_event, pollfd, timespec};

use crate::real::{kernel, point};

/// A set of signals as the kernel has it.
pub(crate) type Signals = u64;

/// Reads an option of a socket. Returns how many octets the kernel has filled, or its error.
pub(crate) fn option(descriptor: c_int, level: c_int, name: c_int, value: &mut [u8]) -> Result<usize, c_int> {
    let mut len = libc::socklen_t::try_from(value.len()).unwrap_or(libc::socklen_t::MAX);
    // SAFETY: `value` can be written for `len` octets, and `len` itself.
    let result =
        unsafe { kernel!(SYS_getsockopt, descriptor, level, name, value.as_mut_ptr(), &raw mut len) };
    check(result).map(|_| len as usize)
}

/// Reads an option that is a number.
pub(crate) fn number(descriptor: c_int, level: c_int, name: c_int) -> Result<c_int, c_int> {
    let mut value = [0; size_of::<c_int>()];
    option(descriptor, level, name, &mut value).map(|_| c_int::from_ne_bytes(value))
}

/// True if the other host has acknowledged all octets that the kernel's socket was given.
pub(crate) fn has_arrived(descriptor: c_int) -> bool {
    queued(descriptor, libc::TIOCOUTQ) == Ok(0)
}

/// Asks for a number by `ioctl`: `SIOCINQ`, `SIOCOUTQ`.
pub(crate) fn queued(descriptor: c_int, request: u64) -> Result<u64, c_int> {
    let mut value: c_int = 0;
    // SAFETY: `value` can be written, and these requests write no more than a number.
    let result = unsafe { kernel!(SYS_ioctl, descriptor, request, &raw mut value) };
    check(result).map(|_| u64::try_from(value).unwrap_or(0))
}

/// Returns the flags of an open file.
pub(crate) fn file_flags(descriptor: c_int) -> Result<c_int, c_int> {
    // SAFETY: this request reads no memory.
    check(unsafe { kernel!(SYS_fcntl, descriptor, libc::F_GETFL) })
        .map(|flags| c_int::try_from(flags).unwrap_or(0))
}

/// Chooses the signal that the kernel sends for input, if an open file asks for signals.
pub(crate) fn set_signal(descriptor: c_int, signal: c_int) -> Result<(), c_int> {
    // SAFETY: this request touches no memory.
    check(unsafe { kernel!(SYS_fcntl, descriptor, F_SETSIG, signal) }).map(drop)
}

/// Returns that signal, 0 if none is chosen.
pub(crate) fn signal(descriptor: c_int) -> Result<c_int, c_int> {
    // SAFETY: this request touches no memory.
    check(unsafe { kernel!(SYS_fcntl, descriptor, F_GETSIG) })
        .map(|signal| c_int::try_from(signal).unwrap_or(0))
}

/// True if a socket is connected to itself.
pub(crate) fn is_own_peer(descriptor: c_int) -> Result<bool, c_int> {
    let mut names = [[0_u8; 128]; 2];
    let mut lens = [128 as libc::socklen_t; 2];
    // SAFETY: the array and the length can be written.
    let own = unsafe { kernel!(SYS_getsockname, descriptor, names[0].as_mut_ptr(), &raw mut lens[0]) };
    check(own)?;
    // SAFETY: as above.
    let peer = unsafe { kernel!(SYS_getpeername, descriptor, names[1].as_mut_ptr(), &raw mut lens[1]) };
    check(peer)?;
    Ok(lens[0] == lens[1] && names[0] == names[1])
}

/// Waits as `ppoll` does, and is a cancellation point as that is. Returns the kernel's answer.
pub(crate) fn ppoll(items: &mut [pollfd], mut limit: Option<timespec>, mask: Option<Signals>) -> isize {
    let limit = limit.as_mut().map_or(core::ptr::null_mut(), |limit| &raw mut *limit);
    let mask = mask.as_ref().map_or(core::ptr::null(), |mask| &raw const *mask);
    // SAFETY: the items can be written; limit and mask are null or can be read.
    unsafe { point!(SYS_ppoll, items.as_mut_ptr(), items.len(), limit, mask, size_of::<Signals>()) }
}

/// Asks the kernel which items are ready now. Returns its answer.
pub(crate) fn look(items: &mut [pollfd]) -> isize {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the items can be written, and the limit can.
    unsafe { kernel!(SYS_ppoll, items.as_mut_ptr(), items.len(), &raw mut now, 0, 0) }
}

/// Changes an epoll set. Returns the kernel's answer.
pub(crate) fn epoll_ctl(set: c_int, operation: c_int, descriptor: c_int, event: Option<(u32, u64)>) -> isize {
    let mut event = event.map(|(events, data)| epoll_event { events, u64: data });
    let event = event.as_mut().map_or(core::ptr::null_mut(), |event| &raw mut *event);
    // SAFETY: the event is null or can be read.
    unsafe { kernel!(SYS_epoll_ctl, set, operation, descriptor, event) }
}

/// Waits for a set, and is a cancellation point as `epoll_wait` is. Returns the kernel's answer.
pub(crate) fn epoll_wait(
    set: c_int,
    events: &mut [epoll_event],
    limit: Option<timespec>,
    mask: Option<Signals>,
) -> isize {
    let (buffer, room, len) = (events.as_mut_ptr(), events.len(), size_of::<Signals>());
    let mask = mask.as_ref().map_or(core::ptr::null(), |mask| &raw const *mask);
    // Kernels and filters know this call longer than the other one.
    if let Some(milliseconds) = milliseconds(limit) {
        // SAFETY: the events can be written; the mask is null or can be read.
        return unsafe { point!(SYS_epoll_pwait, set, buffer, room, milliseconds, mask, len) };
    }
    let limit = limit.as_ref().map_or(core::ptr::null(), |limit| &raw const *limit);
    // SAFETY: the events can be written; limit and mask are null or can be read.
    unsafe { point!(SYS_epoll_pwait2, set, buffer, room, limit, mask, len) }
}

/// The milliseconds of a limit, if they tell all of it. -1 is for ever.
fn milliseconds(limit: Option<timespec>) -> Option<c_int> {
    let Some(limit) = limit else { return Some(-1) };
    let is_whole = limit.tv_nsec % 1_000_000 == 0;
    let whole = limit.tv_sec.checked_mul(1000)?.checked_add(limit.tv_nsec / 1_000_000)?;
    c_int::try_from(whole).ok().filter(|_| is_whole)
}

/// Asks a set without waiting. Returns the kernel's answer.
pub(crate) fn epoll_look(set: c_int, events: &mut [epoll_event]) -> isize {
    // SAFETY: the events can be written.
    unsafe { kernel!(SYS_epoll_pwait, set, events.as_mut_ptr(), events.len(), 0, 0, 0) }
}

/// Runs `use_room` with memory for a list of this length, and for so many words. Returns what it returns, or the error if
/// there is no memory.
pub(crate) fn with_room(len: usize, use_room: impl FnOnce(&mut [pollfd], &mut [u64]) -> isize) -> isize {
    let octets = len * (size_of::<pollfd>() + size_of::<u64>());
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the kernel chooses the address.
    let start = unsafe { kernel!(SYS_mmap, 0, octets, libc::PROT_READ | libc::PROT_WRITE, flags, -1_i32, 0) };
    if start <= 0 {
        return start;
    }
    let words = start as *mut u64;
    // SAFETY: the kernel has mapped so many zeroed octets, at a page's start, for this call alone. The list follows the
    // words.
    let (list, words) = unsafe {
        (
            core::slice::from_raw_parts_mut(words.add(len).cast(), len),
            core::slice::from_raw_parts_mut(words, len),
        )
    };
    let result = use_room(list, words);
    // SAFETY: nothing borrows the memory any more.
    unsafe { kernel!(SYS_munmap, start, octets) };
    result
}

/// Sleeps on a futex of shared memory as long as it has this value. Returns true if the time is over.
pub(crate) fn futex_wait(address: *mut u32, value: u32, span: timespec) -> bool {
    // SAFETY: the kernel checks the address, which it only reads; the span can be read.
    let result = unsafe { kernel!(SYS_futex, address, libc::FUTEX_WAIT, value, &raw const span) };
    result == -libc::ETIMEDOUT as isize
}

/// Wakes a thread that sleeps on a futex of shared memory.
pub(crate) fn futex_wake(address: *mut u32) {
    // SAFETY: the kernel reads nothing there.
    unsafe { kernel!(SYS_futex, address, libc::FUTEX_WAKE, 1) };
}

/// Registers this process for barriers of others, and returns true if it can ask for them itself. An image that exec has
/// replaced needs it anew.
pub(crate) fn register_for_barriers() -> bool {
    // SAFETY: this command touches no memory of the program's.
    unsafe { kernel!(SYS_membarrier, REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0 }
}

/// Makes a barrier in all running threads of registered processes.
pub(crate) fn barrier_everywhere() -> bool {
    // SAFETY: as above.
    unsafe { kernel!(SYS_membarrier, GLOBAL_EXPEDITED, 0, 0) == 0 }
}

/// True if some signal has a handler that interrupts calls for good: without `SA_RESTART`. A signal that tells of the
/// thread's own fault does not come while the thread waits, and its handlers, as Rust's own, have no such flag.
pub(crate) fn has_interrupting_handler() -> bool {
    (1..=64).filter(|signal| !FAULTS.contains(signal)).any(|signal| {
        let mut action = [0_u64; 4];
        // SAFETY: `action` is as long as the kernel's structure: handler, flags, restorer, mask.
        let result =
            unsafe { kernel!(SYS_rt_sigaction, signal, 0, action.as_mut_ptr(), size_of::<Signals>()) };
        let restarts = action[1] & u64::from(libc::SA_RESTART.cast_unsigned()) != 0;
        result == 0 && action[0] > libc::SIG_IGN as u64 && !restarts
    })
}

const FAULTS: [c_int; 5] = [libc::SIGILL, libc::SIGTRAP, libc::SIGBUS, libc::SIGFPE, libc::SIGSEGV];

/// Looks at a stream without waiting and without taking from it. Returns the kernel's answer: 0 behind its end.
pub(crate) fn peek(descriptor: c_int) -> isize {
    let mut octet = 0_u8;
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: one octet can be written.
    unsafe { kernel!(SYS_recvfrom, descriptor, &raw mut octet, 1, flags, 0, 0) }
}

/// Takes an octet that is not urgent. Returns the kernel's answer.
pub(crate) fn skip_urgent(descriptor: c_int) -> isize {
    let mut octet = 0_u8;
    // SAFETY: one octet can be written.
    unsafe { kernel!(SYS_recvfrom, descriptor, &raw mut octet, 1, libc::MSG_DONTWAIT, 0, 0) }
}

/// Sends pieces of a ring without waiting. Returns the kernel's answer.
pub(crate) fn send_pieces(descriptor: c_int, pieces: [(*mut u8, usize); 2]) -> isize {
    let mut pieces = pieces.map(|(start, len)| libc::iovec { iov_base: start.cast(), iov_len: len });
    // SAFETY: all-zero octets are a message without anything.
    let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
    message.msg_iov = pieces.as_mut_ptr();
    message.msg_iovlen = pieces.len();
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the kernel only reads the pieces, and checks them.
    unsafe { kernel!(SYS_sendmsg, descriptor, &raw const message, flags) }
}

/// Takes a socket off its connection: the other end hears of a reset.
pub(crate) fn reset(descriptor: c_int) {
    let nobody = libc::sockaddr { sa_family: UNSPECIFIED, sa_data: [0; 14] };
    // SAFETY: the address can be read.
    unsafe { kernel!(SYS_connect, descriptor, &raw const nobody, size_of::<libc::sockaddr>()) };
}

/// Sets an option of a socket.
pub(crate) fn set_option(descriptor: c_int, level: c_int, name: c_int, value: &[c_int]) {
    // SAFETY: the value can be read.
    unsafe { kernel!(SYS_setsockopt, descriptor, level, name, value.as_ptr(), size_of_val(value)) };
}

/// Returns the CPU on which this thread runs. The C library knows it without asking the kernel.
#[inline]
pub(crate) fn cpu() -> u16 {
    // SAFETY: it has no arguments.
    u16::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(u16::MAX)
}

/// Sends a signal to this thread.
pub(crate) fn raise(signal: c_int) {
    let (process, thread) = (rustix::process::getpid(), rustix::thread::gettid());
    // SAFETY: this call touches no memory.
    unsafe { kernel!(SYS_tgkill, process.as_raw_pid(), thread.as_raw_pid(), signal) };
}

/// Reads a file to the free memory of a ring. Returns the kernel's answer.
pub(crate) fn read_at(file: c_int, pieces: [(*mut u8, usize); 2], position: u64) -> isize {
    let pieces = pieces.map(|(start, len)| libc::iovec { iov_base: start.cast(), iov_len: len });
    // SAFETY: nobody but the caller uses this memory, as long as it is not published.
    unsafe { kernel!(SYS_preadv, file, pieces.as_ptr(), pieces.len(), position, 0) }
}

/// Sends from a file by the kernel's socket. Returns the kernel's answer.
pub(crate) fn send_file(descriptor: c_int, file: c_int, position: u64, count: usize) -> isize {
    let mut position = position;
    // SAFETY: the position can be written.
    unsafe { kernel!(SYS_sendfile, descriptor, file, &raw mut position, count) }
}

/// Reads from a pipe. Returns the kernel's answer.
pub(crate) fn read_pipe(pipe: c_int, memory: &mut [u8], is_now: bool) -> isize {
    let piece = libc::iovec { iov_base: memory.as_mut_ptr().cast(), iov_len: memory.len() };
    let flags = if is_now { libc::RWF_NOWAIT } else { 0 };
    // SAFETY: the memory can be written.
    unsafe { kernel!(SYS_preadv2, pipe, &raw const piece, 1, usize::MAX, usize::MAX, flags) }
}

/// Writes to a pipe. Returns the kernel's answer.
pub(crate) fn write_pipe(pipe: c_int, memory: &[u8], is_now: bool) -> isize {
    let piece = libc::iovec { iov_base: memory.as_ptr().cast_mut().cast(), iov_len: memory.len() };
    let flags = if is_now { libc::RWF_NOWAIT } else { 0 };
    // SAFETY: the memory can be read.
    unsafe { kernel!(SYS_pwritev2, pipe, &raw const piece, 1, usize::MAX, usize::MAX, flags) }
}

/// Ends what a socket sends.
pub(crate) fn finish(descriptor: c_int) {
    // SAFETY: this call touches no memory.
    unsafe { kernel!(SYS_shutdown, descriptor, libc::SHUT_WR) };
}

/// Sleeps, and is a cancellation point. A signal ends it.
pub(crate) fn pause(span: timespec) {
    let _slept = ppoll(&mut [], Some(span), None);
}

/// True if an octet of this process can be read.
pub(crate) fn can_read(address: usize) -> bool {
    let mut octet = 0_u8;
    let local = libc::iovec { iov_base: (&raw mut octet).cast(), iov_len: 1 };
    let remote = libc::iovec { iov_base: address as *mut _, iov_len: 1 };
    let process = rustix::process::getpid().as_raw_pid();
    // SAFETY: the octet can be written, and the kernel checks the address.
    unsafe { kernel!(SYS_process_vm_readv, process, &raw const local, 1, &raw const remote, 1, 0) == 1 }
}

/// Tells a result from an error.
fn check(result: isize) -> Result<isize, c_int> {
    if result < 0 { Err(c_int::try_from(-result).unwrap_or(libc::EIO)) } else { Ok(result) }
}

/// `MEMBARRIER_CMD_GLOBAL_EXPEDITED`
const GLOBAL_EXPEDITED: c_int = 2;
/// `AF_UNSPEC`, as an address has it.
const UNSPECIFIED: libc::sa_family_t = 0;
/// `MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED`
const REGISTER_GLOBAL_EXPEDITED: c_int = 4;

/// Requests of `fcntl` that libc does not name.
pub(crate) const F_SETSIG: c_int = 10;
pub(crate) const F_GETSIG: c_int = 11;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn handlers_of_faults_do_not_interrupt_a_wait() {
        // Rust has its own for SIGSEGV and SIGBUS, without `SA_RESTART`.
        assert!(!has_interrupting_handler());
    }

    #[test]
    fn limits_are_told_in_milliseconds_if_that_tells_all() {
        let limit = |tv_sec, tv_nsec| Some(timespec { tv_sec, tv_nsec });
        assert_eq!(
            [None, limit(0, 0), limit(2, 5_000_000)].map(milliseconds),
            [Some(-1), Some(0), Some(2005)]
        );
        assert_eq!([limit(0, 1), limit(i64::MAX, 0), limit(3_000_000, 0)].map(milliseconds), [None; 3]);
    }

    /// Sets an option.
    pub(crate) fn set(descriptor: c_int, level: c_int, name: c_int, value: c_int) {
        // SAFETY: `value` can be read for its length.
        let result =
            unsafe { kernel!(SYS_setsockopt, descriptor, level, name, &raw const value, size_of::<c_int>()) };
        assert_eq!(result, 0, "{level} {name}");
    }
}
