//! How a connection leaves TCP: claim, offer, then each direction by itself.
//!
//! All of it happens at the program's own calls. Nothing here waits.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use weft_sockets::end::{Attach, FOREIGN, MORE, Phase, SHUT, STAYS, STUCK, State, Switch, Traffic};
use weft_sockets::layout::{ATTACHED, DECLINED};
use weft_sockets::{Carrier, Gate, Leg, Reason};

use crate::clock::{self, Limit};
use crate::ends::Stream;
use crate::evidence::{self, Evidence};
use crate::port::{self, Event, Offer, Sent};
use crate::section::Section;
use crate::sleep;
use crate::trace::trace;
use crate::{calls, channel, ends, family, filter, policy, real, sets};

/// Reads the daemon's mail, if there is any.
#[inline]
pub(crate) fn look_for_mail() {
    port::look_for_mail(hear);
}

/// Goes on with the upgrade of an end, behind a call that moved octets by TCP.
#[inline]
pub(crate) fn moved(stream: &Stream, descriptor: c_int) {
    look_for_mail();
    match stream.end.state().phase {
        Phase::Plain => consider(stream, descriptor),
        Phase::Offered => step(stream, descriptor),
        _ => {}
    }
}

/// Claims a connection that has just come into being, or that has come into an epoll set, if the program asks for that.
pub(crate) fn greet(descriptor: c_int) {
    if let Some(stream) =
        ends::known(descriptor).filter(|stream| is_eager() && stream.end.state().phase == Phase::Plain)
    {
        consider(&stream, descriptor);
    }
}

/// In the mode `require`, waits until a new connection shares memory with its other end. Returns 0, or the error for
/// the program if it does not within a second.
pub(crate) fn require(descriptor: c_int) -> isize {
    greet(descriptor);
    let is_required = policy::policy().is_some_and(|policy| policy.mode == policy::Mode::Require);
    let Some(stream) = ends::known(descriptor).filter(|_| is_required) else { return 0 };
    let until = Limit::behind(Some(clock::span(SECOND)));
    while !until.is_over() {
        look_for_mail();
        if stream.end.state().phase == Phase::Offered {
            return 0;
        }
        let pause = rustix::time::Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        let _slept = rustix::thread::nanosleep(&pause);
    }
    trace!("{descriptor}: refused, {}", stream.end.reason().map_or("short", Reason::name));
    let _shut = rustix::net::shutdown(real::borrow(descriptor), rustix::net::Shutdown::Both);
    -(libc::ECONNREFUSED as isize)
}

/// Goes on with an end before a call: takes the directions off TCP that can leave it now.
#[inline]
pub(crate) fn step(stream: &Stream, descriptor: c_int) {
    if stream.end.state().phase == Phase::Offered && !stream.end.has(STAYS) {
        if stream.end.inbound.inside.load(Ordering::Relaxed) == 0 {
            attach(stream, descriptor);
        }
        if stream.end.outbound.inside.load(Ordering::Relaxed) == 0 {
            switch(stream, descriptor);
        }
    }
}

/// True if connections are to leave TCP as soon as they can.
fn is_eager() -> bool {
    policy::policy().is_some_and(|policy| matches!(policy.mode, policy::Mode::Eager | policy::Mode::Require))
}

/// Claims an end if that is worth it.
#[inline]
fn consider(stream: &Stream, descriptor: c_int) {
    let (identity, end) = (&stream.end.identity, stream.end);
    let traffic = Traffic {
        calls: identity.calls.load(Ordering::Relaxed),
        octets: end.outbound.written.load(Ordering::Relaxed) + end.inbound.consumed.load(Ordering::Relaxed),
        threshold: identity.threshold.load(Ordering::Relaxed),
        tries: identity.tries.load(Ordering::Relaxed),
        age: u32::MAX,
        flags: identity.flags.load(Ordering::Relaxed),
        is_eager: is_eager(),
    };
    if traffic.is_worth_it() {
        claim(stream, descriptor, traffic);
    }
}

