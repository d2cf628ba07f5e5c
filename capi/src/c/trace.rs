//! What `weft run --trace` prints: each call of the program with its arguments and its outcome, and at the end how many there were and
//! what is left. Who does not want it pays a load and a branch for each call.
#![allow(unsafe_code)]

use core::cell::RefCell;
use core::ffi::{c_int, c_void};
use core::fmt::Write as _;
use core::ptr::null;
use core::sync::atomic::{AtomicU8, Ordering};
use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Write as _};
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::boundary::{Outcome, always, guard, set_errno};
use super::fork::process;
use super::show::{Answer, Line, VOID};

/// A call with its arguments, by [`args`], before it is carried out.
pub(super) struct Call<A>(pub(super) A);

/// The arguments of the call that is traced, by their names; then as the functions of [`super::boundary`].
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
    /// See [`super::boundary::status`].
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

    /// See [`super::boundary::number`].
    #[inline]
    pub(super) fn number<F: FnOnce() -> Outcome<c_int>>(self, act: F) -> c_int {
        self.outcome("-1 ", act).unwrap_or_else(|errno| {
            set_errno(errno);
            -1
        })
    }

    /// For `rdma_` functions that answer 0, or -1 and `errno`.
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

    /// For functions that answer how many octets, or -1 and `errno`.
    #[inline]
    pub(super) fn size<F: FnOnce() -> Outcome<usize>>(self, act: F) -> isize {
        let count =
            self.outcome("-1 ", act).and_then(|count| isize::try_from(count).map_err(|_| Errno::INVAL));
        count.unwrap_or_else(|errno| {
            set_errno(errno);
            -1
        })
    }

    /// See [`super::boundary::pointer`].
    #[inline]
    pub(super) fn pointer<T, F: FnOnce() -> Outcome<*mut T>>(self, act: F) -> *mut T {
        self.outcome("NULL ", act).unwrap_or_else(|errno| {
            set_errno(errno);
            core::ptr::null_mut()
        })
    }

    /// See [`super::boundary::always`].
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

    /// `F` has the name of the function in its own.
    #[cold]
    #[inline(never)]
    #[expect(clippy::disallowed_methods, reason = "how long calls take is what is asked for")]
    fn traced<T: Answer, F>(self, failed: &str, act: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
        let name = core::any::type_name::<F>();
        if !is_on() || !begin(name) {
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

/// Where an object comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    call: &'static str,
    /// An address in the program, behind the call.
    site: usize,
}

impl Origin {
    /// That of an object that is made at this moment, if somebody wants to know.
    pub(crate) fn here() -> Option<Self> {
        if STATE.load(Ordering::Relaxed) == OFF {
            return None;
        }
        let call = THREAD.try_with(|thread| thread.try_borrow().ok()?.call).ok()??;
        Some(Self { call, site: site() })
    }
}

impl core::fmt::Display for Origin {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let call = called(self.call);
        match place(self.site) {
            Some((file, base)) => write!(f, "by {call}, for {file}+{:#x}", self.site - base),
            None => write!(f, "by {call}"),
        }
    }
}

/// What a thread has to do with the trace.
#[derive(Debug)]
struct Thread {
    /// The call that it is in.
    call: Option<&'static str>,
    last: String,
    /// How often the last line has come again.
    repeats: u64,
}

thread_local! {
    static THREAD: RefCell<Thread> = const { RefCell::new(Thread { call: None, last: String::new(), repeats: 0 }) };
}

/// Whether a call is to be traced: not one within another, which the program has not made.
fn begin(name: &'static str) -> bool {
    let begun = THREAD.try_with(|thread| {
        let mut thread = thread.try_borrow_mut().ok()?;
        thread.call.is_none().then(|| thread.call = Some(name))
    });
    matches!(begun, Ok(Some(())))
}

fn end(name: &'static str, text: &str, took: Duration, has_failed: bool) {
    process().tally.count(name, took, has_failed);
    let printed = THREAD.try_with(|thread| {
        let Ok(mut thread) = thread.try_borrow_mut() else { return };
        thread.call = None;
        if thread.last == text {
            thread.repeats += 1;
            return;
        }
        print_repeats(&mut thread);
        print(&format!("{text}\n"));
        text.clone_into(&mut thread.last);
    });
    // A thread that ends calls nobody any more.
    let _at_its_end = printed;
}

