//! `epoll_wait` on a set with members whose octets come by rings.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use libc::{EPOLLERR, EPOLLHUP, EPOLLRDHUP, epoll_event, pollfd, timespec};
use weft_sockets::{Barrier, Inbound, Look, Outbound, Sink, Source};

use crate::calls::{self, Signals};
use crate::clock::Limit;
use crate::ends::Stream;
use crate::sets::{self, Member, Set};
use crate::sleep;
use crate::spin::{Spin, Turn};
use crate::{backlog, channel, section, upgrade};

/// Waits as `epoll_pwait2` does. Returns the kernel's answer.
pub(crate) fn wait(
    descriptor: c_int,
    events: &mut [epoll_event],
    span: Option<timespec>,
    mask: Option<Signals>,
) -> isize {
    upgrade::look_for_mail();
    let Some(set) = sets::of(descriptor).filter(|_| !events.is_empty()) else {
        return calls::epoll_wait(descriptor, events, span, mask);
    };
    set.inner().for_each(|inner| watch(inner, DEPTH));
    let mut wait = Wait { set, descriptor, events, len: 0 };
    if set.taken.load(Ordering::Relaxed) == 0 {
        set.inside.fetch_add(1, Ordering::SeqCst);
        // A member that was taken before the thread counted as inside did not ring for it.
        let is_alone = set.taken.load(Ordering::SeqCst) == 0;
        let result = if is_alone { calls::epoll_wait(descriptor, wait.events, span, mask) } else { 0 };
        set.inside.fetch_sub(1, Ordering::SeqCst);
        if result < 0 {
            return result;
        }
        // A doorbell stays in the set when its last member is gone, and may ring still.
        wait.sort(result);
        let is_over = is_alone && result == 0 && set.taken.load(Ordering::SeqCst) == 0;
        if wait.len > 0 || is_over {
            return wait.answer();
        }
    }
    wait.run(span, mask)
}

/// Readies a set for waits in which it is a descriptor itself: its doorbell rings if, and as long as, its rings have
/// something.
pub(crate) fn watch(set: &'static Set, depth: u32) {
    if depth > 0 {
        set.inner().for_each(|inner| watch(inner, depth - 1));
    }
    set.is_watched.store(true, Ordering::SeqCst);
    let waiter = if set.taken.load(Ordering::SeqCst) == 0 { None } else { set.waiter() };
    let Some(waiter) = waiter else { return };
    waiter.doze();
    announce_all(set, waiter);
    let is_ready = set.with(|| {
        set.taken(0).any(|(descriptor, member)| {
            let mut interest = member.interest;
            member
                .stream(descriptor)
                .is_some_and(|stream| interest.report(&look(&stream, descriptor, &member)) != 0)
        })
    });
    if is_ready == Some(true) { waiter.ring() } else { waiter.silence() }
}

/// Names the set's waiter in the rings of all members, and makes the barrier that has to follow.
fn announce_all(set: &'static Set, waiter: &sleep::Waiter) {
    let barrier = set.with(|| {
        let streams = set.taken(0).filter_map(|(descriptor, member)| {
            let stream = member.stream(descriptor)?;
            backlog::obey(descriptor, &stream);
            Some((stream, member))
        });
        streams.filter_map(|(stream, member)| announce(&stream, &member, waiter)).max()
    });
    if let Some(Some(barrier)) = barrier {
        sleep::make(barrier);
    }
}

/// One call of a program's.
struct Wait<'a> {
    set: &'static Set,
    descriptor: c_int,
    events: &'a mut [epoll_event],
    /// How many events are there for the program.
    len: usize,
}

