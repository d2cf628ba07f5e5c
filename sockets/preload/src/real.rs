//! The kernel and the C library below the hooks: system calls by the raw interface, memory, errno.
//!
//! A system call is never looked up as a symbol: the symbol may be the hook itself. Results are the kernel's: an error is a
//! negative number. `errno` is touched by [`fail`] only.
#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int, c_long, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering};
use std::os::fd::BorrowedFd;

/// The arguments of a system call, unused ones 0.
pub(crate) type Arguments = [usize; 6];

/// The arguments of a system call as the kernel takes them: numbers of any width, and addresses.
macro_rules! words {
    ($($argument:expr),*) => {{
        #[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "the kernel casts them back")]
        let words = $crate::real::arguments([$($argument as usize),*]);
        words
    }};
}
pub(crate) use words;

/// Makes a system call of these arguments: `kernel!(SYS_read, fd, buffer, len)`. Must stand in an unsafe block.
macro_rules! kernel {
    ($number:ident $(, $argument:expr)* $(,)?) => {
        $crate::real::call(libc::$number, $crate::real::words!($($argument),*))
    };
}
pub(crate) use kernel;

/// As [`kernel!`], for a call that is a cancellation point.
macro_rules! point {
    ($number:ident $(, $argument:expr)* $(,)?) => {
        $crate::real::cancellable(libc::$number, $crate::real::words!($($argument),*))
    };
}
pub(crate) use point;

/// Fills up arguments with zeros.
#[inline(always)]
pub(crate) fn arguments<const N: usize>(given: [usize; N]) -> Arguments {
    core::array::from_fn(|at| given.get(at).copied().unwrap_or(0))
}

/// Makes a system call.
///
/// # Safety
/// As the call itself.
#[inline]
pub(crate) unsafe fn call(number: c_long, arguments: Arguments) -> isize {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: as the caller promises.
    unsafe { enter(number, a, b, c, d, e, f) }
}

/// Makes a system call that is a cancellation point, as the C library does: a thread with others beside it can be
/// cancelled at any moment of the call.
///
/// # Safety
/// As the call itself.
#[inline]
pub(crate) unsafe fn cancellable(number: c_long, arguments: Arguments) -> isize {
    if is_single_threaded() {
        // SAFETY: as the caller promises.
        return unsafe { call(number, arguments) };
    }
    let mut before = 0;
    // SAFETY: `before` can be written. No destructor waits in the frames that a cancellation unwinds.
    unsafe { pthread_setcanceltype(ASYNCHRONOUS, &raw mut before) };
    // SAFETY: as the caller promises.
    let result = unsafe { call(number, arguments) };
    // SAFETY: as above.
    unsafe { pthread_setcanceltype(before, core::ptr::null_mut()) };
    result
}

/// True if the process has never had a second thread, or is a child that only one thread has come to by fork.
#[inline]
pub(crate) fn is_single_threaded() -> bool {
    // SAFETY: the C library declares this octet, and changes it while the process has one thread only.
    unsafe { core::ptr::read_volatile(&raw const __libc_single_threaded) != 0 }
}

/// Sets `errno`, and returns what the C library returns with it.
#[cold]
pub(crate) fn fail(error: c_int) -> isize {
    // SAFETY: the C library gives each thread an `errno`.
    unsafe { *libc::__errno_location() = error };
    -1
}

/// Returns a variable of the environment. The program may overwrite the text later.
pub(crate) fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: the name ends with a zero.
    let text = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: a variable's text ends with a zero.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

/// Borrows a descriptor by its number, for calls that refuse a closed one.
pub(crate) fn borrow(descriptor: c_int) -> BorrowedFd<'static> {
    // SAFETY: the number is not -1. That it may be closed or another file by now is what the callers check for.
    unsafe { BorrowedFd::borrow_raw(descriptor.max(0)) }
}

/// The next definition of a function behind this library's own. It is looked up when it is needed first.
#[derive(Debug)]
pub(crate) struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    /// Names a function.
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(core::ptr::null_mut()) }
    }

    /// Returns the function's address, or null.
    pub(crate) fn find(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        if !found.is_null() {
            return found;
        }
        // SAFETY: the name ends with a zero.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// Closes a descriptor of this library's own.
pub(crate) fn close(number: c_int) {
    // SAFETY: the caller made the descriptor, and borrows it no more.
    unsafe { kernel!(SYS_close, number) };
}

/// Reserves zeroed words, which cost memory only where they are touched.
pub(crate) fn reserve(count: usize) -> Option<&'static [AtomicU64]> {
    map(count, libc::MAP_PRIVATE | libc::MAP_NORESERVE)
}

/// Reserves zeroed words that children write to as well.
pub(crate) fn share(count: usize) -> Option<&'static [AtomicU64]> {
    map(count, libc::MAP_SHARED)
}

