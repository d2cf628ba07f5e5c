//! What a member of a group remembers of epochs, and what it refuses because of that.
//!
//! There is no I/O here: the caller stores the member's state before it answers, and ends the sessions that a seal ends.

pub(crate) mod change;

/// A member's state. A member on a file or on persistent memory keeps it there, one on volatile memory forgets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemberState {
    /// The name of what the memory holds. Memory that may have lost octets has another one.
    pub incarnation: u64,
    /// The highest epoch of a Seal.
    pub sealed: u64,
    /// The highest epoch that is known to have begun with this member: of an Open, or of a finished change.
    pub served: u64,
    /// A flush has failed: what is stored may lack octets that were flushed.
    pub is_spoiled: bool,
}

/// Why a member refuses a request. It has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The member is sealed with another epoch than the request has; for a Seal with a larger one.
    Sealed {
        /// The member's seal.
        epoch: u64,
    },
    /// A newer epoch has begun than the one from which the coordinator wants to change.
    Served {
        /// The newer epoch.
        epoch: u64,
    },
    /// The request is for an earlier incarnation: octets may be lost since.
    Incarnation {
        /// The member's incarnation.
        own: u64,
    },
}

impl MemberState {
    /// Returns the state of a member that has never been sealed.
    pub const fn new(incarnation: u64) -> Self {
        Self { incarnation, sealed: 0, served: 0, is_spoiled: false }
    }

    /// Takes a Seal with `epoch` by a coordinator whose record has the epoch `base`.
    ///
    /// Before the caller answers it stores the state, and ends all sessions of smaller epochs: after that no device
    /// places an octet for them.
    ///
    /// # Errors
    /// [`Refusal::Sealed`], [`Refusal::Served`].
    pub const fn seal(&mut self, epoch: u64, base: u64) -> Result<(), Refusal> {
        if epoch < self.sealed {
            return Err(Refusal::Sealed { epoch: self.sealed });
        }
        if base < self.served {
            return Err(Refusal::Served { epoch: self.served });
        }
        self.sealed = epoch;
        Ok(())
    }

    /// Takes an Open: a session of `epoch`. The caller stores the state before it answers.
    ///
    /// # Errors
    /// [`Refusal::Sealed`], [`Refusal::Incarnation`].
    pub const fn open(&mut self, epoch: u64, incarnation: u64) -> Result<(), Refusal> {
        if let Err(refusal) = self.check(epoch, incarnation) {
            return Err(refusal);
        }
        self.serve(epoch);
        Ok(())
    }

    /// Notes that the change to `epoch` is finished. The caller stores the state before it answers.
    ///
    /// # Errors
    /// [`Refusal::Incarnation`]; [`Refusal::Sealed`] for an epoch with which the member has never been sealed.
    pub const fn finish(&mut self, epoch: u64, incarnation: u64) -> Result<(), Refusal> {
        if incarnation != self.incarnation {
            return Err(Refusal::Incarnation { own: self.incarnation });
        }
        if epoch > self.sealed {
            return Err(Refusal::Sealed { epoch: self.sealed });
        }
        self.serve(epoch);
        Ok(())
    }

    /// Notes that a change of epoch has copied and flushed all octets: what is stored is whole again.
    pub const fn mend(&mut self) {
        self.is_spoiled = false;
    }

    /// Notes that a flush has failed.
    pub const fn spoil(&mut self, incarnation: u64) {
        self.is_spoiled = true;
        self.incarnation = incarnation;
    }

    /// Notes that the member starts again, with the octets that were stored.
    pub const fn restart(&mut self, incarnation: u64) {
        self.incarnation = incarnation;
    }

    /// Says whether the member is sealed with exactly `epoch`, and is still in `incarnation`. Both ends of a Fetch ask
    /// for each block, before they read or write it.
    ///
    /// # Errors
    /// [`Refusal::Sealed`], [`Refusal::Incarnation`].
    pub const fn check(&self, epoch: u64, incarnation: u64) -> Result<(), Refusal> {
        if epoch != self.sealed {
            return Err(Refusal::Sealed { epoch: self.sealed });
        }
        if incarnation != self.incarnation {
            return Err(Refusal::Incarnation { own: self.incarnation });
        }
        Ok(())
    }

    const fn serve(&mut self, epoch: u64) {
        if epoch > self.served {
            self.served = epoch;
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sealed { epoch } => write!(f, "the member is sealed with epoch {epoch}"),
            Self::Served { epoch } => write!(f, "epoch {epoch} has begun"),
            Self::Incarnation { own } => write!(f, "the member has started again, as {own:016x}"),
        }
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_seal_and_an_older_record_are_refused() {
        let mut member = MemberState::new(7);
        assert_eq!(member.seal(3, 0), Ok(()));
        assert_eq!(member.seal(2, 1), Err(Refusal::Sealed { epoch: 3 }));
        assert_eq!(member.seal(3, 0), Ok(()), "the same seal again");
        assert_eq!(member.finish(3, 7), Ok(()));
        assert_eq!(member.seal(4, 2), Err(Refusal::Served { epoch: 3 }));
        assert_eq!(member, MemberState { sealed: 3, served: 3, ..MemberState::new(7) });
    }

    #[test]
    fn sessions_open_with_the_epoch_of_the_seal_and_the_incarnation_only() {
        let mut member = MemberState::new(7);
        assert_eq!(member.seal(2, 1), Ok(()));
        for epoch in [0, 1, 3] {
            assert_eq!(member.open(epoch, 7), Err(Refusal::Sealed { epoch: 2 }));
        }
        assert_eq!(member.open(2, 8), Err(Refusal::Incarnation { own: 7 }));
        assert_eq!(member.served, 0);
        assert_eq!((member.open(2, 7), member.served), (Ok(()), 2));
        member.restart(9);
        assert_eq!(member.open(2, 7), Err(Refusal::Incarnation { own: 9 }));
        assert_eq!(member.finish(2, 7), Err(Refusal::Incarnation { own: 9 }));
        assert_eq!(member.check(2, 9), Ok(()));
    }

    #[test]
    fn a_late_end_of_a_change_takes_nothing_back() {
        let mut member = MemberState::new(7);
        assert_eq!((member.seal(5, 1), member.open(5, 7)), (Ok(()), Ok(())));
        assert_eq!((member.finish(2, 7), member.served, member.sealed), (Ok(()), 5, 5));
        assert_eq!(
            member.finish(6, 7),
            Err(Refusal::Sealed { epoch: 5 }),
            "no change can end without a seal"
        );
    }

    #[test]
    fn a_failed_flush_gives_another_incarnation_and_lasts_until_the_octets_are_copied() {
        let mut member = MemberState::new(7);
        member.spoil(8);
        member.restart(9);
        assert!(member.is_spoiled && member.incarnation == 9);
        member.mend();
        assert!(!member.is_spoiled);
    }
}
