//! What a session tells of itself.

use super::Session;
use crate::flow::{Flow, each};
use crate::stats::{Credits, Stats};

impl Session {
    /// Returns what the session has counted.
    #[must_use]
    pub const fn stats(&self) -> Stats {
        let stale_adverts = match &self.flow {
            Flow::Messages(_) => 0,
            Flow::Stream(stream) => stream.stale_adverts.0,
        };
        Stats { stale_adverts, ..self.stats.0 }
    }

    /// Returns what is used of what the peer has granted.
    #[must_use]
    pub fn credits(&self) -> Credits {
        Credits { window: self.window.used(), ..each!(&self.flow, flow => flow.credits()) }
    }
}
