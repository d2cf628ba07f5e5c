//! The channels of lanes: the daemon's end of a connection to another host.

use weft_sockets::Secret;
use weft_sockets::far::{Incoming, Outgoing};
use weft_sockets::layout;

use crate::hosts::seen::Seen;
use crate::link::Link;

/// A connection between an end of this host and one of another.
#[derive(Debug)]
pub(crate) struct Channel {
    /// The link, the channel in it, and the parties of the process and of this daemon.
    pub(crate) link: u64,
    pub(crate) number: u32,
    pub(crate) party: usize,
    /// The number and the memory of the other daemon.
    pub(crate) peer: u32,
    pub(crate) stag: u32,
    /// What its ends know each other by in the kernel's stream.
    pub(crate) secret: Secret,
    pub(crate) outgoing: Outgoing,
    pub(crate) incoming: Incoming,
    /// Larger rings that the other daemon was asked for and has not made yet.
    pub(crate) asked: u8,
    /// The process that has asked for a larger ring last, and has no answer.
    pub(crate) asker: Option<u64>,
    /// Writes without a completion.
    pub(crate) under_way: u8,
    /// This daemon has told that its end is closed.
    pub(crate) is_told_closed: bool,
    /// The other one has.
    pub(crate) is_closed_there: bool,
    /// A rule was broken: nothing more is sent but that it is closed.
    pub(crate) is_broken: bool,
    /// The process has taken its channel.
    pub(crate) is_taken: bool,
    /// What was seen at the last look, if there was nothing to do, and whether the daemon was idle. `None`: something has come of
    /// the channel since.
    pub(crate) seen: Option<(Seen, bool)>,
}

impl Channel {
    /// True if a look would find nothing to do, as the last one has: the process has told nothing since.
    pub(crate) fn is_quiet(&self, link: Option<&Link>, is_idle: bool) -> bool {
        let (Some((seen, was_idle)), Some(link)) = (&self.seen, link) else { return false };
        (*was_idle || !is_idle)
            && self.words(&link.memory).is_some_and(|(ours, theirs)| Seen::new(ours, theirs, link) == *seen)
    }

    /// The words of both directions: those of the process, and those of this daemon.
    pub(crate) fn words<'a>(
        &self,
        memory: &'a weft_sockets::Link,
    ) -> Option<(&'a layout::Direction, &'a layout::Direction)> {
        let directions = &memory.channel(self.number)?.directions;
        Some((directions.get(self.party)?, directions.get(1 - self.party)?))
    }
}
