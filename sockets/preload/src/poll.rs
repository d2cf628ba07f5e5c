//! `poll` and `select` over any mix of descriptors.

use core::ffi::c_int;
use core::sync::atomic::Ordering;
use std::os::fd::AsRawFd;

use libc::{
    POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, POLLPRI, POLLRDHUP, POLLRDNORM, POLLWRBAND, POLLWRNORM,
};
use libc::{pollfd, timespec};
use weft_sockets::end::{FAR, NARROW, NONBLOCKING, SHUT, TOLD};
use weft_sockets::{Barrier, Outbound, Sink};

use crate::calls::{self, Signals};
use crate::clock::Limit;
use crate::ends::{self, Stream};
use crate::select::Sets;
use crate::sleep::{self, Waiter};
use crate::spin::{Spin, Turn};
use crate::{
    anchor, backlog, channel, drain, epoll, gates, overtaken, real, record, section, sets, upgrade, watch,
};

/// Waits as `ppoll` does. Returns the kernel's answer.
pub(crate) fn wait(items: &mut [pollfd], span: Option<timespec>, mask: Option<Signals>) -> isize {
    let left = epoll::watch_all(items.iter().filter_map(|item| sets::of(item.fd)), epoll::DEPTH);
    if left == u64::MAX {
        return wait_watched(items, span, mask);
    }
    epoll::wait_by_turns(left, span, |span| {
        let result = wait_watched(items, span, mask);
        (result, epoll::watch_all(items.iter().filter_map(|item| sets::of(item.fd)), epoll::DEPTH))
    })
}

/// As [`wait`], for a list whose sets are watched.
fn wait_watched(items: &mut [pollfd], span: Option<timespec>, mask: Option<Signals>) -> isize {
    if items.iter().all(|item| ends::known(item.fd).is_none()) {
        return calls::ppoll(items, span, mask);
    }
    if items.len() <= SHORT {
        let (mut shadow, mut entered) = ([EMPTY; SHORT + 1], [0; SHORT]);
        return List { items, shadow: &mut shadow, entered: &mut entered, least: None }.wait(span, mask);
    }
    calls::with_room(items.len() + 1, |shadow, entered| {
        List { items, shadow, entered, least: None }.wait(span, mask)
    })
}

/// Sleeps until a descriptor whose direction is in this library's hands may be ready, or until that time: with so many
/// octets to read, or with as many as the program wants at least. Returns a negative number for an error. The caller has
/// looked, and looks again.
pub(crate) fn sleep(descriptor: c_int, events: i16, until: Limit, least: Option<usize>) -> isize {
    let mut items = [pollfd { fd: descriptor, events, revents: 0 }];
    List { items: &mut items, shadow: &mut [EMPTY; 2], entered: &mut [], least }.sleep(until, None)
}

/// Waits as `select` does. Returns the kernel's answer, and how much of the time is left.
pub(crate) fn select(
    limit: c_int,
    sets: &mut Sets<'_>,
    span: Option<timespec>,
    mask: Option<Signals>,
) -> (isize, Option<timespec>) {
    if limit < 0 {
        return (-libc::EINVAL as isize, None);
    }
    let until = Limit::behind(span);
    let len = sets.len(limit);
    let mut ask = |list: &mut [pollfd]| {
        let Some(list) = sets.list(limit, list).and_then(|len| list.get_mut(..len)) else {
            return -libc::EINVAL as isize;
        };
        let result = wait(list, span, mask);
        if result < 0 {
            return result;
        }
        match sets.answer(list) {
            Ok(bits) => isize::try_from(bits).unwrap_or(isize::MAX),
            Err(error) => -error as isize,
        }
    };
    let result =
        if len <= SHORT { ask(&mut [EMPTY; SHORT]) } else { calls::with_room(len, |list, _| ask(list)) };
    (result, until.left())
}

/// True if the kernel would take this span.
pub(crate) fn is_valid(span: Option<timespec>) -> bool {
    span.is_none_or(|span| span.tv_sec >= 0 && (0..1_000_000_000).contains(&span.tv_nsec))
}

/// What the rings say of a descriptor, and what is left to ask the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Look {
    /// What is ready, of that which was asked.
    ready: i16,
    /// The events for the kernel.
    ask: i16,
    /// The reader takes octets from a ring.
    is_inbound: bool,
    /// The sender writes to a ring.
    is_outbound: bool,
    /// The reader of that ring is on this host, and has not said where its own stream ends, nor sends by TCP: if the kernel has
    /// the end of its stream, it is dead. The death of another one is told by the link.
    is_open: bool,
    /// An end is done with the connection: the kernel may have more to tell.
    is_over: bool,
    /// The kernel does not tell when there are as many octets as are waited for.
    is_paced: bool,
    /// For so many nanoseconds, news of the kernel's do not count unless the link tells the same.
    left: Option<u64>,
    /// The kernel would tell nothing else.
    is_deaf: bool,
}

