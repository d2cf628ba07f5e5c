//! Requests of a change of epoch. docs/group/epochs.md has their rules.

use crate::control::{Answer, End, Named, Open, Seal};
use crate::epoch::change::Sealed;
use crate::epoch::{MemberState, Refusal};
use crate::keeper::KeeperError;

use super::Server;
use super::peer::Peer;

impl Server {
    /// Seals the replica as a coordinator asks for it ([`Request::Seal`](crate::Request::Seal)), and returns the answer. When
    /// this returns no octet of an older session or copy is placed any more.
    pub fn seal(&mut self, seal: Seal) -> Answer {
        if let Err(answer) = self.change(|state| state.seal(seal.epoch, seal.base)) {
            return answer;
        }
        let is_older = |peer: &Peer| {
            let session = peer.session.as_ref().map(|session| session.open.epoch);
            let task = peer.task.as_ref().map(|task| task.named().epoch);
            session.or(task).is_some_and(|epoch| epoch < seal.epoch)
        };
        self.end_those(is_older, End::Sealed(seal.epoch), Refusal::Sealed { epoch: seal.epoch });
        let MemberState { incarnation, .. } = *self.keeper.state();
        Answer::Sealed(Sealed { incarnation, size: self.size, is_stored: self.keeper.is_stored() })
    }

    /// Notes the epoch of a session that is to be opened.
    pub(super) fn serve(&mut self, open: &Open) -> Result<(), String> {
        let own = open.members.get(open.index).and_then(|member| member.incarnation);
        if own.is_none() && self.keeper.state().sealed > 0 {
            let sealed = self.keeper.state().sealed;
            return Err(format!(
                "it is sealed with epoch {sealed}: a register (--register) has the record that opens it"
            ));
        }
        let incarnation = own.unwrap_or_else(|| self.incarnation());
        match self.keeper.change(|state| state.open(open.epoch, incarnation)) {
            Ok(()) => Ok(()),
            Err(KeeperError::Refused(refusal)) => Err(refusal.to_string()),
            Err(KeeperError::Io(error)) => Err(not_stored(&error)),
        }
    }

    pub(super) fn finish(&mut self, named: Named) -> Answer {
        self.change(|state| state.finish(named.epoch, named.incarnation)).unwrap_or_else(|answer| answer)
    }

    /// Changes what the replica remembers, and stores it.
    pub(super) fn change(
        &mut self,
        change: impl FnOnce(&mut MemberState) -> Result<(), Refusal>,
    ) -> Result<Answer, Answer> {
        match self.keeper.change(change) {
            Ok(()) => Ok(Answer::Done),
            Err(KeeperError::Refused(refusal)) => Err(Answer::Denied(refusal)),
            Err(KeeperError::Io(error)) => Err(Answer::Refused(not_stored(&error))),
        }
    }

    /// Takes another incarnation once a flush has failed, and ends everything that was begun with the former one.
    pub(super) fn note_failed_flush(&mut self) {
        if !self.memory.is_spoiled() || self.is_noted {
            return;
        }
        self.is_noted = true;
        let drawn = self.random.draw();
        let noted = drawn.and_then(|octets| self.keeper.spoil(u64::from_ne_bytes(octets)));
        self.broken = noted.err().map(|error| not_stored(&error));
        let own = self.incarnation();
        let is_any = |peer: &Peer| peer.session.is_some() || peer.task.is_some();
        let failed: Vec<u64> = self.numbers(is_any);
        for number in failed {
            self.end_here(number);
            self.deny(number, Refusal::Incarnation { own });
        }
    }

    fn end_those(&mut self, which: impl Fn(&Peer) -> bool, end: End, refusal: Refusal) {
        for number in self.numbers(which) {
            if self.session(number).is_some() {
                self.end(number, end);
            }
            self.deny(number, refusal);
        }
    }

    fn numbers(&self, which: impl Fn(&Peer) -> bool) -> Vec<u64> {
        self.peers.iter().filter(|(_, peer)| which(peer)).map(|(number, _)| *number).collect()
    }
}

fn not_stored(error: &std::io::Error) -> String {
    format!("this replica cannot store its state: {error}")
}
