//! The orders of an operator: what a command asks a daemon that runs, and the answers. They go the way of the
//! [messages](crate::message) of processes, and have numbers of their own.

use crate::message::{Encoded, Field, messages};

messages! {
    /// What a command asks a daemon.
    Order:
    /// Asks whether the daemon has lanes to other hosts.
    HasLanes = 64, 0 descriptors {}
    /// Takes the connections of a process back to TCP. The answer comes when that is done.
    Drain = 65, 0 descriptors {
        /// The process.
        pid: u32,
    }
    /// Another daemon takes the address over. The answer brings the socket at which the daemon listens.
    Replace = 66, 0 descriptors {}
    /// The other daemon serves by that socket now. The daemon leaves. Without this word it goes on.
    Replaced = 67, 0 descriptors {}
}

messages! {
    /// What a daemon answers to an [`Order`].
    Answer:
    /// The answer to [`Order::HasLanes`].
    Lanes = 64, 0 descriptors {
        /// Not 0 if the daemon has lanes.
        has: u8,
    }
    /// The answer to [`Order::Drain`].
    Drained = 65, 0 descriptors {
        /// How many connections have gone back to TCP.
        done: u32,
        /// How many have not.
        left: u32,
    }
    /// The answer to [`Order::Replace`]. With it comes the socket at which the daemon listens.
    Listener = 66, 1 descriptors {}
    /// The daemon does not obey.
    Denied = 67, 0 descriptors {
        /// Why.
        why: Denial,
    }
}

/// Why a daemon does not obey an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Denial {
    /// The order comes from a user that may not give it.
    User = 1,
    /// No process with this number is known.
    NoProcess = 2,
    /// The process has ended meanwhile.
    Ended = 3,
    /// Another command has given such an order, which is not done yet.
    Busy = 4,
}

impl Field for Denial {
    fn put(&self, encoded: &mut Encoded) {
        encoded.put(&[*self as u8]);
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        match u8::take(rest)? {
            1 => Some(Self::User),
            2 => Some(Self::NoProcess),
            3 => Some(Self::Ended),
            4 => Some(Self::Busy),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::{ToDaemon, ToProcess};

    proptest! {
        #[test]
        fn orders_and_answers_are_read_back(kind: usize, octets in proptest::collection::vec(any::<u8>(), 16)) {
            if let Some(order) = Order::arbitrary(kind, &octets) {
                prop_assert_eq!(Order::decode(&order.encode()), Some(order));
                prop_assert_eq!(ToDaemon::decode(&order.encode()), None);
            }
            if let Some(answer) = Answer::arbitrary(kind, &octets) {
                prop_assert_eq!(Answer::decode(&answer.encode()), Some(answer));
                prop_assert_eq!(ToProcess::decode(&answer.encode()), None);
            }
        }
    }

    #[test]
    fn what_is_no_order_and_no_answer_is_refused() {
        let drain = Order::Drain { pid: 7 }.encode();
        assert_eq!(Order::decode(&drain[..4]), None);
        assert_eq!(Order::decode(&[&drain[..], &[0]].concat()), None);
        assert_eq!((Order::decode(&[1]), Order::decode(&[])), (None, None));
        assert_eq!(Answer::decode(&[67, 0]), None, "no denial has the number 0");
        assert_eq!((Order::Drain { pid: 7 }.descriptors(), Answer::Listener {}.descriptors()), (0, 1));
    }
}