impl Look {
    /// Looks at the rings of a stream for these events. It is readable with `least` octets.
    fn at(stream: &Stream, item: &pollfd, least: Option<usize>) -> Self {
        let events = item.events;
        let mut look = Self { ask: events, left: overtaken::left(stream), ..Self::default() };
        look.look_in(stream, item, least);
        look.look_out(stream, item);
        if look.left.is_some() {
            look.wait_for_link(stream, item.fd);
        }
        look
    }

    /// Returns what is ready for a program that asked for `events`, if the kernel's answer is `told`.
    fn merge(&self, events: i16, told: i16) -> i16 {
        let mut ready =
            self.ready | told & (POLLERR | POLLHUP | POLLNVAL | POLLPRI) | told & events & POLLRDHUP;
        let is_broken = told & (POLLERR | POLLHUP) != 0;
        // The kernel's stream is silent while octets go by the ring: what is there is its end, or a change of legs.
        if told & (POLLIN | POLLRDNORM) != 0 || is_broken && self.is_inbound {
            ready |= events & READABLE;
        }
        let is_dead = is_broken || self.is_open && told & POLLRDHUP != 0;
        if told & (POLLOUT | POLLWRNORM) != 0 || is_dead && self.is_outbound {
            ready |= events & (POLLOUT | POLLWRNORM);
        }
        ready
    }

    fn look_in(&mut self, stream: &Stream, item: &pollfd, least: Option<usize>) {
        let Some(inbound) = channel::inbound(stream) else { return };
        let events = item.events;
        let is_narrow = stream.end.has(NARROW);
        let wanted = least.unwrap_or_else(|| if is_narrow { anchor::low_water(item.fd) } else { 1 });
        let found = section::of_inbound(stream, &inbound, |inbound| channel::look(inbound, item.fd, wanted));
        let (is_ring, is_there) = found.unwrap_or((false, true));
        self.is_inbound = is_ring;
        if is_there {
            self.ready |= events & READABLE;
        }
        if !is_ring && least.is_some() && (is_narrow || wanted > 1) {
            // The kernel would tell of fewer octets, or wait for more.
            self.ask = self.ask & !READABLE | POLLRDHUP;
            self.is_paced = true;
        }
        self.is_over = inbound.end().is_some() || inbound.is_reset();
        if events & READABLE != 0 && self.is_inbound {
            self.ask |= POLLIN | POLLRDHUP;
        }
    }

    /// Leaves out of the questions to the kernel what it would answer at once though it does not count yet.
    #[cold]
    fn wait_for_link(&mut self, stream: &Stream, descriptor: c_int) {
        let news = anchor::news(descriptor);
        if overtaken::hides(stream, descriptor, news) {
            self.ask &= !(READABLE | POLLRDHUP);
            self.is_deaf = self.ask == 0 && news & POLLHUP != 0;
        }
    }

    fn look_out(&mut self, stream: &Stream, item: &pollfd) {
        let events = item.events;
        let Some(outbound) = channel::outbound(stream) else { return };
        if outbound.sink() == Sink::Tcp {
            if events & WRITABLE != 0 && record::is_early(item.fd, &outbound) {
                self.ask &= !WRITABLE;
                (self.is_outbound, self.is_paced) = (true, true);
            }
            return;
        }
        self.is_outbound = true;
        self.is_open = !stream.end.has(FAR)
            && channel::offered_inbound(stream).is_some_and(|inbound| !inbound.is_end_expected());
        self.is_over |= outbound.is_deserted();
        self.ask &= !WRITABLE;
        if events & WRITABLE != 0 && self.is_open {
            self.ask |= POLLRDHUP;
        }
        let is_shut = stream.end.outbound.flags.load(Ordering::Relaxed) & SHUT != 0;
        self.is_over |= is_shut;
        let has_room = || section::of_outbound(stream, &outbound, Outbound::is_writable).unwrap_or(true);
        if events & WRITABLE != 0 && (is_shut || outbound.is_deserted() || has_room()) {
            self.ready |= events & (POLLOUT | POLLWRNORM);
        }
    }
}

