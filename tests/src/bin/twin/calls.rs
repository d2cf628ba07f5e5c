//! The socket calls of an agent, as a C program makes them: by the libc's symbols, which a preloaded library takes.

#![allow(unsafe_code, reason = "the calls of C programs, which a preloaded library takes")]

use core::ffi::{c_int, c_void};
use core::ptr::{from_mut, from_ref, null, null_mut};

use libc::{iovec, mmsghdr, msghdr};

/// What a call returned, with `errno` if it failed.
pub(crate) type Returned = Result<i64, i32>;

/// Receives up to the sum of the pieces by a function that is named as in `man 2`.
pub(crate) fn receive(how: &str, fd: c_int, flags: c_int, pieces: &mut [Vec<u8>]) -> Returned {
    let len = pieces[0].len();
    let first = pieces[0].as_mut_ptr().cast::<c_void>();
    let mut vectors: Vec<iovec> = pieces.iter_mut().map(vector).collect();
    let (list, number) = (vectors.as_mut_ptr(), vectors.len());
    // SAFETY: every pointer is to memory of the pieces or of a local variable, with its length.
    returned(unsafe {
        match how {
            "read" => libc::read(fd, first, len) as i64,
            "recv" => libc::recv(fd, first, len, flags) as i64,
            "recvfrom" => libc::recvfrom(fd, first, len, flags, null_mut(), null_mut()) as i64,
            "syscall" => {
                let none = null_mut::<c_void>();
                libc::syscall(libc::SYS_recvfrom, fd, first, len, flags, none, none)
            }
            "readv" => libc::readv(fd, list, number as c_int) as i64,
            "preadv2" => libc::preadv2(fd, list, number as c_int, -1, 0) as i64,
            "recvmsg" => {
                let mut message = message(&mut vectors);
                libc::recvmsg(fd, &raw mut message, flags) as i64
            }
            "recvmmsg" => {
                let mut messages: Vec<mmsghdr> = vectors.chunks_mut(1).map(messages_of).collect();
                let count = libc::recvmmsg(fd, messages.as_mut_ptr(), number as u32, flags as _, null_mut());
                if count < 0 {
                    -1
                } else {
                    let done = &messages[..count as usize];
                    // The octets of a short message move up to those of the one before it.
                    let part =
                        |(piece, message): (&Vec<u8>, &mmsghdr)| piece[..message.msg_len as usize].to_vec();
                    let octets = pieces.iter().zip(done).flat_map(part).collect();
                    let sum = sum(done);
                    pieces[0] = octets;
                    sum
                }
            }
            "splice" => {
                let (from, to) = pipe()?;
                let count = libc::splice(fd, null_mut(), to, null_mut(), len, spliced(flags)) as i64;
                let errno = errno();
                if count > 0 {
                    libc::read(from, first, count as usize);
                }
                libc::close(from);
                libc::close(to);
                *libc::__errno_location() = errno;
                count
            }
            _ => panic!("no such call: {how}"),
        }
    })
}

/// Sends the pieces by a function that is named as in `man 2`.
pub(crate) fn send(how: &str, fd: c_int, flags: c_int, pieces: &mut [Vec<u8>]) -> Returned {
    let len = pieces[0].len();
    let first = pieces[0].as_ptr().cast::<c_void>();
    let mut vectors: Vec<iovec> = pieces.iter_mut().map(vector).collect();
    let (list, number) = (vectors.as_ptr(), vectors.len() as c_int);
    // SAFETY: every pointer is to memory of the pieces or of a local variable, with its length.
    returned(unsafe {
        match how {
            "write" => libc::write(fd, first, len) as i64,
            "send" => libc::send(fd, first, len, flags) as i64,
            "sendto" => libc::sendto(fd, first, len, flags, null(), 0) as i64,
            "syscall" => libc::syscall(libc::SYS_sendto, fd, first, len, flags, null::<c_void>(), 0),
            "writev" => libc::writev(fd, list, number) as i64,
            "pwritev2" => libc::pwritev2(fd, list, number, -1, 0) as i64,
            "sendmsg" => {
                let message = message(&mut vectors);
                libc::sendmsg(fd, &raw const message, flags) as i64
            }
            "sendmmsg" => {
                let mut messages: Vec<mmsghdr> = vectors.chunks_mut(1).map(messages_of).collect();
                let count = libc::sendmmsg(fd, messages.as_mut_ptr(), number as u32, flags as _);
                if count < 0 { -1 } else { sum(&messages[..count as usize]) }
            }
            "sendfile" | "splice" => {
                let (from, to) = if how == "splice" { pipe()? } else { file()? };
                libc::write(to, first, len);
                let count = if how == "splice" {
                    libc::splice(from, null_mut(), fd, null_mut(), len, spliced(flags)) as i64
                } else {
                    let mut start = 0;
                    libc::sendfile(fd, from, &raw mut start, len) as i64
                };
                let errno = errno();
                libc::close(from);
                if to != from {
                    libc::close(to);
                }
                *libc::__errno_location() = errno;
                count
            }
            _ => panic!("no such call: {how}"),
        }
    })
}

