//! A connection between two hosts as one of their daemons carries it: both directions, and how they end. It follows
//! `remote/turns.rs` and `remote/letters.rs` of the daemon.

use weft_sockets_stepped::far::{Duty, Incoming, NoticeKind, Outgoing};
use weft_sockets_stepped::layout::{Direction, RESET};
use weft_sockets_stepped::sync::Ordering;
use weft_sockets_stepped::{Broken, RingPlace, Sleepers};

/// What a daemon knows of a connection between an end of its host and one of another.
#[derive(Clone, Debug)]
pub(crate) struct Relay {
    /// The direction whose sender is on this host.
    pub(crate) outgoing: Outgoing,
    /// The direction whose reader is on this host.
    pub(crate) incoming: Incoming,
    /// Writes without a completion.
    under_way: u8,
    /// This daemon has told that its end is closed.
    is_told_closed: bool,
    /// The other one has.
    is_closed_there: bool,
    /// A rule was broken: nothing more is sent but that it is closed.
    is_broken: bool,
}

/// The words of both directions in the link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'a> {
    /// Those of the direction whose sender is the process.
    pub(crate) ours: &'a Direction,
    /// Those of the direction whose sender is the daemon.
    pub(crate) theirs: &'a Direction,
}

/// When a daemon [looks](Relay::next) at a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moment {
    /// Octets of a Write at most.
    pub(crate) most: u32,
    /// No process of this host has the end any more.
    pub(crate) is_closed: bool,
    /// The daemon is about to sleep.
    pub(crate) is_idle: bool,
}

/// What came of a look at a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nothing is to be sent.
    Nothing,
    /// This is to be sent, before the next look.
    Send(Duty),
    /// Both ends are closed, and nothing of the connection is in use any more.
    Over,
}

impl Relay {
    /// A connection whose directions have begun no legs but those by TCP. `own` is the ring of this host's sender, with its
    /// place in the link of the other host. `theirs` is the ring that the other daemon may write to.
    pub(crate) fn new(own: (RingPlace, RingPlace), theirs: RingPlace) -> Self {
        Self {
            outgoing: Outgoing::new(own),
            incoming: Incoming::new(theirs),
            under_way: 0,
            is_told_closed: false,
            is_closed_there: false,
            is_broken: false,
        }
    }

    /// Tells what the other daemon has to hear next.
    ///
    /// # Errors
    /// The process broke a rule of the link.
    pub(crate) fn next(&mut self, words: Words<'_>, moment: Moment) -> Result<Turn, Broken> {
        if !self.is_broken
            && let Some((kind, value)) = self.incoming.poll(words.theirs, moment.is_idle)?
        {
            return Ok(Turn::Send(Duty::Notice { kind, value }));
        }
        if moment.is_closed {
            self.outgoing.end_for_sender(words.ours);
        }
        let may_write = self.under_way < UNDER_WAY;
        let duty =
            if self.is_broken { None } else { self.outgoing.poll(words.ours, moment.most, may_write)? };
        if let Some(duty) = duty {
            self.under_way += u8::from(matches!(duty, Duty::Write { .. }));
            return Ok(Turn::Send(duty));
        }
        if moment.is_closed && !self.is_told_closed && self.under_way == 0 {
            self.is_told_closed = true;
            return Ok(Turn::Send(Duty::Notice { kind: NoticeKind::Closed, value: 0 }));
        }
        Ok(if self.is_told_closed && self.is_closed_there { Turn::Over } else { Turn::Nothing })
    }

    /// Hears that a Write is done.
    pub(crate) const fn complete(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// Takes a notice of the other daemon. Returns those who have to be woken.
    ///
    /// # Errors
    /// That daemon broke a rule.
    pub(crate) fn handle(
        &mut self,
        words: Words<'_>,
        kind: NoticeKind,
        value: u32,
    ) -> Result<Option<Sleepers>, Broken> {
        match kind {
            NoticeKind::Closed => {
                self.is_closed_there = true;
                Ok(self.incoming.handle_closed(words.theirs, words.ours))
            }
            NoticeKind::Data | NoticeKind::Reset | NoticeKind::Declined | NoticeKind::Present => {
                self.incoming.handle(words.theirs, kind, value)
            }
            _ => self.outgoing.handle(words.ours, kind, value),
        }
    }

    /// Sends nothing more but that the end is closed, since a rule was broken. The end of this host hears that its
    /// connection is broken, and has to be woken.
    pub(crate) fn break_off(&mut self, words: Words<'_>) {
        self.is_broken = true;
        words.theirs.producer.flags.fetch_or(RESET, Ordering::SeqCst);
    }

    /// True if a rule was broken.
    pub(crate) const fn is_broken(&self) -> bool {
        self.is_broken
    }
}

/// Writes of a connection without a completion at most.
const UNDER_WAY: u8 = 2;