fn print_repeats(thread: &mut Thread) {
    match core::mem::take(&mut thread.repeats) {
        0 => {}
        1 => print(&format!("{}\n", thread.last)),
        times => print(&format!("{}, {times} times more\n", thread.last)),
    }
}

/// At the end of the process: what was called, and what is left.
pub(super) fn print_summary() {
    if STATE.load(Ordering::Relaxed) != ON {
        return;
    }
    let _at_its_end =
        THREAD.try_with(|thread| thread.try_borrow_mut().map(|mut thread| print_repeats(&mut thread)));
    let process = process();
    for line in process.tally.report(called).into_iter().chain(process.leaks()) {
        print(&format!("{line}\n"));
    }
}

/// A line in one piece, with who says it: several processes may write to one file.
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
    // Who has closed the file does not want to read it.
    let _closed = match &output.file {
        Some(file) => (&*file).write_all(text.as_bytes()),
        None => std::io::stderr().write_all(text.as_bytes()),
    };
}

/// The name of a C function, by the type of the closure in it.
fn called(type_name: &str) -> String {
    let path = type_name.split("::{{closure}}").next().unwrap_or(type_name);
    let mut parts = path.rsplit("::");
    let name = parts.next().unwrap_or(path).trim_start_matches('_');
    let is_whole = ["ibv_", "rdma_"].iter().any(|family| name.starts_with(family));
    match parts.next() {
        _ if is_whole => name.to_owned(),
        Some("cq") if name.starts_with("read_") => format!("ibv_wc_{name}"),
        Some("post" | "cq" | "qp" | "qp_ex" | "context" | "memory" | "window" | "windows") => {
            format!("ibv_{name}")
        }
        _ => name.to_owned(),
    }
}

/// Where lines go.
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
            if let Some(output) = output {
                let _first = OUTPUT.set(output);
            }
            STATE.store(state, Ordering::Relaxed);
            state == ON
        }
    }
}

/// What `WEFT_TRACE` says: `1` is standard error, all else the name of a file.
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

/// Where in the program, or in a library of its, the call comes from that this thread is in; 0 if nobody knows.
fn site() -> usize {
    let mut frames = [null::<c_void>().cast_mut(); 48];
    // SAFETY: it stores at most as many addresses as there is room for.
    let count = unsafe { libc::backtrace(frames.as_mut_ptr(), FRAMES) };
    let Some((_, own)) = place(site as *const () as usize) else { return 0 };
    let frames = &frames[..usize::try_from(count).unwrap_or(0)];
    let outside = frames
        .iter()
        .map(|frame| frame.addr())
        .find(|&frame| place(frame).is_some_and(|(_, base)| base != own));
    outside.unwrap_or(0)
}

/// The file that an address is from, and where that is loaded.
fn place(address: usize) -> Option<(String, usize)> {
    let mut info = core::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: any address may be asked for, and the struct is this function's own; of zeros it is a value.
    let info = unsafe {
        if libc::dladdr(core::ptr::without_provenance(address), info.as_mut_ptr()) == 0 {
            return None;
        }
        info.assume_init()
    };
    // SAFETY: a name that the loader keeps as long as the file is loaded, which a caller's is.
    let file = (!info.dli_fname.is_null()).then(|| unsafe { CStr::from_ptr(info.dli_fname) })?;
    let file = file.to_string_lossy();
    let name = Path::new(&*file).file_name().map_or_else(|| file.clone(), |name| name.to_string_lossy());
    Some((name.into_owned(), info.dli_fbase.addr()))
}

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
static OUTPUT: OnceLock<Output> = OnceLock::new();
const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;
const FRAMES: c_int = 48;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_their_names_in_c() {
        for (inside, name) in [
            ("weft_capi::c::memory::ibv_alloc_pd::{{closure}}", "ibv_alloc_pd"),
            ("weft_capi::c::post::poll_cq::{{closure}}::{{closure}}", "ibv_poll_cq"),
            ("weft_capi::c::cq::read_opcode::{{closure}}", "ibv_wc_read_opcode"),
            ("weft_capi::c::context::_ibv_query_gid_ex::{{closure}}", "ibv_query_gid_ex"),
            ("weft_capi::c::rsocket::rconnect::{{closure}}", "rconnect"),
        ] {
            assert_eq!(called(inside), name);
        }
    }

    #[test]
    fn an_address_has_a_place() {
        let (_, base) = place(an_address_has_a_place as *const () as usize).unwrap();
        assert!(base != 0 && place(1).is_none());
    }
}
