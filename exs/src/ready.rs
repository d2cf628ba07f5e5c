//! For what a socket is ready: what poll(2) asks.

/// For what a socket is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// A receive that is started now ends without further octets of the peer.
    pub readable: bool,
    /// Octets of a send that is started now go out at once, or the send fails at once.
    pub writable: bool,
    /// The connection has ended.
    pub ended: bool,
}

impl Ready {
    /// Returns what a caller is told that waits for `wanted`: nothing if nothing of that is there. The end is always told.
    pub(crate) const fn of(self, wanted: Self) -> Option<Self> {
        let met = Self {
            readable: self.readable && wanted.readable,
            writable: self.writable && wanted.writable,
            ended: self.ended,
        };
        if met.readable || met.writable || met.ended { Some(met) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_asked_for_is_told_and_the_end() {
        let (read, write) =
            (Ready { readable: true, ..Ready::default() }, Ready { writable: true, ..Ready::default() });
        assert_eq!((read.of(read), read.of(write), Ready::default().of(read)), (Some(read), None, None));
        let both = Ready { readable: true, writable: true, ended: false };
        assert_eq!((both.of(read), both.of(both)), (Some(read), Some(both)));
        let end = Ready { ended: true, ..Ready::default() };
        assert_eq!((end.of(Ready::default()), end.of(read)), (Some(end), Some(end)));
    }
}
