//! A stream socket in an epoll set, and what a look at its rings tells.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};

use libc::{EPOLLERR, EPOLLET, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLPRI, EPOLLRDHUP, pollfd};
use weft_sockets::end::{NARROW, SHUT};
use weft_sockets::layout::OwnOutbound;
use weft_sockets::{Barrier, Broken, Inbound, Interest, Look, Outbound, Sink};

use crate::ends::Stream;
use crate::row::Silence;
use crate::sleep::Waiter;
use crate::table::{self, Entry, Handle};
use crate::{anchor, calls, channel, clock, overtaken, record, section, sleep};

/// A stream socket in a set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    /// Its end.
    pub(crate) handle: Handle,
    /// The program's data.
    pub(crate) data: u64,
    /// What the program wants to hear.
    pub(crate) interest: Interest,
    /// Counts the members that had this descriptor.
    pub(crate) generation: u32,
    /// The program's events.
    pub(crate) events: u32,
    /// What the kernel tells of it while it is taken.
    pub(crate) registered: u32,
    /// Its place in the row of taken members: the kernel's registration is this library's.
    pub(crate) taken: Option<u32>,
    /// It is no listener.
    pub(crate) is_connection: bool,
    /// How often this process had forked when no relative could take the kernel's news of it any more.
    pub(crate) asked: u32,
    /// The program has removed it. The kernel's registration waits for its return.
    pub(crate) is_removed: bool,
    /// Its receiving direction, while it is taken.
    pub(crate) inbound: Option<Inbound<'static>>,
    /// Its sending direction.
    pub(crate) outbound: Option<&'static OwnOutbound>,
    /// Its sender is on another host, which has another clock.
    pub(crate) is_far: bool,
}

impl Member {
    pub(crate) fn new(handle: Handle, is_connection: bool, (events, data): (u32, u64)) -> Self {
        Self {
            handle,
            data,
            interest: Interest::new(events),
            generation: 0,
            events,
            registered: 0,
            taken: None,
            is_connection,
            asked: u32::MAX,
            is_removed: false,
            inbound: None,
            outbound: None,
            is_far: false,
        }
    }

    /// Returns what it is like if a look finds nothing to tell: no octets came, and nobody asks for room.
    #[inline]
    pub(crate) fn silence(&self) -> Option<Silence> {
        let full = self.outbound.map_or(0, |outbound| outbound.full.load(Ordering::Relaxed));
        let inbound = self.inbound.filter(|_| self.interest.hears_octets_only(full))?;
        let room = self.outbound.filter(|_| self.interest.wants_room()).map(|outbound| (outbound, full));
        Some(Silence { ring: inbound.quiet()?, room })
    }

    /// Asks its sender for the times by which a set tells its members in order.
    pub(crate) fn want_stamps(&self) {
        if let Some(inbound) = self.inbound {
            inbound.want_stamps();
        }
    }

    /// True if its sender says that the octets in its ring have just come, behind `now`.
    #[inline]
    pub(crate) fn came_behind(&self, now: u32) -> bool {
        self.stamp().is_some_and(|stamp| (1..MILLISECOND).contains(&stamp.wrapping_sub(now)))
    }

    /// A number that is greater the later the octets in its ring came. Octets in a leg by TCP, or of another host, came
    /// before all of them.
    #[inline]
    pub(crate) fn rank(&self, now: u32) -> u64 {
        // Half of all stamps are before now, and half behind it.
        self.stamp().map_or(0, |stamp| u64::from(stamp.wrapping_sub(now) ^ 1 << 31))
    }

    /// When the octets in its ring came, as their sender says.
    #[inline]
    fn stamp(&self) -> Option<u32> {
        self.inbound.filter(|_| !self.is_far).and_then(|inbound| inbound.stamp())
    }

    /// The data by which the kernel's set names the member while it is taken.
    pub(crate) fn tag(&self, descriptor: c_int) -> u64 {
        tag() | u64::from(self.generation) << 20 | u64::from(descriptor.cast_unsigned()) & DESCRIPTOR
    }

    /// Returns the end, if the descriptor still shows it.
    pub(crate) fn stream(&self, descriptor: c_int) -> Option<Stream> {
        (table::entry(descriptor) == Some(Entry::Stream(self.handle)))
            .then(|| Stream::of(self.handle))
            .flatten()
    }

