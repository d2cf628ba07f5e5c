//! The output of `weft run --trace`: each call of the program with its arguments and its outcome. At the end it prints
//! a table of the calls, and the objects that are left. Without a trace it costs a load and a branch for each call.
#![allow(unsafe_code)]

use core::cell::RefCell;
use core::ffi::c_int;
use core::fmt::Write as _;
use core::sync::atomic::{AtomicU8, Ordering};
use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Write as _};
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::boundary::{Outcome, always, guard, set_errno};
use super::fork::{process, process_so_far};
use super::show::{Answer, Line, VOID};
use crate::raw::{Origin, called};

/// A call with its arguments, made by [`args`], before it is carried out.
pub(super) struct Call<A>(pub(super) A);

/// Names the arguments that a trace shows. A method of [`Call`] carries the call out.
macro_rules! args {
    ($($name:ident),*) => {
        $crate::c::trace::Call(|line: &mut $crate::c::show::Line| {
            let _none = &line;
            $(line.argument(stringify!($name), $name);)*
        })
    };
}
pub(super) use args;

impl<A: FnOnce(&mut Line)> Call<A> {
    /// For `ibv_` functions that return 0 or the number of an error.
    #[inline]
    pub(super) fn status<F: FnOnce() -> Outcome<()>>(self, act: F) -> c_int {
        match self.outcome("", act) {
            Ok(()) => 0,
            Err(errno) => {
                set_errno(errno);
                errno.raw_os_error()
            }
        }
    }

    /// For functions that return a number, or -1 and `errno`.
    #[inline]
    pub(super) fn number<F: FnOnce() -> Outcome<c_int>>(self, act: F) -> c_int {
        self.outcome("-1 ", act).unwrap_or_else(|errno| {
            set_errno(errno);
            -1
        })
    }

    /// For `rdma_` functions that return 0, or -1 and `errno`.
    #[inline]
    pub(super) fn done<F: FnOnce() -> Outcome<()>>(self, act: F) -> c_int {
        match self.outcome("-1 ", act) {
            Ok(()) => 0,
            Err(errno) => {
                set_errno(errno);
                -1
            }
        }
    }

    /// For functions that return a number of octets, or -1 and `errno`.
    #[inline]
    pub(super) fn size<F: FnOnce() -> Outcome<usize>>(self, act: F) -> isize {
        let count =
            self.outcome("-1 ", act).and_then(|count| isize::try_from(count).map_err(|_| Errno::INVAL));
        count.unwrap_or_else(|errno| {
            set_errno(errno);
            -1
        })
    }

    /// For functions that return a pointer, or null and `errno`.
    #[inline]
    pub(super) fn pointer<T, F: FnOnce() -> Outcome<*mut T>>(self, act: F) -> *mut T {
        self.outcome("NULL ", act).unwrap_or_else(|errno| {
            set_errno(errno);
            core::ptr::null_mut()
        })
    }

    /// For functions that cannot fail, as [`always`].
    #[inline]
    pub(super) fn always<T: Answer, F: FnOnce() -> T>(self, instead: T, act: F) -> T {
        if STATE.load(Ordering::Relaxed) == OFF {
            return always(instead, act);
        }
        self.traced::<T, F>(VOID, || guard(|| Ok(act()))).unwrap_or(instead)
    }

    #[inline]
    fn outcome<T: Answer, F: FnOnce() -> Outcome<T>>(self, failed: &str, act: F) -> Outcome<T> {
        if STATE.load(Ordering::Relaxed) == OFF {
            return guard(act);
        }
        self.traced::<T, F>(failed, || guard(act))
    }

    /// The type `F` contains the name of the function.
    #[cold]
    #[inline(never)]
    #[expect(clippy::disallowed_methods, reason = "how long calls take is what is asked for")]
    fn traced<T: Answer, F>(self, failed: &str, act: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
        let name = core::any::type_name::<F>();
        if !is_on() || !Origin::enter(name) {
            return act();
        }
        let begun = Instant::now();
        let outcome = act();
        let took = begun.elapsed();
        let mut line = Line::new(&called(name), outcome.as_ref().ok().map(Answer::count));
        (self.0)(&mut line);
        let text = line.finish(failed, &outcome);
        end(name, &text, took, outcome.is_err());
        outcome
    }
}

