//! What an epoll set wants to hear of a socket: level trigger, edge trigger and one shot, as epoll(7) has them.

/// The interest of one set in one socket. It remembers what it has reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// As `epoll_ctl` took them; modes only once a single shot is spent.
    events: u32,
    /// What the kernel told last of its socket, of [`TOLD`].
    told: u32,
    /// [`Look::tail`] at the latest report.
    tail: u64,
    /// [`Look::full`] at the latest report.
    full: u32,
    /// There was no room at the latest report.
    was_full: bool,
    /// Something else happened that was not reported yet.
    has_edge: bool,
}

/// What a socket is like at a look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// The position behind the last octet that has come.
    pub tail: u64,
    /// There are octets, or the stream's end.
    pub is_readable: bool,
    /// There is room to send, or sending fails at once.
    pub is_writable: bool,
    /// Differs from before whenever a send has found no room.
    pub full: u32,
}

impl Interest {
    /// The interest that `EPOLL_CTL_ADD` begins, with these events and modes.
    #[must_use]
    pub const fn new(events: u32) -> Self {
        Self { events: events | ALWAYS, told: 0, tail: 0, full: 0, was_full: false, has_edge: true }
    }

    /// Changes the events, as `EPOLL_CTL_MOD`: what the socket is ready for is reported again.
    pub const fn modify(&mut self, events: u32) {
        self.events = events | ALWAYS;
        self.has_edge = true;
    }

    /// Notes what the kernel's set tells of the kernel's socket: all that holds by now.
    pub const fn tell(&mut self, events: u32) {
        self.told = events & TOLD;
        self.has_edge = true;
    }

    /// Returns the events to report after a look, 0 for none, and notes them as reported.
    #[inline]
    pub fn report(&mut self, look: &Look) -> u32 {
        let has_edge = self.take_edge(look);
        if self.events & EDGE != 0 && !has_edge {
            return 0;
        }
        let readable = if look.is_readable { READABLE } else { 0 };
        let writable = if look.is_writable { WRITABLE } else { 0 };
        let events = (readable | writable | self.told) & self.events & !MODES;
        if events != 0 && self.events & ONESHOT != 0 {
            self.events &= MODES;
        }
        events
    }

    /// [`Look::tail`] at the latest report.
    #[must_use]
    pub const fn tail(&self) -> u64 {
        self.tail
    }

    /// True if the kernel told any of these events last.
    #[inline]
    #[must_use]
    pub const fn was_told(&self, events: u32) -> bool {
        self.told & events != 0
    }

    /// True if the kernel has nothing new to tell with these events.
    #[must_use]
    pub const fn knows(&self, events: u32) -> bool {
        events & TOLD & !self.told == 0
    }

    /// True if the set wants to hear of octets.
    #[inline]
    #[must_use]
    pub const fn wants_octets(&self) -> bool {
        self.events & READABLE != 0
    }

    /// True if the set wants to hear of room.
    #[inline]
    #[must_use]
    pub const fn wants_room(&self) -> bool {
        self.events & WRITABLE != 0
    }

    /// True if nothing but octets can be told: the kernel told nothing, and the set does not want to hear of room, or has
    /// heard of it. `full` is that of [`Look`].
    #[inline]
    #[must_use]
    pub const fn hears_octets_only(&self, full: u32) -> bool {
        let is_told = self.events & EDGE != 0 && !self.has_edge && !self.was_full && self.full == full;
        self.told == 0 && (!self.wants_room() || is_told)
    }

    /// Returns true if something happened since the latest report that the set wants to hear of.
    fn take_edge(&mut self, look: &Look) -> bool {
        let has_octets = look.tail != self.tail && self.wants_octets();
        let was_full = self.was_full || look.full != self.full;
        let has_room = was_full && look.is_writable && self.wants_room();
        let has_edge = self.has_edge || has_octets || has_room;
        (self.tail, self.full) = (look.tail, look.full);
        (self.was_full, self.has_edge) = (!look.is_writable, false);
        has_edge
    }
}