/// A program's list, the list for the kernel, which is longer by a doorbell, and the gates that the thread is in.
struct List<'a> {
    items: &'a mut [pollfd],
    shadow: &'a mut [pollfd],
    entered: &'a mut [u64],
    /// The octets to wait for, if not as many as the program wants at least of each socket.
    least: Option<usize>,
}

/// What a look at all rings has found.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    /// Descriptors with something ready.
    ready: usize,
    /// Descriptors of which the kernel need not be asked.
    settled: usize,
    /// A direction is in the hands of this library.
    is_taken: bool,
    /// A descriptor's peer ran on this thread's CPU.
    is_same_cpu: bool,
    /// The thread has to look again by itself.
    is_paced: bool,
    /// The thread has to ask the kernel again behind so many nanoseconds.
    left: Option<u64>,
}

impl List<'_> {
    fn wait(&mut self, span: Option<timespec>, mask: Option<Signals>) -> isize {
        upgrade::look_for_mail();
        watch::look();
        drain::obey();
        // Before the look: what it finds on TCP stays there.
        let entered = if real::is_single_threaded() { 0 } else { self.enter_gates() };
        let found = self.look();
        let result = if found.settled == self.items.len() {
            count(found.ready)
        } else if found.is_taken {
            self.wait_for_rings(span, mask)
        } else {
            self.wait_in_kernel(span, mask)
        };
        self.leave_gates(entered);
        result
    }

    /// Waits where no descriptor has a ring. No direction that it waits for gets one meanwhile: the thread is in its gate.
    fn wait_in_kernel(&mut self, span: Option<timespec>, mask: Option<Signals>) -> isize {
        let result = calls::ppoll(self.items, span, mask);
        for item in self.items.iter().filter(|item| item.revents != 0) {
            let _stream = ends::known(item.fd).inspect(tell);
        }
        result
    }

    fn wait_for_rings(&mut self, span: Option<timespec>, mask: Option<Signals>) -> isize {
        let until = Limit::behind(span);
        loop {
            let found = self.look();
            if found.settled == self.items.len() {
                return count(found.ready);
            }
            let result = self.ask();
            if result != 0 || until.is_over() {
                return result;
            }
            let mut spin = Spin::new(found.is_same_cpu, false, mask.is_none());
            let result = loop {
                match spin.next() {
                    Turn::Look if self.look().ready == 0 && !until.is_over() => {}
                    Turn::Look | Turn::Ask => {
                        let result = self.ask();
                        if result != 0 || until.is_over() {
                            break Some(result);
                        }
                    }
                    Turn::Sleep => break None,
                }
            };
            spin.end();
            if let Some(result) = result {
                return result;
            }
            let result = self.sleep(until, mask);
            if result < 0 {
                return result;
            }
        }
    }

    /// Looks at all rings, and prepares the list for the kernel.
    fn look(&mut self) -> Found {
        let mut found = Found::default();
        for (item, shadow) in self.items.iter_mut().zip(self.shadow.iter_mut()) {
            *shadow = pollfd { revents: 0, ..*item };
            item.revents = 0;
            if let Some(stream) = ends::known(item.fd) {
                let look = Look::at(&stream, item, self.least);
                (shadow.events, item.revents) = (look.ask, look.ready);
                if look.is_deaf {
                    shadow.fd = -1;
                }
                found.left = [found.left, look.left].into_iter().flatten().min();
                let all = item.events & (READABLE | POLLOUT | POLLWRNORM);
                let is_settled = look.ready != 0
                    && look.ready == all
                    && item.events & (POLLRDHUP | POLLPRI) == 0
                    && !look.is_over;
                found.settled += usize::from(is_settled);
                found.is_taken |= channel::inbound(&stream).is_some() || channel::outbound(&stream).is_some();
                found.is_paced |= look.is_paced;
                found.is_same_cpu |= look.is_inbound && channel::is_on_this_cpu(&stream);
            }
            found.ready += usize::from(item.revents != 0);
        }
        found
    }

    /// Asks the kernel, behind a look at the rings. Returns how many descriptors are ready, or an error.
    fn ask(&mut self) -> isize {
        let len = self.items.len();
        let Some(shadow) = self.shadow.get_mut(..len) else { return 0 };
        let result = calls::look(shadow);
        if result < 0 {
            return result;
        }
        let mut ready = 0;
        for (item, shadow) in self.items.iter_mut().zip(self.shadow.iter()) {
            item.revents = match ends::known(item.fd) {
                Some(stream) if shadow.revents != 0 || item.revents != 0 => {
                    tell(&stream);
                    // Before the look: what the link tells by now is found.
                    let told = overtaken::counted(&stream, item.fd, shadow.revents);
                    if told & !WRITABLE != 0 {
                        anchor::note_news(&stream);
                    }
                    Look::at(&stream, item, self.least).merge(item.events, told)
                }
                _ => shadow.revents,
            };
            ready += usize::from(item.revents != 0);
        }
        count(ready)
    }

    /// Sleeps until something may be ready. Returns a negative number for an error.
    fn sleep(&mut self, until: Limit, mask: Option<Signals>) -> isize {
        for item in self.items.iter() {
            let _stream = ends::known(item.fd).inspect(|stream| backlog::obey(item.fd, stream));
        }
        watch::look();
        let waiter = Waiter::of_thread();
        // The doorbell comes first: a peer that finds the thread asleep rings it.
        let bell = waiter.filter(|_| sleep::is_rung()).and_then(|waiter| waiter.bell());
        if let Some(waiter) = &waiter {
            waiter.doze(true);
            let streams = self.items.iter().filter_map(|item| Some((ends::known(item.fd)?, item.events)));
            let barriers = streams.filter_map(|(stream, events)| announce(&stream, events, waiter));
            if let Some(barrier) = barriers.max() {
                sleep::make(barrier);
            }
        }
        let mut rang = false;
        let mut result = 0;
        let found = self.look();
        if found.ready == 0 {
            let len = self.items.len();
            if let Some(place) = self.shadow.get_mut(len) {
                *place = pollfd { fd: bell.map_or(-1, |bell| bell.as_raw_fd()), events: POLLIN, revents: 0 };
            }
            let span = sleep::span(bell.is_some()).min(if found.is_paced { PACE } else { u64::MAX });
            let span = span.min(found.left.unwrap_or(u64::MAX)).min(watch::left());
            let span = until.left_at_most(span);
            result = calls::ppoll(self.shadow.get_mut(..=len).unwrap_or_default(), Some(span), mask);
            rang = self.shadow.get(len).is_some_and(|place| place.revents != 0);
        }
        if let Some(waiter) = &waiter {
            waiter.wake(rang);
            waiter.leave();
        }
        upgrade::look_for_mail();
        drain::obey();
        result
    }

    /// Keeps the directions that are on TCP there, while this thread is in the kernel. Returns how many ends they have.
    fn enter_gates(&mut self) -> usize {
        let mut entered = 0;
        for item in self.items.iter() {
            if let Some(place) = self.entered.get_mut(entered)
                && let Some(stream) = ends::known(item.fd)
            {
                *place = gates::enter(&stream, item.events & WRITABLE != 0);
                entered += usize::from(*place != 0);
            }
        }
        entered
    }

    fn leave_gates(&self, entered: usize) {
        self.entered.iter().take(entered).for_each(|ends| gates::leave(*ends));
    }
}

