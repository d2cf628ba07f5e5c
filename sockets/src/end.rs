//! The state of one end of a connection, and the rules by which it leaves TCP for a ring.

use crate::layout::{End, Holders};
use crate::reason::Reason;
use crate::sync::{AtomicU16, Ordering, fence};

/// What an end is at the moment. `Identity::state` has it in its low octet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Nobody uses the place.
    #[default]
    Free = 0,
    /// A process has taken the place and fills it in.
    Fresh = 1,
    /// A connection on TCP.
    Plain = 2,
    /// The daemon looks for the other end.
    Claimed = 3,
    /// A channel is there. The legs tell what carries each direction.
    Offered = 4,
    /// Closed. The daemon has yet to hear of it.
    Closed = 5,
}

/// An end's phase, and how often its place was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// What the end is.
    pub phase: Phase,
    /// Counts the uses of the place, modulo 2^24.
    pub generation: u32,
}

impl State {
    /// Returns the state in a word, or `None` if no phase has its low octet.
    #[inline]
    #[must_use]
    pub const fn from_word(word: u32) -> Option<Self> {
        let phase = match word & 0xff {
            0 => Phase::Free,
            1 => Phase::Fresh,
            2 => Phase::Plain,
            3 => Phase::Claimed,
            4 => Phase::Offered,
            5 => Phase::Closed,
            _ => return None,
        };
        Some(Self { phase, generation: word >> 8 })
    }

    /// Packs the state.
    #[must_use]
    pub const fn to_word(self) -> u32 {
        self.generation << 8 | self.phase as u32
    }

    /// Returns the same end in another phase.
    #[must_use]
    pub const fn with(self, phase: Phase) -> Self {
        Self { phase, generation: self.generation }
    }
}

impl End {
    /// Returns the state.
    #[inline]
    #[must_use]
    pub fn state(&self) -> State {
        State::from_word(self.identity.state.load(Ordering::Acquire)).unwrap_or_default()
    }

    /// Moves the end from one state to a phase. Returns false if it is in another state by now.
    pub fn advance(&self, from: State, to: Phase) -> bool {
        let (old, new) = (from.to_word(), from.with(to).to_word());
        self.identity.state.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Returns why the end stays on TCP, if it is known.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        Reason::from_number(u8::try_from(self.identity.reason.load(Ordering::Relaxed)).unwrap_or(0))
    }

    /// Notes why the end is on TCP for now.
    pub fn note(&self, reason: Reason) {
        self.identity.reason.store(reason as u16, Ordering::Relaxed);
    }

    /// Keeps the end on TCP for good. The first such reason stands. Returns false if there was one.
    pub fn stay(&self, reason: Reason) -> bool {
        let is_first = self.identity.flags.fetch_or(STAYS, Ordering::Relaxed) & STAYS == 0;
        if is_first {
            self.note(reason);
        }
        is_first
    }

    /// What the connection has moved. Its age is not known here.
    #[inline]
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        let identity = &self.identity;
        let [written, consumed] =
            [&self.outbound.written, &self.inbound.consumed].map(|octets| octets.load(Ordering::Relaxed));
        Traffic {
            calls: identity.calls.load(Ordering::Relaxed),
            octets: written.saturating_add(consumed),
            threshold: identity.threshold.load(Ordering::Relaxed),
            tries: identity.tries.load(Ordering::Relaxed),
            age: u32::MAX,
            flags: identity.flags.load(Ordering::Relaxed),
        }
    }

    /// True if all of these flags are set.
    #[inline]
    #[must_use]
    pub fn has(&self, flags: u32) -> bool {
        self.identity.flags.load(Ordering::Relaxed) & flags == flags
    }
}

impl Holders {
    /// Adds a member. Returns false if there is no place for it.
    #[must_use]
    pub fn add(&self, member: u16) -> bool {
        let name = member + 1;
        self.0.iter().any(|holder| holder.load(Ordering::Relaxed) == name)
            || self
                .0
                .iter()
                .any(|holder| holder.compare_exchange(0, name, Ordering::AcqRel, Ordering::Relaxed).is_ok())
    }

