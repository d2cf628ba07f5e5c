//! `epoll_ctl`: how a program changes a set.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use libc::{EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLEXCLUSIVE};
use weft_sockets::end::{NONBLOCKING, SHARED, TOLD};
use weft_sockets::{Interest, Reason};

use crate::ends::{self, Stream};
use crate::member::{Member, is_tag, registration};
use crate::sets::{self, Set, count};
use crate::{calls, channel, real};

/// Changes a set as `epoll_ctl` does. Returns the kernel's answer.
pub(crate) fn control(
    set_descriptor: c_int,
    operation: c_int,
    descriptor: c_int,
    event: Option<(u32, u64)>,
) -> isize {
    let kernel = || calls::epoll_ctl(set_descriptor, operation, descriptor, event);
    let Some(set) = sets::of(set_descriptor) else { return kernel() };
    if sets::of(descriptor).is_some() {
        let result = kernel();
        if result == 0 {
            note_inner(set, operation, descriptor);
        }
        return result;
    }
    let Some(stream) = ends::stream(descriptor) else { return kernel() };
    let changed = set.with(|| {
        let known = set.member(descriptor).filter(|member| member.handle == stream.handle);
        match (operation, event, known) {
            (EPOLL_CTL_ADD, Some(event), Some(member)) if member.is_removed => {
                take_back(set, descriptor, &stream, member, event)
            }
            (_, _, Some(member)) if member.is_removed => -(libc::ENOENT as isize),
            (EPOLL_CTL_ADD, Some(event), _) => add(set, descriptor, &stream, event),
            (EPOLL_CTL_MOD, Some(event), Some(member)) => modify(set, descriptor, &stream, member, event),
            (EPOLL_CTL_DEL, _, Some(member)) if may_wait(set, &stream, &member) => {
                set.store(descriptor, Member { is_removed: true, ..member });
                set.renew();
                0
            }
            (EPOLL_CTL_DEL, _, Some(member)) => set.delete(descriptor, &member),
            _ => kernel(),
        }
    });
    changed.unwrap_or_else(kernel)
}

/// Notes that a set is in another one, or no longer.
fn note_inner(set: &Set, operation: c_int, descriptor: c_int) {
    let (from, to) = match operation {
        EPOLL_CTL_ADD => (0, descriptor + 1),
        EPOLL_CTL_DEL => (descriptor + 1, 0),
        _ => return,
    };
    let mut words = set.inner.iter();
    // Further ones are only the kernel's.
    let _noted =
        words.find(|word| word.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok());
}

fn add(set: &'static Set, descriptor: c_int, stream: &Stream, (events, data): (u32, u64)) -> isize {
    if is_tag(data) {
        set.is_barred.store(true, Ordering::Relaxed);
    }
    if events & EPOLLEXCLUSIVE.cast_unsigned() != 0 {
        // The kernel does not change such a registration.
        stream.end.stay(Reason::Option);
    }
    let set_descriptor = set.descriptor.load(Ordering::Relaxed);
    let result = calls::epoll_ctl(set_descriptor, EPOLL_CTL_ADD, descriptor, Some((events, data)));
    if result != 0 {
        return result;
    }
    if set.member(descriptor).is_some() {
        // The descriptor was closed and is another socket's now.
        set.remove(descriptor);
    }
    let is_listener = rustix::net::sockopt::socket_acceptconn(real::borrow(descriptor)) == Ok(true);
    let member = Member::new(stream.handle, !is_listener, (events, data));
    set.insert(descriptor, member);
    count(stream.handle, 1);
    if stream.end.has(NONBLOCKING) {
        // Its program waits by hooked calls.
        stream.end.identity.flags.fetch_or(TOLD, Ordering::Relaxed);
    }
    let is_ours = channel::inbound(stream).is_some() || channel::outbound(stream).is_some();
    if is_ours && !set.take(descriptor, member, stream) {
        set.delete(descriptor, &member);
        return -(libc::ENOMEM as isize);
    }
    0
}

fn modify(
    set: &'static Set,
    descriptor: c_int,
    stream: &Stream,
    mut member: Member,
    (events, data): (u32, u64),
) -> isize {
    let is_ours = member.taken.is_some() && events & EPOLLEXCLUSIVE.cast_unsigned() == 0;
    let result = if is_ours {
        register(set, descriptor, stream, &mut member, events)
    } else {
        let set_descriptor = set.descriptor.load(Ordering::Relaxed);
        calls::epoll_ctl(set_descriptor, EPOLL_CTL_MOD, descriptor, Some((events, data)))
    };
    if result == 0 {
        (member.events, member.data) = (events, data);
        member.interest.modify(events);
        if member.taken.is_some() {
            member.tell_end(stream, descriptor);
        }
        set.store(descriptor, member);
        if is_ours {
            tell_sleepers(set, descriptor, stream, &member);
        }
    }
    result
}

/// Takes a member back that the program has removed and adds again.
fn take_back(
    set: &'static Set,
    descriptor: c_int,
    stream: &Stream,
    mut member: Member,
    (events, data): (u32, u64),
) -> isize {
    let is_plain = events & EPOLLEXCLUSIVE.cast_unsigned() == 0 && !is_tag(data);
    if !is_plain || register(set, descriptor, stream, &mut member, events) != 0 {
        set.delete(descriptor, &member);
        return add(set, descriptor, stream, (events, data));
    }
    let member = Member { events, data, interest: Interest::new(events), is_removed: false, ..member };
    set.store(descriptor, member);
    tell_sleepers(set, descriptor, stream, &member);
    0
}

/// Changes what the kernel tells of a taken member, if that is another thing for these events.
fn register(
    set: &'static Set,
    descriptor: c_int,
    stream: &Stream,
    member: &mut Member,
    events: u32,
) -> isize {
    let registered = registration(stream, events);
    // What the kernel has told is told again at a change. Relatives may have changed a shared set.
    if registered == member.registered && !member.interest.was_told(u32::MAX) && !stream.end.has(SHARED) {
        return 0;
    }
    member.registered = registered;
    let ours = Some((registered, member.tag(descriptor)));
    calls::epoll_ctl(set.descriptor.load(Ordering::Relaxed), EPOLL_CTL_MOD, descriptor, ours)
}

/// True if the kernel's registration of a member that the program removes may wait for its return.
fn may_wait(set: &Set, stream: &Stream, member: &Member) -> bool {
    member.taken.is_some() && !stream.end.has(SHARED) && !set.is_watched.load(Ordering::SeqCst)
}

/// Lets threads that sleep hear of a member from now on, and wakes them if there is something to tell already.
fn tell_sleepers(set: &'static Set, descriptor: c_int, stream: &Stream, member: &Member) {
    if set.has_sleepers()
        && let Some(waiter) = set.waiter()
        && member.call(stream, descriptor, waiter)
    {
        waiter.ring();
    }
}
