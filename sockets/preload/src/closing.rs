//! What the other end hears when a program is done with a connection.

use core::ffi::c_int;
use core::sync::atomic::{Ordering, fence};

use weft_sockets::end::{FAR, Phase, SHUT};
use weft_sockets::{Outbound, Sink, Source};

use crate::call::{Call, Step};
use crate::clock::{self, Limit};
use crate::ends::{self, Stream};
use crate::{anchor, backlog, calls, channel, overtaken, port, sets, transfer, upgrade, wake, watch};

/// Before the kernel closes a descriptor: forgets it. If it is the last one of an end, tells the other end.
pub(crate) fn close(descriptor: c_int) {
    let Some(stream) = ends::last(descriptor) else { return forget(descriptor) };
    if stream.end.state().phase == Phase::Claimed {
        // A reader on another host may wait for a word of this end.
        upgrade::look_for_mail();
    }
    match stream.end.state().phase {
        Phase::Claimed => {
            // The copy on its way to the daemon would hold the end of the stream back.
            let is_unread = calls::queued(descriptor, libc::FIONREAD).is_ok_and(|octets| octets > 0);
            if linger(descriptor) == Some(0) || is_unread {
                calls::reset(descriptor);
            } else {
                calls::finish(descriptor);
            }
        }
        Phase::Offered => say_goodbye(&Call { descriptor, stream, flags: 0 }),
        _ => {}
    }
    forget(descriptor);
}

/// Forgets a descriptor. The kernel's sets drop the socket with its last one, unless relatives hold it.
pub(crate) fn forget(descriptor: c_int) {
    if let Some(handle) = ends::forget(descriptor) {
        sets::forget(descriptor, handle);
    }
}

/// As [`close`], for all descriptors from `first` to `last`.
pub(crate) fn close_range(first: u32, last: u32) {
    for descriptor in ends::range(first, last) {
        close(descriptor);
    }
}

/// The kernel is about to shut down a socket: its end of the stream must not come before this library's. Returns true if
/// the program has not shut down what it sends before.
pub(crate) fn will_shut_down(descriptor: c_int, how: c_int) -> bool {
    if !matches!(how, libc::SHUT_WR | libc::SHUT_RDWR) {
        return false;
    }
    let Some(stream) = ends::known(descriptor) else { return false };
    let call = Call { descriptor, stream, flags: 0 };
    finish(&call);
    let flags = stream.end.outbound.flags.fetch_or(SHUT, Ordering::SeqCst);
    // A daemon that has sent mail looks at the flag. Without mail it tells the end for a process that has not heard of a channel.
    fence(Ordering::SeqCst);
    upgrade::look_for_mail();
    // Another thread may have sent meanwhile, or heard of the channel. A thread that attaches from now on finds the flag.
    finish(&call);
    flags & SHUT == 0
}

/// The kernel has refused to shut down what a socket sends.
pub(crate) fn sends_on(descriptor: c_int) {
    if let Some(stream) = ends::known(descriptor) {
        stream.end.outbound.flags.fetch_and(!SHUT, Ordering::Relaxed);
    }
}

/// The kernel has shut down a socket.
pub(crate) fn shut_down(descriptor: c_int, how: c_int) {
    let Some(stream) = ends::known(descriptor) else { return };
    if matches!(how, libc::SHUT_RD | libc::SHUT_RDWR) {
        stream.end.inbound.flags.fetch_or(SHUT, Ordering::Relaxed);
    }
    let is_shut = |flags: u32| flags & SHUT != 0;
    let (inbound, outbound) = (&stream.end.inbound.flags, &stream.end.outbound.flags);
    // Behind both, the kernel answers octets with a reset.
    if is_shut(inbound.load(Ordering::Relaxed)) && is_shut(outbound.load(Ordering::Relaxed)) {
        desert(&stream);
    }
}

/// Tells the other end that nobody reads what it sends. Of a direction by TCP the kernel tells: another program may go on
/// with it.
fn desert(stream: &Stream) {
    if channel::inbound(stream).is_some()
        && let Some(outbound) = channel::offered_outbound(stream)
    {
        outbound.reset();
        wake::wake(stream, outbound.sleepers());
    }
}

/// Tells the reader where the stream ends, if there is a channel. A direction that has stayed on TCP ends, too: the other
/// end, whose ring may be full, must not take the kernel's end for a death.
fn finish(call: &Call) {
    let is_offered = call.stream.end.state().phase == Phase::Offered;
    if is_offered && channel::offered_outbound(&call.stream).is_some() {
        transfer::send_nested(call);
        backlog::obey(call.descriptor, &call.stream);
        renounce(call);
        wait_for_room(call);
        let until = Limit::behind(Some(clock::span(FULL_BUFFER)));
        while finish_now(call, until.is_over()) == Step::Nothing {
            calls::pause(until.left_at_most(PAUSE));
        }
    }
}

