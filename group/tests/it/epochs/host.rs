//! A host: memory, what is stored, and the crate's member.

use weft_group::{MemberState, Refusal};

use super::plan::{BLANK, Broken, Memory};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Host {
    pub(crate) member: MemberState,
    pub(crate) memory: u8,
    pub(crate) stored: u8,
    /// The epochs of which it has a session, as bits.
    sessions: u8,
}

impl Host {
    pub(crate) fn new(is_member: bool) -> Self {
        if !is_member {
            return Self { member: MemberState::new(1), memory: BLANK, stored: BLANK, sessions: 0 };
        }
        let mut member = MemberState::new(1);
        member.seal(1, 0).and_then(|()| member.open(1, 1)).unwrap();
        Self { member, memory: 0, stored: 0, sessions: 1 << 1 }
    }

    pub(crate) fn restart(&mut self, memory: Memory) {
        self.sessions = 0;
        self.member.restart(self.member.incarnation + 1);
        if memory == Memory::Volatile {
            self.member = MemberState::new(self.member.incarnation);
            self.stored = BLANK;
        }
        self.memory = self.stored;
    }

    pub(crate) fn seal(&mut self, epoch: u64, base: u64, broken: Option<Broken>) -> Result<(), Refusal> {
        let base = if broken == Some(Broken::AnyBase) { u64::MAX } else { base };
        self.member.seal(epoch, base)?;
        if broken != Some(Broken::Unsealed) {
            self.sessions &= !((1 << epoch) - 1);
        }
        Ok(())
    }

    pub(crate) fn open(&mut self, epoch: u64, incarnation: u64, broken: Option<Broken>) -> bool {
        let incarnation =
            if broken == Some(Broken::AnyIncarnation) { self.member.incarnation } else { incarnation };
        let is_taken = self.member.open(epoch, incarnation).is_ok();
        if is_taken {
            self.sessions |= 1 << epoch;
        }
        is_taken
    }

    pub(crate) fn has(&self, epoch: u64) -> bool {
        self.sessions & 1 << epoch != 0
    }

    pub(crate) fn flush(&mut self) {
        self.stored = self.memory;
    }

    /// A flush fails: nobody knows what is stored.
    pub(crate) fn fail_flush(&mut self) {
        self.member.spoil(self.member.incarnation + 1);
        self.stored = BLANK;
        self.sessions = 0;
    }
}
