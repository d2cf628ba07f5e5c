//! The state of a socket, and the events that change it.

use std::collections::VecDeque;

use rustix::event::PollFlags;
use rustix::io::Errno;
use weft_cm::{Event, EventKind, Id};

use super::hello::Hello;
use super::link::{Course, Link};
use super::mappings::Mappings;
use super::options::Options;

/// The changing part of a socket.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) phase: Phase,
    pub(super) id: Id,
    pub(super) link: Option<Link>,
    pub(super) options: Options,
    pub(super) mappings: Mappings,
    /// Connect requests that are not accepted yet.
    pub(super) requests: VecDeque<(Id, Hello)>,
    /// The reason why there is no connection, until a call has returned it.
    pub(super) error: Option<Errno>,
    /// True if a thread sleeps for all threads in calls.
    pub(super) is_awaited: bool,
    /// How many threads sleep in poll(2).
    pub(super) pollers: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Fresh,
    Bound,
    Listening,
    /// Without the peer's answer.
    Connecting,
    /// The answer was given, and the peer has not gone on yet.
    Accepting,
    Connected,
    /// There is no connection, and there will be none.
    Over,
}

impl Phase {
    /// Returns true if events of the id matter. After the connection is established, its completions report
    /// everything.
    pub(super) const fn has_news(self) -> bool {
        matches!(self, Self::Listening | Self::Connecting | Self::Accepting)
    }
}

impl Core {
    pub(super) fn new(id: Id) -> Self {
        Self {
            phase: Phase::Fresh,
            id,
            link: None,
            options: Options::default(),
            mappings: Mappings::default(),
            requests: VecDeque::new(),
            error: None,
            is_awaited: false,
            pollers: 0,
        }
    }

    /// Handles an event of the id.
    pub(super) fn handle(&mut self, mut event: Event) {
        match (self.phase, event.kind()) {
            (Phase::Listening, EventKind::ConnectRequest) => {
                // A peer without rsocket's private data is rejected: its id is dropped.
                if let (Some(id), Ok(hello)) = (event.take_id(), Hello::read(event.private_data())) {
                    self.requests.push_back((id, hello));
                }
            }
            (Phase::Connecting, EventKind::Established) => match Hello::read(event.private_data()) {
                Ok(hello) => {
                    if let Some(link) = &mut self.link {
                        link.establish(&hello);
                    }
                    self.phase = Phase::Connected;
                }
                Err(errno) => {
                    self.fail(errno);
                    // The connection may have ended before.
                    let _may_have_ended = self.id.disconnect();
                }
            },
            (Phase::Accepting, EventKind::Established) => self.phase = Phase::Connected,
            (Phase::Connecting | Phase::Accepting, _) => {
                self.fail(event.error().unwrap_or(Errno::CONNRESET));
            }
            _ => {}
        }
    }

    /// Notes that there will be no connection.
    pub(super) fn fail(&mut self, why: Errno) {
        (self.phase, self.error) = (Phase::Over, Some(why));
    }

    /// Takes the error, which a call returns once.
    pub(super) fn take_error(&mut self) -> Option<Errno> {
        let failure = self.link.as_mut().and_then(|link| link.failure.take());
        self.error.take().or(failure)
    }

    /// # Errors
    /// The error of the connection, or `ENOTCONN`.
    pub(super) fn link(&mut self) -> Result<&mut Link, Errno> {
        let is_connected = self.phase == Phase::Connected;
        let error = if is_connected { None } else { self.error.take() };
        self.link.as_mut().filter(|_| is_connected).ok_or_else(|| error.unwrap_or(Errno::NOTCONN))
    }

    /// Returns everything that poll(2) could report.
    pub(super) fn ready(&mut self) -> PollFlags {
        let mut ready = PollFlags::empty();
        let both = PollFlags::IN | PollFlags::OUT;
        match (self.phase, &mut self.link) {
            (Phase::Listening, _) => ready.set(PollFlags::IN, !self.requests.is_empty()),
            (Phase::Connected, Some(link)) => {
                ready.set(PollFlags::IN, link.is_readable() || !link.can_read);
                ready.set(PollFlags::OUT, link.can_write && link.room() > 0);
                // Programs stop reading at the end, but octets before it belong to them.
                ready.set(PollFlags::HUP, link.course == Course::Disconnected && !link.is_readable());
                ready.set(PollFlags::ERR, link.course == Course::Failed && !link.is_readable());
            }
            (Phase::Over, _) => ready = both | PollFlags::ERR,
            _ => {}
        }
        ready
    }
}
