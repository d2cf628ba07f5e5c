//! Payload that goes to TCP from where it lies, and from TCP to where it belongs, without a buffer in between. Only
//! without CRC, since what is sent could change between the CRC and the wire, and what is received is placed before
//! its CRC has come.

use rustix::io::Errno;
use weft_netif::Llp;
use weft_verbs::{Left, Span, Violation};

use crate::failure::Failure;
use crate::stream::Stream;
use crate::stream::segments::Fit;
use crate::stream::user::Surroundings;

/// Sends as long as there is something to send and TCP takes it.
pub(crate) fn transmit_all(
    stream: &mut Stream,
    llp: &mut Llp<'_>,
    scratch: &mut [u8],
    mulpdu: usize,
    user: &mut Surroundings<'_>,
) -> Result<(), Failure> {
    while transmit(stream, llp, scratch, mulpdu, user)? > 0 {}
    Ok(())
}

/// Builds FPDUs and sends them in one call, from the memory that their payload was lent of; what TCP does not take of
/// that at once is copied into the send buffer. Answers 0 when there is nothing to send, or TCP takes nothing at
/// present.
fn transmit(
    stream: &mut Stream,
    llp: &mut Llp<'_>,
    scratch: &mut [u8],
    mulpdu: usize,
    user: &mut Surroundings<'_>,
) -> Result<usize, Failure> {
    let needed = stream.fpdu_room(mulpdu);
    if !llp.has_room(needed) || !llp.takes_directly() {
        return Ok(0);
    }
    // What was built before a failure goes out before the Terminate that it makes.
    let (built, done) = build_several(stream, scratch, (mulpdu, llp.room()), user);
    let sent = send(llp, &scratch[..built], user)?;
    done.map(|()| sent)
}

/// Builds FPDUs as long as there is something to send, room for all of them in case TCP takes none, and a place in
/// the plan. Answers the octets that were built, also where it fails.
fn build_several(
    stream: &mut Stream,
    scratch: &mut [u8],
    (mulpdu, room): (usize, usize),
    user: &mut Surroundings<'_>,
) -> (usize, Result<(), Failure>) {
    let mut built = 0;
    loop {
        if let Some(lending) = &mut user.lending {
            lending.begin(built);
        }
        let octets = match stream.transmit(&mut scratch[built..], (mulpdu, Fit::Any), user) {
            Ok(octets) => octets,
            Err(failure) => return (built, Err(failure)),
        };
        built += octets;
        let (lent, is_full) = user.lending.as_ref().map_or((0, true), |it| (it.len(), it.is_full()));
        let needed = stream.fpdu_room(mulpdu);
        if octets == 0 || is_full || built + needed > scratch.len() || built + lent + needed > room {
            return (built, Ok(()));
        }
    }
}

/// Sends what was built and lent. Returns how many octets.
fn send(llp: &mut Llp<'_>, built: &[u8], user: &mut Surroundings<'_>) -> Result<usize, Failure> {
    let Some(lending) = user.lending.as_mut().filter(|lending| !lending.is_empty()) else {
        return Ok(llp.send_slice(built));
    };
    let len = built.len() + lending.len();
    let taken = llp.send_directly(len, |socket| {
        // Memory that the kernel cannot read is found again by the copy below.
        lending.send(socket, built).map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::FAULT) => Errno::INTR.into(),
            _ => error,
        })
    });
    let mut copied = Ok(());
    lending.each_behind(taken, built, |left| match left {
        _ if copied.is_err() => {}
        Left::Built(octets) => {
            llp.send_slice(octets);
        }
        Left::Memory(span, len) => copied = copy(llp, span, len),
    });
    let finished = lending.take_finished();
    if copied.is_err() {
        // The peer waits for the rest of an FPDU, so that no Terminate could reach it.
        llp.abort();
        return Err(Failure::refused(user.qp.lent_gone(finished), None));
    }
    if let Some(token) = finished {
        user.qp.finish(token);
    }
    Ok(len)
}

/// Copies octets of registered memory into the send buffer, which has room for them. The place was checked when it
/// was lent, and nobody can deregister it as long as the engine is at work; but the program can have unmapped it.
fn copy(llp: &mut Llp<'_>, span: Span<'_>, len: usize) -> Result<(), Violation> {
    let mut done = 0;
    while done < len {
        let copied = llp.transmit(1, |room| {
            let step = room.len().min(len - done);
            match span.skip(done).copy_out(&mut room[..step]) {
                Ok(()) => (step, Ok(step)),
                Err(violation) => (0, Err(violation)),
            }
        });
        match copied.transpose()? {
            // Nothing can be sent any more.
            None | Some(0) => return Ok(()),
            Some(copied) => done += copied,
        }
    }
    Ok(())
}

/// Receives payload from the socket to where it belongs, if a stream waits for some and nothing of it was received
/// before. Answers how many octets of the payload have come, none if that is not so.
pub(crate) fn receive(
    stream: &mut Stream,
    llp: &mut Llp<'_>,
    user: &mut Surroundings<'_>,
) -> Result<Option<usize>, Failure> {
    if llp.has_unread() {
        return Ok(None);
    }
    let Some(placing) = stream.placings.awaiting_payload() else { return Ok(None) };
    let received = placing.receive(llp, user)?;
    user.counters.mpa.octets_received += received as u64;
    Ok(Some(received))
}