    /// Asks the kernel's socket as long as relatives hold the end as well, and once behind that: one with the same set may
    /// have taken the news, even as its last deed. `forks` counts those of this process. Returns whether there still are
    /// such relatives, or `None` if there was nothing to ask.
    pub(crate) fn ask_anchor(&mut self, descriptor: c_int, forks: u32) -> Option<bool> {
        let stream = self.stream(descriptor).filter(|_| self.asked != forks)?;
        let is_alone = stream.is_held_alone();
        if is_alone {
            self.asked = forks;
        }
        let mut item = [pollfd { fd: descriptor, events: libc::POLLRDHUP, revents: 0 }];
        calls::look(&mut item);
        // The bits of both kinds of waits are the same.
        let told = overtaken::counted(&stream, descriptor, item[0].revents);
        let news = u32::from(told.cast_unsigned()) & ENDED;
        if news != 0 && !self.interest.was_told(news) {
            self.interest.tell(news);
            anchor::note_news(&stream);
        }
        Some(!is_alone)
    }

    /// Notes what the kernel has to tell of a connection that [has ended](has_ended), so that the next report has it.
    pub(crate) fn tell_end(&mut self, stream: &Stream, descriptor: c_int) {
        if has_ended(stream) {
            self.tell_news(stream, descriptor);
        }
    }

    /// Notes what the kernel has to tell, so that the next report has it.
    pub(crate) fn tell_news(&mut self, stream: &Stream, descriptor: c_int) {
        let told = overtaken::counted(stream, descriptor, anchor::news(descriptor));
        let news = u32::from(told.cast_unsigned());
        if !self.interest.knows(news) {
            anchor::note_news(stream);
            self.interest.tell(news);
        }
    }

    /// Notes what the kernel has told before it counted, so that the next report has it. That may be octets, too, which the
    /// kernel tells once.
    pub(crate) fn tell_late_news(&mut self, stream: &Stream, descriptor: c_int) {
        let told = overtaken::counted(stream, descriptor, anchor::news(descriptor));
        if told != 0 {
            anchor::note_news(stream);
            self.interest.tell(u32::from(told.cast_unsigned()));
        }
    }

    /// Looks at the rings.
    pub(crate) fn look(&self, stream: &Stream, descriptor: c_int) -> Look {
        let mut look = Look::default();
        let mut kernel = 0;
        match channel::inbound(stream) {
            // All that came is asked for: the believed tail would hide an edge.
            Some(inbound) => {
                let least = if stream.end.has(NARROW) { anchor::low_water(descriptor) } else { 1 };
                let found = section::of_inbound(stream, &inbound, |inbound: &Inbound<'_>| {
                    let available = inbound.available(u64::MAX)?;
                    Ok::<_, Broken>((channel::look(inbound, descriptor, least)?, available))
                });
                let ((is_ring, is_there), available) = found.unwrap_or(((false, true), 0));
                look.is_readable = is_there;
                if !is_ring {
                    kernel |= libc::POLLIN;
                } else if overtaken::is_broken(stream, descriptor) {
                    // The kernel has nothing to tell of it. A position behind the last one is an edge.
                    look.tail = u64::MAX;
                } else if is_there || available == 0 {
                    look.tail = stream.end.inbound.consumed.load(Ordering::Relaxed).wrapping_add(available);
                } else {
                    // Too few octets are no news.
                    look.tail = self.interest.tail();
                }
            }
            None => kernel |= libc::POLLIN,
        }
        match channel::outbound(stream) {
            Some(outbound) if self.interest.wants_room() && outbound.sink() == Sink::Ring => {
                let has_room = || {
                    section::of_outbound(stream, &outbound, |outbound: &Outbound<'_>| outbound.is_writable())
                };
                look.is_writable = outbound.is_known_writable() || has_room().unwrap_or(true);
                look.full = stream.end.outbound.full.load(Ordering::Relaxed);
            }
            Some(outbound) if record::is_early(descriptor, &outbound) => {}
            _ if self.interest.wants_room() => kernel |= libc::POLLOUT,
            _ => {}
        }
        if kernel != 0 {
            let events = kernel | libc::POLLRDHUP;
            let mut item = [pollfd { fd: descriptor, events, revents: 0 }];
            calls::look(&mut item);
            let told = overtaken::counted(stream, descriptor, item[0].revents);
            look.is_readable |= told & kernel & libc::POLLIN != 0;
            look.is_writable |= told & kernel & libc::POLLOUT != 0;
        }
        if self.interest.was_told(ENDED) {
            look.is_readable = true;
            look.is_writable |= self.interest.was_told((EPOLLHUP | EPOLLERR).cast_unsigned());
        }
        look
    }

