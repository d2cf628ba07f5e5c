//! The states of an id, and what each allows.
//!
//! ```text
//!          Bind             Listen
//!   Idle ────────▶ Bound ────────────▶ Listening ┄┄ ConnectRequest ┄┄▶ Requested ── Reject ──▶ Over
//!     │ ResolveAddr  │ ResolveAddr                                        │ Accept
//!     └──────┬───────┘                                                    ▼
//!            ▼                                                        Accepting
//!     ResolvingAddr ─▶ AddrResolved ─▶ ResolvingRoute ─▶ RouteResolved    │ Established
//!                                                          │ Connect      ▼
//!                                                          ▼           Connected ─▶ Disconnecting ─▶ Over
//!                                                      Connecting ────────▲
//! ```
//! A failed resolution leads back to where it began, a failed connection attempt to Over; an id connects once, as in
//! librdmacm.

/// The state of an [`crate::Id`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// The id was made, and nothing else has happened.
    Idle,
    /// It has an address of its own.
    Bound,
    /// `AddrResolved` or `AddrError` has not been taken yet.
    ResolvingAddr,
    /// The device and the peer's address are known.
    AddrResolved,
    /// `RouteResolved` or `RouteError` has not been taken yet.
    ResolvingRoute,
    /// Ready to connect.
    RouteResolved,
    /// Connect requests come.
    Listening,
    /// Made by a connect request that has not been answered.
    Requested,
    /// The peer's answer has not been taken yet.
    Connecting,
    /// Accepted; `Established` has not been taken yet.
    Accepting,
    /// The connection is established, as far as the events that were taken tell.
    Connected,
    /// This side has asked for the end; `Disconnected` has not been taken yet.
    Disconnecting,
    /// Rejected, failed, or disconnected.
    Over,
    /// The device is gone.
    Removed,
}

/// What moves an id from state to state: calls, then events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// [`crate::Id::bind`].
    Bind,
    /// [`crate::Id::resolve_addr`].
    ResolveAddr,
    /// [`crate::Id::resolve_route`].
    ResolveRoute,
    /// [`crate::Id::listen`].
    Listen,
    /// [`crate::Id::get_request`].
    GetRequest,
    /// [`crate::Id::connect`].
    Connect,
    /// [`crate::Id::accept`].
    Accept,
    /// [`crate::Id::reject`].
    Reject,
    /// [`crate::Id::establish`].
    Establish,
    /// [`crate::Id::disconnect`].
    Disconnect,
    /// The event AddrResolved or RouteResolved was taken.
    Resolved,
    /// The event AddrError or RouteError was taken.
    Unresolved,
    /// The event Established was taken.
    Established,
    /// The event Rejected, Unreachable or ConnectError was taken.
    Failed,
    /// The event Disconnected was taken.
    Disconnected,
    /// The device was taken away.
    Removal,
}

impl State {
    /// Returns the state after `op`, or `None` where it is not allowed (a call) or means nothing (an event).
    pub const fn after(self, op: Op) -> Option<Self> {
        Some(match (self, op) {
            (Self::Idle, Op::Bind) => Self::Bound,
            (Self::Idle | Self::Bound, Op::ResolveAddr) => Self::ResolvingAddr,
            (Self::Idle | Self::Bound, Op::Listen) => Self::Listening,
            (Self::Listening, Op::GetRequest) => Self::Listening,
            (Self::ResolvingAddr, Op::Resolved) => Self::AddrResolved,
            (Self::ResolvingAddr, Op::Unresolved) => Self::Bound,
            (Self::AddrResolved, Op::ResolveRoute) => Self::ResolvingRoute,
            (Self::ResolvingRoute, Op::Resolved) => Self::RouteResolved,
            (Self::ResolvingRoute, Op::Unresolved) => Self::AddrResolved,
            (Self::RouteResolved, Op::Connect) => Self::Connecting,
            (Self::Requested, Op::Accept) => Self::Accepting,
            (Self::Requested, Op::Reject) => Self::Over,
            (Self::Connecting | Self::Accepting, Op::Established) => Self::Connected,
            (Self::Connecting, Op::Failed) | (Self::Disconnecting, Op::Failed) => Self::Over,
            (Self::Connected, Op::Establish) => Self::Connected,
            (Self::Connecting | Self::Accepting | Self::Connected, Op::Disconnect) => Self::Disconnecting,
            // The application may end a connection after the event of its end, as users of librdmacm do.
            (Self::Disconnecting | Self::Over | Self::Removed, Op::Disconnect) => self,
            (Self::Disconnecting, Op::Established) => Self::Disconnecting,
            (
                Self::Connecting | Self::Accepting | Self::Connected | Self::Disconnecting,
                Op::Disconnected,
            ) => Self::Over,
            (_, Op::Removal) => Self::Removed,
            _ => return None,
        })
    }