/// Claims an end if nothing is against it. If something is for now, asks again behind more traffic.
#[cold]
fn claim(stream: &Stream, descriptor: c_int, mut traffic: Traffic) {
    let Stream { end, handle } = *stream;
    traffic.age = ends::milliseconds().wrapping_sub(end.identity.since.load(Ordering::Relaxed));
    if !traffic.is_worth_it() {
        return;
    }
    let sent = may_claim(stream, descriptor).and_then(|()| {
        let waiters = sleep::waiters().ok_or(Reason::Limit)?;
        let status = waiters.file.borrow().ok_or(Reason::Limit)?;
        let state = end.state();
        if state.phase != Phase::Plain || !end.advance(state, Phase::Claimed) {
            return Ok(Sent::Later);
        }
        let sent = port::claim(handle, real::borrow(descriptor), status);
        if sent != Sent::Yes {
            end.advance(state.with(Phase::Claimed), Phase::Plain);
        }
        Ok(sent)
    });
    let threshold = match sent {
        Ok(Sent::Yes) => {
            end.identity.tries.fetch_add(1, Ordering::Relaxed);
            end.note(Reason::NoPartner);
            traffic.next_threshold()
        }
        Ok(Sent::Later) => traffic.worth() + 1,
        Ok(Sent::No(reason)) => {
            end.note(reason);
            traffic.worth().saturating_add(PAUSE)
        }
        Err(reason) => {
            end.note(reason);
            traffic.worth().saturating_mul(2).max(1)
        }
    };
    end.identity.threshold.store(threshold, Ordering::Relaxed);
    match sent {
        Ok(Sent::Yes) => trace!("{descriptor}: claimed"),
        _ => trace!("{descriptor}: not claimed, {}", end.reason().map_or("busy", Reason::name)),
    }
}

/// Tells what is against the claim of an end.
fn may_claim(stream: &Stream, descriptor: c_int) -> Result<(), Reason> {
    let end = stream.end;
    if !is_held_alone(stream) {
        return Err(Reason::Shared);
    }
    if filter::has_rings() {
        return Err(Reason::Evidence);
    }
    if let Some(reason) = evidence::objection(descriptor) {
        if reason == Reason::Option {
            end.stay(reason);
        }
        return Err(reason);
    }
    let is_inside =
        || end.outbound.inside.load(Ordering::Acquire) | end.inbound.inside.load(Ordering::Acquire) != 0;
    let was_inside = is_inside();
    let evidence = Evidence::of(descriptor).ok_or(Reason::Kernel)?;
    let syn = evidence.written.wrapping_sub(evidence.sent);
    if syn <= 1 && !end.has(FOREIGN) {
        end.outbound.kernel.store(syn, Ordering::Relaxed);
    }
    let is_agreed = syn <= 1
        && evidence.written == written(stream).wrapping_add(end.outbound.kernel.load(Ordering::Relaxed))
        && evidence.consumed == consumed(stream);
    match (is_agreed, was_inside || is_inside()) {
        (true, _) => Ok(()),
        // Octets of a call that has not returned yet are not counted.
        (false, true) => Err(Reason::Short),
        (false, false) => {
            end.stay(Reason::Evidence);
            Err(Reason::Evidence)
        }
    }
}

fn hear(event: Event) {
    match event {
        Event::Offer(offer) => take(&offer),
        Event::Dropped { end, reason } => {
            let Some(stream) = Stream::of(end) else { return };
            let state = State { phase: Phase::Claimed, generation: end.generation };
            if stream.end.advance(state, Phase::Plain) {
                stream.end.note(reason);
                trace!("end {}: claim dropped, {}", end.slot, reason.name());
            }
        }
        Event::RingMade { link, channel, party, ring } => {
            let Some(family) = family::family() else { return };
            let ends = family.slab.header().ends.load(Ordering::Acquire);
            let is_its = |end: &&weft_sockets::layout::End| {
                let identity = &end.identity;
                end.state().phase == Phase::Offered
                    && identity.link.load(Ordering::Relaxed) == link
                    && identity.channel.load(Ordering::Relaxed) == channel
                    && identity.party.load(Ordering::Relaxed) == party
            };
            if let Some(end) = (0..ends).filter_map(|slot| family.slab.end(slot)).find(is_its) {
                end.outbound.ring.store(packed(Carrier::Ring(ring)), Ordering::Release);
            }
        }
    }
}

/// Takes a channel for a claimed end.
fn take(offer: &Offer) {
    let state = State { phase: Phase::Claimed, generation: offer.end.generation };
    let stream = Stream::of(offer.end).filter(|stream| stream.end.state() == state);
    let Some(end) = stream.map(|stream| stream.end) else {
        let _told = port::closed(offer.link, offer.channel, offer.party);
        return;
    };
    let identity = &end.identity;
    identity.link.store(offer.link, Ordering::Relaxed);
    identity.channel.store(offer.channel, Ordering::Relaxed);
    identity.party.store(offer.party, Ordering::Relaxed);
    for (word, secret) in identity.secret.iter().zip(offer.secret) {
        word.store(secret, Ordering::Relaxed);
    }
    end.outbound.ring.store(packed(Carrier::Ring(offer.ring)), Ordering::Relaxed);
    if !end.advance(state, Phase::Offered) {
        let _told = port::closed(offer.link, offer.channel, offer.party);
    }
}

