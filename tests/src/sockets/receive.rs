//! Receives of a program, by TCP up to the ring and then from the ring, as the library does them.

use weft_sockets_stepped::{Broken, Inbound, Reason, Source};

use super::end::{End, enter_kernel};
use super::kernel::Anchor;
use super::transfer::Step;

impl End {
    /// Receives up to `len` octets.
    pub(crate) fn receive(&self, len: usize) -> Step {
        let gate = self.in_gate();
        if gate.enter() {
            enter_kernel();
            let taken = self.receive_by_kernel(len);
            if let Step::Moved(octets) = taken {
                self.words().inbound.count(octets as u64);
            }
            gate.leave();
            if let Step::Moved(_) = taken {
                self.moved();
            }
            return taken;
        }
        match self.take(len) {
            Step::Nothing => self.look_at_anchor(len),
            step => step,
        }
    }

    /// Receives as a program without the library does.
    pub(crate) fn receive_by_kernel(&self, len: usize) -> Step {
        let taken = self.world.kernel.borrow_mut().receive(self.socket(), len);
        match taken {
            Ok(octets) if octets.is_empty() => Step::End,
            Ok(octets) => {
                self.check(&octets);
                Step::Moved(octets.len())
            }
            Err(failed) => failed.into(),
        }
    }

    fn check(&self, octets: &[u8]) {
        let mut direction = self.connection.directions[1 - self.side].borrow_mut();
        direction.room_at = self.world.now.get();
        let taken = direction.take(octets);
        drop(direction);
        if let Err(wrong) = taken {
            self.world.fail(format!("{self}: {wrong}"));
        }
    }

    fn take(&self, len: usize) -> Step {
        self.in_inbound(|inbound| match inbound.source()? {
            Source::Tcp { left } => {
                let Some(most) = self.most(inbound)? else { return Ok(Step::Nothing) };
                enter_kernel();
                let most = left.and_then(|left| usize::try_from(left).ok()).unwrap_or(most).min(len);
                let step = self.receive_by_kernel(most);
                if let Step::Moved(octets) = step {
                    self.words().inbound.count(octets as u64);
                }
                if step != Step::End {
                    return Ok(step);
                }
                if !self.is_dead() && self.hides() {
                    return Ok(Step::Nothing);
                }
                // A ring may have begun on the other host.
                let is_lost = self.is_late() && self.words().inbound.leg().number == 0;
                // The sender may have begun a ring, and ended the stream, behind the look.
                Ok(match inbound.source()? {
                    Source::Tcp { left }
                        if !self.is_dead() && (left.is_some() || is_lost || inbound.skip() > 0) =>
                    {
                        self.excuse_late();
                        self.bury();
                        Step::Failed
                    }
                    Source::Tcp { .. } => Step::End,
                    Source::Ring { .. } => Step::Moved(0),
                })
            }
            Source::Ring { available: 0 } if self.is_broken_by_link() => Err(Broken),
            Source::Ring { available: 0 } if inbound.is_at_end() => Ok(match self.receive_by_kernel(len) {
                Step::Nothing => Step::End,
                step => step,
            }),
            Source::Ring { available: 0 } => Ok(Step::Nothing),
            Source::Ring { .. } => {
                self.connection.directions[1 - self.side].borrow_mut().room_at = self.world.now.get();
                let mut octets = vec![0; len];
                let taken = inbound.read(&mut octets)?;
                self.check(&octets[..taken]);
                inbound.stay_awake();
                Ok(Step::Moved(taken))
            }
        })
    }

    /// Asks the kernel's socket below an empty ring whether the other end lives.
    fn look_at_anchor(&self, len: usize) -> Step {
        enter_kernel();
        if !self.world.kernel.borrow().is_readable(self.socket()) || self.hides() {
            return Step::Nothing;
        }
        // What the other end wrote to the ring before comes first.
        self.in_inbound(|inbound| match inbound.source()? {
            EMPTY if self.settle(inbound)? => Ok(Step::Moved(0)),
            EMPTY => self.ask_anchor(inbound, len),
            _ => Ok(Step::Moved(0)),
        })
    }

    /// Receives what the kernel's socket below an empty ring has.
    fn ask_anchor(&self, inbound: &Inbound<'_>, len: usize) -> Result<Step, Broken> {
        enter_kernel();
        let look = self.world.kernel.borrow_mut().look(self.socket());
        // Another reader may have come to a ring since the news were looked at. In a ring they may not count yet.
        let hides = self.hides();
        // Before the look at the ring: the octets come before the word of their end.
        let is_final = inbound.end().is_some();
        let is_lost = self.is_late();
        Ok(match look {
            Anchor::Silent => Step::Nothing,
            Anchor::Failed => {
                self.bury();
                Step::Failed
            }
            // What came to the ring since the look comes first.
            _ if inbound.source()? != EMPTY => Step::Moved(0),
            _ if hides => Step::Nothing,
            Anchor::Foreign => {
                self.words().stay(Reason::Foreign);
                self.receive_by_kernel(len)
            }
            Anchor::Ended if self.is_dead() || is_final || !is_lost && !self.has_unread() => Step::End,
            Anchor::Ended => {
                self.excuse_late();
                self.bury();
                Step::Failed
            }
        })
    }
}

/// A ring that has nothing to read.
const EMPTY: Source = Source::Ring { available: 0 };