/// Waits for descriptors with their wanted events, and returns the events that are there.
pub(crate) fn poll(how: &str, timeout: c_int, wanted: &[(c_int, i16)]) -> (Returned, Vec<i16>) {
    let mut list: Vec<libc::pollfd> =
        wanted.iter().map(|&(fd, events)| libc::pollfd { fd, events, revents: 0 }).collect();
    let number = list.len();
    let (time, time_pointer) = timespec(timeout);
    // SAFETY: the list has the length, and the pointers are to local variables.
    let count = unsafe {
        match how {
            "poll" => libc::poll(list.as_mut_ptr(), number as _, timeout),
            "ppoll" => libc::ppoll(list.as_mut_ptr(), number as _, time_pointer(&time), null()),
            _ => return select(how, timeout, wanted),
        }
    };
    (returned(i64::from(count)), list.iter().map(|entry| entry.revents).collect())
}

fn select(how: &str, timeout: c_int, wanted: &[(c_int, i16)]) -> (Returned, Vec<i16>) {
    let kinds = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];
    // SAFETY: descriptors are below FD_SETSIZE, and the pointers are to local variables.
    unsafe {
        let mut sets: [libc::fd_set; 3] = core::mem::zeroed();
        for &(fd, events) in wanted {
            for (set, _) in sets.iter_mut().zip(kinds).filter(|(_, kind)| events & kind != 0) {
                libc::FD_SET(fd, set);
            }
        }
        let limit = wanted.iter().map(|(fd, _)| fd + 1).max().unwrap_or(0);
        let [read, write, except] = &mut sets;
        let (time, time_pointer) = timespec(timeout);
        let count = if how == "select" {
            let mut value = libc::timeval { tv_sec: time.tv_sec, tv_usec: time.tv_nsec / 1000 };
            let value = if timeout < 0 { null_mut() } else { from_mut(&mut value) };
            libc::select(limit, read, write, except, value)
        } else {
            libc::pselect(limit, read, write, except, time_pointer(&time), null())
        };
        let told = |fd| {
            let is_set = |(set, kind): (&libc::fd_set, i16)| if libc::FD_ISSET(fd, set) { kind } else { 0 };
            sets.iter().zip(kinds).map(is_set).sum()
        };
        (returned(i64::from(count)), wanted.iter().map(|&(fd, _)| told(fd)).collect())
    }
}

/// Adds, changes or removes a member of a set.
pub(crate) fn epoll_ctl(set: c_int, operation: c_int, fd: c_int, events: u32, data: u64) -> Returned {
    let mut event = libc::epoll_event { events, u64: data };
    // SAFETY: the pointer is to a local variable.
    returned(unsafe { libc::epoll_ctl(set, operation, fd, &raw mut event) }.into())
}

/// Waits for members of a set, and returns their data and events in the order of the data.
pub(crate) fn epoll_wait(how: &str, set: c_int, timeout: c_int) -> (Returned, Vec<(u64, u32)>) {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 16];
    let (list, len) = (events.as_mut_ptr(), events.len() as c_int);
    let (time, time_pointer) = timespec(timeout);
    // SAFETY: the list has the length, and the pointers are to local variables.
    let count = unsafe {
        match how {
            "epoll_wait" => libc::epoll_wait(set, list, len, timeout),
            "epoll_pwait" => libc::epoll_pwait(set, list, len, timeout, null()),
            "epoll_pwait2" => libc::epoll_pwait2(set, list, len, time_pointer(&time), null()),
            _ => panic!("no such call: {how}"),
        }
    };
    let mut told: Vec<(u64, u32)> =
        events.iter().take(count.max(0) as usize).map(|event| (event.u64, event.events)).collect();
    told.sort_unstable();
    (returned(count.into()), told)
}

/// The calls with numbers as arguments only.
pub(crate) fn simple(name: &str, arguments: &[i64]) -> Returned {
    let argument = |place: usize| arguments.get(place).copied().unwrap_or_default() as c_int;
    let (fd, second, third) = (argument(0), argument(1), argument(2));
    // SAFETY: no call has a pointer.
    returned(unsafe {
        match name {
            "close" => libc::close(fd),
            "shutdown" => libc::shutdown(fd, second),
            "dup" => libc::dup(fd),
            "dup2" => libc::dup2(fd, second),
            "dup3" => libc::dup3(fd, second, third),
            "fcntl" => libc::fcntl(fd, second, third),
            "epoll_create1" => libc::epoll_create1(libc::EPOLL_CLOEXEC),
            _ => panic!("no such call: {name}"),
        }
        .into()
    })
}