    /// Removes a member. Returns true if nobody holds the end now, and the member did until now.
    pub fn remove(&self, member: u16) -> bool {
        let is_mine = |holder: &&AtomicU16| holder.load(Ordering::Relaxed) == member + 1;
        let Some(mine) = self.0.iter().find(is_mine) else { return false };
        mine.store(0, Ordering::Release);
        // Of two members that leave at a time at least one sees the other gone.
        fence(Ordering::SeqCst);
        self.members().next().is_none()
    }

    /// The members that hold the end.
    pub fn members(&self) -> impl Iterator<Item = u16> {
        self.0.iter().filter_map(|holder| holder.load(Ordering::Acquire).checked_sub(1))
    }

    /// True if this member holds the end and no other one does.
    #[must_use]
    pub fn only(&self, member: u16) -> bool {
        let mut members = self.members();
        members.next() == Some(member) && members.next().is_none()
    }
}

/// Takes a free place of the slab, beginning to look at `from`. Returns its number and its state, which is `Fresh`.
/// All its other words are 0. Returns `None` if the slab is full.
#[cfg(not(loom))]
pub fn allocate(slab: &crate::memory::Slab, from: u32) -> Option<(u32, State)> {
    use crate::layout::ENDS;
    let slots = (0..ENDS).map(|step| from.wrapping_add(step) % ENDS);
    slots.filter_map(|slot| Some((slot, slab.end(slot)?))).find_map(|(slot, end)| {
        let old = end.state();
        let next = State { phase: Phase::Free, generation: old.generation.wrapping_add(1) & 0xff_ffff };
        let (old_word, new) = (old.to_word(), next.with(Phase::Fresh));
        if old.phase != Phase::Free {
            return None;
        }
        let word = &end.identity.state;
        word.compare_exchange(old_word, new.to_word(), Ordering::AcqRel, Ordering::Relaxed).ok()?;
        slab.clear(slot);
        end.identity.reason.store(0, Ordering::Relaxed);
        end.identity.tries.store(0, Ordering::Relaxed);
        slab.header().ends.fetch_max(slot + 1, Ordering::Relaxed);
        Some((slot, new))
    })
}

/// How much a connection has moved, and what else decides whether a claim is worth it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    /// Calls that have moved data.
    pub calls: u32,
    /// Octets of both directions.
    pub octets: u64,
    /// The worth that the claim needs, 0 for that of the first claim.
    pub threshold: u32,
    /// Claims so far.
    pub tries: u16,
    /// Milliseconds since the process saw the connection first.
    pub age: u32,
    /// The flags of the end.
    pub flags: u32,
}

impl Traffic {
    /// The traffic in calls. 16 KiB are worth as much as a call.
    #[must_use]
    pub fn worth(&self) -> u32 {
        self.calls.saturating_add(u32::try_from(self.octets / 0x4000).unwrap_or(u32::MAX))
    }

    /// The worth that the first claim needs.
    const fn first(&self) -> u32 {
        if self.flags & EAGER == 0 { 4 } else { 0 }
    }

    /// True if the family did not see the connection begin, and true if the program waits for it past the hooks.
    const fn seen(&self) -> (bool, bool) {
        (self.flags & FOREIGN != 0, self.flags & (NONBLOCKING | TOLD) == NONBLOCKING)
    }

    /// True if a claim is worth its cost now.
    #[must_use]
    pub fn is_worth_it(&self) -> bool {
        let (is_foreign, is_blind) = self.seen();
        let is_known = !is_foreign || (self.calls >= KNOWN && self.age >= 1000);
        self.flags & STAYS == 0
            && self.tries < TRIES
            && self.worth() >= self.threshold.max(self.first())
            && is_known
            && !is_blind
    }

