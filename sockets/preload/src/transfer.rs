//! Sends by directions that this library runs by itself, and the sections of both.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};

use weft_sockets::end::{NONBLOCKING, SHUT};
use weft_sockets::layout::EVERYBODY;
use weft_sockets::{Broken, Carrier, Inbound, Outbound, Reason, Sink, Sleepers};

use crate::anchor::{self, Anchor};
use crate::buffers::{self, Buffers};
use crate::ends::Stream;
use crate::patience::{Next, Patience};
use crate::section::Section;
use crate::{calls, channel, growth, nested, poll, port, sleep};

/// A call of the program's on a direction whose gate is closed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// The descriptor.
    pub(crate) descriptor: c_int,
    /// Its end.
    pub(crate) stream: Stream,
    /// Those of `recv` or `send`.
    pub(crate) flags: c_int,
}

/// What a look at a direction came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// So many octets were moved. More may be possible at once.
    Moved(usize),
    /// Nothing can be moved now.
    Nothing,
    /// The stream is at its end.
    End,
    /// The kernel's error.
    Failed(c_int),
}

impl Call {
    /// True if the call must not wait, as far as this library knows.
    pub(crate) fn is_nonblocking(&self) -> bool {
        self.has(libc::MSG_DONTWAIT) || self.stream.end.has(NONBLOCKING)
    }

    /// True if all of these flags were given.
    pub(crate) const fn has(&self, flags: c_int) -> bool {
        self.flags & flags == flags
    }
}

/// Sends as `send` does. Returns the kernel's answer.
pub(crate) fn send(call: &Call, buffers: Buffers<'_>) -> isize {
    send_by(call, buffers.len(), |given| give(call, buffers, given))
}

/// Sends up to `wanted` octets by steps, which get the number of those that are out. `End`: there are no more.
pub(crate) fn send_by(call: &Call, wanted: usize, mut give: impl FnMut(usize) -> Step) -> isize {
    let mut patience = Patience::new(call.descriptor, libc::POLLOUT);
    let mut given = 0;
    loop {
        let step = match give(given) {
            Step::Nothing => match patience.next(&call.stream, call.flags, false) {
                Next::Look => continue,
                Next::Leave => Step::Failed(libc::EAGAIN),
                Next::Sleep if !anchor::is_of(call.descriptor, &call.stream) => Step::Failed(libc::EBADF),
                Next::Sleep => look_at_reader(call),
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
                if let Some(error) = patience.sleep(&call.stream) {
                    return if given > 0 { answer(given) } else { error };
                }
            }
        }
    }
}

/// Asks the kernel's socket below a full ring whether the other end lives.
fn look_at_reader(call: &Call) -> Step {
    match anchor::look(call.descriptor) {
        Anchor::Silent | Anchor::Foreign => Step::Nothing,
        Anchor::Failed(error) => Step::Failed(error),
        // It has shut down what it sends, and reads on.
        Anchor::Ended if is_ended(&call.stream) && !is_deserted(&call.stream) => Step::Nothing,
        Anchor::Ended => {
            anchor::bury(&call.stream);
            Step::Failed(libc::ECONNRESET)
        }
    }
}

/// What comes before each send. Returns a step if nothing can be sent now.
pub(crate) fn before_send(call: &Call, outbound: &Outbound<'_>) -> Result<Option<Step>, Broken> {
    if anchor::recall(&call.stream) {
        anchor::bury(&call.stream);
        return Ok(Some(Step::Failed(libc::ECONNRESET)));
    }
    if anchor::is_dead(&call.stream) {
        return Ok(Some(Step::Failed(libc::EPIPE)));
    }
    if outbound.is_asked_back() {
        outbound.obey()?;
    }
    if call.has(libc::MSG_OOB) && outbound.sink() == Sink::Ring {
        call.stream.end.stay(Reason::Urgent);
        // A reader that has not come to the ring yet does not let the sender leave it: see `send_urgent`.
        let _is_back = outbound.begin_leg(Carrier::Tcp)?;
    }
    growth::go_on(&call.stream, outbound)?;
    Ok(None)
}

