//! The states of a connection.

/// The state of a connection (RFC 9293 section 3.3.2). LISTEN and what follows it is in
/// [`HalfOpen`](crate::HalfOpen).
///
/// ```text
///                 CLOSED ── connect ──▸ SYN-SENT ── SYN ──▸ SYN-RECEIVED
///                                          │ SYN/ACK             │ ACK
///                                          ▾                     ▾
///        HalfOpen ── ACK ───────────▸ ESTABLISHED ◂──────────────┘
///                              close │         │ FIN
///                  ┌─────────────────┘         └───────────┐
///                  ▾                                       ▾
///     ┌──────── FIN-WAIT-1 ── FIN ──▸ CLOSING         CLOSE-WAIT
///     │ ACK of FIN                       │ ACK of FIN      │ close
///     ▾                                  ▾                 ▾
///  FIN-WAIT-2 ────────── FIN ──────▸ TIME-WAIT         LAST-ACK ── ACK of FIN ──▸ CLOSED
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// A SYN is sent.
    SynSent,
    /// Both sides have sent a SYN at the same time.
    SynReceived,
    /// Both sides may send.
    Established,
    /// The user has closed.
    FinWait1,
    /// The user has closed, and the peer knows it.
    FinWait2,
    /// The peer has closed.
    CloseWait,
    /// Both have closed at the same time.
    Closing,
    /// The peer has closed, and then the user.
    LastAck,
    /// Both have closed and know it. Old segments may still be under way.
    TimeWait,
    /// There is no connection.
    Closed,
}

/// What moves a connection from state to state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A SYN has come that acknowledges nothing.
    Syn,
    /// Our SYN is acknowledged, and the peer's SYN is there.
    Opened,
    /// The user sends no more.
    Close,
    /// The peer's stream has ended.
    Fin,
    /// Our FIN is acknowledged.
    FinAcknowledged,
    /// The connection is given up.
    End,
}

impl State {
    /// Returns the state after an event. An event that means nothing in a state leaves it as it is.
    pub(crate) const fn after(self, event: Event) -> Self {
        match (self, event) {
            (Self::SynSent, Event::Syn) => Self::SynReceived,
            (Self::SynSent | Self::SynReceived, Event::Opened) => Self::Established,
            (Self::Established, Event::Close) => Self::FinWait1,
            (Self::CloseWait, Event::Close) => Self::LastAck,
            (Self::Established, Event::Fin) => Self::CloseWait,
            (Self::FinWait1, Event::Fin) => Self::Closing,
            (Self::FinWait2, Event::Fin) => Self::TimeWait,
            (Self::FinWait1, Event::FinAcknowledged) => Self::FinWait2,
            (Self::Closing, Event::FinAcknowledged) => Self::TimeWait,
            (Self::LastAck, Event::FinAcknowledged) | (_, Event::End) => Self::Closed,
            _ => self,
        }
    }

    /// Whether both sides know each other's numbers.
    pub const fn is_synchronized(self) -> bool {
        !matches!(self, Self::SynSent | Self::SynReceived | Self::Closed)
    }

    /// Whether the peer may still send octets (RFC 9293 section 3.10.7.4, seventh).
    pub(crate) const fn receives(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }
}

#[cfg(test)]
mod tests {
    use std::string::String;

    use super::*;

    /// RFC 9293 figure 5.
    #[test]
    fn the_states_follow_each_other_as_the_rfc_has_them() {
        let states = [
            State::SynSent,
            State::SynReceived,
            State::Established,
            State::FinWait1,
            State::FinWait2,
            State::CloseWait,
            State::Closing,
            State::LastAck,
            State::TimeWait,
            State::Closed,
        ];
        let events =
            [Event::Syn, Event::Opened, Event::Close, Event::Fin, Event::FinAcknowledged, Event::End];
        let mut table = String::new();
        for state in states {
            for event in events {
                let next = state.after(event);
                if next != state && event != Event::End {
                    table += &std::format!("{state:?} {event:?} {next:?}\n");
                }
            }
            assert_eq!(state.after(Event::End), State::Closed);
        }
        let expected = "\
            SynSent Syn SynReceived\n\
            SynSent Opened Established\n\
            SynReceived Opened Established\n\
            Established Close FinWait1\n\
            Established Fin CloseWait\n\
            FinWait1 Fin Closing\n\
            FinWait1 FinAcknowledged FinWait2\n\
            FinWait2 Fin TimeWait\n\
            CloseWait Close LastAck\n\
            Closing FinAcknowledged TimeWait\n\
            LastAck FinAcknowledged Closed\n";
        assert_eq!(table, expected);
    }
}
