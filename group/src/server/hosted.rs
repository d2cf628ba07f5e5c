//! A session at this replica, while it comes up and while it works.

use weft_rnic::{Qp, RequestId};

use crate::control::{Member, Open, Opened};
use crate::greeting::Token;
use crate::link::Link;
use crate::replica::Replica;

/// A session at this replica.
#[derive(Debug)]
pub(super) struct Hosted {
    pub(super) open: Open,
    pub(super) replica: Replica,
    pub(super) inward: Token,
    /// Admits the client to OUT, at the tail.
    pub(super) outward: Token,
    /// The numbers of the connections of IN and of OUT.
    pub(super) numbers: [u64; 2],
    /// The way to the next replica; `None` at the tail.
    pub(super) next: Option<Next>,
    /// The Open was answered.
    pub(super) is_answered: bool,
    /// The program is posted: OUT is connected, and IN may be.
    pub(super) is_begun: bool,
    /// IN has accepted a connection, or is about to.
    pub(super) is_entered: bool,
    /// A connection to IN that came before the program was posted.
    pub(super) waiting: Option<RequestId>,
}

/// The next replica of the chain.
#[derive(Debug)]
pub(super) struct Next {
    pub(super) number: u64,
    pub(super) link: Link,
    /// What it has answered to Open.
    pub(super) opened: Option<Opened>,
}

impl Hosted {
    /// Returns the next replica of the chain; `None` at the tail.
    pub(super) fn successor(&self) -> Option<Member> {
        self.open.members.get(self.open.index + 1).copied()
    }

    /// Returns what the predecessor needs; `None` while the next replica has not answered.
    pub(super) fn opened(&self) -> Option<Opened> {
        let data_in = self.replica.data_in().0;
        match (&self.next, self.replica.data_out()) {
            (Some(next), _) => Some(Opened { data_in, inward: self.inward, ..next.opened? }),
            (None, Some(data_out)) => {
                Some(Opened { data_in, inward: self.inward, outward: self.outward, data_out: data_out.0 })
            }
            (None, None) => None,
        }
    }

    /// Returns IN, with the number of its connection.
    pub(super) fn inward(&self) -> (&Qp, u64) {
        (self.replica.inward(), self.numbers[0])
    }

    /// Returns OUT, with the number of its connection.
    pub(super) fn outward(&self) -> (&Qp, u64) {
        (self.replica.outward(), self.numbers[1])
    }
}
