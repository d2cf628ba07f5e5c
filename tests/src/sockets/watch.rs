//! How an end looks after what it has under way to another host, as `watch.rs` and `pulse.rs` of the library have it.

use weft_sockets_stepped::end::FAR;
use weft_sockets_stepped::sync::Ordering::Relaxed;
use weft_sockets_stepped::{Outbound, Reason, Sink};

use super::end::End;
use super::sabotage::Sabotage;

impl End {
    /// Looks after the sending direction. Returns the microseconds until it has to be looked after again.
    pub(crate) fn watch(&self) -> u64 {
        if !self.words().has(FAR) {
            return u64::MAX;
        }
        self.obey();
        let Some(link) = self.link().filter(|_| self.out_gate().is_closed()) else { return u64::MAX };
        let outbound = self.outbound(&link);
        if outbound.sink() == Sink::Tcp {
            return if owes(&outbound) { OWING } else { u64::MAX };
        }
        if outbound.unread() == Ok(0) {
            self.words().counts.pulse.store(0, Relaxed);
            return u64::MAX;
        }
        let patience = if self.process.has_daemon(&self.world) { PATIENCE } else { GRACE };
        if self.silence() >= patience && self.world.sabotage != Some(Sabotage::Silence) {
            // A stream that has ended stays where it is: the kernel takes nothing behind its end.
            return if self.depart(&outbound) { OWING } else { u64::MAX };
        }
        // A daemon that sleeps has to show that it is alive.
        self.tell_reader_of(&outbound);
        UNDER_WAY
    }

    /// Takes a direction back to TCP whose daemon does not carry it any more. Returns false if it stays.
    fn depart(&self, outbound: &Outbound<'_>) -> bool {
        let Some(link) = self.link() else { return false };
        let section = self.out_section(outbound);
        let departed = outbound.depart();
        if departed == Ok(true) {
            self.words().stay(Reason::Lane);
            let _is_out = self.go_back(&link, outbound);
            self.world.tally.borrow_mut().operation("daemon found silent", 0);
            self.world.note(format_args!("{self} sends by TCP again, its daemon is silent"));
        }
        self.leave(section);
        if departed.is_err() {
            self.reset();
        }
        departed == Ok(true)
    }

    /// Notes that the end has octets under way. Returns for how many milliseconds its daemon has been silent since then.
    fn silence(&self) -> u32 {
        let (beat, now) = (self.beat(), self.milliseconds());
        let word = self.words().counts.pulse.load(Relaxed);
        let [since, seen] = [word, word >> 32].map(low_half);
        if word == 0 || seen != beat {
            self.note_beat(beat, now);
            return 0;
        }
        now.wrapping_sub(since)
    }

    /// The other end has lost its lane, or does without. If this end's daemon shows no heartbeat from now on, it has been
    /// silent for long enough.
    pub(crate) fn suspect(&self) {
        self.note_beat(self.beat(), self.milliseconds().wrapping_sub(PATIENCE));
    }

    fn note_beat(&self, beat: u32, since: u32) {
        self.words().counts.pulse.store(u64::from(beat) << 32 | u64::from(since.max(1)), Relaxed);
    }

    /// The low half of the heartbeat.
    fn beat(&self) -> u32 {
        self.link().map_or(0, |link| low_half(link.memory.header().heartbeat.load(Relaxed)))
    }
}

/// True if a record or the rest of a ring has to go out before all else.
pub(crate) fn owes(outbound: &Outbound<'_>) -> bool {
    outbound.record().is_some() || outbound.backlog().is_some()
}

fn low_half(number: u64) -> u32 {
    u32::try_from(number & u64::from(u32::MAX)).unwrap_or(0)
}

/// The time between two looks, in microseconds.
const UNDER_WAY: u64 = 500_000;
/// An end has to send by the kernel's socket what that did not take at once.
const OWING: u64 = 10_000;
/// How long a daemon may be silent, in milliseconds, and one that is dead.
const PATIENCE: u32 = 5000;
const GRACE: u32 = 1000;
