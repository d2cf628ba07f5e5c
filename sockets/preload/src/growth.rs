//! Larger rings for directions whose ring is often full.

use core::sync::atomic::Ordering;

use weft_sockets::{Broken, Carrier, Leg, Outbound};

use crate::ends::Stream;
use crate::{clock, port, upgrade};

/// Asks the daemon for a larger ring if two octets found no room within a short time. The caller is in a section of the
/// direction, as in [`go_on`].
#[cold]
pub(crate) fn want(stream: &Stream) {
    let own = &stream.end.outbound;
    let now = u32::try_from((clock::now() / 1000) & u64::from(u32::MAX)).unwrap_or(0);
    let Carrier::Ring(ring) = own.leg().carrier else { return };
    let is_worth_it = own.is_full_again(now) && ring.log2 + STEP <= LARGEST;
    if is_worth_it && own.ring.load(Ordering::Relaxed) == 0 {
        let (link, channel, party) = upgrade::place(stream);
        if port::want_ring(link, channel, party, ring.log2 + STEP) == port::Sent::Yes {
            own.ring.store(ASKED.to_word(), Ordering::Relaxed);
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
        ASKED => {}
        Leg { number: LEFT, carrier: Carrier::Ring(ring) } => {
            if outbound.is_adopted() {
                let (link, channel, party) = upgrade::place(stream);
                if port::return_ring(link, channel, party, ring) != port::Sent::Later {
                    own.ring.store(0, Ordering::Relaxed);
                }
            }
        }
        Leg { carrier, .. } => {
            if old.carrier != Carrier::Tcp && outbound.begin_leg(carrier)? {
                own.ring.store(Leg { number: LEFT, ..old }.to_word(), Ordering::Relaxed);
            }
        }
    }
    Ok(())
}

/// The number of a leg that was left: its ring has to be given back.
const LEFT: u16 = 1;
/// In the place of a ring that the daemon was asked for.
const ASKED: Leg = Leg { number: 2, carrier: Carrier::Tcp };
/// A ring grows by this logarithm at a time: to four times its size.
const STEP: u8 = 2;
/// The logarithm of the largest ring: 1 MiB.
const LARGEST: u8 = 20;
