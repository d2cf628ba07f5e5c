//! The rest of a ring that its reader leaves: its sender writes it to the kernel's socket before all else.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use weft_sockets::end::{FAR, Phase, UNSURE};
use weft_sockets::{Broken, Carrier, Cause, Gate, Outbound, Reason};

use crate::ends::Stream;
use crate::evidence::Evidence;
use crate::section::Section;
use crate::trace::trace;
use crate::{anchor, calls, channel, ends, record, wake};

/// Takes a sending direction back to TCP if its reader has asked for that. Does not wait: what the kernel's socket does
/// not take now is left for the next call.
#[inline]
pub(crate) fn obey(descriptor: c_int, stream: &Stream) {
    // No reader asks before the first ring. One that lies could wait for a set that a thread in `switch` waits for, too.
    if stream.end.outbound.leg().number != 0
        && stream.end.state().phase == Phase::Offered
        && let Some(outbound) = channel::offered_outbound(stream)
        && outbound.is_asked_back()
        && (outbound.is_attached() != Some(false) || owes(&outbound))
    {
        obey_now(descriptor, stream, &outbound);
    }
}

/// True if a record or the rest of a ring has to go out before all else.
pub(crate) fn owes(outbound: &Outbound<'_>) -> bool {
    outbound.record().is_some() || outbound.backlog().is_some()
}

/// As [`obey`], for all connections of this process.
pub(crate) fn obey_all() {
    ends::all().for_each(|(descriptor, stream)| obey(descriptor, &stream));
}

/// Answers the reader's question for TCP, as [`Outbound::obey`] does. Of a far end the daemon may ask, because nobody carries
/// the octets any more. The caller has the direction's lock.
pub(crate) fn answer(descriptor: c_int, stream: &Stream, outbound: &Outbound<'_>) -> Result<bool, Broken> {
    if stream.end.has(FAR) {
        return Ok(outbound.is_asked_back() && outbound.depart()?);
    }
    if outbound.owes_rest()? && !give_rest(descriptor, stream, outbound)? {
        return Ok(false);
    }
    outbound.obey()
}

/// Sends the rest of a ring that this sender has left by itself. Returns false if that is not all out yet.
///
/// Another program may have the socket already. The reader waits for the answer, and gets it only if nothing has come
/// between.
#[cold]
fn give_rest(descriptor: c_int, stream: &Stream, outbound: &Outbound<'_>) -> Result<bool, Broken> {
    let gate = Gate::new(&stream.end.outbound.inside, false);
    // What this process sends comes behind the rest.
    if !gate.is_closed() && !gate.try_close() {
        return Ok(false);
    }
    if !is_untouched(descriptor, stream) {
        return Err(Broken);
    }
    outbound.give_back()?;
    let is_out = resend(descriptor, stream, outbound).is_none();
    if is_untouched(descriptor, stream) { Ok(is_out) } else { Err(Broken) }
}

/// True if no other program has written to the kernel's socket.
fn is_untouched(descriptor: c_int, stream: &Stream) -> bool {
    let own = &stream.end.outbound;
    let by_ring = stream.end.counts.out_ring.load(Ordering::Relaxed);
    let written = own.written.load(Ordering::Relaxed).wrapping_add(own.kernel.load(Ordering::Relaxed));
    Evidence::of(descriptor).is_some_and(|kernel| kernel.written == written.wrapping_sub(by_ring))
}

#[cold]
fn obey_now(descriptor: c_int, stream: &Stream, outbound: &Outbound<'_>) {
    // A signal handler leaves it to the thread that it has interrupted.
    let Some(section) = Section::of_outbound(stream, outbound) else { return };
    let obeyed = answer(descriptor, stream, outbound);
    if obeyed == Ok(true) {
        stream.end.stay(why_asked(descriptor, stream, outbound));
        let _is_out = send(descriptor, stream, outbound);
        trace!("{descriptor}: sends by TCP again, as its reader asks");
    }
    section.leave();
    wake::tell_reader(stream, outbound);
    if obeyed.is_err() {
        anchor::break_off(descriptor, stream);
    }
}

/// Why the reader, or the daemon in its place, asks for TCP. The record of a far end that is drained comes by the kernel's
/// socket, and this process may not have looked there yet.
pub(crate) fn why_asked(descriptor: c_int, stream: &Stream, outbound: &Outbound<'_>) -> Reason {
    if !stream.end.has(FAR) {
        return Reason::Refused;
    }
    let told = record::cause_ahead(descriptor, stream).and_then(Cause::reason);
    told.or_else(|| outbound.why_asked()).unwrap_or(Reason::Lane)
}

