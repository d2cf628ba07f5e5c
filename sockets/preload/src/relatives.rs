//! The other processes of the family: which of them are dead, and what they held.

use core::fmt::Write;

use rustix::process::getpid;
use weft_sockets::Owner;
use weft_sockets::layout::{End, Member};
use weft_sockets::sync::Ordering;

use crate::line::Line;
use crate::{family, procfs};

/// True if this process alone holds an end. Relatives that are dead hold nothing any more.
pub(crate) fn leave_alone(end: &End) -> bool {
    let (holders, Some(me)) = (&end.holders, family::member()) else { return false };
    if !holders.only(me) {
        for other in holders.members().filter(|other| *other != me && is_dead(*other)) {
            holders.remove(other);
        }
    }
    holders.only(me)
}

/// Takes the place of a relative that is dead for a process that is about to be forked. It may be named in the holders
/// of ends.
#[cold]
pub(crate) fn take_place() -> Option<u16> {
    let members = (0_u16..).zip(&family::family()?.slab.header().members);
    let mut dead = members.filter(|(place, _)| is_dead(*place));
    let (place, _) = dead.find(|(_, member)| {
        let process = member.pid.load(Ordering::Acquire);
        let mine = getpid().as_raw_pid().cast_unsigned();
        process != 0
            && member.pid.compare_exchange(process, mine, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    })?;
    member(place)?.started.store(0, Ordering::Release);
    Some(place)
}

/// True if the thread that has a lock has ended. Its place may be another process's by now.
pub(crate) fn is_owner_dead(owner: Owner) -> bool {
    let process = member(owner.member()).map_or(0, |member| member.pid.load(Ordering::Acquire));
    let mut path = Line::<64>::new();
    let _fits = write!(path, "/proc/{process}/task/{}/stat\0", owner.thread());
    process == 0 || is_dead(owner.member()) || procfs::is_gone(path.octets())
}

/// True if the process at this place of the family has ended, is a zombie, or runs another program by now. One that is
/// about to be forked has no start time yet.
fn is_dead(place: u16) -> bool {
    let Some(member) = member(place) else { return true };
    let identity = || (member.started.load(Ordering::Acquire), member.pid.load(Ordering::Acquire));
    let (started, process) = identity();
    if process == 0 || started == 0 {
        return process == 0;
    }
    let mut path = Line::<32>::new();
    let _fits = write!(path, "/proc/{process}/stat\0");
    let is_dead = match procfs::stat(path.octets()) {
        Ok((is_zombie, since)) => is_zombie || since != started,
        Err(_) => procfs::is_gone(path.octets()),
    };
    // Else it is another process's place by now.
    is_dead && identity() == (started, process)
}

fn member(place: u16) -> Option<&'static Member> {
    family::family()?.slab.header().members.get(usize::from(place))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A process at place 9, whose start time is this one plus `later`.
    pub(crate) fn child(later: u64) -> std::process::Child {
        let child = std::process::Command::new("sleep").arg("1000").spawn().expect("a process");
        let path = format!("/proc/{}/stat\0", child.id());
        let (_, started) = procfs::stat(path.as_bytes()).expect("the kernel's text");
        let words = member(9).expect("a place");
        words.started.store(started + later, Ordering::Relaxed);
        words.pid.store(child.id(), Ordering::Relaxed);
        child
    }

    #[test]
    fn a_holder_that_is_dead_holds_nothing() {
        let _turn = family::turn();
        let family = family::opened();
        let mut child = child(0);
        let (slot, state) = weft_sockets::end::allocate(&family.slab, 100).expect("a place");
        let end = family.slab.end(slot).expect("an end");
        let me = family::member().expect("a place");
        assert!(end.holders.add(me) && end.holders.add(9));
        assert!(!leave_alone(end), "the other one lives");
        child.kill().expect("a signal");
        // It is a zombie, or is about to be one.
        while !leave_alone(end) {
            std::thread::yield_now();
        }
        child.wait().expect("its end");
        // A child that is about to come has no start time.
        let words = member(9).expect("a place");
        words.started.store(0, Ordering::Relaxed);
        assert!(end.holders.add(9) && !leave_alone(end));
        words.pid.store(0, Ordering::Relaxed);
        assert!(leave_alone(end), "the place is free");
        end.holders.remove(me);
        end.advance(state, weft_sockets::end::Phase::Free);
    }

    #[test]
    fn a_lock_of_a_dead_process_is_free_though_its_place_has_another_one() {
        let _turn = family::turn();
        family::opened();
        let mut child = child(0);
        let [own, other] = [child.id(), std::process::id()].map(|thread| Owner::new(9, thread));
        assert!(!is_owner_dead(own));
        assert!(is_owner_dead(other), "no thread of that process");
        child.kill().expect("a signal");
        child.wait().expect("its end");
        assert!(is_owner_dead(own));
        family::opened().free(9);
    }

    #[test]
    fn a_process_that_runs_another_program_has_left() {
        let _turn = family::turn();
        family::opened();
        let mut child = child(1);
        assert!(is_dead(9));
        assert_eq!(take_place(), Some(9));
        assert_eq!(member(9).expect("a place").pid.load(Ordering::Relaxed), std::process::id());
        family::opened().free(9);
        child.kill().expect("a signal");
        child.wait().expect("its end");
    }
}
