//! `epoll_wait` on a set with members whose octets come by rings.

use core::ffi::c_int;
use core::sync::atomic::{Ordering, fence};

use libc::{EPOLLOUT, epoll_event, timespec};
use weft_sockets::Barrier;

use crate::calls::{self, Signals};
use crate::clock::{self, Limit};
use crate::member::{self, Member};
use crate::row::Seat;
use crate::sets::{self, Set};
use crate::sleep;
use crate::spin::{self, Spin, Turn};
use crate::{anchor, backlog, channel, drain, overtaken, upgrade, watch};

/// Waits as `epoll_pwait2` does. Returns the kernel's answer.
pub(crate) fn wait(
    descriptor: c_int,
    events: &mut [epoll_event],
    span: Option<timespec>,
    mask: Option<Signals>,
) -> isize {
    upgrade::look_for_mail();
    drain::obey();
    let Some(set) = sets::of(descriptor).filter(|_| !events.is_empty()) else {
        return calls::epoll_wait(descriptor, events, span, mask);
    };
    let left = watch_all(set.inner(), DEPTH);
    if left == u64::MAX {
        return wait_for(set, (descriptor, events), span, mask);
    }
    wait_by_turns(left, span, |span| {
        let result = wait_for(set, (descriptor, events), span, mask);
        (result, watch_all(set.inner(), DEPTH))
    })
}

/// Waits by turns, each at most as long as the one before has told, until one finds something or the time is over. `left`
/// is the length of the first one, in nanoseconds.
#[cold]
pub(crate) fn wait_by_turns(
    mut left: u64,
    span: Option<timespec>,
    mut turn: impl FnMut(Option<timespec>) -> (isize, u64),
) -> isize {
    let until = Limit::behind(span);
    loop {
        let (result, next) = turn(Some(until.left_at_most(left)));
        if result != 0 || until.is_over() {
            return result;
        }
        left = next;
    }
}

/// Waits for a set whose inner sets are watched.
fn wait_for(
    set: &'static Set,
    (descriptor, events): (c_int, &mut [epoll_event]),
    span: Option<timespec>,
    mask: Option<Signals>,
) -> isize {
    let until = Limit::behind(span);
    let mut wait = Wait { set, descriptor, events, len: 0, leaves_some: false, has_slept: false };
    if set.row.len() == 0 {
        set.inside.fetch_add(1, Ordering::SeqCst);
        // A member that was taken before the thread counted as inside did not ring for it.
        let is_alone = set.row.len() == 0;
        let result = if is_alone { calls::epoll_wait(descriptor, wait.events, span, mask) } else { 0 };
        set.inside.fetch_sub(1, Ordering::SeqCst);
        if result < 0 {
            return result;
        }
        // A doorbell stays in the set when its last member is gone, and may ring still.
        wait.sort(result);
        let is_over = is_alone && result == 0 && set.row.len() == 0;
        if wait.len > 0 || is_over {
            return wait.answer();
        }
    }
    wait.run(until, mask)
}

/// Readies sets for waits in which they are descriptors themselves. Returns how many nanoseconds the wait may take until it
/// has to do so again: news that the kernel has told of a member may count by then.
pub(crate) fn watch_all(sets: impl Iterator<Item = &'static Set>, depth: u32) -> u64 {
    sets.map(|set| watch(set, depth)).min().unwrap_or(u64::MAX)
}

/// Readies a set: its doorbell rings if, and as long as, its rings have something.
fn watch(set: &'static Set, depth: u32) -> u64 {
    let inner = if depth > 0 { watch_all(set.inner(), depth - 1) } else { u64::MAX };
    set.is_watched.store(true, Ordering::SeqCst);
    let _purged = set.with(|| set.purge());
    let waiter = if set.row.len() == 0 { None } else { set.waiter() };
    let Some(waiter) = waiter else { return inner };
    waiter.doze(false);
    // Before the look: what a peer rings for behind it is not silenced.
    waiter.silence();
    announce(set, waiter, true);
    let left = inner.min(set.catch_up());
    let is_ready = set.with(|| {
        set.taken().any(|(descriptor, member)| {
            member.stream(descriptor).is_some_and(|stream| member.is_ready(&stream, descriptor))
        })
    });
    if is_ready == Some(true) {
        waiter.ring();
    }
    left
}