impl Wait<'_> {
    fn run(&mut self, span: Option<timespec>, mask: Option<Signals>) -> isize {
        let until = Limit::behind(span);
        let turn = self.set.turn.fetch_add(1, Ordering::Relaxed);
        self.collect();
        if self.len > 0 {
            if turn.is_multiple_of(TURNS) {
                self.ask_kernel(calls::epoll_look);
            }
            return self.answer();
        }
        loop {
            let result = self.ask(calls::epoll_look);
            if self.len > 0 || until.is_over() && result >= 0 {
                return self.answer();
            }
            if result < 0 {
                return result;
            }
            let mut spin = Spin::new(self.is_same_cpu(), false, mask.is_none());
            let is_done = loop {
                match spin.next() {
                    Turn::Sleep => break false,
                    Turn::Look => self.collect(),
                    Turn::Ask => {
                        self.ask(calls::epoll_look);
                    }
                }
                if self.len > 0 || until.is_over() {
                    break true;
                }
            };
            spin.end();
            if !is_done {
                let result = self.sleep(until, mask);
                if result < 0 {
                    return result;
                }
            }
            if self.len > 0 || until.is_over() {
                return self.answer();
            }
        }
    }

    /// Has the kernel asked, and looks at the rings, where nothing was found before. A member is told once in a call.
    fn ask(&mut self, kernel: impl FnOnce(c_int, &mut [epoll_event]) -> isize) -> isize {
        let result = self.ask_kernel(kernel);
        self.collect();
        result
    }

    /// Has the kernel asked for as many events as there is room for.
    fn ask_kernel(&mut self, kernel: impl FnOnce(c_int, &mut [epoll_event]) -> isize) -> isize {
        let room = self.events.get_mut(self.len..).unwrap_or_default();
        if room.is_empty() {
            return 0;
        }
        let result = kernel(self.descriptor, room);
        if result > 0 {
            self.sort(result);
        }
        result
    }

    /// Keeps those of the kernel's latest events that are the program's, and notes what the others tell.
    fn sort(&mut self, count: isize) {
        let first = self.len;
        for at in first..first + usize::try_from(count).unwrap_or(0) {
            let Some(event) = self.events.get(at).copied() else { return };
            let (events, data) = (event.events, event.u64);
            if data == sets::bell_tag() {
                if let Some(waiter) = self.set.waiter() {
                    waiter.silence();
                }
            } else if sets::is_tag(data) {
                let _noted = self.set.with(|| {
                    if let Some((descriptor, mut member)) = self.set.tagged(data) {
                        member.interest.tell(events);
                        self.set.store(descriptor, member);
                    }
                });
            } else if let Some(place) = self.events.get_mut(self.len) {
                *place = event;
                self.len += 1;
            }
        }
    }

    /// Adds the events of members whose octets come by rings.
    fn collect(&mut self) {
        let turn = self.set.turn.load(Ordering::Relaxed);
        let _collected = self.set.with(|| {
            for (descriptor, mut member) in self.set.taken(turn) {
                let Some(place) = self.events.get_mut(self.len) else { return };
                let Some(stream) = member.stream(descriptor) else { continue };
                let before = member.interest;
                let events = member.interest.report(&look(&stream, descriptor, &member));
                if events != 0 {
                    *place = epoll_event { events, u64: member.data };
                    self.len += 1;
                }
                if member.interest != before {
                    self.set.store(descriptor, member);
                }
            }
        });
    }

    /// Sleeps until something may have happened, and looks. Returns a negative number for an error.
    fn sleep(&mut self, until: Limit, mask: Option<Signals>) -> isize {
        let Some(waiter) = self.set.waiter() else { return -(libc::ENOMEM as isize) };
        self.set.sleepers.fetch_add(1, Ordering::SeqCst);
        waiter.doze();
        announce_all(self.set, waiter);
        self.collect();
        let mut result = 0;
        if self.len == 0 {
            let limit = until.left_at_most(sleep::span(sleep::is_rung()));
            result = self.ask(|set, events| calls::epoll_wait(set, events, Some(limit), mask));
        }
        let is_last = self.set.sleepers.fetch_sub(1, Ordering::SeqCst) == 1;
        if is_last && !self.set.is_watched.load(Ordering::SeqCst) {
            waiter.wake(false);
        }
        upgrade::look_for_mail();
        if self.len > 0 { 0 } else { result }
    }

    fn is_same_cpu(&self) -> bool {
        let same = self.set.with(|| {
            let mut members = self.set.taken(0);
            members.next().is_some_and(|(descriptor, member)| {
                member.stream(descriptor).is_some_and(|stream| channel::is_on_this_cpu(&stream))
            })
        });
        same.unwrap_or(false) && self.set.taken.load(Ordering::Relaxed) == 1
    }

    fn answer(&self) -> isize {
        isize::try_from(self.len).unwrap_or(isize::MAX)
    }
}

