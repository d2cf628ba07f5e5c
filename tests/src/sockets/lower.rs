//! The way back to TCP, and closing, as the library does them.

use weft_sockets::ToDaemon;
use weft_sockets_stepped::end::{FAR, Phase, SHUT, STAYS};
use weft_sockets_stepped::sync::Ordering::Relaxed;
use weft_sockets_stepped::{Broken, Carrier, Inbound, Outbound, Reason, Sink, Source};

use super::end::{End, enter_kernel};
use super::process::{ALL, LinkView};
use super::sabotage::Sabotage;
use super::service::Post;
use super::transfer::Step;
use super::world::Waits;

impl End {
    /// Takes both directions back to TCP, for a program without the library. Returns false if the other end does not come
    /// along within 30 seconds: then the connection is reset.
    pub(crate) fn lower(&self) -> bool {
        self.words().identity.flags.fetch_or(STAYS, Relaxed);
        self.withdraw();
        let until = self.world.now.get() + 30_000_000;
        let is_lowered = self.words().state().phase != Phase::Offered
            || self.lower_outbound(until) && self.lower_inbound(until);
        if !is_lowered {
            self.reset();
        }
        self.world.tally.borrow_mut().operation(if is_lowered { "lowered" } else { "not lowered" }, 0);
        self.world.note(format_args!("{self} is lowered: {is_lowered}"));
        is_lowered
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
                || outbound.begin_leg(Carrier::Tcp)?;
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
        // Another host's sender may have begun a ring of which this host does not know yet.
        let is_lowered = !self.words().has(FAR) && inbound.withdraw()
            || inbound.is_at_end()
            || inbound.follow()
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
        let is_lowered = self.look_until(until, || {
            if looks.is_multiple_of(4) && self.world.sabotage != Some(Sabotage::WakeOfQuestion) {
                self.tell_sender_of(inbound);
                self.process.wake(&self.world, self.place(), ALL);
            }
            looks += 1;
            self.obey();
            // Before the look at the answer: behind its end or its death, the sender cannot answer any more.
            let is_dead = self.is_deserted();
            let is_final = inbound.end().is_some();
            if inbound.is_answered() {
                Some(inbound.come_back().is_ok())
            } else if is_final {
                Some(inbound.is_at_end())
            } else if inbound.follow() {
                Some(true)
            } else {
                is_dead.then(|| inbound.available(1) == Ok(0))
            }
        });
        if !is_lowered {
            inbound.ask_no_more();
            self.tell_sender_of(inbound);
        } else if self.is_too_long(start.max(self.connection.busy_until[1 - self.side].get())) {
            self.world.fail(format!("{self}: the other end sleeps over a question"));
        }
        is_lowered
    }

    /// Takes the sending direction back to TCP if its reader has asked for that.
    pub(crate) fn obey(&self) {
        let Some(link) = self.link().filter(|_| self.words().state().phase == Phase::Offered) else { return };
        let outbound = self.outbound(&link);
        let is_due = outbound.is_asked_back()
            && (outbound.is_attached() != Some(false) || outbound.backlog().is_some());
        if !is_due {
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

    /// Answers a question for TCP.
    pub(crate) fn answer(&self, link: &LinkView, outbound: &Outbound<'_>) -> Result<bool, Broken> {
        if outbound.owes_rest()? && !self.give_rest(link, outbound)? {
            return Ok(false);
        }
        outbound.obey()
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
        let own = words.outbound.written.load(Relaxed) - words.counts.out_ring.load(Relaxed);
        enter_kernel();
        self.world.kernel.borrow().counts(self.socket()).0 == own
    }

    pub(crate) fn is_shut(&self) -> bool {
        self.words().outbound.flags.load(Relaxed) & SHUT != 0
    }

    /// Sends what the reader has left in the ring. Behind it the sender is free to use the kernel's socket.
    fn go_back(&self, link: &LinkView, outbound: &Outbound<'_>) -> Result<bool, Broken> {
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

    fn look_until(&self, until: u64, mut look: impl FnMut() -> Option<bool>) -> bool {
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

    /// Shuts the sending direction down as a program without the library does.
    pub(crate) fn shut_down_bare(&self) {
        enter_kernel();
        let arrival = self.world.later();
        self.world.kernel.borrow_mut().shut_down(self.socket(), arrival);
    }

    /// Shuts the sending direction down.
    pub(crate) fn shut_down(&self) {
        self.finish();
        self.words().outbound.flags.fetch_or(SHUT, Relaxed);
        // Another thread may have sent meanwhile, or heard of the channel.
        self.finish();
        self.shut_down_bare();
    }

    /// Tells the reader where the stream ends, if there is a channel.
    pub(crate) fn finish(&self) {
        if self.link().is_some() && self.words().state().phase == Phase::Offered {
            self.obey();
            let until = self.world.now.get() + FULL_BUFFER;
            let _is_told = self.look_until(until + 1, || {
                let is_last = self.world.now.get() >= until;
                (self.finish_now(is_last) != Step::Nothing).then_some(true)
            });
        }
    }

    /// Tells the reader where the stream ends, behind what has to go by the kernel's socket before that. `Nothing`: the kernel
    /// does not take all of that yet. With `is_last` the connection is reset then.
    fn finish_now(&self, is_last: bool) -> Step {
        self.in_outbound(|link, outbound| {
            match self.send_backlog(link, outbound)? {
                None => {}
                Some(Step::Nothing) if !is_last => return Ok(Step::Nothing),
                Some(_) => self.reset(),
            }
            outbound.finish()?;
            Ok(Step::End)
        })
    }

    /// Closes the descriptor of this process.
    pub(crate) fn close(&self) {
        let (words, socket) = (self.words(), self.socket());
        let is_last = self.is_held_alone();
        if words.state().phase == Phase::Offered && is_last {
            self.say_goodbye();
        }
        let state = words.state();
        if words.holders.remove(self.process.member)
            && words.advance(state, Phase::Closed)
            && words.advance(state.with(Phase::Closed), Phase::Free)
        {
            let (slot, generation, (link, party)) = (self.slot, self.generation, self.place());
            let (channel, party) = (words.identity.channel.load(Relaxed), u8::from(party == 1));
            let message = match state.phase {
                Phase::Offered => ToDaemon::Closed { slot, generation, link, channel, party },
                // An offer may be on its way.
                _ => ToDaemon::Withdraw { slot, generation },
            };
            self.process.tell(&self.world, Post::Other(message, None));
        }
        enter_kernel();
        self.process.sockets.borrow_mut().retain(|held| *held != socket);
        let arrival = self.world.later();
        self.world.kernel.borrow_mut().release(socket, arrival);
        self.world.note(format_args!("{self} closes"));
    }

    fn say_goodbye(&self) {
        let Some(link) = self.link() else { return };
        let mut has_unread = false;
        if self.in_gate().is_closed() {
            self.in_inbound(|inbound| {
                has_unread = matches!(inbound.source()?, Source::Ring { available: 1.. });
                Ok(Step::Nothing)
            });
        }
        if !has_unread {
            self.finish();
        }
        // Of a direction by TCP the kernel tells: another program may go on with it.
        if self.in_gate().is_closed() {
            let outbound = self.outbound(&link);
            outbound.reset();
            self.process.wake(&self.world, self.place(), outbound.sleepers());
        }
        if has_unread {
            let arrival = self.world.later();
            self.world.kernel.borrow_mut().reset(self.socket(), arrival);
        }
    }
}

/// How long the end of a stream waits until the kernel's socket has room for what comes before it, in microseconds.
const FULL_BUFFER: u64 = 5_000_000;