/// Names the set's waiter in the rings of members, and makes the barrier that has to follow. Unless `all` are wanted, it
/// leaves out silent members whose rings name the waiter since an earlier sleep. Returns true if the set may sleep for
/// long: no member was left out, and none has relatives that take the kernel's news.
fn announce(set: &'static Set, waiter: &sleep::Waiter, all: bool) -> bool {
    let (sleep, forks) = (sets::sleep(waiter), sets::forks());
    let announced = set.with(|| {
        let (mut barrier, mut is_settled) = (Barrier::Fence, true);
        for place in set.row.places(0) {
            let Some(Seat { descriptor, .. }) =
                place.get_unless(|seat| !all && seat.is_named(waiter.name(), sleep))
            else {
                is_settled = false;
                continue;
            };
            let Some(mut member) = set.member(descriptor).filter(|member| !member.is_removed) else {
                continue;
            };
            let Some(stream) = member.stream(descriptor) else { continue };
            backlog::obey(descriptor, &stream);
            if overtaken::left(&stream).is_some() {
                set.is_early.store(true, Ordering::Relaxed);
            }
            barrier = barrier.max(member.announce(&stream, waiter).unwrap_or(Barrier::Fence));
            let has_relatives = member.ask_anchor(descriptor, forks);
            if has_relatives.is_some() {
                set.store(descriptor, member);
            }
            is_settled &= has_relatives != Some(true);
            if has_relatives != Some(true) && !member.interest.wants_room() {
                place.set(place.get().map(|seat| Seat { named: sleep, ..seat }));
            }
        }
        (barrier, is_settled)
    });
    let (barrier, is_settled) = announced.unwrap_or((Barrier::Fence, false));
    sleep::make(barrier);
    is_settled
}

/// One call of a program's.
struct Wait<'a> {
    set: &'static Set,
    descriptor: c_int,
    events: &'a mut [epoll_event],
    /// How many events are there for the program.
    len: usize,
    /// Members that may have something to tell found no room.
    leaves_some: bool,
    /// It has slept for nothing.
    has_slept: bool,
}

