//! The way back to TCP, as `lower.rs` and `backlog.rs` of the library have it.

use weft_sockets::ToDaemon;
use weft_sockets_stepped::end::{FAR, Phase, SHUT, STAYS};
use weft_sockets_stepped::sync::Ordering::Relaxed;
use weft_sockets_stepped::{Broken, Carrier, Inbound, Outbound, Reason, Sink, Source};

use super::end::{End, enter_kernel};
use super::process::{ALL, LinkView};
use super::sabotage::Sabotage;
use super::service::Post;
use super::watch::owes;
use super::world::Waits;

impl End {
    /// Takes both directions back to TCP, for a program without the library. Returns false if the other end does not come
    /// along within 30 seconds, and takes no octet in that time: then the connection is reset.
    pub(crate) fn lower(&self) -> bool {
        self.words().identity.flags.fetch_or(STAYS, Relaxed);
        self.withdraw();
        let start = self.world.now.get();
        let mut is_lowered = self.words().state().phase != Phase::Offered;
        while !is_lowered {
            let before = self.untaken();
            let until = self.world.now.get() + 30_000_000;
            is_lowered = self.lower_outbound(until) && self.lower_inbound(until);
            if !is_lowered && !(1..before).contains(&self.untaken()) {
                break;
            }
        }
        if !is_lowered {
            self.judge_lowering(start);
            self.reset();
        }
        self.world.tally.borrow_mut().operation(if is_lowered { "lowered" } else { "not lowered" }, 0);
        self.world.note(format_args!("{self} is lowered: {is_lowered}"));
        is_lowered
    }

    /// Returns how many octets its reader has to take before the sending direction is back on TCP.
    fn untaken(&self) -> u64 {
        let Some(link) = self.link().filter(|_| self.out_gate().is_closed()) else { return 0 };
        let outbound = self.outbound(&link);
        let rest = || outbound.backlog().map_or(0, |pieces| pieces.iter().map(|(_, len)| *len as u64).sum());
        let in_ring = if outbound.sink() == Sink::Ring { outbound.unread().unwrap_or(0) } else { rest() };
        self.world.kernel.borrow().queued(self.socket() ^ 1) as u64 + in_ring
    }

    /// The way back to TCP has failed. Between hosts the other end need not do anything for it.
    fn judge_lowering(&self, start: u64) {
        if !self.words().has(FAR) || self.connection.is_excused() {
            return;
        }
        let (kernel, socket) = (self.world.kernel.borrow(), self.socket());
        let is_held_up = [socket, socket ^ 1].into_iter().any(|socket| kernel.queued_here(socket) > 0);
        drop(kernel);
        // A record may have to wait until octets before it have arrived, and the reader takes none while it waits.
        if is_held_up {
            self.world.tally.borrow_mut().fault("record behind octets that nobody takes", 1);
        } else if self.is_too_long(start.max(self.connection.busy_until[1 - self.side].get())) {
            self.world.fail(format!("{self}: does not come back to TCP"));
        }
    }

    /// Gives the connection up.
    pub(crate) fn reset(&self) {
        self.connection.excuse();
        let arrival = self.world.later();
        self.world.kernel.borrow_mut().reset(self.socket(), arrival);
    }

    /// Takes the claim back.
    pub(crate) fn withdraw(&self) {
        let state = self.words().state();
        if state.phase == Phase::Claimed && self.words().advance(state, Phase::Plain) {
            let (slot, generation) = (self.slot, self.generation);
            self.process.tell(&self.world, Post::Other(ToDaemon::Withdraw { slot, generation }, None));
        }
    }

    fn lower_outbound(&self, until: u64) -> bool {
        let Some(link) = self.link() else { return true };
        let outbound = self.outbound(&link);
        let step = || -> Result<bool, Broken> {
            let is_back = self.answer(&link, &outbound)?
                || outbound.sink() == Sink::Tcp
                || self.leave_ring(&outbound)?;
            Ok(is_back && self.go_back(&link, &outbound)?)
        };
        self.look_until(until, || {
            let section = self.out_section(&outbound);
            let is_over = || match outbound.sink() {
                Sink::Ring => self.is_deserted(),
                // Behind the answer, the other end may be a program without the library: its stream ends without a word.
                Sink::Tcp => self.world.kernel.borrow().is_broken(self.socket()),
            };
            let is_done = step().map(|is_lowered| is_lowered || is_over());
            self.leave(section);
            self.tell_reader_of(&outbound);
            match is_done {
                Ok(is_done) => is_done.then_some(true),
                // The rest of a ring cannot go behind what went by TCP already.
                Err(Broken) => Some(false),
            }
        })
    }

