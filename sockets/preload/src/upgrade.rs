//! How a connection leaves TCP: claim, offer, then each direction by itself.
//!
//! All of it happens at the program's own calls. Nothing here waits.

use core::ffi::c_int;
use core::sync::atomic::{Ordering, fence};

use weft_sockets::end::{
    Attach, FAR, FOREIGN, MORE, PASSED, Phase, SHUT, STAYS, STUCK, State, Switch, Traffic, WIDE,
};
use weft_sockets::layout::{ATTACHED, DECLINED, End, OwnOutbound};
use weft_sockets::{Carrier, Gate, Inbound, Leg, Reason};

use crate::clock::{self, Limit};
use crate::ends::Stream;
use crate::evidence::{self, Evidence};
use crate::port::{self, Event, Offer, Sent};
use crate::section::Section;
use crate::sleep;
use crate::trace::trace;
use crate::{
    backlog, calls, channel, ends, family, filter, first, peers, policy, real, record, sets, wake, watch,
};

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
    if let Some(stream) = ends::known(descriptor)
        .filter(|stream| policy::is_eager() && stream.end.state().phase == Phase::Plain)
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
    // Behind the first ring no reader waits for one.
    if stream.end.outbound.leg().number == 0 && stream.end.has(FAR) {
        wake::appear(stream);
        let _later = renounce(stream, descriptor, false);
    }
}

/// Tells a reader on another host that the ring for which it waits never comes, by a record in the kernel's stream. That is
/// due once nobody carries octets to it, and with `is_last`, before the end of the stream, if the daemon is dead. Returns
/// false if the record can go out later: it is sent only if all octets before it have arrived.
pub(crate) fn renounce(stream: &Stream, descriptor: c_int, is_last: bool) -> bool {
    let end = stream.end;
    if end.outbound.leg().number != 0 || end.state().phase != Phase::Offered {
        return true;
    }
    let Some(outbound) = channel::offered_outbound(stream) else { return true };
    let is_dead = || is_last && outbound.is_awaited() && !port::has_daemon();
    // Another program may have a socket that was passed on, or went back to TCP for another reason.
    let is_others = end.has(PASSED) || end.has(STAYS) && end.reason() != Some(Reason::Lane);
    if is_others || !outbound.is_awaited_in_vain() && !is_dead() {
        return true;
    }
    let is_silent = || calls::has_arrived(descriptor);
    // Children may not know the link.
    if !stream.is_held_alone() {
        return true;
    }
    if !is_silent() {
        return false;
    }
    let Some(section) = Section::of_outbound(stream, &outbound) else { return false };
    let gate = Gate::new(&end.outbound.inside, false);
    let mut is_done = false;
    if gate.try_close() {
        let decision = if is_silent() { decide_switch(stream, descriptor, Some(true)) } else { None };
        is_done = decision.is_some();
        match decision {
            Some(Ok(_)) if outbound.renounce() => {
                end.stay(Reason::Lane);
                let _is_out = backlog::send(descriptor, stream, &outbound);
                trace!("{descriptor}: sends by TCP for good from {}", written(stream));
            }
            Some(Err(_)) => {
                outbound.keep_silent();
                gate.open();
            }
            _ => gate.open(),
        }
    }
    section.leave();
    is_done
}

/// Claims an end if that is worth it.
#[inline]
fn consider(stream: &Stream, descriptor: c_int) {
    let traffic = stream.end.traffic();
    if traffic.is_worth_it() {
        claim(stream, descriptor, traffic);
    }
}

