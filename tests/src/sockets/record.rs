//! Records: how a sender between hosts tells that it goes back to TCP, as `record.rs` of the library has it.

use weft_sockets_stepped::end::FAR;
use weft_sockets_stepped::sync::Ordering::Relaxed;
use weft_sockets_stepped::{Broken, Carrier, Cause, Inbound, Outbound, Record, Secret};

use super::end::{End, enter_kernel};
use super::kernel::CAPACITY;
use super::sabotage::Sabotage;
use super::transfer::Step;

/// What the kernel's word of octets means once a record, and what the reader has already, is taken off them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sifted {
    /// It is as it was.
    Same,
    /// Nothing is left for the reader.
    Nothing,
    /// The sender broke a rule. The next receive hears of that.
    Broken,
}

impl End {
    /// Keeps what the records of a channel begin with.
    pub(crate) fn keep(end: &weft_sockets_stepped::layout::End, secret: Secret) {
        end.identity.secret.iter().zip(secret).for_each(|(to, from)| to.store(from, Relaxed));
    }

    /// Sends the record that is due. Returns a step if the kernel does not take it now.
    pub(crate) fn send_record(&self, outbound: &Outbound<'_>) -> Option<Step> {
        let record = outbound.record()?;
        if self.is_record_early(outbound) {
            return Some(Step::Nothing);
        }
        enter_kernel();
        let arrival = self.world.later();
        let octets = record.encode(self.secret());
        let sent = self.world.kernel.borrow_mut().send_whole(self.socket(), &octets, arrival);
        if let Err(failed) = sent {
            return Some(failed.into());
        }
        outbound.record_sent();
        self.world.tally.borrow_mut().operation("record", 0);
        self.world.note(format_args!("{self} sends {record:?}"));
        None
    }

    /// True if the record that is due may not go out yet: octets before it have not arrived, and a reader that may know of
    /// no ring has to find it in one piece.
    pub(crate) fn is_record_early(&self, outbound: &Outbound<'_>) -> bool {
        outbound.record().is_some()
            && !outbound.was_adopted()
            && !self.world.kernel.borrow().has_arrived(self.socket())
    }

    /// Leaves the ring if the kernel's socket has a record, and drops what the reader has already. Returns true if the
    /// reader has left the ring by now.
    pub(crate) fn settle(&self, inbound: &Inbound<'_>) -> Result<bool, Broken> {
        if !inbound.has_left() {
            let is_in_ring = self.words().inbound.leg().carrier != Carrier::Tcp;
            if !self.words().has(FAR) || !is_in_ring && !inbound.expects_ring() {
                return Ok(false);
            }
            let seen = self.peek(Record::LEN);
            return self.leave_behind(&seen, inbound);
        }
        self.drop_known(inbound);
        Ok(true)
    }

    /// Leaves the ring if these octets, the next ones of the kernel's stream, are a record. As `settle`.
    fn leave_behind(&self, seen: &[u8], inbound: &Inbound<'_>) -> Result<bool, Broken> {
        let Ok(Some(record)) = Record::decode(seen, self.secret()) else { return Ok(false) };
        inbound.leave(record)?;
        if let Some(reason) = record.cause.reason() {
            self.words().stay(reason);
        }
        self.words().inbound.early.store(0, Relaxed);
        if record.cause == Cause::Lost {
            self.suspect();
        }
        if self.world.sabotage == Some(Sabotage::Known) {
            inbound.skipped(inbound.skip() - Record::LEN as u64);
            _ = self.world.kernel.borrow_mut().receive(self.socket(), Record::LEN);
        }
        self.world.note(format_args!("{self} finds {record:?}"));
        self.drop_known(inbound);
        Ok(true)
    }

