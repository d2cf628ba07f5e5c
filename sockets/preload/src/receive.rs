//! Receives from directions that this library runs by itself: from TCP up to the ring, then from the ring.

use core::cell::Cell;
use core::sync::atomic::Ordering;

use weft_sockets::end::{NARROW, SHUT};
use weft_sockets::{Broken, Inbound, Reason, Source};

use crate::anchor::{self, Anchor};
use crate::buffers::Buffers;
use crate::call::{Call, Step};
use crate::ends::Stream;
use crate::patience::{Next, Patience};
use crate::transfer::{add, answer, failed, has_unread, in_inbound};
use crate::{calls, channel, overtaken, record, sets, sleep, strict};

/// Receives as `recv` does. Returns the kernel's answer.
pub(crate) fn receive(call: &Call, buffers: Buffers<'_>) -> isize {
    let (wanted, mut is_drained) = (buffers.len(), false);
    match take(call, buffers, 0, &mut is_drained) {
        Step::Moved(octets) if octets == wanted => answer(octets),
        step => receive_on(call, buffers, step, is_drained),
    }
}

/// Goes on behind a first step that was not all.
#[inline(never)]
fn receive_on(call: &Call, buffers: Buffers<'_>, first: Step, mut is_drained: bool) -> isize {
    let (wanted, is_peek) = (buffers.len(), call.has(libc::MSG_PEEK));
    let mut patience = Patience::new(libc::POLLIN);
    let (mut taken, mut first) = (0, Some(first));
    loop {
        // A peek begins anew each time.
        let place = if is_peek { 0 } else { taken };
        let step = match first.take().unwrap_or_else(|| take(call, buffers, place, &mut is_drained)) {
            Step::Moved(octets) if is_peek && octets > 0 => {
                if octets >= least(call, wanted) {
                    return answer(octets);
                }
                taken = octets;
                wait(call, buffers, &mut patience, taken)
            }
            Step::Nothing if taken > 0 && taken >= least(call, wanted) => return answer(taken),
            Step::Nothing => wait(call, buffers, &mut patience, taken),
            step => Some(step),
        };
        let Some(step) = step else { continue };
        match step {
            Step::Moved(octets) => {
                patience.pay(&call.stream);
                taken += octets;
                if taken == wanted || is_drained && taken >= least(call, wanted) {
                    return answer(taken);
                }
            }
            Step::End | Step::Failed(_) if taken > 0 => return answer(all_to_see(call, buffers, taken)),
            Step::End => return 0,
            Step::Failed(error) => return anchor::answer_behind_break(&call.stream, -(error as isize)),
            Step::Nothing => {
                let error = patience.sleep(call, Some(if is_peek { least(call, wanted) } else { 1 }));
                // As the kernel does: without room a call waits once, whatever comes of it.
                if wanted == 0 && !call.is_nonblocking() {
                    return 0;
                }
                if let Some(error) = error {
                    return if taken > 0 { answer(taken) } else { error };
                }
            }
        }
    }
}

/// Decides what to do behind a look that found too little, with `taken` octets. `None`: the call looks again. `Nothing`:
/// it sleeps.
fn wait(call: &Call, buffers: Buffers<'_>, patience: &mut Patience, taken: usize) -> Option<Step> {
    Some(match patience.next(call) {
        Next::Look => return None,
        Next::Leave if taken > 0 => Step::End,
        Next::Leave if is_heard(&call.stream) => Step::Failed(libc::EAGAIN),
        // Calls that never wait hear of the other end's death here.
        Next::Leave => match look_at_anchor(call, buffers, taken) {
            Step::Nothing => Step::Failed(libc::EAGAIN),
            step => step,
        },
        Next::Sleep if !call.stream.is_at(call.descriptor) => Step::Failed(libc::EBADF),
        Next::Sleep => look_at_anchor(call, buffers, taken),
    })
}

/// Returns how many octets a call has behind which no more will come. A peek looks once more.
fn all_to_see(call: &Call, buffers: Buffers<'_>, taken: usize) -> usize {
    match call.has(libc::MSG_PEEK).then(|| take(call, buffers, 0, &mut false)) {
        Some(Step::Moved(octets)) => octets,
        _ => taken,
    }
}

