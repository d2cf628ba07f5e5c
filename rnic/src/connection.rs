//! One TCP connection through its phases.
//!
//! ```text
//!   Connecting ─▶ AwaitingReply ──┐
//!                                 ├─▶ Full(Operating ─▶ Ending ─▶ Draining) ─▶ removed
//!   AwaitingRequest ─▶ Offered ───┘                                ▲
//!                         └─▶ Rejecting ───────────────────────────┘
//! ```
//! What is in Full, `stream/ending.rs` decides.
//! Where the application begins in streaming mode, Opening and Streaming stand before both lines, and a rejection leads
//! back to Streaming.

use crate::connection::state::{Connection, Phase, Turn, Verdict};
use crate::events::connection::ConnectFailure;
use crate::stream::ending::Stage;

pub(crate) mod operate;
pub(crate) mod startup;
pub(crate) mod state;
pub(crate) mod streaming;
pub(crate) mod terms;
pub(crate) mod trace;

impl Connection {
    /// Does everything that the present phase can do now.
    pub(crate) fn turn(&mut self, turn: &mut Turn<'_>) -> Verdict {
        match &self.phase {
            Phase::Opening => self.handle_opened(turn),
            Phase::Streaming(_) => self.watch_streaming(turn),
            Phase::Connecting(..) => self.handle_connected(turn),
            Phase::AwaitingReply(_) => self.handle_reply(turn),
            Phase::AwaitingRequest(_) => self.handle_request(turn),
            Phase::Offered(_) => self.watch_offer(turn),
            Phase::Rejecting => self.watch_rejection(turn),
            Phase::Full(_) => self.operate(turn),
        }
    }

    /// Acts on the deadline of the present phase, which has passed.
    pub(crate) fn expire(&mut self, turn: &mut Turn<'_>) -> Verdict {
        if matches!(self.phase, Phase::Full(Stage::Operating(_))) {
            return self.nudge(turn);
        }
        if matches!(self.phase, Phase::Full(_)) && self.goes_on(turn) {
            return self.turn(turn);
        }
        turn.llp.abort();
        match &self.phase {
            Phase::Rejecting | Phase::Full(_) => self.finish(turn),
            Phase::Opening => self.fail_opening(ConnectFailure::TimedOut),
            // The application has not taken it. After it has, streaming mode has no deadline.
            Phase::Streaming(_) => Verdict::Remove,
            _ => self.fail_startup(turn, ConnectFailure::TimedOut),
        }
    }
}
