//! Sends by directions that this library runs by itself, and the sections of both.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};

use weft_sockets::end::{ASKING, BROKEN, DEAD, FAR, SHUT, STAYS};
use weft_sockets::{Broken, Inbound, Outbound, Reason, Sink};

use crate::anchor::{self, Anchor};
use crate::buffers::{self, Buffers};
use crate::call::{Call, Step};
use crate::ends::Stream;
use crate::patience::{Next, Patience};
use crate::section::{Section, catch_up};
use crate::wake::wake;
use crate::{backlog, calls, channel, clock, growth, nested, orphan, overtaken, poll, strict, watch};

/// Sends as `send` does. Returns the kernel's answer.
pub(crate) fn send(call: &Call, buffers: Buffers<'_>) -> isize {
    send_by(call, buffers.len(), |given| give(call, buffers, given))
}

/// Sends up to `wanted` octets by steps, which get the number of those that are out. `End`: there are no more.
#[inline]
pub(crate) fn send_by(call: &Call, wanted: usize, mut give: impl FnMut(usize) -> Step) -> isize {
    match give(0) {
        Step::Moved(octets) if octets == wanted => answer(octets),
        step => send_on(call, wanted, step, give),
    }
}

/// Goes on behind a first step that was not all.
#[inline(never)]
fn send_on(call: &Call, wanted: usize, first: Step, mut give: impl FnMut(usize) -> Step) -> isize {
    let mut patience = Patience::new(libc::POLLOUT);
    let (mut given, mut first) = (0, Some(first));
    loop {
        let step = match first.take().unwrap_or_else(|| give(given)) {
            Step::Nothing => match patience.next(call) {
                Next::Look => continue,
                // Calls that never wait hear of the other end's death here.
                Next::Leave => match look_at_reader(call, given) {
                    Step::Nothing => Step::Failed(libc::EAGAIN),
                    step => step,
                },
                Next::Sleep if !call.stream.is_at(call.descriptor) => Step::Failed(libc::EBADF),
                Next::Sleep => look_at_reader(call, given),
            },
            step => step,
        };
        match step {
            Step::Moved(octets) => {
                patience.pay(&call.stream);
                given += octets;
                if given == wanted {
                    return answer(given);
                }
            }
            Step::End => return answer(given),
            Step::Failed(_) if given > 0 => return answer(given),
            Step::Failed(error) => {
                if error == libc::EPIPE && !call.has(libc::MSG_NOSIGNAL) {
                    calls::raise(libc::SIGPIPE);
                }
                return -(error as isize);
            }
            Step::Nothing => {
                if let Some(error) = patience.sleep(call, None) {
                    return if given > 0 { answer(given) } else { error };
                }
            }
        }
    }
}

/// Asks the kernel's socket below a full ring whether the other end lives. The next call hears of an error, if this one
/// has sent something.
fn look_at_reader(call: &Call, given: usize) -> Step {
    watch::look();
    if given > 0 && anchor::has_failed(call.descriptor) {
        return Step::End;
    }
    match anchor::look_beyond(call.descriptor) {
        // The end of the stream may wait behind octets that this end does not take.
        Anchor::Silent | Anchor::Foreign if !is_killed(&call.stream) => Step::Nothing,
        Anchor::Failed(error) => {
            anchor::bury(&call.stream);
            Step::Failed(error)
        }
        // A reset of which another call has heard, or another process.
        Anchor::Ended if anchor::is_over(call.descriptor) => Step::Failed(libc::EPIPE),
        // It has shut down what it sends, and reads on, unless nobody has it any more.
        Anchor::Ended if goes_on_reading(&call.stream) && !is_deserted(call) && !is_killed(&call.stream) => {
            Step::Nothing
        }
        _ if given > 0 => Step::End,
        _ => {
            anchor::bury(&call.stream);
            Step::Failed(libc::ECONNRESET)
        }
    }
}

/// True if the other end was killed before it had read all that was sent to it.
fn is_killed(stream: &Stream) -> bool {
    channel::outbound(stream).is_some_and(|outbound| outbound.is_killed())
}