/// Octets below which a call waits for more.
fn least(call: &Call, wanted: usize) -> usize {
    let least = if call.has(libc::MSG_WAITALL) {
        wanted
    } else if call.stream.end.has(NARROW) {
        anchor::low_water(call.descriptor).min(wanted)
    } else {
        1
    };
    if least <= 1 || !call.has(libc::MSG_PEEK) {
        return least;
    }
    // A peek makes no room for more.
    let half = channel::inbound(&call.stream).map_or(0, |inbound| inbound.capacity() / 2);
    if half == 0 { least } else { least.min(usize::try_from(half).unwrap_or(least)) }
}

/// Receives what is there, behind `taken` octets that this call already has. Sets `is_drained` if another look would find
/// no more.
fn take(call: &Call, buffers: Buffers<'_>, taken: usize, is_drained: &mut bool) -> Step {
    in_inbound(call, |inbound| {
        let source = inbound.source()?;
        let step = match (source, plain_place(call, buffers, taken)) {
            (Source::Ring { available: available @ 1.. }, Some(place)) => {
                // Octets that came behind the look are for the next one.
                let len = place.len().min(usize::try_from(available).unwrap_or(usize::MAX));
                let moved = inbound.read(place.get_mut(..len).unwrap_or_default())?;
                note_taken(call, inbound, moved);
                Step::Moved(moved)
            }
            _ => take_otherwise(call, inbound, source, buffers, taken)?,
        };
        *is_drained = matches!(source, Source::Ring { .. }) && inbound.is_drained();
        Ok(step)
    })
}

/// The memory that a receive simply fills from the ring.
#[inline]
fn plain_place<'a>(call: &Call, buffers: Buffers<'a>, taken: usize) -> Option<&'a mut [u8]> {
    let is_plain = call.flags & (libc::MSG_PEEK | libc::MSG_TRUNC) == 0 && !strict::is_on();
    if is_plain { buffers.single_place(taken) } else { None }
}

/// Receives what does not simply come from the ring.
#[cold]
fn take_otherwise(
    call: &Call,
    inbound: &Inbound<'_>,
    source: Source,
    buffers: Buffers<'_>,
    taken: usize,
) -> Result<Step, Broken> {
    match source {
        Source::Tcp { left } => {
            let Some(most) = record::most(call.descriptor, &call.stream, inbound)? else {
                return Ok(Step::Nothing);
            };
            let step = from_kernel(call, buffers, taken, left.unwrap_or(most));
            match step {
                Step::Moved(octets) if !call.has(libc::MSG_PEEK) => {
                    call.stream.end.inbound.count(octets as u64);
                }
                Step::Moved(octets) if left == Some(octets as u64) => {
                    return Ok(Step::Moved(octets + peek_behind(inbound, buffers, octets)?));
                }
                _ => {}
            }
            if step != Step::End {
                return Ok(step);
            }
            let is_over = is_shut(call) || anchor::is_dead(&call.stream);
            if !is_over && overtaken::hides_now(&call.stream, call.descriptor) {
                return Ok(Step::Nothing);
            }
            // A ring may have begun on the other host.
            let is_lost = overtaken::is_late(&call.stream) && inbound.may_miss_ring();
            // The sender may have begun a ring, and ended the stream behind it, since the look.
            Ok(match inbound.source()? {
                // Before a ring there is no end of the stream.
                Source::Tcp { left } if !is_over && (left.is_some() || is_lost || inbound.skip() > 0) => {
                    anchor::bury(&call.stream);
                    Step::Failed(libc::ECONNRESET)
                }
                Source::Tcp { .. } => Step::End,
                Source::Ring { .. } => Step::Moved(0),
            })
        }
        Source::Ring { available: 0 } if overtaken::is_broken(&call.stream, call.descriptor) => Err(Broken),
        Source::Ring { available: 0 } => Ok(silence(call, inbound, buffers, taken)),
        Source::Ring { .. } if strict::is_on() && !call.has(libc::MSG_TRUNC) => {
            from_ring_strictly(call, inbound, buffers, taken)
        }
        Source::Ring { .. } => {
            let moved = from_ring(call, inbound, buffers.places(taken))?;
            let is_peek = call.has(libc::MSG_PEEK);
            let behind = if is_peek { peek_behind(inbound, buffers, taken + moved)? } else { 0 };
            Ok(Step::Moved(moved + behind))
        }
    }
}