/// The last line of a thread.
#[derive(Debug)]
struct Thread {
    last: String,
    /// How many more times the last line has come.
    repeats: u64,
}

thread_local! {
    static THREAD: RefCell<Thread> = const { RefCell::new(Thread { last: String::new(), repeats: 0 }) };
}

fn end(name: &'static str, text: &str, took: Duration, has_failed: bool) {
    Origin::leave();
    process().tally.count(name, took, has_failed);
    let printed = THREAD.try_with(|thread| {
        let Ok(mut thread) = thread.try_borrow_mut() else { return };
        if thread.last == text {
            thread.repeats += 1;
            return;
        }
        print_repeats(&mut thread);
        print(&format!("{text}\n"));
        text.clone_into(&mut thread.last);
    });
    // A thread that is ending makes no further call.
    let _at_its_end = printed;
}

fn print_repeats(thread: &mut Thread) {
    match core::mem::take(&mut thread.repeats) {
        0 => {}
        1 => print(&format!("{}\n", thread.last)),
        times => print(&format!("{}, {times} times more\n", thread.last)),
    }
}

/// Prints the calls and the objects that are left. Does nothing in a child that has made no call.
extern "C" fn print_summary() {
    let Some(process) = process_so_far() else { return };
    always((), || {
        let _at_its_end =
            THREAD.try_with(|thread| thread.try_borrow_mut().map(|mut thread| print_repeats(&mut thread)));
        for line in process.tally.report(called).into_iter().chain(process.leaks()) {
            print(&format!("{line}\n"));
        }
    });
}

/// Prints a line at once, with its process and thread: several processes may write to one file.
fn print(line: &str) {
    let Some(output) = OUTPUT.get() else { return };
    let (process, thread) = (rustix::process::getpid(), rustix::thread::gettid());
    let mut text = String::new();
    let [dim, plain] = if output.has_colors { ["\x1b[2m", "\x1b[0m"] } else { [""; 2] };
    let _infallible = if process == thread {
        write!(text, "{dim}[{process}]{plain} {line}")
    } else {
        write!(text, "{dim}[{process}/{thread}]{plain} {line}")
    };
    // The program may have closed the file.
    let _closed = match &output.file {
        Some(file) => (&*file).write_all(text.as_bytes()),
        None => std::io::stderr().write_all(text.as_bytes()),
    };
}

/// The destination of lines.
#[derive(Debug)]
struct Output {
    /// None is standard error.
    file: Option<File>,
    has_colors: bool,
}

#[cold]
fn is_on() -> bool {
    match STATE.load(Ordering::Relaxed) {
        ON => true,
        OFF => false,
        _ => {
            let output = wanted_output();
            let state = if output.is_some() { ON } else { OFF };
            if output.is_some_and(|output| OUTPUT.set(output).is_ok()) {
                // Handlers run in reverse order: the summary comes before the farewell that the process has registered.
                process();
                // SAFETY: the handler may run at any exit. It checks itself whether there is something to print.
                let _no_memory = unsafe { libc::atexit(print_summary) };
            }
            STATE.store(state, Ordering::Relaxed);
            state == ON
        }
    }
}

/// Reads `WEFT_TRACE`: `1` is standard error, other values name a file.
fn wanted_output() -> Option<Output> {
    let wanted = std::env::var_os("WEFT_TRACE").filter(|wanted| !wanted.is_empty() && wanted != "0")?;
    if wanted == "1" {
        let has_colors = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        return Some(Output { file: None, has_colors });
    }
    match OpenOptions::new().append(true).create(true).open(Path::new(&wanted)) {
        Ok(file) => Some(Output { file: Some(file), has_colors: false }),
        Err(error) => {
            eprintln!("weft: WEFT_TRACE: {}: {error}", Path::new(&wanted).display());
            None
        }
    }
}

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
static OUTPUT: OnceLock<Output> = OnceLock::new();
const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;
