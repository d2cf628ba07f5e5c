//! The way back to TCP, for a connection whose socket something outside the hooks is about to use: another program, a
//! child that knows nothing of the ring, the C library's own calls.

use core::ffi::c_int;
use core::sync::atomic::{Ordering, fence};

use rustix::thread::{Timespec, nanosleep};

use weft_sockets::end::{ASKING, FAR, Phase};
use weft_sockets::{Broken, Carrier, Gate, Inbound, Outbound, Reason, Sink, Sleepers, Source};

use crate::anchor;
use crate::clock::{self, Limit};
use crate::ends::Stream;
use crate::section::Section;
use crate::trace::trace;
use crate::{backlog, calls, channel, ends, family, overtaken, port, real, record, sleep, upgrade, wake};

/// Takes both directions of a connection back to TCP, for good. Waits until the other end has come along: at most 30
/// seconds, or as long as it takes octets in each 30 seconds. Returns false if it has not: then the connection is reset.
pub(crate) fn lower(descriptor: c_int, stream: &Stream, reason: Reason) -> bool {
    lower_within(descriptor, stream, reason, PATIENCE)
}

/// As [`lower`], with so many nanoseconds in the place of 30 seconds.
fn lower_within(descriptor: c_int, stream: &Stream, reason: Reason, patience: u64) -> bool {
    loop {
        let before = untaken(descriptor, stream);
        if try_lower(descriptor, stream, reason, Limit::behind(Some(clock::span(patience)))) {
            return true;
        }
        if !(1..before).contains(&untaken(descriptor, stream)) {
            give_up(descriptor, stream);
            return false;
        }
    }
}

/// Returns how many octets its reader, or the reader's kernel, has to take before a direction is back on TCP. 0: that does not
/// depend on them.
fn untaken(descriptor: c_int, stream: &Stream) -> u64 {
    let Some(outbound) = channel::outbound(stream) else { return 0 };
    let rest = || outbound.backlog().map_or(0, |pieces| pieces.iter().map(|(_, len)| *len as u64).sum());
    let in_ring = if outbound.sink() == Sink::Ring { outbound.unread().unwrap_or(0) } else { rest() };
    calls::queued(descriptor, libc::TIOCOUTQ).unwrap_or(0) + in_ring
}

/// As [`lower`], for all connections of this process, at once in at most 30 seconds. Those that relatives hold as well
/// are theirs: they go on as they are.
pub(crate) fn lower_all(reason: Reason) {
    let until = Limit::behind(Some(clock::span(PATIENCE)));
    for (descriptor, stream) in ends::all() {
        let is_mine = family::member().is_some_and(|member| stream.end.holders.only(member));
        if !try_lower(descriptor, &stream, reason, until) && is_mine {
            give_up(descriptor, &stream);
        }
    }
}

/// As [`lower`], until a limit. Resets nothing: without an answer a direction stays as it is.
pub(crate) fn try_lower(descriptor: c_int, stream: &Stream, reason: Reason, until: Limit) -> bool {
    stream.end.stay(reason);
    let state = stream.end.state();
    if state.phase == Phase::Claimed && stream.end.advance(state, Phase::Plain) {
        let _answered_already = port::withdraw(stream.handle);
    }
    if stream.end.state().phase != Phase::Offered {
        return true;
    }
    let is_lowered = lower_outbound(descriptor, stream, until) && lower_inbound(descriptor, stream, until);
    if is_lowered {
        trace!("{descriptor}: back on TCP, {}", reason.name());
    }
    is_lowered
}

fn give_up(descriptor: c_int, stream: &Stream) {
    anchor::break_off(descriptor, stream);
    trace!("{descriptor}: reset, the other end does not go back to TCP");
}