    /// Returns the state in words, as errors have it.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Bound => "bound",
            Self::ResolvingAddr => "resolving its address",
            Self::AddrResolved => "address-resolved",
            Self::ResolvingRoute => "resolving its route",
            Self::RouteResolved => "route-resolved",
            Self::Listening => "listening",
            Self::Requested => "an unanswered request",
            Self::Connecting => "connecting",
            Self::Accepting => "accepting",
            Self::Connected => "connected",
            Self::Disconnecting => "disconnecting",
            Self::Over => "over",
            Self::Removed => "without its device",
        }
    }
}

impl Op {
    /// Returns the call or event, as errors have it.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Bind => "bind",
            Self::ResolveAddr => "resolve an address",
            Self::ResolveRoute => "resolve a route",
            Self::Listen => "listen",
            Self::GetRequest => "take a request",
            Self::Connect => "connect",
            Self::Accept => "accept",
            Self::Reject => "reject",
            Self::Establish => "confirm its connection",
            Self::Disconnect => "disconnect",
            Self::Resolved => "be resolved",
            Self::Unresolved => "fail to be resolved",
            Self::Established => "be established",
            Self::Failed => "fail",
            Self::Disconnected => "be disconnected",
            Self::Removal => "lose its device",
        }
    }
}

impl core::fmt::Display for State {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.describe())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Op::{
        Accept, Bind, Connect, Disconnect, Disconnected, Establish, Established, Failed, GetRequest, Listen,
        Reject, Removal, ResolveAddr, ResolveRoute, Resolved, Unresolved,
    };

    const STATES: [State; 14] = [
        State::Idle,
        State::Bound,
        State::ResolvingAddr,
        State::AddrResolved,
        State::ResolvingRoute,
        State::RouteResolved,
        State::Listening,
        State::Requested,
        State::Connecting,
        State::Accepting,
        State::Connected,
        State::Disconnecting,
        State::Over,
        State::Removed,
    ];
    const OPS: [Op; 16] = [
        Bind,
        ResolveAddr,
        ResolveRoute,
        Listen,
        GetRequest,
        Connect,
        Accept,
        Reject,
        Establish,
        Disconnect,
        Resolved,
        Unresolved,
        Established,
        Failed,
        Disconnected,
        Removal,
    ];

    /// Every pair of state and operation, so that a change of the table shows here.
    #[test]
    fn the_whole_table() {
        let mut table = String::new();
        for state in STATES {
            let cells = OPS.iter().filter_map(|&op| state.after(op).map(|next| format!("{op:?}={next:?}")));
            table.push_str(&format!("{state:?}: {}\n", cells.collect::<Vec<_>>().join(" ")));
        }
        let expected = "\
Idle: Bind=Bound ResolveAddr=ResolvingAddr Listen=Listening Removal=Removed
Bound: ResolveAddr=ResolvingAddr Listen=Listening Removal=Removed
ResolvingAddr: Resolved=AddrResolved Unresolved=Bound Removal=Removed
AddrResolved: ResolveRoute=ResolvingRoute Removal=Removed
ResolvingRoute: Resolved=RouteResolved Unresolved=AddrResolved Removal=Removed
RouteResolved: Connect=Connecting Removal=Removed
Listening: GetRequest=Listening Removal=Removed
Requested: Accept=Accepting Reject=Over Removal=Removed
Connecting: Disconnect=Disconnecting Established=Connected Failed=Over Disconnected=Over Removal=Removed
Accepting: Disconnect=Disconnecting Established=Connected Disconnected=Over Removal=Removed
Connected: Establish=Connected Disconnect=Disconnecting Disconnected=Over Removal=Removed
Disconnecting: Disconnect=Disconnecting Established=Disconnecting Failed=Over Disconnected=Over Removal=Removed
Over: Disconnect=Over Removal=Removed
Removed: Disconnect=Removed Removal=Removed
";
        assert_eq!(table, expected);
    }

    #[test]
    fn everything_has_words_of_its_own() {
        let mut words: Vec<_> = STATES.iter().map(|state| state.describe()).collect();
        words.extend(OPS.iter().map(|op| op.describe()));
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), STATES.len() + OPS.len());
    }
}
