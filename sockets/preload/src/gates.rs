//! The gates of the directions that a thread asks the kernel about while it waits.

use core::sync::atomic::AtomicU32;

use weft_sockets::{Gate, Leg};

use crate::ends::Stream;
use crate::table::Handle;
use crate::{channel, section};

/// Keeps directions of an end that are on TCP there until [`leave`]: the receiving one, and the sending one if the thread
/// waits for room. Returns what `leave` needs, or 0 if none of them is on TCP.
///
/// So a thread that waits in the kernel hears of all that it waits for, and one that waits for room finds the ring either
/// in all its looks or in none.
pub(crate) fn enter(stream: &Stream, wants_room: bool) -> u64 {
    let (inbound, outbound) = (&stream.end.inbound, &stream.end.outbound);
    let is_outside = wants_room
        && go_in(&outbound.inside, outbound.leg(), || {
            let ours = channel::outbound(stream);
            ours.inspect(|ours| section::of_outbound(stream, ours, |_| ()));
        });
    let is_inside = go_in(&inbound.inside, inbound.leg(), || {
        let ours = channel::inbound(stream);
        ours.inspect(|ours| section::of_inbound(stream, ours, |_| ()));
    });
    let gates = if is_inside { INBOUND } else { 0 } | if is_outside { OUTBOUND } else { 0 };
    match gates {
        0 => 0,
        _ => gates | u64::from(stream.handle.generation) << 32 | u64::from(stream.handle.slot),
    }
}

/// Goes inside the gate of a direction. Returns false if the direction has left TCP. A thread that closes the gate decides
/// in a section whether it opens it again, so that `wait` passes through one.
#[inline]
fn go_in(word: &AtomicU32, leg: Leg, wait: impl Fn()) -> bool {
    let gate = Gate::new(word, false);
    loop {
        if gate.enter() {
            return true;
        }
        if leg.number == 0 {
            wait();
        }
        if gate.is_closed() {
            return false;
        }
    }
}

/// Leaves the gates of an end. Another thread may have closed it meanwhile.
pub(crate) fn leave(entered: u64) {
    let [a, b, c, d, e, f, g, _gates] = entered.to_le_bytes();
    let [slot, generation] = [[a, b, c, d], [e, f, g, 0]].map(u32::from_le_bytes);
    let Some(stream) = Stream::of(Handle { slot, generation }) else { return };
    let words = [(INBOUND, &stream.end.inbound.inside), (OUTBOUND, &stream.end.outbound.inside)];
    for (_, word) in words.into_iter().filter(|(gate, _)| entered & gate != 0) {
        Gate::new(word, false).leave();
    }
}

/// Above a generation, which has 24 bits.
const INBOUND: u64 = 1 << 56;
const OUTBOUND: u64 = 1 << 57;

#[cfg(test)]
mod tests {
    use core::sync::atomic::Ordering;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use libc::{POLLOUT, pollfd};
    use weft_sockets::{Carrier, RingPlace, Sink};

    use super::*;
    use crate::table::{self, Entry};
    use crate::{clock, family, poll, upgrade};

    #[test]
    fn a_direction_stays_on_tcp_while_a_thread_polls_it_for_room() {
        let _turn = family::turn();
        table::open();
        let [stream, peer] = channel::tests::pair(0x600b);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let mut reader =
            TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
        let mut own = listener.accept().expect("its other end").0;
        let descriptor = own.as_raw_fd();
        own.set_nonblocking(true).expect("an option");
        reader.set_nonblocking(true).expect("an option");
        while let Ok(octets) = own.write(&[1; 4096]) {
            stream.end.outbound.count(octets as u64);
        }
        // All is ready for a ring.
        table::replace(descriptor, Entry::Stream(stream.handle));
        let ring = Carrier::Ring(RingPlace::new(64, 16).expect("a place in the link"));
        stream.end.outbound.ring.store(Leg { number: 0, carrier: ring }.to_word(), Ordering::Relaxed);
        channel::offered_inbound(&peer).expect("a channel").attach();
        let sink = || channel::offered_outbound(&stream).expect("a channel").sink();

        let polling = std::thread::spawn(move || {
            let mut item = pollfd { fd: descriptor, events: POLLOUT, revents: 0 };
            let ready = poll::wait(core::slice::from_mut(&mut item), Some(clock::span(20_000_000_000)), None);
            (ready, item.revents)
        });
        while stream.end.inbound.inside.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        // What another thread does behind each of its calls.
        upgrade::step(&stream, descriptor);
        assert_eq!((sink(), polling.is_finished()), (Sink::Tcp, false));
        while !polling.is_finished() {
            let _empty = reader.read(&mut [0; 0x4000]);
        }
        assert_eq!(polling.join().expect("no panic"), (1, POLLOUT));
        upgrade::step(&stream, descriptor);
        assert_eq!(sink(), Sink::Ring);
        table::replace(descriptor, Entry::Unknown);
        channel::tests::forget(0x600b, [stream, peer]);
    }
}