    /// True if the connection should have left TCP: it has moved data in 16 calls more than its claim needed, so that the
    /// claims of both ends had time to be answered.
    #[must_use]
    pub fn is_eligible(&self) -> bool {
        let (is_foreign, is_blind) = self.seen();
        let first = if is_foreign { KNOWN } else { self.first() };
        self.calls >= first + 16 && !is_blind
    }

    /// The worth that the claim after this one needs.
    #[must_use]
    pub fn next_threshold(&self) -> u32 {
        self.worth().max(4).saturating_mul(10)
    }
}

/// Positions of both directions: what a program has written, and what it has consumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Positions {
    /// Octets written to the socket.
    pub written: u64,
    /// Octets taken from the socket.
    pub consumed: u64,
}

/// What decides whether the reader of a direction may leave the kernel's stream.
#[derive(Clone, Copy, Debug)]
pub struct Attach {
    /// A channel is there and this end has not answered yet.
    pub is_offered: bool,
    /// This process alone holds the end.
    pub is_alone: bool,
    /// Octets that the hooks have counted.
    pub consumed: u64,
    /// Octets that the kernel has counted.
    pub kernel: u64,
}

impl Attach {
    /// Decides. `None`: not now. An error is the reason to decline for good.
    pub fn decide(&self) -> Option<Result<(), Reason>> {
        if !self.is_offered || !self.is_alone || self.consumed == 0 {
            return None;
        }
        Some(if self.consumed == self.kernel { Ok(()) } else { Err(Reason::Evidence) })
    }
}

/// What decides whether the sender of a direction may go on in a ring.
#[derive(Clone, Copy, Debug)]
pub struct Switch {
    /// [`Reader::attached`](crate::layout::Reader::attached) of the direction.
    pub attached: u32,
    /// This process alone holds the end.
    pub is_alone: bool,
    /// The sender holds octets back for `MSG_MORE` or `TCP_CORK`, or has shut the direction down.
    pub is_held: bool,
    /// Octets that the hooks have counted.
    pub written: u64,
    /// Octets that the kernel has counted.
    pub kernel: u64,
}

impl Switch {
    /// Decides. `None`: not now. An error is the reason to stay for good.
    pub fn decide(&self) -> Option<Result<(), Reason>> {
        use crate::layout::{ATTACHED, DECLINED};
        match self.attached {
            DECLINED => Some(Err(Reason::Refused)),
            ATTACHED if !self.is_alone || self.is_held => None,
            ATTACHED if self.written == self.kernel => Some(Ok(())),
            ATTACHED => Some(Err(Reason::Evidence)),
            _ => None,
        }
    }
}