/// ioctl with a number as argument, in both directions.
pub(crate) fn ioctl(fd: c_int, request: u64, mut value: c_int) -> Returned {
    // SAFETY: the pointer is to an argument of this function.
    match returned(unsafe { libc::ioctl(fd, request, &raw mut value) }.into()) {
        Ok(_) => Ok(value.into()),
        error => error,
    }
}

/// Sets an option. A time is in milliseconds, the time of SO_LINGER in seconds, -1 is off.
pub(crate) fn set_option(fd: c_int, level: c_int, name: c_int, value: i64) -> Returned {
    let number = value as c_int;
    let time = libc::timeval { tv_sec: value / 1000, tv_usec: value % 1000 * 1000 };
    let linger = libc::linger { l_onoff: (value >= 0).into(), l_linger: number.max(0) };
    let (value, len) = match (level, name) {
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO | libc::SO_SNDTIMEO) => {
            (from_ref(&time).cast(), size_of_val(&time))
        }
        (libc::SOL_SOCKET, libc::SO_LINGER) => (from_ref(&linger).cast(), size_of_val(&linger)),
        _ => (from_ref(&number).cast::<c_void>(), size_of_val(&number)),
    };
    // SAFETY: the value is a local variable of that length.
    returned(unsafe { libc::setsockopt(fd, level, name, value, len as u32) }.into())
}

/// Returns an option's first four octets.
pub(crate) fn option(fd: c_int, level: c_int, name: c_int) -> Returned {
    let mut value = [0_u32; 64];
    let mut len = size_of_val(&value) as u32;
    // SAFETY: the value is a local variable of that length.
    let done = unsafe { libc::getsockopt(fd, level, name, value.as_mut_ptr().cast(), &raw mut len) };
    returned(done.into()).map(|_| value[0].into())
}

/// Returns how many octets the kernel's TCP was given to send.
pub(crate) fn kernel_octets(fd: c_int) -> Option<u64> {
    let mut value = [0_u64; 32];
    let mut len = size_of_val(&value) as u32;
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_INFO);
    // SAFETY: the value is a local variable of that length.
    let done = unsafe { libc::getsockopt(fd, level, name, value.as_mut_ptr().cast(), &raw mut len) };
    let unacknowledged = ioctl(fd, libc::TIOCOUTQ, 0).ok()?;
    // `tcpi_bytes_acked` is at 120.
    (done == 0 && len >= 128).then(|| value[15] + unacknowledged as u64)
}

/// Forks: 0 in the child.
pub(crate) fn fork() -> Returned {
    // SAFETY: the child goes on with memory of its own, and the agent's main thread is alone or holds no lock.
    returned(unsafe { libc::fork() }.into())
}

/// Has the kernel kill this process when its parent has gone.
pub(crate) fn end_with_parent() {
    // SAFETY: prctl without pointers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Ends this process at once.
pub(crate) fn exit() -> ! {
    // SAFETY: no handler needs to run.
    unsafe { libc::_exit(0) }
}

pub(crate) fn returned(value: i64) -> Returned {
    if value < 0 { Err(errno()) } else { Ok(value) }
}

fn errno() -> c_int {
    // SAFETY: the place is the thread's own.
    unsafe { *libc::__errno_location() }
}

fn vector(piece: &mut Vec<u8>) -> iovec {
    iovec { iov_base: piece.as_mut_ptr().cast(), iov_len: piece.len() }
}

fn message(vectors: &mut [iovec]) -> msghdr {
    // SAFETY: all zero is an empty header.
    let mut header: msghdr = unsafe { core::mem::zeroed() };
    header.msg_iov = vectors.as_mut_ptr();
    header.msg_iovlen = vectors.len() as _;
    header
}

fn messages_of(vectors: &mut [iovec]) -> mmsghdr {
    mmsghdr { msg_hdr: message(vectors), msg_len: 0 }
}

fn sum(messages: &[mmsghdr]) -> i64 {
    messages.iter().map(|message| i64::from(message.msg_len)).sum()
}

fn spliced(flags: c_int) -> u32 {
    if flags & libc::MSG_DONTWAIT != 0 { libc::SPLICE_F_NONBLOCK } else { 0 }
}

fn pipe() -> Result<(c_int, c_int), i32> {
    let mut ends = [0; 2];
    // SAFETY: the pointer is to two numbers.
    returned(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }.into())?;
    Ok((ends[0], ends[1]))
}

fn file() -> Result<(c_int, c_int), i32> {
    // SAFETY: the name ends with 0.
    let file = returned(unsafe { libc::memfd_create(c"twin".as_ptr(), 0) }.into())? as c_int;
    Ok((file, file))
}

/// Returns the time, and what makes the argument of it: null stands for no limit.
fn timespec(timeout: c_int) -> (libc::timespec, impl Fn(&libc::timespec) -> *const libc::timespec) {
    let time =
        libc::timespec { tv_sec: (timeout / 1000).into(), tv_nsec: i64::from(timeout % 1000) * 1_000_000 };
    (time, move |time| if timeout < 0 { null() } else { from_ref(time) })
}