    /// Returns how many octets a reader may receive by the kernel's socket now, so that it stops before a record, or `None`
    /// if there is nothing that it may take.
    pub(crate) fn most(&self, inbound: &Inbound<'_>) -> Result<Option<usize>, Broken> {
        if !self.words().has(FAR) {
            return Ok(Some(usize::MAX));
        }
        let all_settled = || self.is_settled(inbound).then_some(usize::MAX);
        if !inbound.is_before_decision() {
            return Ok(if self.settle(inbound)? { all_settled() } else { Some(usize::MAX) });
        }
        let seen = self.peek(AT_A_TIME);
        if self.leave_behind(&seen, inbound)? {
            return Ok(all_settled());
        }
        if seen.is_empty() {
            // A record may have come before the end since the look.
            let is_over = self.is_over() && self.peek(Record::LEN).is_empty();
            return Ok(is_over.then_some(usize::MAX));
        }
        Ok(Some(match Record::find(&seen, self.secret()) {
            Some(place) => place,
            // A record may begin at the end of what was seen.
            None if seen.len() == AT_A_TIME => seen.len() - Record::LEN,
            None => seen.len(),
        }))
    }

    /// True if all that the reader has already is dropped, or nothing more of it comes.
    fn is_settled(&self, inbound: &Inbound<'_>) -> bool {
        if inbound.skip() == 0 {
            return true;
        }
        let is_over = self.is_over();
        // Octets may have come before the end since the reader dropped some.
        self.drop_known(inbound);
        is_over || inbound.skip() == 0
    }

    /// True if a record may stand in the kernel's stream, behind the next octets.
    pub(crate) fn may_follow(&self, inbound: &Inbound<'_>) -> bool {
        if !self.words().has(FAR) || !inbound.expects_ring() {
            return false;
        }
        let seen = self.peek(CAPACITY);
        Record::find(&seen, self.secret()).is_some()
    }

    /// Takes a record and the octets that the reader has already, if the kernel's socket tells of octets. `is_end`: it also
    /// tells that nothing follows them.
    pub(crate) fn sift(&self, is_readable: bool, is_end: bool) -> Sifted {
        let Some(link) = self.link().filter(|_| is_readable && self.in_gate().is_closed()) else {
            return Sifted::Same;
        };
        let inbound = self.inbound(&link);
        // A thread that is in a section of the direction looks there.
        let Some(section) = self.try_in_section(&inbound) else { return Sifted::Same };
        let is_done = inbound.has_left() && inbound.skip() == 0;
        let settled = if is_done { Ok(false) } else { self.settle(&inbound) };
        self.leave(section);
        let is_empty = || inbound.skip() > 0 || self.world.kernel.borrow().queued_here(self.socket()) == 0;
        match settled {
            Err(Broken) => Sifted::Broken,
            Ok(true) if !is_end && is_empty() => Sifted::Nothing,
            Ok(_) => Sifted::Same,
        }
    }

    /// Drops octets of the kernel's stream that the reader has already.
    fn drop_known(&self, inbound: &Inbound<'_>) {
        while inbound.skip() > 0 {
            enter_kernel();
            let most = usize::try_from(inbound.skip()).unwrap_or(usize::MAX).min(AT_A_TIME);
            let dropped = self.world.kernel.borrow_mut().receive(self.socket(), most);
            match dropped {
                Ok(octets) if !octets.is_empty() => inbound.skipped(octets.len() as u64),
                _ => return,
            }
        }
    }

    /// Looks at the next octets of the kernel's stream.
    fn peek(&self, len: usize) -> Vec<u8> {
        enter_kernel();
        self.world.kernel.borrow().peek(self.socket(), len)
    }

    /// True if nothing follows what the kernel's socket has.
    fn is_over(&self) -> bool {
        let kernel = self.world.kernel.borrow();
        kernel.is_ended(self.socket()) || kernel.is_broken(self.socket())
    }

    fn secret(&self) -> Secret {
        self.words().identity.secret.each_ref().map(|word| word.load(Relaxed))
    }
}

/// Octets that are looked at, or dropped, at a time.
const AT_A_TIME: usize = 64;