    fn lower_inbound(&self, until: u64) -> bool {
        let Some(link) = self.link() else { return true };
        let (gate, inbound) = (self.in_gate(), self.inbound(&link));
        if !gate.is_closed() {
            inbound.decline();
            self.tell_sender_of(&inbound);
            return true;
        }
        let section = self.in_section(&inbound);
        let has_left = || self.settle(&inbound) == Ok(true) && inbound.skip() == 0;
        // Another host's sender may have begun a ring of which this host does not know yet.
        let is_lowered = !self.words().has(FAR) && inbound.withdraw()
            || inbound.is_at_end()
            || has_left()
            || inbound.follow() && inbound.skip() == 0
            || self.ask(&inbound, until);
        if is_lowered {
            gate.open();
        }
        self.leave(section);
        is_lowered
    }

    /// Asks the sender for TCP, and waits for its answer.
    fn ask(&self, inbound: &Inbound<'_>, until: u64) -> bool {
        inbound.ask_back();
        let start = self.world.now.get();
        let mut looks = 0_u32;
        let mut asked = start;
        let is_lowered = self.look_until(until, || {
            self.ask_again(inbound, &mut asked);
            if looks.is_multiple_of(4) && self.world.sabotage != Some(Sabotage::WakeOfQuestion) {
                self.tell_sender_of(inbound);
                self.process.wake(&self.world, self.place(), ALL);
            }
            looks += 1;
            self.obey();
            // Before the look at the answer: behind its end or its death, the sender cannot answer any more.
            let is_dead = self.is_deserted();
            let is_final = inbound.end().is_some();
            if self.settle(inbound) != Ok(false) {
                // What follows the record is on its way.
                (inbound.skip() == 0 || is_dead).then(|| inbound.skip() == 0)
            } else if inbound.is_answered() && self.words().has(FAR) {
                // In a ring, the record is the answer.
                inbound.is_before_ring().then(|| inbound.remain()).map(|()| true)
            } else if inbound.is_answered() {
                Some(inbound.come_back().is_ok())
            } else if is_final && self.is_ended_by_tcp(inbound) {
                inbound.remain();
                Some(true)
            } else if is_final {
                Some(inbound.is_at_end())
            } else if inbound.follow() {
                Some(true)
            } else {
                let is_in_ring = self.words().inbound.leg().carrier != Carrier::Tcp;
                let may_be_ring = is_in_ring || inbound.expects_ring();
                let may_miss = || may_be_ring && self.is_late() || self.may_follow(inbound);
                is_dead.then(|| inbound.available(1) == Ok(0) && !may_miss())
            }
        });
        if !is_lowered {
            // A far sender may answer without a record, as long as the reader has not come to a ring. So it stays asked.
            if !self.words().has(FAR) || !inbound.is_before_ring() {
                inbound.ask_no_more();
            }
            self.tell_sender_of(inbound);
        } else if !self.connection.is_excused()
            && self.is_too_long(start.max(self.connection.busy_until[1 - self.side].get()))
        {
            self.world.fail(format!("{self}: the other end sleeps over a question"));
        }
        is_lowered
    }

    /// Asks a far sender once more, if it has not answered for a while and no record can be the answer.
    fn ask_again(&self, inbound: &Inbound<'_>, asked: &mut u64) {
        let now = self.world.now.get();
        let is_due = self.words().has(FAR) && inbound.is_before_ring() && now >= *asked + AGAIN;
        if !is_due {
            return;
        }
        *asked = now;
        // The daemon's welcome: it has to be shown the link, by which it answers.
        self.look_for_mail();
        if self.process.open_port(&self.world) {
            let (slot, generation) = (self.slot, self.generation);
            self.process.tell(&self.world, Post::Other(ToDaemon::Ask { slot, generation }, None));
        }
    }

    /// True if a far sender has ended its stream and has never begun a ring. The end is told behind each ring.
    fn is_ended_by_tcp(&self, inbound: &Inbound<'_>) -> bool {
        self.words().has(FAR)
            && inbound.is_before_ring()
            && matches!(inbound.source(), Ok(Source::Tcp { left: None }))
    }