/// Receives by the kernel's socket without waiting. The next call hears of an error, if this one has octets.
fn from_kernel(call: &Call, buffers: Buffers<'_>, taken: usize, most: u64) -> Step {
    if taken > 0
        && anchor::has_failed(call.descriptor)
        && calls::queued(call.descriptor, libc::FIONREAD) == Ok(0)
    {
        return Step::End;
    }
    let flags = call.flags & !libc::MSG_WAITALL | libc::MSG_DONTWAIT;
    match buffers.window(taken, most).receive(call.descriptor, flags) {
        0 if taken < buffers.len() => Step::End,
        octets @ 0.. => Step::Moved(octets.unsigned_abs()),
        error => failed(error),
    }
}

/// Looks at octets behind the current leg. They go to place `place` of the buffers.
fn peek_behind(inbound: &Inbound<'_>, buffers: Buffers<'_>, place: usize) -> Result<usize, Broken> {
    fill(buffers.places(place), |seen, part| inbound.peek_behind(seen as u64, part))
}

/// Fills pieces of memory, one behind the other, until one is not filled. `take` gets how many octets came before.
fn fill<'a>(
    places: impl Iterator<Item = &'a mut [u8]>,
    mut take: impl FnMut(usize, &mut [u8]) -> Result<usize, Broken>,
) -> Result<usize, Broken> {
    let mut moved = 0;
    for part in places {
        let octets = take(moved, part)?;
        moved += octets;
        if octets < part.len() {
            break;
        }
    }
    Ok(moved)
}

/// Takes octets from the ring, as many as are there: for a peek, a drop, or several pieces of memory.
fn from_ring<'a>(
    call: &Call,
    inbound: &Inbound<'_>,
    places: impl Iterator<Item = &'a mut [u8]>,
) -> Result<usize, Broken> {
    let moved = fill(places, |moved, part| {
        if call.has(libc::MSG_PEEK) {
            inbound.peek(moved as u64, part)
        } else if call.has(libc::MSG_TRUNC) {
            inbound.discard(part.len())
        } else {
            inbound.read(part)
        }
    })?;
    if !call.has(libc::MSG_PEEK) {
        note_taken(call, inbound, moved);
    }
    Ok(moved)
}

/// As [`from_ring`], by a call of the kernel's, which tells bad addresses.
fn from_ring_strictly(
    call: &Call,
    inbound: &Inbound<'_>,
    buffers: Buffers<'_>,
    place: usize,
) -> Result<Step, Broken> {
    let window = buffers.window(place, u64::MAX);
    let Some(moved) = window.fill(inbound.filled(window.len())?) else {
        return Ok(Step::Failed(libc::EFAULT));
    };
    if !call.has(libc::MSG_PEEK) {
        note_taken(call, inbound, inbound.discard(moved)?);
    }
    Ok(Step::Moved(moved))
}

/// Counts octets that were taken from the ring.
#[inline]
fn note_taken(call: &Call, inbound: &Inbound<'_>, octets: usize) {
    add(&call.stream.end.counts.in_ring, octets);
    if sleep::has_barriers() {
        inbound.stay_awake();
    }
}

/// Says what an empty ring means, as far as the link tells. Of a reset the kernel tells.
fn silence(call: &Call, inbound: &Inbound<'_>, buffers: Buffers<'_>, taken: usize) -> Step {
    if !inbound.is_at_end() && !is_shut(call) {
        return Step::Nothing;
    }
    if taken > 0 {
        return Step::End;
    }
    match from_kernel(call, buffers, taken, u64::MAX) {
        // Its end of the stream is on its way.
        Step::Nothing => Step::End,
        step => step,
    }
}

/// True if the program has shut down what it receives.
fn is_shut(call: &Call) -> bool {
    call.stream.end.inbound.flags.load(Ordering::Relaxed) & SHUT != 0
}

/// True if the kernel's socket of an empty ring need not be asked: a set of the program's hears what it tells. A program
/// that does not listen to the set has it asked now and then.
fn is_heard(stream: &Stream) -> bool {
    let is_silent = !anchor::has_news(stream);
    let is_quiet = || channel::inbound(stream).is_some_and(|inbound| inbound.quiet().is_some());
    // A child takes news of a set that it shares.
    is_silent && sets::forks() == 0 && sets::has(stream.handle) && is_quiet() && !is_turn()
}

/// True at each 64th question.
fn is_turn() -> bool {
    let number = UNASKED.get().wrapping_add(1);
    UNASKED.set(number);
    number.is_multiple_of(TURNS)
}

