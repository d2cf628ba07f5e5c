//! Coordinators: the crate's code asks, and the model answers.

use std::sync::Arc;

use weft_group::{Ask, Change, Host as Name, Record, Reply, Sealed};

use super::plan::{Broken, Memory, Plan};
use super::state::{Event, Fate, State};

impl Plan {
    pub(crate) fn coordinator_events(
        &self,
        state: &State,
        at: usize,
        change: Option<&Change>,
        events: &mut Vec<Event>,
    ) {
        let Some(change) = change else {
            if state.register.next_epoch <= self.last_epoch {
                events.push(Event::Begin(at));
            }
            return;
        };
        let fates: &[Fate] = match change.ask() {
            // A claim that the bound forbids is never made.
            Some(Ask::Swap { old, new }) if old.epoch == new.epoch && old.next_epoch > self.last_epoch => &[],
            Some(Ask::Swap { .. }) if state.lost_answers > 0 => &[Fate::Answered, Fate::Lost],
            Some(Ask::Swap { .. } | Ask::Read) => &[Fate::Answered],
            Some(Ask::Copy { .. }) => &[Fate::Answered, Fate::Lost, Fate::Silent],
            Some(_) => &[Fate::Answered, Fate::Silent],
            None => &[],
        };
        events.extend(fates.iter().map(|fate| Event::Coordinator(at, *fate)));
    }

    pub(crate) fn begin(&self, state: &mut State, at: usize) {
        let is_from_storage = self.memory == Memory::Flushed || self.broken == Some(Broken::AnySource);
        let mut change = Change::new(Arc::clone(&state.register), is_from_storage);
        change.handle(Reply::Record(Arc::clone(&state.register)));
        state.coordinators[at] = Some(change);
    }

    pub(crate) fn coordinate(&self, state: &mut State, at: usize, fate: Fate) {
        let Some(mut change) = state.coordinators[at].take() else { return };
        let answer = match change.ask() {
            Some(Ask::Read) => Reply::Record(Arc::clone(&state.register)),
            Some(Ask::Swap { old, new }) => swap(state, (old, new), fate),
            Some(_) if fate == Fate::Silent => Reply::Silent,
            Some(ask) => self.ask_hosts(state, &ask, fate),
            None => return,
        };
        change.handle(answer);
        // A change that is over leaves nothing behind.
        state.coordinators[at] = Some(change).filter(|change| change.outcome().is_none());
    }

    fn ask_hosts(&self, state: &mut State, ask: &Ask<'_>, fate: Fate) -> Reply {
        let hosts = &mut state.hosts;
        match ask {
            Ask::Seal { host, epoch, base } => {
                let number = number(host);
                if let Err(refusal) = hosts[number].seal(*epoch, *base, self.broken) {
                    return Reply::Refused(refusal);
                }
                let member = hosts[number].member;
                let is_stored = self.memory != Memory::Volatile && !member.is_spoiled;
                Reply::Sealed(Sealed { incarnation: member.incarnation, size: 1, is_stored })
            }
            Ask::Copy { to, to_incarnation, from, from_incarnation, epoch } => {
                let (to, from) = (number(to), number(from));
                if hosts[from].member.check(*epoch, *from_incarnation).is_err() {
                    return Reply::SourceLost;
                }
                if let Err(refusal) = hosts[to].member.check(*epoch, *to_incarnation) {
                    return Reply::Refused(refusal);
                }
                hosts[to].memory = hosts[from].memory;
                if fate == Fate::Lost {
                    return Reply::Silent;
                }
                if self.broken != Some(Broken::UnflushedCopy) {
                    hosts[to].flush();
                    hosts[to].member.mend();
                }
                Reply::Done
            }
            Ask::Flush { host, incarnation, epoch } => {
                let number = number(host);
                if let Err(refusal) = hosts[number].member.check(*epoch, *incarnation) {
                    return Reply::Refused(refusal);
                }
                if self.broken != Some(Broken::UnflushedSource) {
                    hosts[number].flush();
                    hosts[number].member.mend();
                }
                Reply::Done
            }
            Ask::Finish { host, incarnation, epoch } => hosts[number(host)]
                .member
                .finish(*epoch, *incarnation)
                .map_or_else(Reply::Refused, |()| Reply::Done),
            Ask::Read | Ask::Swap { .. } => unreachable!("no host is asked that"),
        }
    }
}

fn swap(state: &mut State, (old, new): (&Record, Record), fate: Fate) -> Reply {
    let is_swapped = *state.register == *old;
    if is_swapped {
        state.register = Arc::new(new);
    }
    if fate == Fate::Lost {
        state.lost_answers -= 1;
        return Reply::Unknown;
    }
    Reply::Swapped(is_swapped)
}

fn number(host: &Name) -> usize {
    host.id.parse().unwrap()
}
