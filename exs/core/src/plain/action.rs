//! What a socket over TCP alone wants to have done.

use crate::op::{Op, OpError, Outcome};

/// Something to be done. The caller does all of them in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlainAction {
    /// Give TCP these octets of the operation's memory, as many as there is room for. `Plain::handle_sent` answers.
    Send {
        /// The operation.
        op: Op,
        /// The first octet.
        at: u32,
        /// Octets, at least 1.
        len: u32,
    },
    /// Take octets off TCP to this place of the operation's memory, as many as are there. `Plain::handle_received` or
    /// `Plain::handle_finished` answers.
    Receive {
        /// The operation.
        op: Op,
        /// Where the first octet goes.
        at: u32,
        /// Octets at most, at least 1.
        len: u32,
    },
    /// Look whether TCP has octets, which stay there. `Plain::handle_look` or `Plain::handle_finished` answers.
    Look,
    /// Close the sending direction of TCP, behind what it was given.
    Finish,
    /// Ask TCP whether the peer has acknowledged all octets. `Plain::handle_delivery` answers.
    Confirm,
    /// The operation has ended. Its memory is the user's again.
    Complete {
        /// The operation.
        op: Op,
        /// How it has ended.
        result: Result<Outcome, OpError>,
    },
    /// The connection has ended: TCP is given up, by RST if not all of it `is_done`.
    End {
        /// Both directions are closed, and no octet was lost.
        is_done: bool,
    },
    /// The socket is closed: no operation is left. `Plain::closed` tells how.
    Closed,
}
