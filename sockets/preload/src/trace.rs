//! The lines of `WEFT_SOCKETS_TRACE`: what became of which connection, and at which position.

use core::fmt::{Arguments, Write};

use rustix::fs::{Mode, OFlags};

use crate::line::Line;
use crate::own::Own;
use crate::policy;
use crate::real::Once;

/// Writes a line, if the program's environment asks for it.
pub(crate) fn line(text: Arguments<'_>) {
    let Some(path) = policy::policy().and_then(|policy| policy.trace.as_ref()) else { return };
    let file = FILE.get().or_else(|| {
        FILE.set(|| {
            let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC;
            Own::new(
                rustix::fs::open(path.octets(), flags, Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH)
                    .ok()?,
            )
            .ok()
        })
    });
    let Some(file) = file.and_then(Own::borrow) else { return };
    let mut line = Line::<LONGEST>::new();
    let process = rustix::process::getpid().as_raw_nonzero();
    // A line that is too long ends early.
    let _fits = writeln!(line, "{process} {text}");
    let _written = rustix::io::write(file, line.octets());
}

/// Writes a line of the trace, made as by `format!`.
macro_rules! trace {
    ($($argument:tt)*) => { $crate::trace::line(format_args!($($argument)*)) };
}
pub(crate) use trace;

static FILE: Once<Own> = Once::new();
const LONGEST: usize = 256;