/// Tells a far reader that waits for a ring that none comes, if nobody else can: it could not tell the end of the stream from
/// a loss. Waits for a while until all octets have arrived, on a socket that does not block no longer than an answer of TCP may
/// take.
fn renounce(call: &Call) {
    let (descriptor, stream) = (call.descriptor, &call.stream);
    if stream.end.has(FAR) {
        let longest = if call.is_nonblocking() { LAST_ANSWER } else { LAST_OCTETS };
        wait_while(call, longest, || {
            !upgrade::renounce(stream, descriptor, true)
                && calls::queued(descriptor, libc::TIOCOUTQ).is_ok_and(|octets| octets > 0)
        });
    }
}

/// Waits for a while until the last octets of a far end's stream fit into the kernel's buffer, if the socket blocks. If its
/// daemon dies meanwhile, they go by the kernel's socket. Behind the end it takes nothing.
fn wait_for_room(call: &Call) {
    let (descriptor, stream) = (call.descriptor, &call.stream);
    let is_shut = stream.end.outbound.flags.load(Ordering::Relaxed) & SHUT != 0;
    if !stream.end.has(FAR) || is_shut || call.is_nonblocking() {
        return;
    }
    let Some(outbound) = channel::outbound(stream) else { return };
    let is_full =
        || outbound.sink() == Sink::Ring && outbound.unread().is_ok_and(|octets| !fits(descriptor, octets));
    wait_while(call, LAST_OCTETS, || {
        if is_full() {
            watch::look_at(descriptor, stream, ends::milliseconds());
        }
        is_full()
    });
}

/// Has the end of a stream wait while `is_due` says so: at most for so many nanoseconds, and while the connection has not failed.
fn wait_while(call: &Call, longest: u64, mut is_due: impl FnMut() -> bool) {
    let until = Limit::behind(Some(clock::span(longest)));
    while is_due() && anchor::news(call.descriptor) & (libc::POLLERR | libc::POLLHUP) == 0 && !until.is_over()
    {
        calls::pause(until.left_at_most(PAUSE));
    }
}

/// Tells the reader where the stream ends, behind what has to go by the kernel's socket before that. `Nothing`: the kernel
/// does not take all of that yet. With `is_last` the connection is reset then: the reader must hear that octets are lost.
fn finish_now(call: &Call, is_last: bool) -> Step {
    transfer::in_outbound(call, |outbound| {
        if may_depart(call, outbound) {
            outbound.depart_at_end()?;
        } else if call.stream.end.has(FAR) && outbound.sink() == Sink::Ring {
            outbound.obey_at_end()?;
        }
        match transfer::send_backlog(call.descriptor, &call.stream, outbound) {
            None => {}
            Some(Step::Nothing) if !is_last => return Ok(Step::Nothing),
            Some(_) => calls::reset(call.descriptor),
        }
        outbound.finish()?;
        Ok(Step::End)
    })
}

/// True if the last octets of a far end's stream are to go by the kernel's socket, too: its program may end now, and its
/// daemon or the lane before they have arrived. They have to fit into the kernel's buffer, and the record before them has to
/// be expected. A dead daemon has not told the reader of the ring: it looks for a record, which goes out once all octets before
/// it have arrived.
fn may_depart(call: &Call, outbound: &Outbound<'_>) -> bool {
    if !call.stream.end.has(FAR) || outbound.sink() != Sink::Ring {
        return false;
    }
    let is_unknown = !outbound.was_adopted() && !port::has_daemon();
    let is_expected = is_unknown || outbound.is_adopted() && calls::has_arrived(call.descriptor);
    is_expected
        && outbound.unread().is_ok_and(|octets| (octets > 0 || is_unknown) && fits(call.descriptor, octets))
}

/// True if the kernel's buffer has room for so many octets. It is made larger for the last octets of a stream.
fn fits(descriptor: c_int, octets: u64) -> bool {
    let room = || {
        let size = calls::number(descriptor, libc::SOL_SOCKET, libc::SO_SNDBUF).unwrap_or(0);
        u64::try_from(size).unwrap_or(0) / SHARE_OF_BUFFER
    };
    if octets <= room() {
        return true;
    }
    // The kernel doubles the size, and does not go beyond what the system allows.
    let half = c_int::try_from(octets * SHARE_OF_BUFFER / 2 + 1).unwrap_or(c_int::MAX);
    calls::set_option(descriptor, libc::SOL_SOCKET, libc::SO_SNDBUF, &[half]);
    octets <= room()
}