impl Wait<'_> {
    fn run(&mut self, until: Limit, mask: Option<Signals>) -> isize {
        self.set.turn.fetch_add(1, Ordering::Relaxed);
        watch::look();
        self.set.catch_up();
        self.collect();
        if self.len > 0 {
            return self.answer();
        }
        loop {
            if !until.is_over() && !self.spin(until, mask) {
                let result = self.sleep(until, mask);
                if result < 0 {
                    return result;
                }
            }
            if self.len == 0 && until.is_over() {
                let result = self.ask(calls::epoll_look);
                return if result < 0 { result } else { self.answer() };
            }
            if self.len > 0 {
                return self.answer();
            }
        }
    }

    /// Looks at the rings, and asks the kernel now and then, as long as that pays. Returns false if the thread has to
    /// sleep.
    fn spin(&mut self, until: Limit, mask: Option<Signals>) -> bool {
        let is_same_cpu = self.is_same_cpu();
        let looks = FIRST_LOOKS / self.set.row.len().max(1);
        if mask.is_none() && !is_same_cpu && spin::pays() {
            self.watch(looks);
            if self.len > 0 {
                spin::pay();
                return true;
            }
        }
        let mut spin = Spin::new(is_same_cpu, false, mask.is_none());
        let is_done = loop {
            let turn = spin.next();
            match turn {
                Turn::Sleep => break false,
                Turn::Look => self.collect(),
                Turn::Ask => {
                    self.ask(calls::epoll_look);
                }
            }
            // The clock takes longer than a look.
            if self.len == 0 {
                self.watch(spin.looks());
            }
            if self.len > 0 || until.is_over() {
                break true;
            }
        };
        spin.end();
        is_done
    }

    /// Looks up to so often, shortly one after the other, and adds what the first look finds that finds something.
    fn watch(&mut self, looks: u32) {
        let (set, turn) = (self.set, self.set.turn.load(Ordering::Relaxed));
        let is_there = || {
            core::hint::spin_loop();
            set.busy(turn).next().is_some()
        };
        self.collect_behind(|| (0..looks).any(|_| is_there()));
    }

    /// Has the kernel asked, and looks at the rings if it tells nothing for the program.
    fn ask(&mut self, kernel: impl FnOnce(c_int, &mut [epoll_event]) -> isize) -> isize {
        let result = self.ask_kernel(kernel);
        if self.len == 0 {
            self.collect();
        }
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
            if data == member::bell_tag() {
                if let Some(waiter) = self.set.waiter() {
                    waiter.silence();
                }
            } else if member::is_tag(data) {
                self.note(events, data);
            } else if let Some(place) = self.events.get_mut(self.len) {
                *place = event;
                self.len += 1;
            }
        }
    }

    /// Notes what the kernel tells of a taken member.
    fn note(&self, events: u32, data: u64) {
        let _noted = self.set.with(|| {
            let Some((descriptor, mut member)) = self.set.tagged(data) else { return };
            let stream = member.stream(descriptor);
            let counted =
                stream.map_or(events, |stream| overtaken::counted_events(&stream, descriptor, events));
            if counted != events {
                self.set.is_early.store(true, Ordering::Relaxed);
            }
            if counted != 0 {
                member.interest.tell(counted);
                if counted & !EPOLLOUT.cast_unsigned() != 0 {
                    let _noted = stream.as_ref().map(anchor::note_news);
                }
                self.set.store(descriptor, member);
            }
        });
    }

    /// Adds the events of members whose octets come by rings, where nothing was found before. If other connections are
    /// on TCP, the kernel is asked behind the rings and told before them: it knows of all octets that were sent earlier.
    fn collect(&mut self) {
        self.collect_behind(|| true);
    }

    /// As [`collect`](Self::collect), if `is_worth_it`, which runs in the same section.
    #[inline]
    fn collect_behind(&mut self, is_worth_it: impl FnOnce() -> bool) {
        let turn = self.set.turn.load(Ordering::Relaxed);
        let asks_kernel = self.set.is_mixed() || turn.is_multiple_of(TURNS);
        let room = if asks_kernel { self.events.len().div_ceil(2) } else { self.events.len() };
        let set = self.set;
        let _collected = set.with(|| {
            if is_worth_it() {
                self.find(turn, room);
            }
        });
        if self.len > 0 && asks_kernel {
            let rings = self.len;
            self.ask_kernel(calls::epoll_look);
            self.events.get_mut(..self.len).unwrap_or_default().rotate_left(rings);
        }
    }

    /// Adds events of members, up to place `room`. The caller is in a section of the set.
    fn find(&mut self, turn: u32, room: usize) {
        let set = self.set;
        if set.row.len() == 1 {
            if let Some((descriptor, member)) = set.busy(turn).next() {
                self.report(descriptor, member);
            }
            return;
        }
        if set.busy(turn).next().is_none() {
            return;
        }
        // What comes during the look may follow octets of a member that was looked at before.
        let now = clock::stamp();
        self.tell(set.busy(turn).filter(|(_, member)| !member.came_behind(now)), room, now);
        if self.len == 0 {
            self.tell(set.busy(turn), room, 0);
        }
    }

    /// Adds the events of these members, as far as there is room, in the order in which their octets came. The caller is
    /// in a section of the set.
    fn tell(&mut self, mut members: impl Iterator<Item = (c_int, Member)>, room: usize, now: u32) {
        loop {
            // An event names its member and its rank until all are in order.
            let first = self.len;
            let places = self.events.get_mut(first..room).unwrap_or_default();
            let count =
                places.iter_mut().zip(&mut members).fold(0, |count, (place, (descriptor, member))| {
                    *place = epoll_event { events: descriptor.cast_unsigned(), u64: member.rank(now) };
                    count + 1
                });
            places.get_mut(..count).unwrap_or_default().sort_unstable_by_key(|event| event.u64);
            if count == 0 {
                self.leaves_some |= self.len == room && members.next().is_some();
                return;
            }
            for at in first..first + count {
                let named = self.events.get(at).map(|event| event.events.cast_signed());
                if let Some(descriptor) = named
                    && let Some(member) = self.set.member(descriptor)
                {
                    self.report(descriptor, member);
                }
            }
        }
    }

    /// Puts the events of a member into the next free place, if there are some.
    #[inline]
    fn report(&mut self, descriptor: c_int, mut member: Member) {
        let Some(stream) = member.stream(descriptor) else { return };
        let before = member.interest;
        let look = member.look(&stream, descriptor);
        let mut events = member.interest.report(&look);
        if events != 0 && member::has_ended(&stream) {
            member.interest = before;
            member.tell_end(&stream, descriptor);
            events = member.interest.report(&look);
        }
        if let Some(place) = self.events.get_mut(self.len).filter(|_| events != 0) {
            *place = epoll_event { events, u64: member.data };
            self.len += 1;
        }
        if member.interest != before {
            self.set.store(descriptor, member);
        }
    }

    /// Sleeps until something may have happened, and looks. Returns a negative number for an error.
    fn sleep(&mut self, until: Limit, mask: Option<Signals>) -> isize {
        let Some(waiter) = self.set.waiter() else { return -(libc::ENOMEM as isize) };
        watch::look();
        // Before the waiter is named: the daemon may not have known it when a peer wanted to wake it.
        let is_rung = sleep::is_rung();
        let is_first = self.set.sleepers.fetch_add(1, Ordering::SeqCst) == 0;
        waiter.doze(is_first && !self.set.is_watched.load(Ordering::SeqCst));
        let is_turn = self.set.turn.load(Ordering::Relaxed).is_multiple_of(THOROUGH);
        let all = self.has_slept || is_turn || self.set.row.len() <= FEW;
        let is_settled = announce(self.set, waiter, all);
        self.has_slept = true;
        let left = self.set.catch_up();
        self.collect();
        let mut result = 0;
        if self.len == 0 {
            let limit = until.left_at_most(sleep::span(is_rung && is_settled).min(left).min(watch::left()));
            result = self.ask(|set, events| calls::epoll_wait(set, events, Some(limit), mask));
        }
        let is_last = self.set.sleepers.fetch_sub(1, Ordering::SeqCst) == 1;
        if is_last && !self.set.is_watched.load(Ordering::SeqCst) {
            waiter.wake(false);
            fence(Ordering::SeqCst);
            if self.set.has_sleepers() {
                // Another thread has gone to sleep meanwhile, and counts on its word. It looks once more.
                waiter.doze(false);
                waiter.ring();
            }
        }
        upgrade::look_for_mail();
        drain::obey();
        if self.len > 0 { 0 } else { result }
    }

    fn is_same_cpu(&self) -> bool {
        // Of several peers, others may answer meanwhile.
        if self.set.row.len() != 1 {
            return false;
        }
        let same = self.set.with(|| {
            let mut members = self.set.taken();
            members.next().is_some_and(|(descriptor, member)| {
                member.stream(descriptor).is_some_and(|stream| channel::is_on_this_cpu(&stream))
            })
        });
        same.unwrap_or(false)
    }

    fn answer(&self) -> isize {
        // This thread may have silenced the doorbell that others sleep by.
        if self.leaves_some && self.set.has_sleepers() {
            self.set.ring();
        }
        isize::try_from(self.len).unwrap_or(isize::MAX)
    }
}

