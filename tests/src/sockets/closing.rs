//! What the other end hears when a program is done with a connection, as the library tells it.

use weft_sockets::ToDaemon;
use weft_sockets_stepped::end::{FAR, Phase, SHUT};
use weft_sockets_stepped::sync::Ordering::Relaxed;
use weft_sockets_stepped::{Outbound, Sink, Source};

use super::end::{End, enter_kernel};
use super::kernel::CAPACITY;
use super::service::Post;
use super::transfer::Step;

impl End {
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
        self.look_for_mail();
        // Another thread may have sent meanwhile, or heard of the channel.
        self.finish();
        self.shut_down_bare();
    }

    /// Tells the reader where the stream ends, if there is a channel.
    pub(crate) fn finish(&self) {
        if self.link().is_some() && self.words().state().phase == Phase::Offered {
            self.obey();
            self.renounce_at_end();
            self.wait_for_room();
            let until = self.world.now.get() + FULL_BUFFER;
            let _is_told = self.look_until(until + 1, || {
                let is_last = self.world.now.get() >= until;
                (self.finish_now(is_last) != Step::Nothing).then_some(true)
            });
        }
    }

    /// Tells a far reader that waits for a ring that none comes, if nobody else can: it could not tell the end of the stream
    /// from a loss. Waits for a while until all octets have arrived.
    fn renounce_at_end(&self) {
        if !self.words().has(FAR) {
            return;
        }
        let until = self.world.now.get() + LAST_OCTETS;
        let _is_told = self.look_until(until, || {
            let is_done = self.renounce(true);
            let kernel = self.world.kernel.borrow();
            (is_done || kernel.has_arrived(self.socket()) || kernel.is_broken(self.socket())).then_some(true)
        });
    }

    /// Waits for a while until the last octets of a far end's stream fit into the kernel's buffer. If its daemon dies
    /// meanwhile, they go by the kernel's socket.
    fn wait_for_room(&self) {
        let Some(link) = self.link().filter(|_| self.out_gate().is_closed()) else { return };
        if !self.words().has(FAR) || self.is_shut() {
            return;
        }
        let outbound = self.outbound(&link);
        let until = self.world.now.get() + LAST_OCTETS;
        let _fits = self.look_until(until, || {
            let _left = self.watch();
            let is_ring = outbound.sink() == Sink::Ring;
            let is_broken = self.world.kernel.borrow().is_broken(self.socket());
            (!is_ring || is_broken || outbound.unread().is_ok_and(fits)).then_some(true)
        });
    }

    /// Tells the reader where the stream ends, behind what has to go by the kernel's socket before that. `Nothing`: the
    /// kernel does not take all of that yet. With `is_last` the connection is reset then.
    fn finish_now(&self, is_last: bool) -> Step {
        self.in_outbound(|link, outbound| {
            if self.may_depart(outbound) {
                self.world.tally.borrow_mut().operation("end by a record", 0);
                outbound.depart_at_end()?;
            } else if self.words().has(FAR) && outbound.sink() == Sink::Ring {
                outbound.obey_at_end()?;
            }
            match self.send_backlog(link, outbound)? {
                None => {}
                Some(Step::Nothing) if !is_last => return Ok(Step::Nothing),
                Some(_) => self.reset(),
            }
            outbound.finish()?;
            Ok(Step::End)
        })
    }

    /// True if the last octets of a far end's stream are to go by the kernel's socket, too.
    fn may_depart(&self, outbound: &Outbound<'_>) -> bool {
        enter_kernel();
        let is_silent = self.world.kernel.borrow().has_arrived(self.socket());
        if !self.words().has(FAR) || outbound.sink() != Sink::Ring || !is_silent {
            return false;
        }
        let is_unknown = !outbound.was_adopted() && !self.process.has_daemon(&self.world);
        let is_expected = is_unknown || outbound.is_adopted();
        is_expected && outbound.unread().is_ok_and(|octets| (octets > 0 || is_unknown) && fits(octets))
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

/// True if the kernel's buffer has room for so many octets.
const fn fits(octets: u64) -> bool {
    octets <= CAPACITY as u64 / 2
}

/// How long the end of a stream waits until the kernel's socket has room for what comes before it, in microseconds.
const FULL_BUFFER: u64 = 5_000_000;
/// How long the end of a stream waits until the last octets fit into the kernel's buffer, in microseconds.
const LAST_OCTETS: u64 = 2_000_000;
