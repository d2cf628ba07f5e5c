//! Larger rings for directions whose ring is often full.

use core::sync::atomic::Ordering;

use weft_sockets::end::WIDE;
use weft_sockets::layout::OwnOutbound;
use weft_sockets::{Broken, Carrier, Leg, MAX_LOG2, Outbound};

use crate::ends::{self, Stream};
use crate::{clock, port, sleep, upgrade};

/// Asks the daemon for a larger ring if two octets found no room within a short time. The caller is in a section of the
/// direction, as in [`go_on`].
#[cold]
pub(crate) fn want(stream: &Stream, outbound: &Outbound<'_>) {
    let own = &stream.end.outbound;
    let now = u32::try_from((clock::now() / 1000) & u64::from(u32::MAX)).unwrap_or(0);
    let Carrier::Ring(ring) = own.leg().carrier else { return };
    let is_wide = || stream.end.has(WIDE) || outbound.is_wanted_wide();
    let largest = if ring.log2 == LARGEST && is_wide() { MAX_LOG2 } else { LARGEST };
    let is_worth_it = own.is_full_again(now) && ring.log2 + STEP <= largest;
    if is_worth_it && own.ring.load(Ordering::Relaxed) == 0 {
        let (link, channel, party) = ends::place(stream.end);
        if port::want_ring(link, channel, party, ring.log2 + STEP) == port::Sent::Yes {
            own.ring.store(asked(clock::now()).to_word(), Ordering::Relaxed);
        }
    }
    upgrade::look_for_mail();
}

/// Begins to send by a larger ring that has come, and gives the old one back once the reader has left it.
#[inline]
pub(crate) fn go_on(stream: &Stream, outbound: &Outbound<'_>) -> Result<(), Broken> {
    if stream.end.outbound.ring.load(Ordering::Acquire) == 0 { Ok(()) } else { step(stream, outbound) }
}

#[cold]
fn step(stream: &Stream, outbound: &Outbound<'_>) -> Result<(), Broken> {
    let own = &stream.end.outbound;
    let (old, Some(next)) = (own.leg(), Leg::from_word(own.ring.load(Ordering::Acquire))) else {
        return Ok(());
    };
    match next {
        // A daemon without room does not answer, nor does one that has died. The next full ring asks again.
        Leg { carrier: Carrier::Tcp, .. } => {
            let now = clock::now();
            if next != asked(now) && next != asked(now.saturating_sub(SECOND)) {
                own.ring.store(0, Ordering::Relaxed);
            }
        }
        Leg { number: LEFT, carrier: Carrier::Ring(ring) } => {
            if outbound.is_adopted() {
                let (link, channel, party) = ends::place(stream.end);
                if port::return_ring(link, channel, party, ring) != port::Sent::Later {
                    own.ring.store(0, Ordering::Relaxed);
                }
            }
        }
        // A relative has begun it, and was killed then.
        Leg { carrier, .. } if carrier == old.carrier => own.ring.store(before(own), Ordering::Relaxed),
        Leg { carrier, .. } => {
            if old.carrier != Carrier::Tcp && outbound.begin_leg(carrier)? {
                own.ring.store(Leg { number: LEFT, ..old }.to_word(), Ordering::Relaxed);
                sleep::wake_own(outbound.own_sleepers());
            }
        }
    }
    Ok(())
}

/// What stands in the place of a ring that the daemon was asked for at this time, in nanoseconds: a leg by TCP, whose number
/// is the second.
fn asked(now: u64) -> Leg {
    let second = u16::try_from((now / SECOND) & 0x7fff).unwrap_or(0);
    Leg { number: second << 1 | 1, carrier: Carrier::Tcp }
}

/// The word for the ring before the current one.
fn before(own: &OwnOutbound) -> u64 {
    match Leg::from_word(own.before.load(Ordering::Relaxed)) {
        Some(Leg { carrier: carrier @ Carrier::Ring(_), .. }) => Leg { number: LEFT, carrier }.to_word(),
        _ => 0,
    }
}

/// The number of a leg that was left: its ring has to be given back.
const LEFT: u16 = 1;
const SECOND: u64 = 1_000_000_000;
/// A ring grows by this logarithm at a time: to four times its size.
const STEP: u8 = 2;
/// The logarithm of the largest ring, 1 MiB, unless an end asked for more: then it is 4 MiB.
const LARGEST: u8 = 20;

#[cfg(test)]
mod tests {
    use weft_sockets::RingPlace;

    use super::*;
    use crate::sleep::Waiter;
    use crate::{channel, family};

    #[test]
    fn a_question_without_an_answer_is_asked_again() {
        let _turn = family::turn();
        let ends = channel::tests::pair(0x600b);
        let outbound = channel::offered_outbound(&ends[0]).expect("a channel");
        let ring = &ends[0].end.outbound.ring;
        for (age, stays) in [(0, true), (3 * SECOND, false)] {
            ring.store(asked(clock::now().saturating_sub(age)).to_word(), Ordering::Relaxed);
            go_on(&ends[0], &outbound).expect("a sound link");
            assert_eq!(ring.load(Ordering::Relaxed) != 0, stays);
        }
        channel::tests::forget(0x600b, ends);
    }

    #[test]
    fn a_thread_that_sleeps_for_room_is_woken_by_a_larger_ring() {
        let _turn = family::turn();
        let [stream, reader] = channel::tests::pair(0x6001);
        let outbound = channel::offered_outbound(&stream).expect("a channel");
        let inbound = channel::offered_inbound(&reader).expect("a channel");
        let ring = |unit, log2| Carrier::Ring(RingPlace::new(unit, log2).expect("a place"));
        assert_eq!(outbound.begin_leg(ring(64, 16)), Ok(true));
        inbound.source().expect("a ring");
        assert_eq!([(); 2].map(|()| outbound.write(&[7; 0x8000])), [Ok(0x8000); 2]);
        let waiter = Waiter::of_thread().expect("a line");
        let bell = waiter.bell().expect("a bell");
        waiter.doze(true);
        assert_eq!(waiter.ask_for_room(&outbound), Ok(true));
        // Another thread has asked for a larger ring.
        stream.end.outbound.ring.store(Leg { number: 0, carrier: ring(65, 18) }.to_word(), Ordering::Relaxed);
        go_on(&stream, &outbound).expect("a sound link");
        assert_eq!(stream.end.outbound.leg().carrier, ring(65, 18));
        assert_eq!(rustix::io::read(bell, &mut [0; 8]), Ok(8), "nobody has rung");
        waiter.wake(false);
        waiter.leave();
        // Another process has begun it, and was killed before it could say so.
        inbound.discard(0x10000).expect("a sound link");
        inbound.source().expect("the larger ring");
        stream.end.outbound.ring.store(Leg { number: 0, carrier: ring(65, 18) }.to_word(), Ordering::Relaxed);
        let number = stream.end.outbound.leg().number;
        go_on(&stream, &outbound).expect("a sound link");
        assert_eq!(stream.end.outbound.leg().number, number, "it begins once");
        let left = Leg { number: LEFT, carrier: ring(64, 16) };
        assert_eq!(stream.end.outbound.ring.load(Ordering::Relaxed), left.to_word());
        channel::tests::forget(0x6001, [stream, reader]);
    }
}
