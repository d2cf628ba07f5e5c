//! Records: how a sender between hosts tells that it goes back to TCP.
//!
//! The sender writes a record to the kernel's socket, and behind it what its reader may not have. The reader looks for one
//! when the socket below an empty ring has octets. A reader that has attached and knows of no ring yet may find one in the
//! middle of the stream. The sender sends it there only if all octets before it have arrived, so that it comes in one
//! piece.

use core::ffi::{c_int, c_short};
use core::sync::atomic::Ordering;

use libc::{MSG_DONTWAIT, MSG_NOSIGNAL, MSG_PEEK, POLLERR, POLLHUP, POLLIN, POLLRDHUP, POLLRDNORM};
use weft_sockets::end::{FAR, STAYS};
use weft_sockets::{Broken, Carrier, Cause, Inbound, Outbound, Reason, Record, Secret};

use crate::ends::Stream;
use crate::section::Section;
use crate::trace::trace;
use crate::{anchor, buffers, calls, channel, pulse};

/// Keeps what the records of a channel begin with.
pub(crate) fn keep(stream: &Stream, secret: Secret) {
    let words = &stream.end.identity.secret;
    words.iter().zip(secret).for_each(|(to, from)| to.store(from, Ordering::Relaxed));
}

/// Sends the record that is due. Returns the kernel's answer if it does not take it now. `None`: none is due any more.
pub(crate) fn send(descriptor: c_int, stream: &Stream, outbound: &Outbound<'_>) -> Option<isize> {
    let mut octets = due(stream, outbound)?.encode(secret(stream));
    if is_early(descriptor, outbound) {
        return Some(-(libc::EAGAIN as isize));
    }
    let flags = MSG_DONTWAIT | MSG_NOSIGNAL;
    let sent = buffers::with_own(&mut octets, |buffers| buffers.window(0, u64::MAX).send(descriptor, flags));
    match usize::try_from(sent) {
        Ok(Record::LEN) => {
            outbound.record_sent();
            None
        }
        // A part of it means nothing to the reader.
        Ok(_) => Some(-(anchor::break_off(descriptor, stream) as isize)),
        Err(_) => Some(sent),
    }
}

/// The record that is due. It tells the reader why this end stays on TCP, if not because of the lane.
fn due(stream: &Stream, outbound: &Outbound<'_>) -> Option<Record> {
    let record = outbound.record()?;
    let reason = stream.end.reason().filter(|_| stream.end.has(STAYS));
    let cause = match (record.cause, reason) {
        (Cause::Lost, Some(Reason::Drained)) => Cause::Drained,
        (Cause::Lost, None | Some(Reason::Lane)) => Cause::Lost,
        (Cause::Lost, Some(_)) => Cause::Refused,
        (cause, _) => cause,
    };
    Some(Record { cause, ..record })
}

/// Returns why the other end has gone back to TCP, if the kernel's socket has its record next. The reader leaves the ring
/// later, by [`settle`].
pub(crate) fn cause_ahead(descriptor: c_int, stream: &Stream) -> Option<Cause> {
    let mut octets = [0; Record::LEN];
    let record = Record::decode(peek(descriptor, &mut octets), secret(stream)).ok()??;
    Some(record.cause)
}

/// True if the record that is due may not go out yet: octets before it have not arrived, and a reader that may know of no
/// ring has to find it in one piece. The kernel tells of room nevertheless, so that waits look by themselves.
pub(crate) fn is_early(descriptor: c_int, outbound: &Outbound<'_>) -> bool {
    outbound.record().is_some() && !outbound.was_adopted() && !calls::has_arrived(descriptor)
}

/// Leaves the ring if the kernel's socket has a record, and drops what the reader has already. The caller has the
/// direction's lock. Returns true if the reader has left the ring by now.
pub(crate) fn settle(descriptor: c_int, stream: &Stream, inbound: &Inbound<'_>) -> Result<bool, Broken> {
    if !inbound.has_left() {
        let is_in_ring = stream.end.inbound.leg().carrier != Carrier::Tcp;
        if !stream.end.has(FAR) || !is_in_ring && !inbound.expects_ring() {
            return Ok(false);
        }
        let mut octets = [0; Record::LEN];
        let seen = peek(descriptor, &mut octets);
        return leave_behind(seen, descriptor, stream, inbound);
    }
    drop_known(descriptor, inbound);
    Ok(true)
}

/// Leaves the ring if these octets, the next ones of the kernel's stream, are a record. As [`settle`].
fn leave_behind(
    seen: &[u8],
    descriptor: c_int,
    stream: &Stream,
    inbound: &Inbound<'_>,
) -> Result<bool, Broken> {
    let Ok(Some(record)) = Record::decode(seen, secret(stream)) else { return Ok(false) };
    inbound.leave(record)?;
    if let Some(reason) = record.cause.reason() {
        stream.end.stay(reason);
    }
    stream.end.inbound.early.store(0, Ordering::Relaxed);
    if record.cause == Cause::Lost {
        pulse::suspect(stream);
    }
    trace!("{descriptor}: reads from TCP from {}", record.position);
    drop_known(descriptor, inbound);
    Ok(true)
}