/// Sends what there is room for, behind `given` octets that this call already has sent.
fn give(call: &Call, buffers: Buffers<'_>, given: usize) -> Step {
    let step = in_section(call, |outbound| {
        if let Some(step) = before_send(call, outbound)? {
            return Ok(step);
        }
        if outbound.sink() == Sink::Tcp || is_kernels(&call.stream) {
            return Ok(to_kernel(call, outbound, buffers, given));
        }
        if call.has(libc::MSG_OOB) {
            return send_urgent(call, outbound, buffers, given);
        }
        outbound.note_cpu(cpu());
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
    if let Some(step) = send_backlog(call.descriptor, outbound) {
        return step;
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
            if let Step::Failed(_) = step {
                anchor::bury(&call.stream);
            }
            step
        }
    }
}

/// Sends what the reader has left in the last ring. Returns a step if that is not all out yet.
pub(crate) fn send_backlog(descriptor: c_int, outbound: &Outbound<'_>) -> Option<Step> {
    loop {
        let [first, second] = outbound.backlog()?;
        match calls::send_pieces(descriptor, [first, second]) {
            octets @ 1.. => outbound.resent(octets.unsigned_abs()),
            0 => return Some(Step::Nothing),
            error => return Some(failed(error)),
        }
    }
}

/// True if nothing will go by the ring any more, so that the kernel's socket has the right answer.
pub(crate) fn is_kernels(stream: &Stream) -> bool {
    stream.end.outbound.flags.load(Ordering::Relaxed) & SHUT != 0 || is_deserted(stream)
}

/// True if the other end is closed, so that nobody will read the ring.
fn is_deserted(stream: &Stream) -> bool {
    channel::offered_inbound(stream).is_some_and(|inbound| inbound.is_reset())
}

/// True if the other end has said where its stream ends.
fn is_ended(stream: &Stream) -> bool {
    channel::offered_inbound(stream).is_some_and(|inbound| inbound.end().is_some())
}

/// True if the other end has not read all that was written to it.
pub(crate) fn has_unread(stream: &Stream) -> bool {
    channel::outbound(stream).is_some_and(|outbound| outbound.unread() != Ok(0))
}

/// Runs a section of the receiving direction. A signal handler that interrupts one runs in the middle of it.
pub(crate) fn in_inbound(call: &Call, run: impl FnOnce(&Inbound<'static>) -> Result<Step, Broken>) -> Step {
    let stream = &call.stream;
    let Some(inbound) = channel::offered_inbound(stream) else { return Step::Failed(libc::ECONNRESET) };
    let Some(section) = Section::of_inbound(stream) else {
        return run(&inbound.nested()).unwrap_or_else(|Broken| break_off(call));
    };
    if section.is_inherited {
        inbound.republish();
    }
    let step = run(&inbound);
    let mut sleepers = inbound.sleepers();
    section.leave();
    while inbound.is_behind() {
        let Some(section) = Section::of_inbound(stream) else { break };
        inbound.republish();
        let more = inbound.sleepers();
        sleepers = sleepers.or(more);
        section.leave();
    }
    wake(stream, sleepers);
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
    let section = Section::of_outbound(stream)?;
    if section.is_inherited {
        outbound.republish();
    }
    let full = stream.end.outbound.full.load(Ordering::Relaxed);
    let step = run(&outbound);
    let sleepers = outbound.sleepers();
    if stream.end.outbound.full.load(Ordering::Relaxed) != full {
        growth::want(stream);
    }
    section.leave();
    wake(stream, sleepers);
    send_nested(call);
    Some(step.unwrap_or_else(|Broken| break_off(call)))
}

/// Wakes sleepers of the other end.
pub(crate) fn wake(stream: &Stream, sleepers: Option<Sleepers>) {
    let word = match sleepers {
        None => return,
        Some(Sleepers::One(name)) => name.to_word(),
        Some(Sleepers::Everybody) => EVERYBODY,
    };
    let identity = &stream.end.identity;
    let (link, party) = (identity.link.load(Ordering::Relaxed), identity.party.load(Ordering::Relaxed));
    if port::wake(link, party, word, sleep::is_awake) {
        stream.end.counts.wakes.fetch_add(1, Ordering::Relaxed);
    }
}

/// Adds to a count of a direction, whose lock this thread has.
#[inline]
pub(crate) fn add(count: &AtomicU64, octets: usize) {
    count.store(count.load(Ordering::Relaxed).wrapping_add(octets as u64), Ordering::Relaxed);
}

/// Ends a connection whose other end broke a rule of the link.
fn break_off(call: &Call) -> Step {
    Step::Failed(anchor::break_off(call.descriptor, &call.stream))
}

/// The CPU on which this thread runs.
fn cpu() -> u16 {
    u16::try_from(rustix::thread::sched_getcpu()).unwrap_or(u16::MAX)
}

/// Takes the kernel's error.
pub(crate) fn failed(error: isize) -> Step {
    match c_int::try_from(-error).unwrap_or(libc::EIO) {
        libc::EAGAIN | libc::EINTR => Step::Nothing,
        error => Step::Failed(error),
    }
}

pub(crate) fn answer(octets: usize) -> isize {
    isize::try_from(octets).unwrap_or(isize::MAX)
}
