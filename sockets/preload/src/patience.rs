//! How a call of the program's waits for octets or for room.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use libc::timespec;
use weft_sockets::Step;
use weft_sockets::end::NONBLOCKING;

use crate::calls;
use crate::clock::Limit;
use crate::ends::Stream;
use crate::poll;
use crate::spin::{Spin, Turn};

/// The wait of one call.
#[derive(Debug)]
pub(crate) struct Patience {
    descriptor: c_int,
    events: i16,
    spin: Option<Spin>,
    /// Until when the program wants to wait, once the kernel was asked.
    until: Option<Limit>,
    has_limit: bool,
}

/// What a call does that found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It looks at the ring again.
    Look,
    /// It asks the kernel's socket, and sleeps if that is silent.
    Sleep,
    /// It does not wait.
    Leave,
}

impl Patience {
    /// Prepares to wait for an event: `POLLIN` or `POLLOUT`.
    pub(crate) const fn new(descriptor: c_int, events: i16) -> Self {
        Self { descriptor, events, spin: None, until: None, has_limit: false }
    }

    /// Decides what to do behind a look that found nothing.
    pub(crate) fn next(&mut self, stream: &Stream, flags: c_int, is_same_cpu: bool) -> Next {
        if flags & libc::MSG_DONTWAIT != 0 || stream.end.has(NONBLOCKING) {
            return Next::Leave;
        }
        // A writer waits because its ring is full, in the middle of a transfer.
        let is_in_stream = self.events == libc::POLLOUT;
        let spin = self.spin.get_or_insert_with(|| Spin::new(is_same_cpu, is_in_stream, true));
        if spin.next() != Turn::Sleep {
            return Next::Look;
        }
        self.pay(stream);
        Next::Sleep
    }

    /// Learns from the looks since the last sleep, if there were any, and counts what they came to.
    #[inline]
    pub(crate) fn pay(&mut self, stream: &Stream) {
        if let Some(spin) = self.spin.take() {
            let counts = &stream.end.counts;
            let count = match spin.end() {
                Some(Step::Spin) => &counts.spins,
                Some(Step::Yield) => &counts.yields,
                Some(Step::Sleep) => &counts.sleeps,
                None => return,
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sleeps. Returns the error that ends the call, if one does.
    pub(crate) fn sleep(&mut self, stream: &Stream) -> Option<isize> {
        let until = match self.until {
            Some(until) => until,
            None => match self.ask(stream) {
                Some(until) => until,
                None => return Some(-(libc::EAGAIN as isize)),
            },
        };
        if until.is_over() {
            return Some(-(libc::EAGAIN as isize));
        }
        let result = poll::sleep(self.descriptor, self.events, until);
        let is_interrupted = result == -(libc::EINTR as isize);
        // The kernel restarts a call without a limit if the handler says so.
        let is_restarted = !self.has_limit && is_interrupted && !calls::has_interrupting_handler();
        (result < 0 && !is_restarted).then_some(result)
    }

    /// Asks the kernel how long the program wants to wait. `None`: not at all.
    fn ask(&mut self, stream: &Stream) -> Option<Limit> {
        let flags = calls::file_flags(self.descriptor).unwrap_or(0);
        stream.set_nonblocking(flags & libc::O_NONBLOCK != 0);
        if flags & libc::O_NONBLOCK != 0 {
            return None;
        }
        let name = if self.events == libc::POLLIN { libc::SO_RCVTIMEO } else { libc::SO_SNDTIMEO };
        let mut span = [0; size_of::<[i64; 2]>()];
        let _filled = calls::option(self.descriptor, libc::SOL_SOCKET, name, &mut span);
        let word = |at: usize| {
            span.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| i64::from_ne_bytes(*word))
        };
        let (seconds, microseconds) = (word(0), word(8));
        self.has_limit = seconds != 0 || microseconds != 0;
        let span = timespec { tv_sec: seconds, tv_nsec: microseconds * 1000 };
        let until = Limit::behind(self.has_limit.then_some(span));
        self.until = Some(until);
        Some(until)
    }
}