/// Returns how many octets a reader may receive by the kernel's socket now, so that it stops before a record, or `None` if
/// there is nothing that it may take. The caller has the direction's lock.
#[inline]
pub(crate) fn most(descriptor: c_int, stream: &Stream, inbound: &Inbound<'_>) -> Result<Option<u64>, Broken> {
    if stream.end.has(FAR) { look(descriptor, stream, inbound) } else { Ok(Some(u64::MAX)) }
}

#[cold]
fn look(descriptor: c_int, stream: &Stream, inbound: &Inbound<'_>) -> Result<Option<u64>, Broken> {
    let all_settled = || Ok(is_settled(descriptor, inbound).then_some(u64::MAX));
    if !inbound.is_before_decision() {
        return if settle(descriptor, stream, inbound)? { all_settled() } else { Ok(Some(u64::MAX)) };
    }
    // One look finds a record at the beginning, and further on.
    let mut octets = [0; AT_A_TIME];
    let seen = peek(descriptor, &mut octets);
    if leave_behind(seen, descriptor, stream, inbound)? {
        return all_settled();
    }
    if seen.is_empty() {
        // The end of the stream, an error, or nothing. A record may have come before the end since the look.
        let is_over = is_ended(anchor::news(descriptor)) && peek(descriptor, &mut octets).is_empty();
        return Ok(is_over.then_some(u64::MAX));
    }
    let most = match Record::find(seen, secret(stream)) {
        Some(place) => place,
        // A record may begin at the end of what was seen.
        None if seen.len() == AT_A_TIME => seen.len() - Record::LEN,
        None => seen.len(),
    };
    Ok(Some(most as u64))
}

/// True if a record may stand in the kernel's stream, behind the next octets. A program that reads those by itself would take
/// it for octets of the stream. The caller has the direction's lock.
pub(crate) fn may_follow(descriptor: c_int, stream: &Stream, inbound: &Inbound<'_>) -> bool {
    if !stream.end.has(FAR) || !inbound.expects_ring() {
        return false;
    }
    let mut octets = [0; AT_A_TIME];
    let seen = peek(descriptor, &mut octets);
    Record::find(seen, secret(stream)).is_some() || seen.len() == AT_A_TIME
}

/// True if all that the reader has already is dropped, or nothing more of it comes.
fn is_settled(descriptor: c_int, inbound: &Inbound<'_>) -> bool {
    if inbound.skip() == 0 {
        return true;
    }
    let is_over = is_ended(anchor::news(descriptor));
    // Octets may have come before the end since the reader dropped some.
    drop_known(descriptor, inbound);
    is_over || inbound.skip() == 0
}

/// What the kernel's word of octets means once a record, and what the reader has already, is taken off them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sifted {
    /// It is as it was.
    Same,
    /// Nothing is left for the reader.
    Nothing,
    /// The sender broke a rule. The next receive hears of that.
    Broken,
}

/// Takes a record and the octets that the reader has already, if the kernel's socket tells of octets.
pub(crate) fn sift(descriptor: c_int, stream: &Stream, news: c_short) -> Sifted {
    let is_readable = news & (POLLIN | POLLRDNORM) != 0;
    let Some(inbound) = channel::inbound(stream).filter(|_| is_readable) else { return Sifted::Same };
    // A thread that is in a section of the direction looks there.
    let Some(section) = Section::of_inbound(stream, &inbound) else { return Sifted::Same };
    let is_done = inbound.has_left() && inbound.skip() == 0;
    let settled = if is_done { Ok(false) } else { settle(descriptor, stream, &inbound) };
    section.leave();
    let is_empty = || inbound.skip() > 0 || calls::queued(descriptor, libc::FIONREAD) == Ok(0);
    match settled {
        Err(Broken) => Sifted::Broken,
        Ok(true) if !is_ended(news) && is_empty() => Sifted::Nothing,
        Ok(_) => Sifted::Same,
    }
}

/// Drops octets of the kernel's stream that the reader has already.
#[inline]
fn drop_known(descriptor: c_int, inbound: &Inbound<'_>) {
    if inbound.skip() > 0 {
        drop_next(descriptor, inbound);
    }
}

#[cold]
fn drop_next(descriptor: c_int, inbound: &Inbound<'_>) {
    let mut octets = [0; AT_A_TIME];
    while inbound.skip() > 0 {
        let skip = inbound.skip();
        let dropped = buffers::with_own(&mut octets, |buffers| {
            buffers.window(0, skip).receive(descriptor, MSG_DONTWAIT)
        });
        match u64::try_from(dropped) {
            Ok(octets @ 1..) => inbound.skipped(octets),
            _ => return,
        }
    }
}

/// Looks at the next octets of the kernel's stream.
fn peek(descriptor: c_int, octets: &mut [u8]) -> &[u8] {
    let flags = MSG_DONTWAIT | MSG_PEEK;
    let seen = buffers::with_own(octets, |buffers| buffers.window(0, u64::MAX).receive(descriptor, flags));
    usize::try_from(seen).ok().and_then(|len| octets.get(..len)).unwrap_or_default()
}

/// True if nothing follows what the kernel's socket has.
const fn is_ended(news: c_short) -> bool {
    news & (POLLERR | POLLHUP | POLLRDHUP) != 0
}

fn secret(stream: &Stream) -> Secret {
    stream.end.identity.secret.each_ref().map(|word| word.load(Ordering::Relaxed))
}

/// Octets that are looked at, or dropped, at a time.
const AT_A_TIME: usize = 4096;

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