    /// Names the set's waiter in the rings. Returns the barrier that has to follow.
    pub(crate) fn announce(&self, stream: &Stream, waiter: &Waiter) -> Option<Barrier> {
        let mut barrier = None;
        if let Some(inbound) = channel::inbound(stream).filter(|_| self.interest.wants_octets()) {
            barrier = Some(section::of_inbound(stream, &inbound, |inbound| waiter.announce(inbound)));
        }
        // A thread that begins a ring takes the set's section in its own.
        let is_ring = |outbound: &Outbound<'_>| self.interest.wants_room() && outbound.sink() == Sink::Ring;
        if let Some(outbound) = channel::outbound(stream).filter(is_ring) {
            // The last look finds the room that this one does.
            let _is_full = section::of_outbound(stream, &outbound, |outbound| waiter.ask_for_room(outbound));
            barrier = barrier.max(Some(Barrier::Fence));
        }
        barrier
    }

    /// Names the waiter of sleeping threads in the rings. Returns true if there is something to tell of it.
    pub(crate) fn call(&self, stream: &Stream, descriptor: c_int, waiter: &Waiter) -> bool {
        if let Some(barrier) = self.announce(stream, waiter) {
            sleep::make(barrier);
        }
        self.is_ready(stream, descriptor)
    }

    /// True if there is something to tell of a member.
    pub(crate) fn is_ready(&self, stream: &Stream, descriptor: c_int) -> bool {
        let mut interest = self.interest;
        interest.report(&self.look(stream, descriptor)) != 0
    }
}

/// True if an end is done with the connection, so that the kernel has to tell something of it.
#[inline]
pub(crate) fn has_ended(stream: &Stream) -> bool {
    let is_shut = stream.end.outbound.flags.load(Ordering::Relaxed) & SHUT != 0;
    let is_over = |inbound: Inbound<'_>| is_shut || inbound.end().is_some() || inbound.is_reset();
    channel::offered_inbound(stream).is_some_and(is_over)
}

/// What the kernel is to tell of a taken member.
pub(crate) fn registration(stream: &Stream, events: u32) -> u32 {
    let is_sending = if channel::outbound(stream).is_none() { EPOLLOUT } else { 0 };
    (EPOLLIN | EPOLLRDHUP | EPOLLET | is_sending).cast_unsigned() | events & EPOLLPRI.cast_unsigned()
}

/// The kernel's data of doorbells.
pub(crate) fn bell_tag() -> u64 {
    tag() | DESCRIPTOR
}

/// True if data are of this library.
pub(crate) fn is_tag(data: u64) -> bool {
    data & TAG == tag()
}

/// The high half of this library's data.
fn tag() -> u64 {
    let known = TAG_WORD.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // Data of a program hold an address or a descriptor, and have a high half of few values.
    let made = (clock::now().wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 << 63) & TAG;
    match TAG_WORD.compare_exchange(0, made, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => made,
        Err(other) => other,
    }
}

/// In units of stamps.
const MILLISECOND: u32 = 1_000_000 >> 4;
/// What the kernel tells of an end of the stream.
const ENDED: u32 = (EPOLLRDHUP | EPOLLHUP | EPOLLERR).cast_unsigned();
static TAG_WORD: AtomicU64 = AtomicU64::new(0);
const TAG: u64 = 0xffff_ffff << 32;
/// The descriptor in data of this library. All ones are the doorbell.
pub(crate) const DESCRIPTOR: u64 = (1 << 20) - 1;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weft_sockets::Gate;

    use super::*;
    use crate::section::Section;
    use crate::{backlog, channel, family};

    #[test]
    fn a_set_does_not_wait_for_a_sender_that_waits_for_the_set() {
        let _turn = family::turn();
        let [stream, reader] = channel::tests::pair(0x6004);
        // A thread is about to begin a ring, and changes the registration in the set.
        let outbound = channel::offered_outbound(&stream).expect("a channel");
        let section = Section::of_outbound(&stream, &outbound).expect("a free lock");
        assert!(Gate::new(&stream.end.outbound.inside, false).try_close());
        // A peer that breaks the rules asks for the way back from a ring that there is not yet.
        let peer = channel::offered_inbound(&reader).expect("a channel");
        peer.attach();
        peer.ask_back();
        let (done, is_done) = std::sync::mpsc::channel();
        let collecting = std::thread::spawn(move || {
            let waiter = Waiter::of_thread().expect("a line");
            let member = Member::new(stream.handle, true, (EPOLLOUT.cast_unsigned(), 0));
            backlog::obey(-1, &stream);
            member.announce(&stream, &waiter);
            waiter.leave();
            done.send(()).expect("the test waits");
        });
        // The limit only turns a hang into a failure.
        is_done.recv_timeout(Duration::from_secs(60)).expect("the set's thread waits for the lock");
        section.leave();
        collecting.join().expect("no panic");
        channel::tests::forget(0x6004, [stream, reader]);
    }
}