/// [`Identity::flags`](crate::layout::Identity::flags): the end stays on TCP for good.
pub const STAYS: u32 = 1;
/// The family did not see the connection begin.
pub const FOREIGN: u32 = 2;
/// `O_NONBLOCK`, as last heard.
pub const NONBLOCKING: u32 = 4;
/// A hooked wait has told the program that the socket is ready.
pub const TOLD: u32 = 8;
/// A copy of the descriptor went to another process by `SCM_RIGHTS`.
pub const PASSED: u32 = 16;
/// More than one process has held the end: its words need atomic operations and its directions their locks.
pub const SHARED: u32 = 32;
/// A process may hold it that has no place among the [`Holders`].
pub const CROWDED: u32 = 64;
/// The program has set `SO_RCVLOWAT`.
pub const NARROW: u32 = 128;
/// The program asked for upgrades from the first octet on.
pub const EAGER: u32 = 256;
/// The program has asked the kernel for a buffer above 1 MiB: rings of 4 MiB are worth it in both directions.
pub const WIDE: u32 = 512;
/// The other end is on another host. The other party of the link is the daemon.
pub const FAR: u32 = 1024;
/// The daemon wants both directions back on TCP. A process that holds the end obeys at its next call, and takes the mark
/// away.
pub const DRAIN: u32 = 2048;
/// `flags` of a direction: the program has shut it down.
pub const SHUT: u32 = 1;
/// `flags` of a direction: the program has been told of its end.
pub const ENDED: u32 = 2;
/// `flags` of a direction: it stays on TCP for good.
pub const STUCK: u32 = 4;
/// `flags` of a sending direction: the kernel holds octets back for `MSG_MORE`.
pub const MORE: u32 = 8;
/// `flags` of the receiving direction: the program has heard that the connection failed, which the kernel says once.
pub const DEAD: u32 = 16;
/// `flags` of the receiving direction: a wait was told something by the kernel's socket, which was not asked since then.
pub const NEWS: u32 = 32;
/// In the flags of the sending direction: a process was killed that may have sent more of the
/// [backlog](crate::Outbound::backlog) than it has noted.
pub const UNSURE: u32 = 64;
/// `flags` of the receiving direction: the other end broke a rule, and the connection was reset for that.
pub const BROKEN: u32 = 128;
/// `flags` of the receiving direction: a thread asks the sender for TCP, and takes nothing from the ring meanwhile. Nor does
/// a signal handler of that thread.
pub const ASKING: u32 = 256;
/// `flags` of the sending direction: a [record](crate::Record) has to go out before all else.
pub const RECORD: u32 = 512;
/// `flags` of the sending direction: the [record](crate::Record) goes out because the stream ends.
pub const ENDING: u32 = 1024;
/// Calls that make a connection known whose beginning the family did not see.
const KNOWN: u32 = 64;
/// Claims of an end in all.
pub const TRIES: u16 = 3;

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::layout::{ATTACHED, DECLINED};
    use crate::memory::Slab;

    #[test]
    fn states_are_read_back_and_unknown_phases_are_refused() {
        for phase in [Phase::Free, Phase::Fresh, Phase::Plain, Phase::Claimed, Phase::Offered, Phase::Closed]
        {
            let state = State { phase, generation: 0xabcdef };
            assert_eq!(State::from_word(state.to_word()), Some(state));
        }
        assert_eq!(State::from_word(0x106), None);
        assert_eq!(State::from_word(0), Some(State::default()));
    }

    #[test]
    fn a_place_is_used_anew_with_zeroed_words_and_another_generation() {
        let slab = Slab::map(Slab::create().expect("memory")).expect("a slab");
        let (first, state) = allocate(&slab, 0).expect("a place");
        let (second, _) = allocate(&slab, 0).expect("a place");
        assert_eq!((first, second, state.generation), (0, 1, 1));
        let end = slab.end(first).expect("an end");
        assert!(end.advance(state, Phase::Plain));
        assert!(!end.advance(state, Phase::Claimed), "it is no longer fresh");
        end.identity.cookie.store(5, Ordering::Relaxed);
        end.counts.wakes.store(5, Ordering::Relaxed);
        assert!(end.stay(Reason::Urgent) && !end.stay(Reason::Stdio));
        assert_eq!(end.reason(), Some(Reason::Urgent));
        assert!(end.advance(state.with(Phase::Plain), Phase::Free));
        let (again, state) = allocate(&slab, 0).expect("a place");
        let words = [&end.identity.cookie, &end.counts.wakes].map(|word| word.load(Ordering::Relaxed));
        assert_eq!(
            (again, state.generation, words, end.reason(), end.has(STAYS)),
            (0, 2, [0, 0], None, false)
        );
    }

    #[test]
    fn holders_come_and_go() {
        let holders = Holders(core::array::from_fn(|_| AtomicU16::new(0)));
        assert!(!holders.only(0));
        assert!(holders.add(0) && holders.add(0) && holders.only(0));
        assert!(holders.add(7) && !holders.only(0) && !holders.only(7));
        assert!(!holders.remove(0) && holders.only(7));
        assert!(!holders.remove(0), "it did not hold the end any more");
        assert!(holders.remove(7));
        assert!((0..64).all(|member| holders.add(member)) && !holders.add(64));
    }

    #[test]
    fn a_claim_is_worth_it_after_four_calls_or_64_kib() {
        let worth = |calls, octets| Traffic { calls, octets, ..Traffic::default() }.is_worth_it();
        assert!(!worth(3, 0x3fff) && worth(4, 0) && worth(0, 0x10000) && worth(2, 0x8000));
        let eager = Traffic { flags: EAGER, ..Traffic::default() };
        assert!(eager.is_worth_it());
        assert!(!Traffic { flags: EAGER | STAYS, ..eager }.is_worth_it());
        assert!(!Traffic { flags: EAGER | NONBLOCKING, ..eager }.is_worth_it());
        assert!(Traffic { flags: EAGER | NONBLOCKING | TOLD, ..eager }.is_worth_it());
    }

    #[test]
    fn a_claim_is_tried_again_after_ten_times_the_traffic_and_three_times_in_all() {
        let mut traffic = Traffic { calls: 6, ..Traffic::default() };
        traffic.threshold = traffic.next_threshold();
        traffic.tries = 1;
        for (calls, is_worth_it) in [(59, false), (60, true)] {
            traffic.calls = calls;
            assert_eq!(traffic.is_worth_it(), is_worth_it, "{calls}");
        }
        assert!(!Traffic { tries: TRIES, calls: u32::MAX, ..traffic }.is_worth_it());
    }

    #[test]
    fn a_connection_is_eligible_16_calls_behind_the_claim() {
        let is_eligible = |calls, flags| Traffic { calls, flags, ..Traffic::default() }.is_eligible();
        for (flags, calls) in
            [(0, 20), (EAGER, 16), (FOREIGN, 80), (EAGER | FOREIGN, 80), (NONBLOCKING | TOLD, 20)]
        {
            assert!(!is_eligible(calls - 1, flags) && is_eligible(calls, flags), "{flags}");
        }
        assert!(!is_eligible(1000, NONBLOCKING));
    }

    #[test]
    fn a_foreign_connection_needs_64_calls_and_a_second() {
        let foreign = Traffic { flags: FOREIGN, calls: 64, octets: 1 << 40, age: 1000, ..Traffic::default() };
        assert!(foreign.is_worth_it());
        assert!(!Traffic { calls: 63, ..foreign }.is_worth_it());
        assert!(!Traffic { age: 999, flags: EAGER | FOREIGN, ..foreign }.is_worth_it());
    }

    #[test]
    fn a_reader_attaches_only_behind_an_octet_that_the_kernel_confirms() {
        let attach = Attach { is_offered: true, is_alone: true, consumed: 1, kernel: 1 };
        assert_eq!(attach.decide(), Some(Ok(())));
        assert_eq!(Attach { consumed: 0, kernel: 0, ..attach }.decide(), None);
        assert_eq!(Attach { kernel: 2, ..attach }.decide(), Some(Err(Reason::Evidence)));
        assert_eq!(Attach { is_alone: false, ..attach }.decide(), None);
        assert_eq!(Attach { is_offered: false, ..attach }.decide(), None);
    }

    #[test]
    fn a_sender_switches_only_to_a_reader_that_attached() {
        let switch = Switch { attached: ATTACHED, is_alone: true, is_held: false, written: 0, kernel: 0 };
        assert_eq!(switch.decide(), Some(Ok(())));
        assert_eq!(Switch { attached: 0, ..switch }.decide(), None);
        assert_eq!(Switch { attached: 77, ..switch }.decide(), None);
        assert_eq!(Switch { attached: DECLINED, ..switch }.decide(), Some(Err(Reason::Refused)));
        assert_eq!(Switch { is_held: true, ..switch }.decide(), None);
        assert_eq!(Switch { is_alone: false, ..switch }.decide(), None);
        assert_eq!(Switch { kernel: 1, ..switch }.decide(), Some(Err(Reason::Evidence)));
    }
}