/// Looks at a member whose registration is this library's.
fn look(stream: &Stream, descriptor: c_int, member: &Member) -> Look {
    let mut look = Look::default();
    let mut kernel = 0;
    match channel::inbound(stream) {
        // All that came is asked for: the believed tail would hide an edge.
        Some(inbound) => match section::of_inbound(stream, &inbound, |inbound: &Inbound<'_>| {
            inbound.available(u64::MAX)?;
            inbound.source()
        }) {
            Ok(Source::Tcp { .. }) => kernel |= libc::POLLIN,
            Ok(Source::Ring { available }) => {
                look.is_readable = available > 0 || inbound.is_at_end() || inbound.is_reset();
                look.tail = stream.end.inbound.consumed.load(Ordering::Relaxed).wrapping_add(available);
            }
            Err(_) => look.is_readable = true,
        },
        None => kernel |= libc::POLLIN,
    }
    match channel::outbound(stream).filter(|outbound| outbound.sink() == Sink::Ring) {
        Some(outbound) if member.interest.wants_room() => {
            let has_room =
                section::of_outbound(stream, &outbound, |outbound: &Outbound<'_>| outbound.is_writable());
            look.is_writable = has_room.unwrap_or(true);
            look.full = stream.end.outbound.full.load(Ordering::Relaxed);
        }
        Some(_) => {}
        None => kernel |= libc::POLLOUT,
    }
    if kernel != 0 {
        let mut item = [pollfd { fd: descriptor, events: kernel, revents: 0 }];
        calls::look(&mut item);
        look.is_readable |= item[0].revents & kernel & libc::POLLIN != 0;
        look.is_writable |= item[0].revents & kernel & libc::POLLOUT != 0;
    }
    if member.interest.was_told(ENDED) {
        look.is_readable = true;
        look.is_writable |= member.interest.was_told((EPOLLHUP | EPOLLERR).cast_unsigned());
    }
    look
}

/// Names the set's waiter in the rings of a member. Returns the barrier that has to follow.
fn announce(stream: &Stream, member: &Member, waiter: &sleep::Waiter) -> Option<Barrier> {
    let mut barrier = None;
    if let Some(inbound) = channel::inbound(stream).filter(|_| member.interest.wants_octets()) {
        barrier = Some(section::of_inbound(stream, &inbound, |inbound| waiter.announce(inbound)));
    }
    if let Some(outbound) = channel::outbound(stream).filter(|_| member.interest.wants_room()) {
        // The last look finds the room that this one does.
        let _is_full = section::of_outbound(stream, &outbound, |outbound| waiter.ask_for_room(outbound));
        barrier = barrier.max(Some(Barrier::Fence));
    }
    barrier
}

/// What the kernel tells of an end of the stream.
const ENDED: u32 = (EPOLLRDHUP | EPOLLHUP | EPOLLERR).cast_unsigned();
/// Sets in sets, as deep as the kernel has them.
pub(crate) const DEPTH: u32 = 5;
/// Calls that find something in rings until the kernel is asked, too.
const TURNS: u32 = 16;

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use rustix::event::epoll;

    use super::*;
    use crate::{family, table};

    #[test]
    fn a_doorbell_without_members_is_not_told_to_the_program() {
        let _turn = family::turn();
        table::open();
        family::opened();
        let kernel = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a set");
        sets::enter(kernel.as_raw_fd());
        let set = sets::of(kernel.as_raw_fd()).expect("a set");
        // The first look at the waiter registers its doorbell.
        let bell = set.waiter().expect("a line").bell().expect("a bell");
        rustix::io::write(bell, &1_u64.to_ne_bytes()).expect("rung");
        let mut events = [epoll_event { events: 0, u64: 0 }; 4];
        let now = timespec { tv_sec: 0, tv_nsec: 0 };
        assert_eq!(wait(kernel.as_raw_fd(), &mut events, Some(now), None), 0);
    }
}
