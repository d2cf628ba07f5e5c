//! How a call of the program's waits for octets or for room.

use core::sync::atomic::Ordering;

use libc::timespec;
use weft_sockets::Step;

use crate::call::Call;
use crate::clock::Limit;
use crate::ends::Stream;
use crate::spin::{self, Spin, Turn};
use crate::{calls, channel, poll};

/// The wait of one call.
#[derive(Debug)]
pub(crate) struct Patience {
    events: i16,
    has_watched: bool,
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
    #[inline]
    pub(crate) const fn new(events: i16) -> Self {
        Self { events, has_watched: false, spin: None, until: None, has_limit: false }
    }

    /// Decides what to do behind a look that found nothing.
    #[cold]
    pub(crate) fn next(&mut self, call: &Call) -> Next {
        if call.is_nonblocking() {
            return Next::Leave;
        }
        let (stream, is_inbound) = (&call.stream, self.events == libc::POLLIN);
        let is_same_cpu = is_inbound && channel::is_on_this_cpu(stream);
        // Most answers come so soon that a look at the clock would be late.
        let may_watch = !core::mem::replace(&mut self.has_watched, true) && !is_same_cpu && spin::pays();
        if may_watch && is_inbound && stream.end.inbound.waits_again(stream.end.outbound.accepted()) {
            (0..PAUSES).for_each(|_| core::hint::spin_loop());
        }
        if may_watch && watch(stream, is_inbound, FIRST_LOOKS) {
            stream.end.counts.spins.fetch_add(1, Ordering::Relaxed);
            return Next::Look;
        }
        // A writer waits because its ring is full, in the middle of a transfer.
        let spin = self.spin.get_or_insert_with(|| Spin::new(is_same_cpu, !is_inbound, true));
        if spin.next() != Turn::Sleep {
            watch(stream, is_inbound, LOOKS);
            return Next::Look;
        }
        self.pay(stream);
        Next::Sleep
    }

    /// Learns from the looks since the last sleep, if there were any, and counts what they came to.
    #[inline]
    pub(crate) fn pay(&mut self, stream: &Stream) {
        if self.spin.is_some() {
            self.learn(stream);
        }
    }

    #[cold]
    fn learn(&mut self, stream: &Stream) {
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

    /// Sleeps, until there are `least` octets if that is given. Returns the error that ends the call, if one does.
    pub(crate) fn sleep(&mut self, call: &Call, least: Option<usize>) -> Option<isize> {
        let until = match self.until {
            Some(until) => until,
            None => match self.ask(call) {
                Some(until) => until,
                None => return Some(-(libc::EAGAIN as isize)),
            },
        };
        if until.is_over() {
            return Some(-(libc::EAGAIN as isize));
        }
        let result = poll::sleep(call.descriptor, self.events, until, least);
        // Another thread has closed the socket, and the next one has its place, and perhaps its number, too.
        if !call.stream.is_current() {
            return Some(-(libc::EBADF as isize));
        }
        let is_interrupted = result == -(libc::EINTR as isize);
        // The kernel restarts a call without a limit if the handler says so.
        let is_restarted = !self.has_limit && is_interrupted && !calls::has_interrupting_handler();
        (result < 0 && !is_restarted).then_some(result)
    }

    /// Asks the kernel how long the program wants to wait. `None`: not at all.
    fn ask(&mut self, call: &Call) -> Option<Limit> {
        let flags = calls::file_flags(call.descriptor).unwrap_or(0);
        call.stream.set_nonblocking(flags & libc::O_NONBLOCK != 0);
        if flags & libc::O_NONBLOCK != 0 {
            return None;
        }
        let name = if self.events == libc::POLLIN { libc::SO_RCVTIMEO } else { libc::SO_SNDTIMEO };
        let mut span = [0; size_of::<[i64; 2]>()];
        let _filled = calls::option(call.descriptor, libc::SOL_SOCKET, name, &mut span);
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

/// Looks so often, shortly one after the other, whether the other end has told something. Returns true if it has.
fn watch(stream: &Stream, is_inbound: bool, looks: u32) -> bool {
    (0..looks).any(|_| {
        core::hint::spin_loop();
        !channel::is_still(stream, is_inbound)
    })
}

/// Pauses before the first look in the middle of a stream: each look takes the line of the tail from the sender.
const PAUSES: u32 = 16;
/// Looks before the clock is asked first.
const FIRST_LOOKS: u32 = 32;
/// Looks between two questions to the clock.
const LOOKS: u32 = 8;
