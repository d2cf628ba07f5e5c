//! Why a connection stays on TCP.

/// Declares the reasons once: number, name for machines, text for people.
macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal, $text:literal;)+) => {
        /// Why a connection stays on TCP, or went back to it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Reason { $($(#[$doc])* $variant = $number,)+ }

        impl Reason {
            /// All reasons, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Returns the name that `weft stat sockets` prints.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// Returns a sentence for people.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// True if the connection is to stay on TCP for this reason: something in the program needs the kernel's stream,
            /// a rule forbids the upgrade, or several processes hold an end.
            #[must_use]
            pub const fn is_wanted(self) -> bool {
                !matches!(
                    self,
                    Self::NoDaemon | Self::NoPartner | Self::Short | Self::Version | Self::Peer | Self::Limit
                )
            }

            /// Returns the reason with this number.
            #[must_use]
            pub const fn from_number(number: u8) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

reasons! {
    /// No daemon answers.
    NoDaemon = 1, "no-daemon", "no daemon answers: weft daemon starts one";
    /// Nobody claimed the other end.
    NoPartner = 2, "no-partner", "the program at the other end does not run under weft sockets";
    /// The kernel cannot tell what is needed.
    Kernel = 3, "kernel", "this kernel does not count the octets of a connection (Linux 5.14 does)";
    /// A seccomp filter is there.
    Seccomp = 4, "seccomp", "a seccomp filter of the program refuses calls that are needed";
    /// The connection ended before it was worth it, or before the upgrade.
    Short = 5, "short", "the connection moved too little for an upgrade, or ended before it";
    /// Several processes hold it.
    Shared = 6, "shared", "several processes hold this end";
    /// Octets went past the hooks.
    Evidence = 7, "evidence", "octets were moved by calls that the library does not see";
    /// A rule of the daemon.
    Rules = 8, "rules", "a rule of the daemon denies it";
    /// The daemon speaks no version that the library knows.
    Version = 9, "version", "the daemon and the library have no version in common";
    /// The descriptor was passed on.
    Passed = 10, "passed", "the descriptor was passed to another program";
    /// The set of epoll is shared with, or belongs to, another process.
    SharedForeign = 11, "shared-foreign", "an epoll set that holds it belongs to several processes";
    /// An option of the socket.
    Option = 12, "option", "an option of the socket needs the kernel's TCP";
    /// Urgent data.
    Urgent = 13, "urgent", "urgent data was sent";
    /// stdio has it.
    Stdio = 14, "stdio", "the program uses the socket by stdio";
    /// exec of a program that cannot be hooked.
    Exec = 15, "exec", "a program took it over by exec";
    /// Octets of somebody unhooked arrived.
    Foreign = 16, "foreign", "a process without the library wrote to it";
    /// The peer broke a rule of the link.
    Peer = 17, "peer", "the process at the other end broke a rule of the shared memory";
    /// The lane to the other host is lost.
    Lane = 18, "lane", "the connection between the hosts' daemons was lost";
    /// It was lowered on request.
    Drained = 19, "drained", "the process was drained";
    /// A limit was reached.
    Limit = 20, "limit", "the daemon or the process has no room for another connection";
    /// The other end declined.
    Refused = 21, "refused", "the other end declined";
    /// The process has another user than the rest of its family.
    User = 22, "user", "the process has another user than the one that it was forked from";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_numbers_names_and_texts_of_their_own() {
        for reason in Reason::ALL {
            assert_eq!(Reason::from_number(*reason as u8), Some(*reason));
            let same = Reason::ALL
                .iter()
                .filter(|other| other.name() == reason.name() || other.text() == reason.text());
            assert_eq!(same.count(), 1, "{reason:?}");
        }
        assert_eq!(Reason::from_number(0), None);
    }
}
