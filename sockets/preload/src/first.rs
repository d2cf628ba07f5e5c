//! The first octets of each connection that this process has made or accepted, for the digests of its claim.
//!
//! They are kept only without a gap: octets of a call that the library does not see, or of another process or thread at
//! the same time, end what is known of their direction.

use core::sync::atomic::{AtomicU64, Ordering};

use weft_sockets::end::FOREIGN;
use weft_sockets::layout::ENDS;
use weft_sockets::{Digests, PREFIXES, Prefixes};

use crate::buffers::Buffers;
use crate::ends::Stream;
use crate::real::{self, Once};
use crate::table::Handle;

/// Octets that a call of the kernel's has moved at the beginning of a direction.
#[derive(Debug)]
pub(crate) struct First {
    record: &'static Record,
    handle: Handle,
    position: u64,
    octets: usize,
}

/// A direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// What this end writes.
    Written,
    /// What this end receives.
    Received,
}

/// The first octets of a direction: the end's generation and how many octets there are, then the octets.
type Record = [AtomicU64; RECORD];

impl First {
    /// Names the octets that a call has moved to or from `position` on. Its thread is still inside the direction's gate.
    /// `None`: these octets are not to be kept, or may have come in another order.
    #[cold]
    pub(crate) fn new(stream: &Stream, side: Side, position: u64, octets: usize) -> Option<Self> {
        let end = stream.end;
        let gate = if side == Side::Written { &end.outbound.inside } else { &end.inbound.inside };
        // Another thread in there may have moved octets that it has not counted yet.
        let is_alone = gate.load(Ordering::Acquire) == 1 && !end.has(FOREIGN);
        let record = record(stream.handle, side).filter(|_| is_alone)?;
        let is_next = position == known(record, stream.handle);
        is_next.then_some(Self { record, handle: stream.handle, position, octets })
    }

    /// Keeps them, as far as they are among the first.
    pub(crate) fn see(self, buffers: Buffers<'_>) {
        let octets = buffers.slices(0).flatten().take(self.octets);
        let mut len = self.position;
        for octet in octets.take(usize::try_from(LEN.saturating_sub(len)).unwrap_or(0)) {
            let Some(word) = usize::try_from(len / 8).ok().and_then(|at| self.record.get(at + 1)) else {
                break;
            };
            let shift = len % 8 * 8;
            let others = word.load(Ordering::Relaxed) & !(0xff << shift);
            word.store(others | u64::from(*octet) << shift, Ordering::Relaxed);
            len += 1;
        }
        self.record[0].store(name(self.handle) | len, Ordering::Release);
    }
}

/// Returns the digests of what is known of a connection's first octets.
pub(crate) fn digests(stream: &Stream) -> Digests {
    let prefixes = |side| match record(stream.handle, side) {
        Some(record) if !stream.end.has(FOREIGN) => {
            let len = usize::try_from(known(record, stream.handle)).unwrap_or(0);
            let mut octets = [0; PREFIXES[PREFIXES.len() - 1]];
            for (octets, word) in octets.chunks_exact_mut(8).zip(&record[1..]) {
                octets.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
            }
            Prefixes::of(octets.get(..len).unwrap_or_default())
        }
        _ => Prefixes::default(),
    };
    Digests { written: prefixes(Side::Written), received: prefixes(Side::Received) }
}

/// How many octets a record has of an end.
fn known(record: &Record, handle: Handle) -> u64 {
    let word = record[0].load(Ordering::Acquire);
    if word & !LOW == name(handle) { word & LOW } else { 0 }
}

/// What tells the ends of a place apart.
fn name(handle: Handle) -> u64 {
    u64::from(handle.generation) << 32
}

fn record(handle: Handle, side: Side) -> Option<&'static Record> {
    let all = RECORDS.get().or_else(|| RECORDS.set(|| real::reserve(2 * RECORD * ENDS as usize)))?;
    let place = 2 * usize::try_from(handle.slot).ok()? + usize::from(side == Side::Received);
    all.get(place * RECORD..)?.first_chunk()
}

/// So many octets of a direction are kept.
pub(crate) const LEN: u64 = PREFIXES[PREFIXES.len() - 1] as u64;
/// The words of a record.
const RECORD: usize = 1 + PREFIXES[PREFIXES.len() - 1] / 8;
const LOW: u64 = 0xffff_ffff;
/// Two records for each place of the slab. A child goes on with a copy.
static RECORDS: Once<&'static [AtomicU64]> = Once::new();

#[cfg(test)]
mod tests {
    use core::ffi::c_int;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::{buffers, data, ends, family, table};

    /// Both ends of a connection, with entries.
    fn pair() -> [TcpStream; 2] {
        table::open();
        family::opened();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let client = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
        let ends = [client, listener.accept().expect("its other end").0];
        for end in &ends {
            ends::enter_stream(end.as_raw_fd(), false);
            // Nobody is told of it.
            stream(end).end.stay(weft_sockets::Reason::Option);
        }
        ends
    }

