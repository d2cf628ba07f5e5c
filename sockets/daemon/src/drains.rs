//! Connections that go back to TCP at the daemon's word.
//!
//! The daemon marks the ends in the slab, and wakes the processes that hold them. A process obeys at its next call.

use core::sync::atomic::AtomicU64;
use core::time::Duration;

use weft_sockets::end::{DRAIN, FAR, Phase, RECORD};
use weft_sockets::layout;
use weft_sockets::sync::Ordering;
use weft_sockets::{Answer, Carrier, Denial, Gate, Leg, Reason};

use crate::link::End;
use crate::pending::Drain;
use crate::state::State;

/// Where an end is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    InRing,
    OnTcp,
    Closed,
    /// Its process has tried, and the other end has not come along.
    GivenUp,
}

impl State {
    /// Takes all connections of a process back to TCP, at the word of the command at a port.
    pub(crate) fn drain(&mut self, asker: u64, pid: u32, now: Duration) -> Result<(), Denial> {
        let uid = self.ports.get(&asker).map(|port| port.uid).ok_or(Denial::Ended)?;
        let (family, place) = self.member_with(pid).ok_or(Denial::NoProcess)?;
        let known = self.families.get(&family).ok_or(Denial::NoProcess)?;
        if uid != 0 && uid != known.uid {
            return Err(Denial::User);
        }
        if self.drains.iter().any(|drain| drain.process.is_some_and(|(.., other)| other == pid)) {
            return Err(Denial::Busy);
        }
        let its = known.slab.ends().filter(|(_, end)| {
            end.state().phase != Phase::Free && end.holders.members().any(|member| member == place)
        });
        // An end on TCP stays there.
        let its: Vec<(u64, End)> = its.filter_map(|(slot, end)| mark(family, slot, end)).collect();
        self.begin_drain(Some(asker), Some((family, place, pid)), its, now);
        Ok(())
    }

    /// Takes all connections to other hosts back to TCP, since they end with this daemon.
    pub(crate) fn drain_hosts(&mut self, now: Duration) {
        let mut its = Vec::new();
        for (name, family) in &self.families {
            let far = family.slab.ends().filter(|(_, end)| end.state().phase != Phase::Free && end.has(FAR));
            its.extend(far.filter_map(|(slot, end)| mark(*name, slot, end)));
        }
        self.begin_drain(None, None, its, now);
    }

    /// True if this daemon waits for connections to be back on TCP, to leave.
    pub(crate) fn is_draining_hosts(&self) -> bool {
        self.drains.iter().any(|drain| drain.asker.is_none())
    }

    /// Looks at the ends that are on their way, and answers the commands that wait for them.
    pub(crate) fn look_at_drains(&mut self, now: Duration) {
        for mut drain in core::mem::take(&mut self.drains) {
            if drain.next > now {
                self.drains.push(drain);
                continue;
            }
            drain.next = now + PAUSE;
            let is_over = now >= drain.until;
            let mut waiting = Vec::new();
            for (family, end) in core::mem::take(&mut drain.waiting) {
                match self.way(family, end) {
                    Way::InRing if is_over => self.unmark(family, end, &mut drain.left),
                    Way::InRing => waiting.push((family, end)),
                    Way::OnTcp => drain.done += 1,
                    Way::GivenUp => drain.left += 1,
                    Way::Closed => {}
                }
            }
            if !waiting.is_empty() && (drain.asker.is_none() || self.is_asked_for(&drain)) {
                drain.waiting = waiting;
                self.tell_drained(&drain);
                self.drains.push(drain);
            } else if let Some(asker) = drain.asker {
                let has_ended =
                    drain.process.is_some_and(|(family, place, pid)| !self.is_there(family, place, pid));
                let answer = match has_ended {
                    true => Answer::Denied { why: Denial::Ended },
                    false => Answer::Drained { done: drain.done, left: drain.left },
                };
                self.answer(asker, answer, None);
            }
        }
    }

    /// Returns when [`look_at_drains`](Self::look_at_drains) has something to do.
    pub(crate) fn drains_deadline(&self) -> Option<Duration> {
        self.drains.iter().map(|drain| drain.next).min()
    }

    fn begin_drain(
        &mut self,
        asker: Option<u64>,
        process: Option<(u64, u16, u32)>,
        waiting: Vec<(u64, End)>,
        now: Duration,
    ) {
        let (done, left, until) = (0, 0, now + PATIENCE);
        self.drains.push(Drain { asker, process, waiting, done, left, until, next: now });
        self.look_at_drains(now);
    }