    /// Takes the sending direction back to TCP if its reader has asked for that.
    pub(crate) fn obey(&self) {
        let Some(link) = self.link().filter(|_| self.words().state().phase == Phase::Offered) else { return };
        let outbound = self.outbound(&link);
        let is_due = outbound.is_asked_back() && (outbound.is_attached() != Some(false) || owes(&outbound));
        // No reader asks before the first ring.
        if !is_due || self.words().outbound.leg().number == 0 {
            return;
        }
        let section = self.out_section(&outbound);
        let obeyed = self.answer(&link, &outbound);
        if obeyed == Ok(true) {
            self.words().stay(Reason::Refused);
            let _is_out = self.go_back(&link, &outbound);
        }
        self.leave(section);
        self.tell_reader_of(&outbound);
        if obeyed.is_err() {
            self.reset();
        }
    }

    /// Answers a question for TCP. Of a far end the daemon may ask, because nobody carries the octets any more.
    pub(crate) fn answer(&self, link: &LinkView, outbound: &Outbound<'_>) -> Result<bool, Broken> {
        if self.words().has(FAR) {
            return Ok(outbound.is_asked_back() && outbound.depart()?);
        }
        if outbound.owes_rest()? && !self.give_rest(link, outbound)? {
            return Ok(false);
        }
        outbound.obey()
    }

    /// Takes the sending direction back to TCP, for good: a far one behind a record, at once, and another one if its reader
    /// is in the current leg. Returns false if it stays. A far stream that has ended needs no way back.
    fn leave_ring(&self, outbound: &Outbound<'_>) -> Result<bool, Broken> {
        if self.words().has(FAR) {
            Ok(outbound.depart()? || outbound.is_ended())
        } else {
            outbound.begin_leg(Carrier::Tcp)
        }
    }

    /// Sends the rest of a ring that this sender has left by itself. Returns false if that is not all out yet. The reader
    /// waits for the answer, and gets it only if no other program's octets have come between.
    fn give_rest(&self, link: &LinkView, outbound: &Outbound<'_>) -> Result<bool, Broken> {
        let gate = self.out_gate();
        if !gate.is_closed() && !gate.try_close() {
            return Ok(false);
        }
        if !self.is_untouched() {
            return Err(Broken);
        }
        outbound.give_back()?;
        let is_out = self.send_backlog(link, outbound)?.is_none();
        if self.is_untouched() { Ok(is_out) } else { Err(Broken) }
    }

    /// True if no other program has written to the kernel's socket.
    pub(crate) fn is_untouched(&self) -> bool {
        let words = self.words();
        let written = words.outbound.written.load(Relaxed) + words.outbound.kernel.load(Relaxed);
        let own = written - words.counts.out_ring.load(Relaxed);
        enter_kernel();
        self.world.kernel.borrow().counts(self.socket()).0 == own
    }

    pub(crate) fn is_shut(&self) -> bool {
        self.words().outbound.flags.load(Relaxed) & SHUT != 0
    }

    /// Sends what the reader has left in the ring. Behind it the sender is free to use the kernel's socket.
    pub(crate) fn go_back(&self, link: &LinkView, outbound: &Outbound<'_>) -> Result<bool, Broken> {
        let is_out = self.send_backlog(link, outbound)?.is_none();
        if is_out && self.out_gate().is_closed() {
            self.out_gate().open();
        }
        Ok(is_out)
    }

    /// True if the process at the other end is dead, so that it does not answer.
    fn is_deserted(&self) -> bool {
        let Some(link) = self.link() else { return false };
        enter_kernel();
        let (kernel, socket) = (self.world.kernel.borrow(), self.socket());
        let has_failed = kernel.has_failed(socket);
        let is_over = kernel.is_ended(socket) || kernel.is_broken(socket);
        drop(kernel);
        // The sender says so before the kernel does.
        has_failed || is_over && self.inbound(&link).end().is_none() && !self.is_early()
    }

    pub(crate) fn look_until(&self, until: u64, mut look: impl FnMut() -> Option<bool>) -> bool {
        let mut pause = 20;
        loop {
            if let Some(answer) = look() {
                return answer;
            }
            let now = self.world.now.get();
            if now >= until {
                return false;
            }
            self.world.wait(Waits { until: Some(now + pause), ..Waits::default() });
            pause = (pause * 2).min(100_000);
        }
    }
}

/// The time behind which a far sender is asked again, in microseconds.
const AGAIN: u64 = 200_000;