/// What comes before each send. Returns a step if nothing can be sent now.
pub(crate) fn before_send(call: &Call, outbound: &Outbound<'_>) -> Result<Option<Step>, Broken> {
    if anchor::is_dead(&call.stream) && !is_kernels(&call.stream, outbound) {
        return Ok(Some(Step::Failed(libc::EPIPE)));
    }
    if anchor::is_broken(&call.stream) {
        let error = anchor::take_error(call.descriptor).unwrap_or(libc::EPIPE);
        return Ok(Some(Step::Failed(error)));
    }
    if outbound.sink() == Sink::Ring && overtaken::is_broken(&call.stream, call.descriptor) {
        return Err(Broken);
    }
    if outbound.is_asked_back()
        && backlog::answer(call.descriptor, &call.stream, outbound)?
        && !call.stream.end.has(STAYS)
    {
        call.stream.end.stay(backlog::why_asked(call.descriptor, &call.stream, outbound));
    }
    if call.has(libc::MSG_OOB) && outbound.sink() == Sink::Ring {
        call.stream.end.stay(Reason::Urgent);
        // A reader that has not come to the ring yet does not let the sender leave it: see `send_urgent`.
        let _is_back = backlog::leave_ring(&call.stream, outbound)?;
    }
    growth::go_on(&call.stream, outbound)?;
    Ok(None)
}

/// Sends what there is room for, behind `given` octets that this call already has sent.
fn give(call: &Call, buffers: Buffers<'_>, given: usize) -> Step {
    let step = in_section(call, |outbound| {
        if !is_plain(call, outbound)
            && let Some(step) = give_otherwise(call, outbound, buffers, given)?
        {
            return Ok(step);
        }
        outbound.note_cpu(calls::cpu());
        let octets = match buffers.single() {
            Some(octets) => outbound.write(octets.get(given..).unwrap_or_default())?,
            None => outbound.gather(buffers.slices(given), false)?,
        };
        Ok(if octets > 0 || given == buffers.len() { self::given(call, octets) } else { Step::Nothing })
    });
    step.unwrap_or_else(|| match nested::keep(call.stream.handle, buffers.slices(given)) {
        0 => Step::Failed(libc::EAGAIN),
        octets => Step::Moved(octets),
    })
}

/// True if a send goes by the ring, and nothing comes before it.
#[inline]
fn is_plain(call: &Call, outbound: &Outbound<'_>) -> bool {
    let end = call.stream.end;
    end.inbound.flags.load(Ordering::Relaxed) & (DEAD | BROKEN) == 0
        && end.outbound.ring.load(Ordering::Relaxed) == 0
        && call.flags & libc::MSG_OOB == 0
        && !strict::is_on()
        && outbound.sink() == Sink::Ring
        && !outbound.is_asked_back()
        && !is_kernels(&call.stream, outbound)
}

/// Sends what does not simply go by the ring. `None`: it does.
#[cold]
fn give_otherwise(
    call: &Call,
    outbound: &Outbound<'_>,
    buffers: Buffers<'_>,
    given: usize,
) -> Result<Option<Step>, Broken> {
    if let Some(step) = before_send(call, outbound)? {
        return Ok(Some(step));
    }
    if outbound.sink() == Sink::Tcp || is_kernels(&call.stream, outbound) {
        return Ok(Some(to_kernel(call, outbound, buffers, given)));
    }
    if call.has(libc::MSG_OOB) {
        return send_urgent(call, outbound, buffers, given).map(Some);
    }
    if strict::is_on() {
        outbound.note_cpu(calls::cpu());
        return give_strictly(call, outbound, buffers, given).map(Some);
    }
    Ok(None)
}

/// Sends by the ring, by a call of the kernel's, which tells bad addresses.
fn give_strictly(
    call: &Call,
    outbound: &Outbound<'_>,
    buffers: Buffers<'_>,
    given: usize,
) -> Result<Step, Broken> {
    let window = buffers.window(given, u64::MAX);
    let Some(octets) = window.drain(outbound.free(window.len())?) else {
        return Ok(Step::Failed(libc::EFAULT));
    };
    outbound.publish(octets, false)?;
    Ok(if octets > 0 || given == buffers.len() { self::given(call, octets) } else { Step::Nothing })
}