/// Claims an end if nothing is against it. If something is for now, asks again behind more traffic.
#[cold]
fn claim(stream: &Stream, descriptor: c_int, mut traffic: Traffic) {
    let end = stream.end;
    traffic.age = ends::milliseconds().wrapping_sub(end.identity.since.load(Ordering::Relaxed));
    if !traffic.is_worth_it() || port::is_between_looks() {
        return;
    }
    let sent = may_claim(stream, descriptor).and_then(|()| {
        let state = end.state();
        if state.phase != Phase::Plain || !end.advance(state, Phase::Claimed) {
            return Ok(Sent::Later);
        }
        let sent = show(stream, descriptor);
        if sent != Ok(Sent::Yes) {
            end.advance(state.with(Phase::Claimed), Phase::Plain);
        }
        sent
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
            // One that was there a moment ago is looked for at a pace of its own.
            traffic.worth().saturating_add(if port::is_between_looks() { 1 } else { PAUSE })
        }
        // That may end with the next call.
        Err(Reason::Shared) => {
            end.note(Reason::Shared);
            traffic.worth() + 1
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

/// Shows an end to the daemon.
fn show(stream: &Stream, descriptor: c_int) -> Result<Sent, Reason> {
    let status = sleep::status().ok_or(Reason::Limit)?;
    Ok(port::claim(stream.handle, first::digests(stream), real::borrow(descriptor), status))
}

/// Asks for the memory of an end's link, which came to a relative of this process. The daemon answers with the offer that
/// the relative has had.
#[cold]
fn fetch_link(stream: &Stream, descriptor: c_int) {
    let traffic = stream.end.traffic();
    if traffic.worth() >= traffic.threshold {
        let _answered_by_mail = show(stream, descriptor);
        let next = traffic.worth().saturating_mul(2).max(1);
        stream.end.identity.threshold.store(next, Ordering::Relaxed);
    }
}

/// Tells what is against the claim of an end.
fn may_claim(stream: &Stream, descriptor: c_int) -> Result<(), Reason> {
    let end = stream.end;
    if !stream.is_held_alone() {
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
    let counts = (written(stream), consumed(stream));
    let evidence = Evidence::of(descriptor).ok_or(Reason::Kernel)?;
    let syn = evidence.written.wrapping_sub(evidence.sent);
    if syn <= 1 && !end.has(FOREIGN) {
        end.outbound.kernel.store(syn, Ordering::Relaxed);
    }
    let is_agreed = syn <= 1
        && evidence.written == counts.0.wrapping_add(end.outbound.kernel.load(Ordering::Relaxed))
        && evidence.consumed == counts.1;
    let is_moving = was_inside || is_inside() || counts != (written(stream), consumed(stream));
    match (is_agreed, is_moving) {
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
        Event::Welcome => ends::tell_late(),
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
            let is_its = |(_, end): &(u32, &End)| {
                let identity = &end.identity;
                end.state().phase == Phase::Offered
                    && identity.link.load(Ordering::Relaxed) == link
                    && identity.channel.load(Ordering::Relaxed) == channel
                    && identity.party.load(Ordering::Relaxed) == party
            };
            // An answer that comes late finds the place taken.
            match family.slab.ends().find(is_its) {
                Some((_, end)) if waits_for_ring(&end.outbound) => {
                    end.outbound.ring.store(packed(Carrier::Ring(ring)), Ordering::Release);
                }
                Some(_) => {
                    let _given_back = port::return_ring(link, channel, party, ring);
                }
                None => {}
            }
        }
    }
}

/// True if a direction waits for a larger ring, or may take one.
fn waits_for_ring(own: &OwnOutbound) -> bool {
    let next = own.ring.load(Ordering::Relaxed);
    next == 0 || Leg::from_word(next).is_some_and(|next| next.carrier == Carrier::Tcp)
}

/// Takes a channel for an end. A relative may have claimed it, or this process before it forked the relative, so that both
/// get the offer.
fn take(offer: &Offer) {
    let place = (offer.link, offer.channel, offer.party);
    let taken = Stream::of(offer.end).is_some_and(|stream| {
        let (identity, state) = (&stream.end.identity, stream.end.state());
        match state.phase {
            Phase::Offered => ends::place(stream.end) == place,
            // Of several processes that are here at a time one fills the words in.
            Phase::Plain | Phase::Claimed if stream.end.advance(state, Phase::Fresh) => {
                identity.link.store(offer.link, Ordering::Relaxed);
                identity.channel.store(offer.channel, Ordering::Relaxed);
                identity.party.store(offer.party, Ordering::Relaxed);
                if peers::is_far(offer.link) {
                    identity.flags.fetch_or(FAR, Ordering::Relaxed);
                    record::keep(&stream, offer.secret);
                    watch::begin();
                }
                stream.end.outbound.ring.store(packed(Carrier::Ring(offer.ring)), Ordering::Relaxed);
                stream.end.note(Reason::Short);
                let is_taken = stream.end.advance(state.with(Phase::Fresh), Phase::Offered);
                // A thread that shuts the stream down says so, and then looks at the phase. The program may make no further
                // call before it hears of the other end, which may wait for this word.
                fence(Ordering::SeqCst);
                let _told = is_taken && tell_shut(&stream);
                if is_taken {
                    wake::appear(&stream);
                }
                is_taken
            }
            Phase::Fresh => true,
            _ => false,
        }
    });
    if !taken {
        let _told = port::closed(offer.end, place);
    }
}

/// Takes the receiving direction into the library's own hands, and tells the sender.
#[cold]
fn attach(stream: &Stream, descriptor: c_int) {
    let end = stream.end;
    let gate = Gate::new(&end.inbound.inside, false);
    let Some(inbound) = channel::offered_inbound(stream) else { return fetch_link(stream, descriptor) };
    let is_stuck = end.inbound.flags.load(Ordering::Relaxed) & STUCK != 0;
    if is_stuck || consumed(stream) == 0 || !stream.is_held_alone() {
        return;
    }
    if !tell_shut(stream) {
        return;
    }
    let Some(section) = Section::of_inbound(stream, &inbound) else { return };
    let decision = decide_attach(stream, descriptor, &gate);
    section.leave();
    // Not in the section: a thread that collects a set's rings is in the set's section first.
    let is_taken = || if sets::take(stream, descriptor) { Ok(()) } else { Err(Reason::Option) };
    match decision.map(|decision| decision.and_then(|()| is_taken())) {
        Some(Ok(())) if tell_attached(stream, &inbound) => {
            trace!("{descriptor}: reads from a ring behind {}", consumed(stream));
        }
        Some(Ok(())) => gate.open(),
        Some(Err(reason)) => {
            end.note(reason);
            end.inbound.flags.fetch_or(STUCK, Ordering::Relaxed);
            inbound.decline();
            wake::tell_sender(stream, &inbound);
            gate.open();
            trace!("{descriptor}: goes on reading from TCP, {}", reason.name());
        }
        None => {}
    }
}

/// Tells the end of a stream that was shut down before the channel came: there was nobody to tell. Returns false in a signal
/// handler that leaves it to the thread that it has interrupted.
fn tell_shut(stream: &Stream) -> bool {
    if stream.end.outbound.flags.load(Ordering::SeqCst) & SHUT != 0
        && let Some(outbound) = channel::offered_outbound(stream)
    {
        let Some(section) = Section::of_outbound(stream, &outbound) else { return false };
        // A broken rule shows at the next look, too.
        let _told = outbound.finish();
        section.leave();
        wake::tell_reader(stream, &outbound);
    }
    true
}

/// Closes the gate of a reader, and decides whether it may leave TCP. `None`: not now. Then the gate is open. The caller is
/// in a section: another thread that finds the gate closed receives in one, and counts what it took there.
fn decide_attach(stream: &Stream, descriptor: c_int, gate: &Gate<'_>) -> Option<Result<(), Reason>> {
    if !gate.try_close() {
        return None;
    }
    // An end that has gone back to TCP may be another program's.
    let kernel = if stream.end.has(STAYS) { None } else { Evidence::of(descriptor) };
    let decision = kernel.and_then(|kernel| {
        let (consumed, kernel) = (consumed(stream), kernel.consumed);
        Attach { is_offered: true, is_alone: true, consumed, kernel }.decide()
    });
    if decision.is_none() {
        gate.open();
    }
    decision
}

/// Attaches the reader, which has left TCP. Returns false if another thread takes the end back to TCP meanwhile: it
/// has found the gate open, or is done with its section.
fn tell_attached(stream: &Stream, inbound: &Inbound<'_>) -> bool {
    let Some(section) = Section::of_inbound(stream, inbound) else { return false };
    fence(Ordering::SeqCst);
    let stays = stream.end.has(STAYS);
    if !stays {
        if stream.end.has(WIDE) {
            inbound.want_wide();
        }
        inbound.attach();
    }
    section.leave();
    if !stays {
        wake::tell_sender(stream, inbound);
    }
    !stays
}

/// Begins to send by the ring, if the reader has attached.
fn switch(stream: &Stream, descriptor: c_int) {
    let end = stream.end;
    let Some(outbound) = channel::offered_outbound(stream) else { return };
    let is_fixed = end.outbound.flags.load(Ordering::Relaxed) & (SHUT | STUCK) != 0;
    // Children may not know the link: they must not meet a closed gate.
    let is_vain = end.has(FAR) && outbound.is_awaited_in_vain();
    if is_fixed || is_vain || outbound.is_attached().is_none() || !stream.is_held_alone() {
        return;
    }
    let Some(section) = Section::of_outbound(stream, &outbound) else { return };
    let gate = Gate::new(&end.outbound.inside, false);
    // Another thread may have taken the end back to TCP, in its own section.
    if !end.has(STAYS) && gate.try_close() {
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
        is_alone: stream.is_held_alone(),
        // A thread that has shut the direction down since tells the end in a section of its own, behind this flag.
        is_held: flags & (MORE | SHUT) != 0 || is_corked(),
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

fn written(stream: &Stream) -> u64 {
    stream.end.outbound.written.load(Ordering::Relaxed)
}

fn consumed(stream: &Stream) -> u64 {
    stream.end.inbound.consumed.load(Ordering::Relaxed)
}

/// The leg's word for a carrier that waits for its number.
fn packed(carrier: Carrier) -> u64 {
    Leg { number: 0, carrier }.to_word()
}

/// In nanoseconds.
const SECOND: u64 = 1_000_000_000;
/// Calls until a daemon is looked for again.
const PAUSE: u32 = 1000;

#[cfg(test)]
#[path = "renounce_tests.rs"]
mod renounce_tests;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use weft_sockets::Sink;

    use super::*;
    use crate::closing;
    use crate::overtaken::tests::Daemon;
    use crate::table::{self, Entry};

    /// A connection whose one end has taken an octet of the other one's.
    fn connection(stream: &Stream) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let mut peer = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
        let mut own = listener.accept().expect("its other end").0;
        peer.write_all(b"x").expect("room");
        own.read_exact(&mut [0]).expect("an octet");
        stream.end.inbound.consumed.store(1, Ordering::Relaxed);
        (own, peer)
    }

    fn has_attached(peer: &Stream) -> bool {
        channel::offered_outbound(peer).expect("a channel").is_attached() == Some(true)
    }

    #[test]
    fn an_end_that_was_shut_down_before_its_channel_came_tells_so_when_it_takes_the_channel() {
        let _turn = family::turn();
        let [stream, peer] = channel::tests::pair(0x6017);
        let ring = weft_sockets::RingPlace::new(64, 16).expect("a place");
        let (link, channel, party) = ends::place(stream.end);
        let offer = Offer { end: stream.handle, link, channel, party, ring, secret: [0; 2] };
        let offered = stream.end.state();
        assert!(stream.end.advance(offered, Phase::Claimed));
        stream.end.outbound.written.store(934, Ordering::Relaxed);
        stream.end.outbound.flags.fetch_or(SHUT, Ordering::Relaxed);
        // The program makes no call of this connection any more.
        take(&offer);
        let inbound = channel::offered_inbound(&peer).expect("a channel");
        assert_eq!((stream.end.state(), inbound.end()), (offered, Some(934)));
        channel::tests::forget(0x6017, [stream, peer]);
    }

    #[test]
    fn a_reader_leaves_tcp_while_no_other_thread_receives() {
        let _turn = family::turn();
        let [stream, peer] = channel::tests::pair(0x6002);
        let (own, _other) = connection(&stream);
        let gate = Gate::new(&stream.end.inbound.inside, false);
        // Another thread has taken octets behind a closed gate, and is about to count them.
        let inbound = channel::offered_inbound(&stream).expect("a channel");
        let section = Section::of_inbound(&stream, &inbound).expect("a free lock");
        let attaching = std::thread::spawn(move || attach(&stream, own.as_raw_fd()));
        while stream.end.inbound.lock.load(Ordering::Relaxed) >> 31 & 1 == 0 && !attaching.is_finished() {
            std::thread::yield_now();
        }
        assert!(!gate.is_closed() && !has_attached(&peer));
        section.leave();
        attaching.join().expect("no panic");
        assert!(gate.is_closed() && has_attached(&peer));
        channel::tests::forget(0x6002, [stream, peer]);
    }

    #[test]
    fn a_direction_that_another_thread_shuts_down_meanwhile_begins_no_ring() {
        let _turn = family::turn();
        for is_shut in [false, true] {
            let [stream, peer] = channel::tests::pair(0x6014);
            let (own, _other) = connection(&stream);
            let outbound = channel::offered_outbound(&stream).expect("a channel");
            channel::offered_inbound(&peer).expect("a channel").attach();
            let ring = weft_sockets::RingPlace::new(64, 16).expect("a place");
            stream.end.outbound.ring.store(packed(Carrier::Ring(ring)), Ordering::Relaxed);
            let kernel = Evidence::of(own.as_raw_fd()).expect("the kernel's counts").written;
            stream.end.outbound.kernel.store(kernel, Ordering::Relaxed);
            let section = Section::of_outbound(&stream, &outbound).expect("a free lock");
            let switching = std::thread::spawn(move || switch(&stream, own.as_raw_fd()));
            while stream.end.outbound.lock.load(Ordering::Relaxed) >> 31 & 1 == 0 && !switching.is_finished()
            {
                std::thread::yield_now();
            }
            if is_shut {
                stream.end.outbound.flags.fetch_or(SHUT, Ordering::SeqCst);
            }
            section.leave();
            switching.join().expect("no panic");
            assert_eq!(outbound.sink() == Sink::Ring, !is_shut);
            assert_eq!(Gate::new(&stream.end.outbound.inside, false).is_closed(), !is_shut);
            channel::tests::forget(0x6014, [stream, peer]);
        }
    }

    #[test]
    fn the_daemon_of_a_far_end_hears_what_its_reader_decides() {
        let _turn = family::turn();
        for (consumed, decision) in [(1, Some(true)), (2, Some(false))] {
            let [stream, peer] = channel::tests::pair(0x6013);
            let (own, _other) = connection(&stream);
            stream.end.identity.flags.fetch_or(FAR, Ordering::Relaxed);
            stream.end.inbound.consumed.store(consumed, Ordering::Relaxed);
            let daemon = Daemon::new(0x6013, &stream);
            attach(&stream, own.as_raw_fd());
            let attached = channel::offered_outbound(&peer).expect("a channel").is_attached();
            assert_eq!((attached, daemon.was_woken()), (decision, true));
            daemon.forget(0x6013);
            channel::tests::forget(0x6013, [stream, peer]);
        }
    }

    #[test]
    fn an_end_knows_whether_the_other_one_is_on_another_host() {
        let _turn = family::turn();
        for is_far in [false, true] {
            let [stream, peer] = channel::tests::pair(0x6012);
            assert!(peers::add_link(0x6012, 1, is_far, 1));
            let (handle, state) = (stream.handle, stream.end.state());
            assert!(stream.end.advance(state, Phase::Claimed));
            let ring = weft_sockets::RingPlace::new(64, 16).expect("a place");
            take(&Offer { end: handle, link: 0x6012, channel: 0, party: 0, ring, secret: [1, 2] });
            assert_eq!((stream.end.state(), stream.end.has(FAR)), (state, is_far));
            peers::remove_link(0x6012);
            channel::tests::forget(0x6012, [stream, peer]);
        }
    }

    #[test]
    fn a_reader_that_leaves_tcp_tells_the_end_that_another_thread_is_about_to_tell() {
        let _turn = family::turn();
        table::open();
        let [stream, peer] = channel::tests::pair(0x6003);
        let (own, _other) = connection(&stream);
        table::replace(own.as_raw_fd(), Entry::Stream(stream.handle));
        // The channel comes in the middle of the other thread's call.
        let offered = stream.end.state();
        assert!(stream.end.advance(offered, Phase::Claimed));
        assert!(closing::will_shut_down(own.as_raw_fd(), libc::SHUT_WR));
        assert!(stream.end.advance(offered.with(Phase::Claimed), Phase::Offered));
        attach(&stream, own.as_raw_fd());
        assert!(has_attached(&peer));
        assert_eq!(channel::offered_inbound(&peer).expect("a channel").end(), Some(0));
        table::replace(own.as_raw_fd(), Entry::Unknown);
        channel::tests::forget(0x6003, [stream, peer]);
    }
}