/// Readable, under all its names.
const READABLE: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM).cast_unsigned();
/// Writable, under all its names.
const WRITABLE: u32 = (libc::EPOLLOUT | libc::EPOLLWRNORM | libc::EPOLLWRBAND).cast_unsigned();
/// Wanted without being asked for.
const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP).cast_unsigned();
/// What only the kernel knows, of a socket whose octets go by a ring.
const TOLD: u32 = (libc::EPOLLERR | libc::EPOLLHUP | libc::EPOLLRDHUP | libc::EPOLLPRI).cast_unsigned();
const EDGE: u32 = libc::EPOLLET.cast_unsigned();
const ONESHOT: u32 = libc::EPOLLONESHOT.cast_unsigned();
/// What is no event.
const MODES: u32 = EDGE | ONESHOT | (libc::EPOLLWAKEUP | libc::EPOLLEXCLUSIVE).cast_unsigned();

#[cfg(test)]
mod tests {
    use super::*;

    const IN: u32 = libc::EPOLLIN.cast_unsigned();
    const OUT: u32 = libc::EPOLLOUT.cast_unsigned();
    const RDHUP: u32 = libc::EPOLLRDHUP.cast_unsigned();
    const HUP: u32 = libc::EPOLLHUP.cast_unsigned();

    /// What happens to a socket between two reports.
    #[derive(Clone, Copy, Debug)]
    enum Happens {
        Nothing,
        /// So many octets come.
        Come(u64),
        /// The program reads so many octets.
        Read(u64),
        /// A send finds no room.
        Full,
        /// The peer makes room.
        Room,
        /// A send finds no room, but there is by now.
        FullAndRoom,
        /// The kernel's set tells this.
        Tell(u32),
        /// `EPOLL_CTL_MOD` with these events.
        Modify(u32),
    }
    use Happens::*;

    /// Goes through steps from a socket with room and no octets on. Compares each report.
    fn check(events: u32, steps: &[(Happens, u32)]) {
        let (mut interest, mut octets) = (Interest::new(events), 0);
        let mut look = Look { tail: 100, is_writable: true, ..Look::default() };
        for (number, (happens, expected)) in steps.iter().enumerate() {
            match *happens {
                Nothing => {}
                Come(some) => (octets, look.tail) = (octets + some, look.tail + some),
                Read(some) => octets -= some,
                Full => (look.is_writable, look.full) = (false, look.full + 1),
                Room => look.is_writable = true,
                FullAndRoom => look.full += 1,
                Tell(told) => interest.tell(told),
                Modify(events) => interest.modify(events),
            }
            look.is_readable = octets > 0;
            let told = interest.report(&look);
            assert_eq!(told, *expected, "{events:x}: step {number}, {happens:?}");
        }
    }

    #[test]
    fn a_level_is_reported_as_long_as_it_holds() {
        check(
            IN,
            &[
                (Nothing, 0),
                (Come(2048), IN),
                (Read(1024), IN),
                (Nothing, IN),
                (Read(1024), 0),
                (Come(1), IN),
            ],
        );
        check(OUT, &[(Nothing, OUT), (Come(1), OUT), (Full, 0), (Nothing, 0), (Room, OUT), (Nothing, OUT)]);
        check(IN | OUT, &[(Nothing, OUT), (Come(1), IN | OUT), (Full, IN), (Read(1), 0)]);
    }