    fn stream(socket: &TcpStream) -> Stream {
        ends::known(socket.as_raw_fd()).expect("an end")
    }

    /// Moves octets by hooked calls.
    fn send(mut from: &TcpStream, octets: &[u8]) {
        let descriptor = from.as_raw_fd();
        let kernel = || from.write(octets).expect("room").cast_signed();
        let see = |first: First| buffers::with_own(&mut octets.to_vec(), |buffers| first.see(buffers));
        assert_eq!(data::send(descriptor, 0, kernel, |_| -1, see), octets.len().cast_signed());
    }

    fn receive(mut to: &TcpStream, len: usize, flags: c_int) {
        let descriptor = to.as_raw_fd();
        let octets = core::cell::RefCell::new(vec![0; len]);
        let kernel = || {
            to.read_exact(&mut octets.borrow_mut()).expect("octets");
            len.cast_signed()
        };
        let see = |first: First| buffers::with_own(&mut octets.borrow_mut(), |buffers| first.see(buffers));
        assert_eq!(data::receive(descriptor, flags, kernel, |_| -1, see), len.cast_signed());
    }

    fn lens(digests: &Digests) -> [usize; 2] {
        [digests.written, digests.received].map(|prefixes| prefixes.digests().len())
    }

    fn close(ends: [TcpStream; 2]) {
        ends.iter().for_each(|end| _ = ends::forget(end.as_raw_fd()));
    }

    #[test]
    fn both_ends_have_the_same_digests_however_calls_cut_the_octets() {
        let _turn = family::turn();
        let pair = pair();
        let octets: Vec<u8> = (0..300).map(|at: u16| at.to_le_bytes()[0] ^ 0x5a).collect();
        for part in octets.chunks(7) {
            send(&pair[0], part);
        }
        for part in octets.chunks(61) {
            receive(&pair[1], part.len(), 0);
        }
        send(&pair[1], &octets[..17]);
        let [client, server] = pair.each_ref().map(|end| digests(&stream(end)));
        assert_eq!((client.written, lens(&client), lens(&server)), (Prefixes::of(&octets), [3, 0], [1, 3]));
        assert_eq!(client.agree(&server.mirrored()), Some(true));
        close(pair);
    }

    #[test]
    fn octets_behind_some_that_were_not_seen_are_not_kept() {
        let _turn = family::turn();
        let pair = pair();
        let mut first = &pair[0];
        send(&pair[0], &[1; 20]);
        // As by sendfile.
        let kernel = || first.write(&[2; 20]).expect("room").cast_signed();
        assert_eq!(data::send(pair[0].as_raw_fd(), 0, kernel, |_| -1, |_| ()), 20);
        send(&pair[0], &[3; 300]);
        assert_eq!(digests(&stream(&pair[0])).written, Prefixes::of(&[1; 20]));
        // The kernel drops them.
        receive(&pair[1], 16, libc::MSG_TRUNC);
        receive(&pair[1], 64, 0);
        assert_eq!(lens(&digests(&stream(&pair[1]))), [0, 0]);
        close(pair);
    }

    #[test]
    fn octets_of_two_threads_at_a_time_are_not_kept() {
        let _turn = family::turn();
        let pair = pair();
        let end = stream(&pair[0]).end;
        // Another thread is inside, and its octets may come before or behind these.
        end.outbound.inside.fetch_add(1, Ordering::Relaxed);
        send(&pair[0], &[1; 20]);
        end.outbound.inside.fetch_sub(1, Ordering::Relaxed);
        send(&pair[0], &[1; 20]);
        assert_eq!(lens(&digests(&stream(&pair[0]))), [0, 0]);
        // Another thread has moved octets during the call.
        let see = |_: First| panic!("they have another place");
        let count = || {
            end.inbound.consumed.fetch_add(5, Ordering::Relaxed);
            20
        };
        assert_eq!(data::receive(pair[0].as_raw_fd(), 0, count, |_| -1, see), 20);
        close(pair);
    }

    #[test]
    fn ends_that_others_have_made_or_had_before_have_no_digests() {
        let _turn = family::turn();
        let pair = pair();
        send(&pair[0], &[1; 300]);
        let before = stream(&pair[0]).handle;
        ends::enter_stream(pair[0].as_raw_fd(), false);
        let after = stream(&pair[0]);
        assert!(before.slot == after.handle.slot && digests(&after) == Digests::default());
        send(&pair[0], &[2; 16]);
        assert_eq!(digests(&after).written, Prefixes::of(&[2; 16]));
        after.end.identity.flags.fetch_or(FOREIGN, Ordering::Relaxed);
        assert_eq!(digests(&after), Digests::default());
        close(pair);
    }
}