/// Asks the kernel's socket below an empty ring whether the other end lives. The next call hears of an error, if this one
/// has octets.
fn look_at_anchor(call: &Call, buffers: Buffers<'_>, taken: usize) -> Step {
    anchor::forget_news(&call.stream);
    let news = anchor::news(call.descriptor);
    // A peek leaves its octets there.
    let has_seen = taken > 0 && call.has(libc::MSG_PEEK);
    if news == 0 || has_seen && news == libc::POLLIN {
        return Step::Nothing;
    }
    anchor::note_news(&call.stream);
    if overtaken::hides(&call.stream, call.descriptor, news) {
        return Step::Nothing;
    }
    // What the other end wrote to the ring before comes first.
    in_inbound(call, |inbound| match inbound.source()? {
        EMPTY if record::settle(call.descriptor, &call.stream, inbound)? => Ok(Step::Moved(0)),
        EMPTY if taken > 0 => Ok(Step::End),
        EMPTY => ask_anchor(call, inbound, buffers),
        _ if has_seen => Ok(Step::End),
        _ => Ok(Step::Moved(0)),
    })
}

/// Receives what the kernel's socket below an empty ring has: its end, an error, or octets that do not belong there.
fn ask_anchor(call: &Call, inbound: &Inbound<'_>, buffers: Buffers<'_>) -> Result<Step, Broken> {
    let told = anchor::look(call.descriptor);
    // Another reader may have come to a ring since the news were looked at. In a ring they may not count yet.
    let hides = overtaken::hides_now(&call.stream, call.descriptor);
    // Between the kernel's word and the look at the ring: the octets come before the word of their end.
    let is_final = inbound.end().is_some();
    let is_lost = overtaken::is_late(&call.stream);
    Ok(match told {
        Anchor::Silent => Step::Nothing,
        Anchor::Failed(error) => {
            anchor::bury(&call.stream);
            Step::Failed(error)
        }
        // What came to the ring since the look comes first.
        _ if inbound.source()? != EMPTY => Step::Moved(0),
        _ if hides => Step::Nothing,
        Anchor::Foreign => {
            call.stream.end.stay(Reason::Foreign);
            from_kernel(call, buffers, 0, u64::MAX)
        }
        Anchor::Ended
            if anchor::is_dead(&call.stream) || is_final || !is_lost && !has_unread(&call.stream) =>
        {
            Step::End
        }
        Anchor::Ended => {
            anchor::bury(&call.stream);
            Step::Failed(libc::ECONNRESET)
        }
    })
}

/// A ring that has nothing to read.
const EMPTY: Source = Source::Ring { available: 0 };

thread_local! {
    /// Empty receives that asked no kernel.
    static UNASKED: Cell<u32> = const { Cell::new(0) };
}
const TURNS: u32 = 64;

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::overtaken::tests::Far;
    use crate::{buffers, family, transfer};

    #[test]
    fn an_end_that_another_reader_has_left_to_the_ring_does_not_count_yet() {
        let _turn = family::turn();
        for told_before in [false, true] {
            let far = Far::new(0x600f);
            far.end_early();
            // While this thread looked at the kernel's news, they were of TCP. Another thread has come to the ring since.
            let call = far.call(libc::MSG_DONTWAIT);
            if told_before {
                assert!(overtaken::is_early(&call.stream));
            }
            let ask = || {
                buffers::with_own(&mut [0; 8], |buffers| {
                    in_inbound(&call, |inbound| ask_anchor(&call, inbound, buffers))
                })
            };
            assert_eq!(ask(), Step::Nothing);
            far.from_there.write(b"abc").expect("room");
            far.from_there.finish().expect("a sound link");
            assert_eq!((ask(), far.receive(), ask()), (Step::Moved(0), 3, Step::End));
            far.forget(0x600f);
        }
    }

    #[test]
    fn behind_a_broken_rule_calls_answer_as_behind_a_reset() {
        let _turn = family::turn();
        let ends = channel::tests::pair(0x600d);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let own = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let call = Call { descriptor: own.as_raw_fd(), stream: ends[0], flags };
        anchor::break_off(call.descriptor, &call.stream);
        let mut octets = [0; 8];
        let mut received = || buffers::with_own(&mut octets, |buffers| receive(&call, buffers));
        let reset = -(libc::ECONNRESET as isize);
        assert_eq!([received(), received(), received()], [reset, 0, 0]);
        let sent = buffers::with_own(&mut [7; 8], |buffers| transfer::send(&call, buffers));
        assert_eq!(sent, -(libc::EPIPE as isize));
        channel::tests::forget(0x600d, ends);
    }
}
