//! Why there is no lane to a host.

/// Why the last attempt to have a lane came to nothing, or why the last lane ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    NoDaemon,
    NoRoute,
    NoAnswer,
    Key,
    Version,
    Addresses,
    Refused,
    Rule,
    Silent,
    Lost,
}

impl Why {
    /// Returns the name that `weft stat sockets` prints.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::NoDaemon => "no-daemon",
            Self::NoRoute => "no-route",
            Self::NoAnswer => "no-answer",
            Self::Key => "key",
            Self::Version => "version",
            Self::Addresses => "addresses",
            Self::Refused => "refused",
            Self::Rule => "rule",
            Self::Silent => "silent",
            Self::Lost => "lost",
        }
    }

    /// Returns a line for the operator about what only an operator can mend, and `None` about all else.
    pub(crate) const fn complaint(self) -> Option<&'static str> {
        match self {
            Self::Key => Some("its daemon has another key (--key), or only one of both daemons has a key"),
            Self::Version => Some("its daemon speaks no version of lanes that this one speaks"),
            _ => None,
        }
    }
}