    #[test]
    fn an_edge_is_reported_once() {
        // The example of the manual page: half of what came is read, and the rest is not told again.
        check(IN | EDGE, &[(Come(2048), IN), (Read(1024), 0), (Nothing, 0), (Come(1), IN), (Nothing, 0)]);
        check(IN | EDGE, &[(Come(1), IN), (Read(1), 0), (Come(1), IN), (Come(1), IN)]);
        check(
            OUT | EDGE,
            &[(Nothing, OUT), (Nothing, 0), (Full, 0), (Nothing, 0), (Room, OUT), (Nothing, 0)],
        );
        check(OUT | EDGE, &[(Nothing, OUT), (FullAndRoom, OUT), (Nothing, 0), (Come(5), 0)]);
        check(IN | EDGE, &[(Nothing, 0), (Full, 0), (Room, 0)]);
        // With an edge, all that holds is told.
        check(
            IN | OUT | EDGE,
            &[(Nothing, OUT), (Come(1), IN | OUT), (Full, 0), (Room, IN | OUT), (Nothing, 0)],
        );
    }

    #[test]
    fn a_single_shot_is_spent_until_the_interest_is_changed() {
        for mode in [ONESHOT, ONESHOT | EDGE] {
            let again = Modify(IN | mode);
            check(
                IN | mode,
                &[(Nothing, 0), (Come(9), IN), (Nothing, 0), (Come(9), 0), (again, IN), (Nothing, 0)],
            );
            check(IN | mode, &[(Come(1), IN), (Tell(HUP), 0), (again, IN | HUP)]);
            check(IN | OUT | mode, &[(Nothing, OUT), (Come(1), 0), (Modify(IN | OUT | mode), IN | OUT)]);
        }
    }

    #[test]
    fn a_change_reports_what_holds_again() {
        check(IN | EDGE, &[(Come(1), IN), (Nothing, 0), (Modify(IN | EDGE), IN), (Nothing, 0)]);
        check(IN, &[(Come(1), IN), (Modify(OUT), OUT), (Modify(0), 0), (Modify(IN | OUT), IN | OUT)]);
    }

    #[test]
    fn a_set_that_has_heard_of_room_hears_of_octets_only() {
        let room = Look { is_writable: true, full: 7, ..Look::default() };
        for (events, look, expected) in [
            (IN, room, true),
            (IN | EDGE, room, true),
            (IN | OUT, room, false),
            (IN | OUT | EDGE, room, true),
            (IN | OUT | EDGE, Look { is_writable: false, ..room }, false),
        ] {
            let mut interest = Interest::new(events);
            assert_eq!(interest.hears_octets_only(7), events & OUT == 0, "{events:x}: no look yet");
            interest.report(&look);
            assert_eq!(interest.hears_octets_only(7), expected, "{events:x} {look:?}");
            assert_eq!(interest.hears_octets_only(8), events & OUT == 0, "{events:x}: full since then");
            interest.tell(HUP);
            assert!(!interest.hears_octets_only(7), "{events:x}: the kernel told something");
        }
    }

    #[test]
    fn errors_and_hang_ups_are_told_unasked_and_the_peers_end_only_if_asked() {
        let both = RDHUP | HUP;
        check(IN, &[(Tell(RDHUP), 0), (Tell(both), HUP), (Nothing, HUP)]);
        check(
            IN | RDHUP,
            &[(Tell(RDHUP), RDHUP), (Nothing, RDHUP), (Come(1), IN | RDHUP), (Tell(both), IN | both)],
        );
        check(IN | RDHUP | EDGE, &[(Tell(RDHUP), RDHUP), (Nothing, 0), (Come(1), IN | RDHUP), (Nothing, 0)]);
        check(0, &[(Come(1), 0), (Tell(HUP | IN | OUT), HUP)]);
    }

    #[test]
    fn other_names_of_readable_and_writable_are_told_if_asked() {
        let (normal, out) = (libc::EPOLLRDNORM.cast_unsigned(), libc::EPOLLWRNORM.cast_unsigned());
        check(normal | IN, &[(Come(1), IN | normal)]);
        check(out, &[(Nothing, out)]);
        assert!(Interest::new(normal).wants_octets() && !Interest::new(normal).wants_room());
        assert!(Interest::new(out).wants_room() && !Interest::new(out).wants_octets());
    }
}