/// Gives back words of [`share`], which nobody may use any more.
pub(crate) fn unshare(words: &'static [AtomicU64]) {
    // SAFETY: the mapping is this slice alone.
    unsafe { kernel!(SYS_munmap, words.as_ptr(), size_of_val(words)) };
}

fn map(count: usize, flags: c_int) -> Option<&'static [AtomicU64]> {
    let len = count.checked_mul(size_of::<AtomicU64>())?;
    let flags = flags | libc::MAP_ANONYMOUS;
    // SAFETY: the kernel chooses the address.
    let start =
        unsafe { kernel!(SYS_mmap, 0, len, libc::PROT_READ | libc::PROT_WRITE, flags, usize::MAX, 0) };
    // SAFETY: the kernel has mapped so many zeroed octets at a page's start, and nobody unmaps them.
    (start > 0).then(|| unsafe { core::slice::from_raw_parts(start as *const AtomicU64, count) })
}

/// Chooses whether children have these words as they are. Else they find zeros. `words` are reserved ones.
pub(crate) fn keep_in_children(words: &'static [AtomicU64], are_kept: bool) {
    let advice = if are_kept { libc::MADV_KEEPONFORK } else { libc::MADV_WIPEONFORK };
    // SAFETY: the words lie in pages of their own, whose content does not change in this process.
    let _refused = unsafe { kernel!(SYS_madvise, words.as_ptr(), size_of_val(words), advice) };
}

/// Changes the signals that this thread blocks. Returns those of before.
fn change_mask(mask: u64) -> u64 {
    let mut before = 0_u64;
    let len = size_of::<u64>();
    // SAFETY: both masks are as long as the kernel's.
    unsafe { kernel!(SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const mask, &raw mut before, len) };
    before
}

/// A value that is set once. Nobody waits for it for long: until it is there, it is not.
#[derive(Debug)]
pub(crate) struct Once<T> {
    stage: AtomicU8,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the value is only written by the thread that moves `stage` off `EMPTY`, and only read behind `FULL`.
unsafe impl<T: Send + Sync> Sync for Once<T> {}

impl<T> Once<T> {
    /// Makes an empty place.
    pub(crate) const fn new() -> Self {
        Self { stage: AtomicU8::new(EMPTY), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// Makes and sets the value, if no other thread has begun to. Returns the value that is there now,
    /// if another thread does not take long to make it.
    pub(crate) fn set(&self, make: impl FnOnce() -> Option<T>) -> Option<&T> {
        if self.stage.compare_exchange(EMPTY, FILLING, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            // No signal handler may find the value half made, or jump out of this.
            let mask = change_mask(u64::MAX);
            let value = make();
            let stage = if value.is_some() { FULL } else { EMPTY };
            if let Some(value) = value {
                // SAFETY: no other thread reads or writes at this stage.
                unsafe { (*self.value.get()).write(value) };
            }
            self.stage.store(stage, Ordering::Release);
            change_mask(mask);
        }
        // The thread that makes the value may be one of the parent's.
        for turn in 0..PATIENCE {
            if self.stage.load(Ordering::Acquire) != FILLING {
                break;
            }
            let pause =
                rustix::time::Timespec { tv_sec: 0, tv_nsec: if turn < YIELDS { 0 } else { 1_000_000 } };
            let _slept = rustix::thread::nanosleep(&pause);
        }
        self.get()
    }

    /// Takes the value away for good. Those who look at it keep it.
    pub(crate) fn retire(&self) {
        self.stage.store(RETIRED, Ordering::Release);
    }

    /// Returns the value, if it is there.
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: at this stage the value is there, and nobody writes to it.
        (self.stage.load(Ordering::Acquire) == FULL).then(|| unsafe { (*self.value.get()).assume_init_ref() })
    }
}

/// Makes a system call. It may be unwound by a cancellation.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C-unwind" fn enter(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> isize {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, [rsp + 8]",
        "syscall",
        "ret",
        ".cfi_endproc",
    )
}

/// Makes a system call. It may be unwound by a cancellation.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C-unwind" fn enter(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> isize {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "mov x8, x0",
        "mov x0, x1",
        "mov x1, x2",
        "mov x2, x3",
        "mov x3, x4",
        "mov x4, x5",
        "mov x5, x6",
        "svc #0",
        "ret",
        ".cfi_endproc",
    )
}

unsafe extern "C" {
    static __libc_single_threaded: c_char;
}
unsafe extern "C-unwind" {
    fn pthread_setcanceltype(kind: c_int, before: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_ASYNCHRONOUS`
const ASYNCHRONOUS: c_int = 1;
/// How often a thread looks whether another one has made a value.
const PATIENCE: u32 = 100;
/// How many of these looks follow each other at once. The others are a millisecond apart.
const YIELDS: u32 = 50;
const EMPTY: u8 = 0;
const FILLING: u8 = 1;
const FULL: u8 = 2;
const RETIRED: u8 = 3;