/// Sends urgent data beside a ring: the last octet is the urgent one, which the kernel carries out of turn.
fn send_urgent(
    call: &Call,
    outbound: &Outbound<'_>,
    buffers: Buffers<'_>,
    given: usize,
) -> Result<Step, Broken> {
    let last = buffers.len().saturating_sub(1);
    if given < last {
        let octets = buffers.single().and_then(|octets| octets.get(given..last)).unwrap_or_default();
        return Ok(match outbound.write(octets)? {
            0 => Step::Nothing,
            octets => self::given(call, octets),
        });
    }
    let flags = call.flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    Ok(match buffers.window(given, 1).send(call.descriptor, flags) {
        octets @ 0.. => Step::Moved(octets.unsigned_abs()),
        error => failed(error),
    })
}

/// Sends what signal handlers have left while they interrupted sections of this thread.
pub(crate) fn send_nested(call: &Call) {
    if nested::is_there() {
        nested::set_sending(true);
        send_all_nested(&Call { flags: libc::MSG_NOSIGNAL, ..*call });
        nested::set_sending(false);
    }
}

#[cold]
fn send_all_nested(call: &Call) {
    let mut octets = [0; 512];
    loop {
        let len = nested::next(call.stream.handle, &mut octets);
        let Some(octets) = octets.get_mut(..len).filter(|octets| !octets.is_empty()) else { return };
        let sent = match buffers::with_own(octets, |buffers| send(call, buffers)) {
            sent @ 0.. => sent.unsigned_abs(),
            error if error == -(libc::EAGAIN as isize) => {
                let mut item = libc::pollfd { fd: call.descriptor, events: libc::POLLOUT, revents: 0 };
                poll::wait(core::slice::from_mut(&mut item), None, None);
                0
            }
            // Nobody will hear of them.
            _ => len,
        };
        nested::count(call.stream.handle, sent);
    }
}

/// Counts octets that the ring has taken.
pub(crate) fn given(call: &Call, octets: usize) -> Step {
    add(&call.stream.end.counts.out_ring, octets);
    Step::Moved(octets)
}

/// Sends by the kernel's socket: behind the backlog of a ring, or to nobody, for the kernel's answer.
fn to_kernel(call: &Call, outbound: &Outbound<'_>, buffers: Buffers<'_>, given: usize) -> Step {
    if let Some(step) = send_backlog(call.descriptor, &call.stream, outbound) {
        return step;
    }
    if given > 0 && anchor::has_failed(call.descriptor) {
        return Step::End;
    }
    let flags = call.flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    match buffers.window(given, u64::MAX).send(call.descriptor, flags) {
        0.. if given == buffers.len() => Step::Moved(0),
        octets @ 0.. => {
            call.stream.end.outbound.count(octets.unsigned_abs() as u64);
            Step::Moved(octets.unsigned_abs())
        }
        error => {
            let step = failed(error);
            note_failure(&call.stream, step);
            step
        }
    }
}

/// Notes a failure of the connection that the kernel's socket has told to a send. `EPIPE` is none: the program has shut
/// down what it sends, or has heard of the failure.
pub(crate) fn note_failure(stream: &Stream, step: Step) {
    if let Step::Failed(error) = step
        && error != libc::EPIPE
    {
        anchor::bury(stream);
    }
}

/// Sends what the reader has left in the last ring. Returns a step if that is not all out yet.
pub(crate) fn send_backlog(descriptor: c_int, stream: &Stream, outbound: &Outbound<'_>) -> Option<Step> {
    // The program's waits look for the time when the kernel's socket takes it.
    backlog::resend(descriptor, stream, outbound).inspect(|_| watch::owe()).map(failed)
}

/// True if nothing will go by the ring any more, so that the kernel's socket has the right answer.
#[inline]
pub(crate) fn is_kernels(stream: &Stream, outbound: &Outbound<'_>) -> bool {
    stream.end.outbound.flags.load(Ordering::Relaxed) & SHUT != 0 || outbound.is_deserted()
}

/// True if the end of the kernel's stream is no death: the other end has said where its stream ends, or ends it by TCP, and is
/// not closed. A program without this library, to which the stream goes by TCP, says nothing. The word of a far end may wait
/// for a lane, as long as its daemons wait for one. They tell a death, or the sender goes back to TCP, where the kernel does.
fn goes_on_reading(stream: &Stream) -> bool {
    let is_tcp = || channel::offered_outbound(stream).is_some_and(|outbound| outbound.sink() == Sink::Tcp);
    let is_told = |inbound: &Inbound<'_>| inbound.is_end_expected() || stream.end.has(FAR);
    is_tcp()
        || channel::offered_inbound(stream).is_some_and(|inbound| is_told(&inbound) && !inbound.is_reset())
}