/// Takes a sending direction back to TCP, for good: a far one behind a record, at once, and another one if its reader is in
/// the current leg. Returns false if it stays. A far stream that has ended needs no way back: nothing more is sent, and the
/// daemon carries the rest. The caller has the direction's lock.
pub(crate) fn leave_ring(stream: &Stream, outbound: &Outbound<'_>) -> Result<bool, Broken> {
    if stream.end.has(FAR) {
        Ok(outbound.depart()? || outbound.is_ended())
    } else {
        outbound.begin_leg(Carrier::Tcp)
    }
}

/// Sends what the reader has left in the ring. Behind it the sender is free to use the kernel's socket.
pub(crate) fn send(descriptor: c_int, stream: &Stream, outbound: &Outbound<'_>) -> bool {
    let is_out = resend(descriptor, stream, outbound).is_none();
    let gate = Gate::new(&stream.end.outbound.inside, false);
    if is_out && gate.is_closed() {
        gate.open();
    }
    is_out
}

/// Sends what the reader has left in the last ring. Returns the kernel's answer if it does not take all of that.
pub(crate) fn resend(descriptor: c_int, stream: &Stream, outbound: &Outbound<'_>) -> Option<isize> {
    loop {
        let is_unsure = stream.end.outbound.flags.load(Ordering::Relaxed) & UNSURE != 0;
        if is_unsure && !is_untouched(descriptor, stream) {
            // Some of them may be out already.
            return Some(-(anchor::break_off(descriptor, stream) as isize));
        }
        if let Some(refused) = record::send(descriptor, stream, outbound) {
            return Some(refused);
        }
        let pieces = outbound.backlog()?;
        match calls::send_pieces(descriptor, pieces) {
            octets @ 1.. => {
                outbound.resent(octets.unsigned_abs());
                // The ring has not carried them.
                stream.end.counts.out_ring.fetch_sub(octets.unsigned_abs() as u64, Ordering::Relaxed);
            }
            refused => return Some(refused),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
    use rustix::net::{AddressFamily, SocketType, connect, socket};
    use weft_sockets::{Inbound, Level, Lock, Owner, RingPlace, Source};

    use super::*;
    use crate::{family, relatives};

    /// A connection in whose ring octets wait for their reader, and its sockets. The kernel's do not take all of them.
    pub(crate) struct Waiting {
        pub(crate) ends: [Stream; 2],
        pub(crate) outbound: Outbound<'static>,
        pub(crate) inbound: Inbound<'static>,
        pub(crate) own: TcpStream,
        pub(crate) peer: TcpStream,
    }

    impl Waiting {
        pub(crate) fn new(link: u64) -> Self {
            let ends = channel::tests::pair(link);
            let outbound = channel::offered_outbound(&ends[0]).expect("a channel");
            let inbound = channel::offered_inbound(&ends[1]).expect("a channel");
            let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
            let peer = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
            set_socket_recv_buffer_size(&peer, SMALL).expect("a smaller buffer");
            let address: SocketAddr = listener.local_addr().expect("its address");
            connect(&peer, &address).expect("a connection");
            let (own, peer) = (listener.accept().expect("its other end").0, TcpStream::from(peer));
            set_socket_send_buffer_size(&own, SMALL).expect("a smaller buffer");
            own.set_nonblocking(true).expect("a socket");
            peer.set_nonblocking(true).expect("a socket");
            inbound.attach();
            let gate = Gate::new(&ends[0].end.outbound.inside, false);
            assert!(outbound.commit() && gate.try_close());
            let ring = Carrier::Ring(RingPlace::new(64, 16).expect("a place in the link"));
            assert_eq!(outbound.begin_leg(ring), Ok(true));
            for octet in [1, 2] {
                assert_eq!(outbound.write(&[octet; HALF]), Ok(HALF));
            }
            ends[0].end.counts.out_ring.store(2 * HALF as u64, Ordering::Relaxed);
            assert_eq!(inbound.source(), Ok(Source::Ring { available: 2 * HALF as u64 }));
            Self { ends, outbound, inbound, own, peer }
        }

        /// Reads what the kernel's socket has. Returns true once that is the whole ring.
        pub(crate) fn drain(&mut self, octets: &mut Vec<u8>) -> bool {
            let mut some = [0; 4096];
            while let Ok(len) = self.peer.read(&mut some) {
                octets.extend(&some[..len]);
            }
            octets.len() >= 2 * HALF && octets == &[[1; HALF], [2; HALF]].concat()
        }

        pub(crate) fn answer(&self) -> Result<bool, Broken> {
            answer(self.own.as_raw_fd(), &self.ends[0], &self.outbound)
        }

        /// The sender leaves the ring by itself, and its threads use the kernel's socket. Then the reader asks for TCP.
        pub(crate) fn leave(&self) -> Gate<'static> {
            let gate = Gate::new(&self.ends[0].end.outbound.inside, false);
            assert_eq!(self.outbound.begin_leg(Carrier::Tcp), Ok(true));
            gate.open();
            self.inbound.ask_back();
            gate
        }
    }

    #[test]
    fn the_rest_of_a_ring_goes_out_while_no_other_thread_sends() {
        let _turn = family::turn();
        let waiting = Waiting::new(0x6005);
        let gate = waiting.leave();
        assert!(gate.enter());
        assert_eq!((waiting.answer(), waiting.outbound.backlog()), (Ok(false), None), "a thread is inside");
        gate.leave();
        assert_eq!((waiting.answer(), waiting.inbound.is_answered()), (Ok(false), false));
        assert!(!gate.enter() && waiting.outbound.backlog().is_some(), "what threads send comes behind it");
        channel::tests::forget(0x6005, waiting.ends);
    }

    #[test]
    fn a_reader_hears_of_the_rest_once_all_of_it_is_out() {
        let _turn = family::turn();
        let mut waiting = Waiting::new(0x6006);
        let (gate, mut octets) = (waiting.leave(), Vec::new());
        while waiting.answer() == Ok(false) {
            assert!(!waiting.inbound.is_answered());
            assert!(!waiting.drain(&mut octets));
        }
        assert_eq!((waiting.outbound.backlog(), waiting.inbound.is_answered()), (None, true));
        assert!(send(waiting.own.as_raw_fd(), &waiting.ends[0], &waiting.outbound) && gate.enter());
        while !waiting.drain(&mut octets) {}
        channel::tests::forget(0x6006, waiting.ends);
    }

    #[test]
    fn a_look_at_what_is_unread_leaves_the_place_of_the_rest_alone() {
        let _turn = family::turn();
        let waiting = Waiting::new(0x600c);
        let head = || waiting.ends[0].end.outbound.head.load(Ordering::Relaxed);
        let before = head();
        assert_eq!(waiting.inbound.discard(40_000), Ok(40_000));
        // A thread that looks has no lock. Another one may have sent some of the rest meanwhile, from this head on.
        assert_eq!((waiting.outbound.unread(), head()), (Ok(20_000), before));
        channel::tests::forget(0x600c, waiting.ends);
    }

    #[test]
    fn a_reader_whose_rest_comes_too_late_hears_no_answer() {
        let _turn = family::turn();
        let mut waiting = Waiting::new(0x6007);
        let _open = waiting.leave();
        waiting.own.write_all(b"another program's").expect("room");
        assert_eq!((waiting.answer(), waiting.inbound.is_answered()), (Err(Broken), false));
        channel::tests::forget(0x6007, waiting.ends);
    }

    #[test]
    fn a_rest_of_which_a_killed_process_may_have_sent_more_is_not_sent_twice() {
        let _turn = family::turn();
        for more in [0, 9] {
            let mut waiting = Waiting::new(0x600a);
            let descriptor = waiting.own.as_raw_fd();
            waiting.inbound.ask_back();
            obey(descriptor, &waiting.ends[0]);
            let mut octets = Vec::new();
            assert!(waiting.outbound.backlog().is_some() && !waiting.drain(&mut octets));
            let mut child = relatives::tests::child(0);
            let lock = Lock::new(&waiting.ends[0].end.outbound.lock);
            lock.try_lock(Owner::new(9, child.id()), Level::Shared).expect("a free lock");
            while more > 0 && waiting.own.write(&[2; 9]).is_err() {
                waiting.drain(&mut octets);
            }
            child.kill().expect("a signal");
            obey(descriptor, &waiting.ends[0]);
            child.wait().expect("its end");
            family::opened().free(9);
            assert_eq!(waiting.own.peer_addr().is_err(), more > 0, "the connection is reset");
            channel::tests::forget(0x600a, waiting.ends);
        }
    }

    const HALF: usize = 30_000;
    const SMALL: usize = 8192;
}
