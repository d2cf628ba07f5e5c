//! The end of a session: its close, and what outlasts the connection.

use core::time::Duration;

use super::{Close, Role, Session};
use crate::action::{Action, Cause};
use crate::fault::Fault;
use crate::flow::each;
use crate::op::OpError;

impl Session {
    /// Closes the socket, by this time at the latest; at once if it is not later than the last time that was told.
    ///
    /// Receives without a message are canceled. Messages that nobody has received, and slots that were not recycled,
    /// end the connection at once. A second close may shorten the time of the first one.
    pub fn close(&mut self, until: Duration) {
        match self.close {
            Close::Open => {
                self.close = Close::Lingering(until);
                self.shutdown();
                each!(&mut self.flow, flow => flow.cancel_receives(&mut self.actions));
            }
            Close::Lingering(before) => self.close = Close::Lingering(until.min(before)),
            Close::Quiet(_) | Close::Told => return,
        }
        if until <= self.now {
            self.end(Cause::Abandoned, Some(Fault::UnreadData));
        }
    }

    /// Returns how the close has ended of which [`Action::Closed`] tells.
    ///
    /// # Errors
    /// [`OpError::TimedOut`]: the time of the close was over before both sides had ended. [`OpError::Canceled`]: the
    /// connection was ended at once, with sends under way. Or why the connection has ended meanwhile. An end in front
    /// of the close is no error of it.
    pub const fn closed(&self) -> Result<(), OpError> {
        match self.close_error.0 {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Ends the connection if it is to be closed and nothing is left to be done, and tells when it is.
    pub(super) fn settle(&mut self) {
        if let Close::Lingering(_) = self.close
            && self.ended.is_none()
        {
            if each!(&self.flow, flow => flow.has_unread()) {
                self.end(Cause::Abandoned, Some(Fault::UnreadData));
            } else if self.is_quiet() {
                match self.role {
                    Role::Initiator => self.end(Cause::Closed, None),
                    Role::Responder => self.close = Close::Quiet(self.now + FIN_PATIENCE),
                }
            }
        }
        let is_closing = matches!(self.close, Close::Lingering(_) | Close::Quiet(_));
        if is_closing && self.ended.is_some() && each!(&self.flow, flow => flow.is_empty()) {
            self.close = Close::Told;
            self.actions.push_back(Action::Closed);
        }
    }

    /// Notes how a close ends that waits while the connection ends for this cause.
    pub(super) fn note_close(&mut self, cause: Cause) {
        self.close_error.0 = match cause {
            _ if self.close == Close::Open || self.is_quiet() => None,
            Cause::Closed => None,
            Cause::Abandoned if !each!(&self.flow, flow => flow.has_sends()) => None,
            _ => Some(cause.error()),
        };
    }

    /// Returns whether there is something to be received behind this end of the connection. What a side says that has
    /// broken the protocol does not count.
    pub(super) fn outlasts(&self, cause: Cause) -> bool {
        match cause {
            Cause::Closed => true,
            Cause::Reset | Cause::TimedOut | Cause::Abandoned => each!(&self.flow, flow => flow.has_left()),
            Cause::Fault(_) | Cause::Blamed(_) => false,
        }
    }
}

/// How long the responder waits for the initiator to close the connection.
const FIN_PATIENCE: Duration = Duration::from_secs(1);