fn lower_outbound(descriptor: c_int, stream: &Stream, until: Limit) -> bool {
    let Some(outbound) = channel::offered_outbound(stream) else { return true };
    let step = |outbound: &Outbound<'_>| {
        let is_back = backlog::answer(descriptor, stream, outbound)?
            || outbound.sink() == Sink::Tcp
            || backlog::leave_ring(stream, outbound)?;
        Ok::<_, Broken>(is_back && backlog::send(descriptor, stream, outbound))
    };
    wait(until, || {
        // A signal handler cannot change what its thread is in the middle of.
        let Some(section) = Section::of_outbound(stream, &outbound) else { return Some(false) };
        let is_over = || match outbound.sink() {
            Sink::Ring => is_dead(descriptor, stream),
            // Behind the answer, the other end may be a program without this library: its stream ends without a word.
            Sink::Tcp => anchor::news(descriptor) & (libc::POLLERR | libc::POLLHUP) != 0,
        };
        let is_done = step(&outbound).map(|is_lowered| is_lowered || is_over());
        section.leave();
        wake::tell_reader(stream, &outbound);
        match is_done {
            Ok(is_done) => is_done.then_some(true),
            Err(Broken) => Some(false),
        }
    })
}

fn lower_inbound(descriptor: c_int, stream: &Stream, until: Limit) -> bool {
    let Some(inbound) = channel::offered_inbound(stream) else { return true };
    let gate = Gate::new(&stream.end.inbound.inside, false);
    // Behind the word that the end stays: who closes the gate later sees that.
    fence(Ordering::SeqCst);
    if !gate.is_closed() {
        // The sender need not wait for it.
        inbound.decline();
        wake::tell_sender(stream, &inbound);
        return true;
    }
    let Some(section) = Section::of_inbound(stream, &inbound) else { return false };
    let has_left = || record::settle(descriptor, stream, &inbound) == Ok(true) && inbound.skip() == 0;
    // Another host's sender may have begun a ring of which this host does not know yet.
    let is_lowered = !stream.end.has(FAR) && inbound.withdraw()
        || inbound.is_at_end()
        || has_left()
        || inbound.follow() && inbound.skip() == 0
        || ask(descriptor, stream, &inbound, until);
    if is_lowered {
        gate.open();
    }
    section.leave();
    is_lowered
}

/// Asks the sender for TCP, and waits for its answer.
fn ask(descriptor: c_int, stream: &Stream, inbound: &Inbound<'_>, until: Limit) -> bool {
    question(stream, inbound);
    let mut looks = 0_u32;
    let mut asked = ends::milliseconds();
    let is_lowered = wait(until, || {
        ask_again(descriptor, stream, inbound, &mut asked);
        // A thread that is on its way to sleep may not have seen the question.
        if looks.is_multiple_of(LOOKS_A_BELL) {
            wake::tell_sender(stream, inbound);
            wake::wake(stream, Some(Sleepers::Everybody));
        }
        looks += 1;
        // The other end may be this process's own, or ask for the same.
        backlog::obey_all();
        // Before the look at the answer: behind its end or its death, the sender cannot answer any more.
        let is_dead = is_dead(descriptor, stream);
        let is_final = inbound.end().is_some();
        if record::settle(descriptor, stream, inbound) != Ok(false) {
            // What follows the record is on its way.
            (inbound.skip() == 0 || is_dead).then(|| inbound.skip() == 0)
        } else if inbound.is_answered() && stream.end.has(FAR) {
            // In a ring, the record is the answer.
            inbound.is_before_ring().then(|| inbound.remain()).map(|()| true)
        } else if inbound.is_answered() {
            Some(inbound.come_back().is_ok())
        } else if is_final && is_ended_by_tcp(stream, inbound) {
            inbound.remain();
            Some(true)
        } else if is_final {
            Some(inbound.is_at_end())
        } else if inbound.follow() {
            Some(true)
        } else {
            is_dead.then(|| inbound.available(1) == Ok(0) && !may_miss(descriptor, stream, inbound))
        }
    });
    if !is_lowered {
        // A far sender may answer without a record, as long as the reader has not come to a ring. So it stays asked.
        if !stream.end.has(FAR) || !inbound.is_before_ring() {
            inbound.ask_no_more();
        }
        wake::tell_sender(stream, inbound);
    }
    stream.end.inbound.flags.fetch_and(!ASKING, Ordering::Relaxed);
    is_lowered
}