/// Ends both directions as the kernel does with its own: a reset if octets were not read or the program wants it.
fn say_goodbye(call: &Call) {
    let linger = linger(call.descriptor);
    if linger == Some(0) || has_unread(call) {
        calls::set_option(call.descriptor, libc::SOL_SOCKET, libc::SO_LINGER, &[1, 0]);
    } else {
        finish(call);
        if let Some(seconds) = linger.filter(|_| !call.is_nonblocking()) {
            wait_for_reader(call, seconds);
        }
    }
    desert(&call.stream);
}

/// Returns the linger time in seconds, if the program has set one.
fn linger(descriptor: c_int) -> Option<u64> {
    let mut value = [0; 8];
    calls::option(descriptor, libc::SOL_SOCKET, libc::SO_LINGER, &mut value).ok()?;
    let word =
        |at: usize| value.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| i32::from_ne_bytes(*word));
    (word(0) != 0).then(|| u64::try_from(word(4)).unwrap_or(0))
}

/// True if the program leaves octets unread.
fn has_unread(call: &Call) -> bool {
    channel::inbound(&call.stream).is_some()
        && transfer::in_inbound(call, |inbound| {
            let is_there = match inbound.source()? {
                Source::Tcp { .. } => false,
                // The kernel forgets an urgent octet that was read only when it is asked for those behind it.
                Source::Ring { available } => available > 0 || calls::skip_urgent(call.descriptor) > 0,
            };
            Ok(if is_there { Step::Moved(1) } else { Step::Nothing })
        }) == Step::Moved(1)
}

/// Waits until the other end has read all, but not longer than the linger time.
fn wait_for_reader(call: &Call, seconds: u64) {
    let until = Limit::behind(Some(clock::span(seconds.saturating_mul(1_000_000_000))));
    let Some(outbound) = channel::outbound(&call.stream) else { return };
    while outbound.unread().is_ok_and(|octets| octets > 0)
        && !until.is_over()
        && (calls::peek(call.descriptor) < 0 || overtaken::is_early(&call.stream))
    {
        calls::pause(until.left_at_most(PAUSE));
    }
}

/// The kernel counts about as much for its own structures as for octets.
const SHARE_OF_BUFFER: u64 = 3;
/// How long the end of a stream waits until the kernel's socket has room for what comes before it, in nanoseconds.
const FULL_BUFFER: u64 = 5_000_000_000;
/// How long the end of a stream waits until the last octets fit into the kernel's buffer, in nanoseconds. It is longer than a
/// dead daemon may be silent.
const LAST_OCTETS: u64 = 2_000_000_000;
/// How long the end of a stream waits on a socket that does not block, in nanoseconds: the time of a delayed answer of TCP. It
/// waits only for a far reader whose sender has no daemon.
const LAST_ANSWER: u64 = 60_000_000;
/// How often a lingering thread looks, in nanoseconds.
const PAUSE: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsRawFd;

    use weft_sockets::{Carrier, Gate, RingPlace};

    use super::*;
    use crate::family;
    use crate::overtaken::tests::Far;

    #[test]
    fn a_question_that_comes_while_a_stream_ends_in_its_ring_is_obeyed() {
        let _turn = family::turn();
        for is_asked in [true, false] {
            let mut far = Far::before_a_ring(0x6033);
            let outbound = channel::offered_outbound(&far.ends[0]).expect("a channel");
            far.to_there.attach();
            assert!(Gate::new(&far.ends[0].end.outbound.inside, false).try_close());
            let ring = Carrier::Ring(RingPlace::new(65, 16).expect("a place in the link"));
            assert_eq!((outbound.commit(), outbound.begin_leg(ring)), (true, Ok(true)));
            assert_eq!(far.send(), 4096);
            if is_asked {
                far.to_there.ask_back();
            }
            // The thread has looked for a question before.
            let call = Call { descriptor: far.own.as_raw_fd(), stream: far.ends[0], flags: 0 };
            assert_eq!(port::tests::beside_a_daemon(|| finish_now(&call, false)), Step::End);
            assert_eq!(outbound.sink() == Sink::Tcp, is_asked);
            if is_asked {
                far.other.read_exact(&mut [0; 4096]).expect("octets of the ring, without a record");
                assert_eq!(calls::queued(far.other.as_raw_fd(), libc::FIONREAD), Ok(0));
            }
            far.forget(0x6033);
        }
    }
}