/// Names a waiter in the rings of a stream, for these events. Returns the barrier that has to follow.
fn announce(stream: &Stream, events: i16, waiter: &Waiter) -> Option<Barrier> {
    let mut barrier = None;
    if let Some(inbound) = channel::inbound(stream).filter(|_| events & READABLE != 0) {
        barrier = Some(section::of_inbound(stream, &inbound, |inbound| waiter.announce(inbound)));
    }
    if let Some(outbound) = channel::outbound(stream).filter(|_| events & WRITABLE != 0) {
        // The last look finds the room that this one does.
        let _is_full = section::of_outbound(stream, &outbound, |outbound| waiter.ask_for_room(outbound));
        barrier = barrier.max(Some(Barrier::Fence));
    }
    barrier
}

/// Notes that the program hears of a socket by a hooked wait.
fn tell(stream: &Stream) {
    let flags = &stream.end.identity.flags;
    if flags.load(Ordering::Relaxed) & (NONBLOCKING | TOLD) == NONBLOCKING {
        flags.fetch_or(TOLD, Ordering::Relaxed);
    }
}

fn count(descriptors: usize) -> isize {
    isize::try_from(descriptors).unwrap_or(isize::MAX)
}

/// The events that say that a read would not wait.
const READABLE: i16 = POLLIN | POLLRDNORM;
/// The events that say that a write would not wait.
const WRITABLE: i16 = POLLOUT | POLLWRNORM | POLLWRBAND;
const EMPTY: pollfd = pollfd { fd: -1, events: 0, revents: 0 };
/// How often a thread looks by itself, in nanoseconds.
const PACE: u64 = 1_000_000;
/// Longer lists get memory of their own.
const SHORT: usize = 64;