/// Sets in sets, as deep as the kernel has them.
pub(crate) const DEPTH: u32 = 5;
/// Looks at members before the clock and the kernel are asked first, for about 4 microseconds: most answers come so soon
/// that it would be late.
const FIRST_LOOKS: u32 = 128;
/// So many members are all named at each sleep.
const FEW: u32 = 16;
/// Calls until a sleep looks after all members: their peers may have asked for something that wakes nobody.
const THOROUGH: u32 = 64;
/// Calls that find something in rings until the kernel is asked, too.
const TURNS: u32 = 16;

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, OwnedFd};

    use rustix::event::epoll;

    use super::*;
    use crate::{closing, control, ends, family, jump, table};

    fn new_set() -> (OwnedFd, &'static Set) {
        table::open();
        family::opened();
        let kernel = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a set");
        sets::enter(kernel.as_raw_fd());
        let set = sets::of(kernel.as_raw_fd()).expect("a set");
        (kernel, set)
    }

    #[test]
    fn a_socket_that_is_closed_leaves_its_sets() {
        let _turn = family::turn();
        let (kernel, set) = new_set();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
        let stream =
            std::net::TcpStream::connect(listener.local_addr().expect("an address")).expect("a stream");
        ends::enter_stream(stream.as_raw_fd(), false);
        let event = Some((libc::EPOLLIN.cast_unsigned(), 7));
        assert_eq!(control::control(kernel.as_raw_fd(), libc::EPOLL_CTL_ADD, stream.as_raw_fd(), event), 0);
        assert!(set.is_mixed() && set.member(stream.as_raw_fd()).is_some());
        closing::close(stream.as_raw_fd());
        assert!(!set.is_mixed() && set.member(stream.as_raw_fd()).is_none());
    }

    #[test]
    fn a_jump_out_of_a_section_leaves_the_set_to_others() {
        let _turn = family::turn();
        let (_kernel, set) = new_set();
        assert_eq!(set.with(|| set.with(|| ())), Some(None), "as in a signal handler");
        let behind = set.with(|| {
            jump::abandon();
            set.with(|| ())
        });
        assert_eq!(behind, Some(Some(())));
    }

    #[test]
    fn a_doorbell_without_members_is_not_told_to_the_program() {
        let _turn = family::turn();
        let (kernel, set) = new_set();
        // The first look at the waiter registers its doorbell.
        let bell = set.waiter().expect("a line").bell().expect("a bell");
        rustix::io::write(bell, &1_u64.to_ne_bytes()).expect("rung");
        let mut events = [epoll_event { events: 0, u64: 0 }; 4];
        let now = timespec { tv_sec: 0, tv_nsec: 0 };
        assert_eq!(wait(kernel.as_raw_fd(), &mut events, Some(now), None), 0);
    }
}