/// Takes the receiving direction into the library's own hands, and tells the sender.
#[cold]
fn attach(stream: &Stream, descriptor: c_int) {
    let end = stream.end;
    let gate = Gate::new(&end.inbound.inside, false);
    let Some(inbound) = channel::offered_inbound(stream) else { return };
    let is_stuck = end.inbound.flags.load(Ordering::Relaxed) & STUCK != 0;
    if is_stuck || consumed(stream) == 0 || !is_held_alone(stream) || !gate.try_close() {
        return;
    }
    let kernel = Evidence::of(descriptor);
    let decision = kernel.and_then(|kernel| {
        let (consumed, kernel) = (consumed(stream), kernel.consumed);
        let decision = Attach { is_offered: true, is_alone: true, consumed, kernel }.decide()?;
        Some(
            decision.and_then(|()| if sets::take(stream, descriptor) { Ok(()) } else { Err(Reason::Option) }),
        )
    });
    match decision {
        Some(Ok(())) => {
            inbound.attach();
            trace!("{descriptor}: reads from a ring behind {}", consumed(stream));
        }
        Some(Err(reason)) => {
            end.note(reason);
            end.inbound.flags.fetch_or(STUCK, Ordering::Relaxed);
            inbound.decline();
            gate.open();
            trace!("{descriptor}: goes on reading from TCP, {}", reason.name());
        }
        None => gate.open(),
    }
}

/// Begins to send by the ring, if the reader has attached.
fn switch(stream: &Stream, descriptor: c_int) {
    let end = stream.end;
    let Some(outbound) = channel::offered_outbound(stream) else { return };
    if outbound.is_attached().is_none() || end.outbound.flags.load(Ordering::Relaxed) & (SHUT | STUCK) != 0 {
        return;
    }
    let Some(section) = Section::of_outbound(stream) else { return };
    let gate = Gate::new(&end.outbound.inside, false);
    if gate.try_close() {
        let decision = decide_switch(stream, descriptor, outbound.is_attached());
        let begun = match decision {
            // A reader that has withdrawn meanwhile stays on TCP.
            Some(Ok(_)) if !outbound.commit() => Ok(false),
            Some(Ok(carrier)) => outbound.begin_leg(carrier).map_err(|_| Reason::Peer),
            Some(Err(reason)) => Err(reason),
            None => Ok(false),
        };
        match begun {
            Ok(true) => {
                end.outbound.ring.store(0, Ordering::Relaxed);
                trace!("{descriptor}: sends by a ring from {}", written(stream));
            }
            Ok(false) => gate.open(),
            Err(reason) => {
                end.outbound.flags.fetch_or(STUCK, Ordering::Relaxed);
                end.note(reason);
                gate.open();
                trace!("{descriptor}: goes on sending by TCP, {}", reason.name());
            }
        }
    }
    section.leave();
}

/// Decides whether the sender may begin a leg, and by which ring. Nobody sends meanwhile.
fn decide_switch(
    stream: &Stream,
    descriptor: c_int,
    is_attached: Option<bool>,
) -> Option<Result<Carrier, Reason>> {
    let flags = stream.end.outbound.flags.load(Ordering::Relaxed);
    let is_corked = || calls::number(descriptor, libc::IPPROTO_TCP, libc::TCP_CORK) != Ok(0);
    let leg = Leg::from_word(stream.end.outbound.ring.load(Ordering::Acquire));
    let leg = leg.filter(|leg| leg.carrier != Carrier::Tcp)?;
    let switch = Switch {
        attached: is_attached.map_or(0, |is_attached| if is_attached { ATTACHED } else { DECLINED }),
        is_alone: is_held_alone(stream),
        is_held: flags & MORE != 0 || is_corked(),
        written: written(stream).wrapping_add(stream.end.outbound.kernel.load(Ordering::Relaxed)),
        kernel: Evidence::of(descriptor)?.written,
    };
    let decision = switch.decide()?;
    Some(
        decision.and_then(
            |()| if sets::take(stream, descriptor) { Ok(leg.carrier) } else { Err(Reason::Option) },
        ),
    )
}

/// True if no other process holds the end.
fn is_held_alone(stream: &Stream) -> bool {
    family::member().is_some_and(|member| stream.end.holders.only(member))
}

fn written(stream: &Stream) -> u64 {
    stream.end.outbound.written.load(Ordering::Relaxed)
}

fn consumed(stream: &Stream) -> u64 {
    stream.end.inbound.consumed.load(Ordering::Relaxed)
}

/// The name of an end's link, its channel, and the party that the end is.
pub(crate) fn place(stream: &Stream) -> (u64, u32, u32) {
    let identity = &stream.end.identity;
    let [channel, party] = [&identity.channel, &identity.party].map(|word| word.load(Ordering::Relaxed));
    (identity.link.load(Ordering::Relaxed), channel, party)
}

/// The leg's word for a carrier that waits for its number.
fn packed(carrier: Carrier) -> u64 {
    Leg { number: 0, carrier }.to_word()
}

/// In nanoseconds.
const SECOND: u64 = 1_000_000_000;
/// Calls until a daemon is looked for again.
const PAUSE: u32 = 1000;