    /// True if a command waits still, and its process lives.
    fn is_asked_for(&self, drain: &Drain) -> bool {
        let is_waited_for = drain.asker.is_some_and(|asker| self.ports.contains_key(&asker));
        is_waited_for && drain.process.is_some_and(|(family, place, pid)| self.is_there(family, place, pid))
    }

    /// Tells the processes that hold the ends. A thread that was about to sleep may have missed it the last time.
    fn tell_drained(&self, drain: &Drain) {
        let mut families: Vec<u64> = drain.waiting.iter().map(|(family, _)| *family).collect();
        families.dedup();
        for name in families {
            let Some(family) = self.families.get(&name) else { continue };
            let ends = drain.waiting.iter().filter(|(family, _)| *family == name);
            let ends = ends.filter_map(|(_, end)| family.slab.end(end.slot));
            for member in ends.flat_map(|end| end.holders.members()) {
                if let Some(words) = family.slab.header().members.get(usize::from(member)) {
                    words.drain.store(1, Ordering::SeqCst);
                }
            }
            self.wake(name, None);
        }
    }

    /// Takes the mark off an end that is too late.
    fn unmark(&self, family: u64, end: End, left: &mut u32) {
        *left += 1;
        if let Some(words) = self.families.get(&family).and_then(|family| family.slab.end(end.slot)) {
            words.identity.flags.fetch_and(!DRAIN, Ordering::AcqRel);
        }
    }

    /// The family and the place of a process.
    fn member_with(&self, pid: u32) -> Option<(u64, u16)> {
        self.families.iter().find_map(|(name, family)| {
            let mut members = (0..).zip(&family.slab.header().members);
            let is_it = |words: &layout::Member| words.pid.load(Ordering::Acquire) == pid;
            members.find(|(_, words)| pid != 0 && is_it(words)).map(|(place, _)| (*name, place))
        })
    }

    fn is_there(&self, family: u64, place: u16, pid: u32) -> bool {
        let header = self.families.get(&family).map(|family| family.slab.header());
        let words = header.and_then(|header| header.members.get(usize::from(place)));
        words.is_some_and(|words| words.pid.load(Ordering::Acquire) == pid)
            && rustix::process::Pid::from_raw(pid.cast_signed())
                .is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
    }

    fn way(&self, family: u64, at: End) -> Way {
        let Some(end) = self.families.get(&family).and_then(|family| family.slab.end(at.slot)) else {
            return Way::Closed;
        };
        let state = end.state();
        if state.generation != at.generation || matches!(state.phase, Phase::Free | Phase::Fresh) {
            return Way::Closed;
        }
        // Before the look at the directions: the process takes the mark off behind its last word on them.
        let is_marked = end.identity.flags.load(Ordering::Acquire) & DRAIN != 0;
        match (is_on_tcp(end), is_marked) {
            (true, _) => Way::OnTcp,
            (false, true) => Way::InRing,
            (false, false) => Way::GivenUp,
        }
    }
}

/// Marks an end. Returns it if it has a ring, or may get one at any moment.
fn mark(family: u64, slot: u32, end: &layout::End) -> Option<(u64, End)> {
    end.stay(Reason::Drained);
    let state = end.state();
    let is_there = state.phase == Phase::Offered && is_on_tcp(end);
    if state.phase != Phase::Offered || is_there {
        return None;
    }
    end.identity.flags.fetch_or(DRAIN, Ordering::SeqCst);
    Some((family, End { slot, generation: state.generation }))
}

/// True if the kernel's socket carries both directions of an end, and no ring has octets of them.
fn is_on_tcp(end: &layout::End) -> bool {
    let (outbound, inbound) = (&end.outbound, &end.inbound);
    let leg = |word: &AtomicU64| Leg::from_own_word(word.load(Ordering::Acquire));
    let (sends_by, reads_by) = (leg(&outbound.leg), leg(&inbound.leg));
    let is_tcp = sends_by.carrier == Carrier::Tcp && reads_by.carrier == Carrier::Tcp;
    // Its sender may begin the first ring at any moment. Behind a ring, a leg by TCP is the last one.
    let is_attached = reads_by.number == 0 && Gate::new(&inbound.inside, false).is_closed();
    let owes_record = outbound.flags.load(Ordering::Acquire) & RECORD != 0;
    is_tcp && !is_attached && !owes_record && outbound.backlog.load(Ordering::Acquire) == 0
}

/// How long processes have. Longer than a process has for its connections.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(10);
