//! The states of a queue pair and what each allows.
//!
//! ```text
//!            Established            CloseStarted            LlpClosed
//!   Idle ─────────────────▶ Rts ─────────────────▶ Closing ───────────▶ Error
//!     │                      │ Terminated                                 ▲
//!     │                      └───────────────▶ Terminate ─────────────────┤ LlpClosed
//!     └──────────────────────── Failed (from any state) ──────────────────┘
//! ```
//! A queue pair that behaves as InfiniBand's goes from Rts to Idle by PeerLeft: its application does not hear of a peer
//! that goes while no request needs it.
//!
//! The names are those of the iWARP verbs; libibverbs calls Idle INIT, and Closing and Terminate SQD. One difference is
//! deliberate: a queue pair whose stream has ended is in Error and not in Idle again, so that there is one path on
//! which everything still posted is flushed. Another connection takes another queue pair.

/// The state of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum QpState {
    /// The queue pair was made, and has no stream. Receives may be posted.
    Idle = 0,
    /// Ready to send: the stream is in Full Operation.
    Rts = 1,
    /// One side has begun the graceful close. No request is started, and all that is posted is flushed.
    Closing = 2,
    /// A Terminate was sent or received. All that is posted is flushed, and the TCP connection is going away.
    Terminate = 3,
    /// The end. Everything that is posted is flushed at once.
    Error = 4,
}

/// What moves a queue pair from state to state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpEvent {
    /// MPA startup has succeeded.
    Established,
    /// The application disconnects, or the peer has sent FIN at an FPDU boundary.
    CloseStarted,
    /// A Terminate was sent or received.
    Terminated,
    /// The peer has sent FIN at an FPDU boundary, to a queue pair that behaves as InfiniBand's and waits for nothing
    /// from it.
    PeerLeft,
    /// The TCP connection has gone.
    LlpClosed,
    /// A local error.
    Failed,
}

impl QpState {
    /// Returns the state after `event`, or `None` where the event means nothing and the state stays.
    pub const fn after(self, event: QpEvent) -> Option<Self> {
        match (self, event) {
            (Self::Idle, QpEvent::Established) => Some(Self::Rts),
            (Self::Rts, QpEvent::CloseStarted) => Some(Self::Closing),
            (Self::Rts, QpEvent::PeerLeft) => Some(Self::Idle),
            (Self::Rts, QpEvent::Terminated) => Some(Self::Terminate),
            (Self::Closing | Self::Terminate | Self::Rts, QpEvent::LlpClosed) => Some(Self::Error),
            (Self::Idle | Self::Rts | Self::Closing | Self::Terminate, QpEvent::Failed) => Some(Self::Error),
            _ => None,
        }
    }

    /// Returns whether requests for the send queue are taken. Outside of RTS they are flushed as soon as they are seen;
    /// in Idle they are refused, as `ibv_post_send` does.
    pub const fn takes_sends(self) -> bool {
        !matches!(self, Self::Idle)
    }

    /// Returns whether everything posted is to be flushed.
    pub const fn flushes(self) -> bool {
        matches!(self, Self::Closing | Self::Terminate | Self::Error)
    }

    pub(crate) const fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Idle,
            1 => Self::Rts,
            2 => Self::Closing,
            3 => Self::Terminate,
            _ => Self::Error,
        }
    }
}

impl core::fmt::Display for QpState {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Idle => "IDLE",
            Self::Rts => "RTS",
            Self::Closing => "CLOSING",
            Self::Terminate => "TERMINATE",
            Self::Error => "ERROR",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every pair of state and event, so that a change of the table shows here.
    #[test]
    fn the_whole_table() {
        use QpEvent::{CloseStarted, Established, Failed, LlpClosed, PeerLeft, Terminated};
        use QpState::{Closing, Error, Idle, Rts, Terminate};
        let events = [Established, CloseStarted, Terminated, LlpClosed, Failed, PeerLeft];
        let table = [
            (Idle, [Some(Rts), None, None, None, Some(Error), None]),
            (Rts, [None, Some(Closing), Some(Terminate), Some(Error), Some(Error), Some(Idle)]),
            (Closing, [None, None, None, Some(Error), Some(Error), None]),
            (Terminate, [None, None, None, Some(Error), Some(Error), None]),
            (Error, [None; 6]),
        ];
        for (state, expected) in table {
            assert_eq!(events.map(|event| state.after(event)), expected, "from {state}");
            assert_eq!(QpState::from_code(state as u8), state);
        }
    }

    #[test]
    fn states_allow_what_the_table_says() {
        use QpState::{Closing, Error, Idle, Rts, Terminate};
        let states = [Idle, Rts, Closing, Terminate, Error];
        assert_eq!(states.map(QpState::takes_sends), [false, true, true, true, true]);
        assert_eq!(states.map(QpState::flushes), [false, false, true, true, true]);
    }
}