/// Asks a far sender once more, if it has not answered for a while and no record can be the answer. The session that was to
/// carry the question may have ended, or the daemon. Another one carries it, once this process has found it.
fn ask_again(descriptor: c_int, stream: &Stream, inbound: &Inbound<'_>, asked: &mut u32) {
    let now = ends::milliseconds();
    if !stream.end.has(FAR) || !inbound.is_before_ring() || now.wrapping_sub(*asked) < AGAIN {
        return;
    }
    *asked = now;
    // The daemon's welcome: it has to be shown the link, by which it answers.
    upgrade::look_for_mail();
    if let Some(status) = sleep::status() {
        let _heard = port::ask(stream.handle, real::borrow(descriptor), status);
    }
}

/// True if a reader that goes on by TCP may miss octets of a far sender that is dead: octets of its ring may not have come, a
/// ring may have begun of which this host knows nothing, or the record that tells so stands behind the next octets.
fn may_miss(descriptor: c_int, stream: &Stream, inbound: &Inbound<'_>) -> bool {
    let is_in_ring = stream.end.inbound.leg().carrier != Carrier::Tcp;
    let may_be_ring = is_in_ring || inbound.may_miss_ring();
    may_be_ring && overtaken::is_late(stream) || record::may_follow(descriptor, stream, inbound)
}

/// True if a far sender has ended its stream and has never begun a ring. The end is told behind each ring.
fn is_ended_by_tcp(stream: &Stream, inbound: &Inbound<'_>) -> bool {
    stream.end.has(FAR)
        && inbound.is_before_ring()
        && matches!(inbound.source(), Ok(Source::Tcp { left: None }))
}

/// Asks the sender for TCP. What a signal handler takes from the ring behind that would come again by TCP.
fn question(stream: &Stream, inbound: &Inbound<'_>) {
    stream.end.inbound.flags.fetch_or(ASKING, Ordering::SeqCst);
    inbound.ask_back_because(stream.end.reason());
}

/// True if the process at the other end is dead, so that it does not answer.
fn is_dead(descriptor: c_int, stream: &Stream) -> bool {
    let news = anchor::news(descriptor);
    // The sender says so before the kernel does.
    let is_final = channel::offered_inbound(stream).is_some_and(|inbound| inbound.end().is_some());
    let is_ended = news & libc::POLLRDHUP != 0 && !is_final;
    news & libc::POLLERR != 0 || is_ended && !overtaken::is_early(stream)
}