/// True if no process holds the other end. This host's kernel does not know that of another host, whose daemon tells it by
/// the link.
fn is_deserted(call: &Call) -> bool {
    !call.stream.end.has(FAR) && orphan::is_deserted(call.descriptor)
}

/// True if the other end has not read all that was written to it.
pub(crate) fn has_unread(stream: &Stream) -> bool {
    channel::outbound(stream).is_some_and(|outbound| outbound.unread() != Ok(0))
}

/// Runs a section of the receiving direction. A signal handler that interrupts one runs in the middle of it, or is told to
/// try again if the thread takes the direction back to TCP.
#[inline]
pub(crate) fn in_inbound(call: &Call, run: impl FnOnce(&Inbound<'static>) -> Result<Step, Broken>) -> Step {
    let stream = &call.stream;
    let Some(inbound) = channel::offered_inbound(stream) else { return Step::Failed(libc::ECONNRESET) };
    let Some(section) = Section::of_inbound(stream, &inbound) else {
        if stream.end.inbound.flags.load(Ordering::Relaxed) & ASKING != 0 {
            return Step::Failed(libc::EAGAIN);
        }
        return run(&inbound.nested()).unwrap_or_else(|Broken| break_off(call));
    };
    let step = run(&inbound);
    let sleepers = inbound.sleepers();
    section.leave();
    wake(stream, sleepers);
    if inbound.is_behind() {
        catch_up(stream, &inbound);
    }
    step.unwrap_or_else(|Broken| break_off(call))
}

/// Runs a section of the sending direction. A signal handler that interrupts one is told to try again.
pub(crate) fn in_outbound(call: &Call, run: impl FnOnce(&Outbound<'static>) -> Result<Step, Broken>) -> Step {
    in_section(call, run).unwrap_or(Step::Failed(libc::EAGAIN))
}

/// Runs a section of the sending direction. `None`: this is a signal handler, and its thread is in one.
fn in_section(call: &Call, run: impl FnOnce(&Outbound<'static>) -> Result<Step, Broken>) -> Option<Step> {
    let stream = &call.stream;
    let Some(outbound) = channel::offered_outbound(stream) else { return Some(Step::Failed(libc::EPIPE)) };
    let section = Section::of_outbound(stream, &outbound)?;
    if outbound.wants_stamps() {
        outbound.stamp(clock::stamp);
    }
    let full = stream.end.outbound.full.load(Ordering::Relaxed);
    let step = run(&outbound);
    let sleepers = outbound.sleepers();
    if stream.end.outbound.full.load(Ordering::Relaxed) != full {
        growth::want(stream, &outbound);
    }
    section.leave_and(|| wake(stream, sleepers));
    send_nested(call);
    Some(step.unwrap_or_else(|Broken| break_off(call)))
}

/// Adds to a count of a direction, whose lock this thread has.
#[inline]
pub(crate) fn add(count: &AtomicU64, octets: usize) {
    count.store(count.load(Ordering::Relaxed).wrapping_add(octets as u64), Ordering::Relaxed);
}

/// Ends a connection whose other end broke a rule of the link. The program hears of the reset once.
#[cold]
fn break_off(call: &Call) -> Step {
    if anchor::is_broken(&call.stream) {
        return anchor::take_error(call.descriptor).map_or(Step::End, Step::Failed);
    }
    let error = anchor::break_off(call.descriptor, &call.stream);
    Step::Failed(anchor::take_error(call.descriptor).unwrap_or(error))
}

/// Takes the kernel's error.
pub(crate) fn failed(error: isize) -> Step {
    match c_int::try_from(-error).unwrap_or(libc::EIO) {
        0 | libc::EAGAIN | libc::EINTR => Step::Nothing,
        error => Step::Failed(error),
    }
}

pub(crate) fn answer(octets: usize) -> isize {
    isize::try_from(octets).unwrap_or(isize::MAX)
}