/// Looks again and again until there is an answer. It is false behind the limit.
fn wait(until: Limit, mut look: impl FnMut() -> Option<bool>) -> bool {
    let mut pause = FIRST_PAUSE;
    loop {
        if let Some(answer) = look() {
            return answer;
        }
        if until.is_over() {
            return false;
        }
        let span = Timespec { tv_sec: 0, tv_nsec: pause };
        let _interrupted = nanosleep(&span);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// How long the other end has, in nanoseconds.
const PATIENCE: u64 = 30_000_000_000;
/// The time behind which a far sender is asked again, in milliseconds.
const AGAIN: u32 = 200;
/// Looks between two rings of the bells.
const LOOKS_A_BELL: u32 = 16;
/// The time between two looks, in nanoseconds.
const FIRST_PAUSE: i64 = 20_000;
const LONGEST_PAUSE: i64 = 2_000_000;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::Shutdown;
    use std::os::fd::AsRawFd;

    use weft_sockets::{Carrier, Record};

    use super::*;
    use crate::backlog::tests::Waiting;
    use crate::call::Call;
    use crate::overtaken::tests::{Daemon, Far};
    use crate::{buffers, family, links, receive};

    #[test]
    fn a_signal_handler_takes_nothing_that_comes_again_by_tcp() {
        let _turn = family::turn();
        let waiting = Waiting::new(0x600e);
        let stream = waiting.ends[1];
        let call = Call { descriptor: waiting.peer.as_raw_fd(), stream, flags: libc::MSG_DONTWAIT };
        // As in a handler that interrupts the thread in its section.
        let section = Section::of_inbound(&stream, &waiting.inbound).expect("a free lock");
        let take = || buffers::with_own(&mut [0; 8], |buffers| receive::receive(&call, buffers));
        assert_eq!(take(), 8);
        question(&stream, &waiting.inbound);
        assert_eq!(take(), -(libc::EAGAIN as isize));
        stream.end.inbound.flags.fetch_and(!ASKING, Ordering::Relaxed);
        assert_eq!(take(), 8);
        section.leave();
        channel::tests::forget(0x600e, waiting.ends);
    }

    #[test]
    fn a_reader_follows_a_sender_that_has_left_by_itself_and_answers_no_more() {
        let _turn = family::turn();
        let waiting = Waiting::new(0x600b);
        let [_, reader] = &waiting.ends;
        let (now, descriptor) = (Limit::behind(Some(clock::span(0))), waiting.peer.as_raw_fd());
        assert!(Gate::new(&reader.end.inbound.inside, false).try_close());
        assert_eq!(waiting.outbound.begin_leg(Carrier::Tcp), Ok(true));
        assert!(!lower_inbound(descriptor, reader, now), "the ring has octets still");
        while waiting.inbound.discard(65_536).expect("a ring") > 0 {}
        assert!(lower_inbound(descriptor, reader, now));
        assert!(!Gate::new(&reader.end.inbound.inside, false).is_closed());
        channel::tests::forget(0x600b, waiting.ends);
    }

    #[test]
    fn another_hosts_sender_is_asked_though_it_seems_to_send_by_tcp_still() {
        let _turn = family::turn();
        let far = Far::before_a_ring(0x6029);
        let daemon = Daemon::new(0x6029, &far.ends[0]);
        let (descriptor, stream) = (far.own.as_raw_fd(), far.ends[0]);
        let until = Limit::behind(Some(clock::span(PATIENCE)));
        let asking = std::thread::spawn(move || lower_inbound(descriptor, &stream, until));
        while far.from_there.obey() != Ok(true) {
            assert!(!asking.is_finished());
            std::thread::yield_now();
        }
        assert!(asking.join().expect("no panic") && daemon.was_woken());
        assert!(!Gate::new(&stream.end.inbound.inside, false).is_closed());
        daemon.forget(0x6029);
        far.forget(0x6029);
    }

    #[test]
    fn a_far_reader_whose_sender_has_ended_its_stream_by_tcp_stays_there() {
        let _turn = family::turn();
        let far = Far::before_a_ring(0x602c);
        let (descriptor, stream) = (far.own.as_raw_fd(), far.ends[0]);
        far.ends[1].end.outbound.count(5);
        far.from_there.finish().expect("a sound link");
        let now = Limit::behind(Some(clock::span(0)));
        assert!(lower_inbound(descriptor, &stream, now), "five octets are unread in the kernel");
        assert!(!Gate::new(&stream.end.inbound.inside, false).is_closed());
        far.forget(0x602c);
    }

    #[test]
    fn a_far_stream_that_has_ended_in_its_ring_keeps_no_end_from_tcp() {
        let _turn = family::turn();
        let far = Far::new(0x602f);
        let (descriptor, stream) = (far.own.as_raw_fd(), far.ends[0]);
        assert_eq!(far.send(), 4096);
        channel::offered_outbound(&stream).expect("a channel").finish().expect("a sound link");
        let now = Limit::behind(Some(clock::span(0)));
        assert!(lower_outbound(descriptor, &stream, now), "the daemon has the rest");
        assert!(!Gate::new(&stream.end.outbound.inside, false).is_closed());
        assert_eq!((far.to_there.available(5000), far.to_there.end()), (Ok(4096), Some(4096)));
        far.forget(0x602f);
    }

    #[test]
    fn a_record_behind_unread_octets_of_a_dead_sender_is_not_left_to_another_program() {
        let _turn = family::turn();
        for (has_record, is_told) in [(false, true), (false, false), (true, true)] {
            let mut far = Far::before_a_ring(0x602e);
            assert!(far.from_there.commit());
            let (descriptor, stream) = (far.own.as_raw_fd(), far.ends[0]);
            record::keep(&stream, [3, 5]);
            let record = Record::new(5).encode([3, 5]);
            let octets = [&b"abcde"[..], if has_record { &record } else { &[] }].concat();
            far.other.write_all(&octets).expect("room");
            far.end_early();
            assert!(overtaken::is_early(&stream));
            far.wait_in_vain();
            if is_told {
                // It was closed before it has begun a ring.
                let channel = links::of(0x602e, 0).and_then(|link| link.channel(0)).expect("a channel");
                let party = ends::place(stream.end).2 as usize;
                let flags = &channel.directions[1 - party].producer.flags;
                flags.store(weft_sockets::layout::CLOSED, Ordering::Relaxed);
            }
            let until = Limit::behind(Some(clock::span(PATIENCE)));
            assert_eq!(lower_inbound(descriptor, &stream, until), is_told && !has_record);
            far.forget(0x602e);
        }
    }

    #[test]
    fn a_reader_whose_lane_is_away_does_not_take_what_is_under_way_for_the_end() {
        let _turn = family::turn();
        for is_told in [true, false] {
            let far = Far::new(0x602d);
            assert!(far.receive() < 0, "the reader is in the ring");
            let (descriptor, stream) = (far.own.as_raw_fd(), far.ends[0]);
            far.end_early();
            assert!(overtaken::is_early(&stream));
            far.wait_in_vain();
            if is_told {
                far.from_there.finish().expect("a sound link");
            }
            let until = Limit::behind(Some(clock::span(PATIENCE)));
            assert_eq!(lower_inbound(descriptor, &stream, until), is_told);
            far.forget(0x602d);
        }
    }

    #[test]
    fn a_slow_reader_is_waited_for_and_one_that_takes_nothing_is_reset() {
        let _turn = family::turn();
        for is_slow in [true, false] {
            let far = Far::new(0x6031);
            let (descriptor, stream) = (far.own.as_raw_fd(), far.ends[0]);
            record::keep(&stream, [3, 5]);
            calls::set_option(descriptor, libc::SOL_SOCKET, libc::SO_SNDBUF, &[1]);
            calls::set_option(far.other.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, &[32_768]);
            while far.send() > 0 {}
            far.from_there.finish().expect("a sound link");
            // What went by TCP before the ring. Its reader takes none of it yet.
            let (mut before, flags) = (0, libc::MSG_DONTWAIT);
            let mut fill = || {
                let sent = buffers::with_own(&mut [0; 1024], |buffers| {
                    buffers.window(0, u64::MAX).send(descriptor, flags)
                });
                usize::try_from(sent).map(|sent| before += sent).is_ok()
            };
            while fill() {}
            let mut octets = vec![0; if is_slow { before + 65_536 + Record::LEN } else { 0 }];
            let (part, reading) = (octets.len() / 30 + 1, far.other.try_clone().expect("a descriptor"));
            let lowered = std::thread::scope(|scope| {
                scope.spawn(|| {
                    for octets in octets.chunks_mut(part) {
                        (&reading).read_exact(octets).expect("octets");
                        std::thread::sleep(core::time::Duration::from_millis(80));
                    }
                });
                // Less than half of the time that the slow reader needs.
                lower_within(descriptor, &stream, Reason::Exec, 1_000_000_000)
            });
            assert_eq!((lowered, anchor::is_broken(&stream)), (is_slow, !is_slow));
            far.forget(0x6031);
        }
    }

    #[test]
    fn a_program_that_has_ended_its_stream_waits_for_the_rest_of_a_ring() {
        let _turn = family::turn();
        let mut waiting = Waiting::new(0x6008);
        waiting.inbound.ask_back();
        let now = Limit::behind(Some(clock::span(0)));
        let descriptor = waiting.own.as_raw_fd();
        backlog::obey(descriptor, &waiting.ends[0]);
        assert!(waiting.inbound.is_answered() && waiting.outbound.backlog().is_some());
        // The reader is a program without this library by now.
        waiting.peer.shutdown(Shutdown::Write).expect("a connection");
        while anchor::news(descriptor) & libc::POLLRDHUP == 0 {
            std::thread::yield_now();
        }
        assert!(!lower_outbound(descriptor, &waiting.ends[0], now), "the rest is not out");
        let mut octets = Vec::new();
        while !lower_outbound(descriptor, &waiting.ends[0], now) {
            assert!(!waiting.drain(&mut octets));
        }
        while !waiting.drain(&mut octets) {}
        channel::tests::forget(0x6008, waiting.ends);
    }
}
