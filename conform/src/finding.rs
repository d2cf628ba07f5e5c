//! What a check has found: a verdict on each requirement, with the octets that show it.

/// What a check found out about one requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The requirement.
    pub id: &'static str,
    /// The check that judged it.
    pub check: &'static str,
    /// Whether the target keeps it.
    pub verdict: Verdict,
}

/// Whether the target keeps a requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Pass,
    /// It does not.
    Fail(Evidence),
    /// It could not be seen, and why.
    Inconclusive(String),
}

/// What shows that a requirement is not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// What would have been right.
    pub expected: String,
    /// What came instead.
    pub observed: String,
    /// All octets that the tester sent on this connection, up to then.
    pub sent: Vec<u8>,
    /// All octets that it received.
    pub received: Vec<u8>,
}

/// Why a dialogue ends before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A judgement says it all; the rest cannot be seen any more.
    Judged,
    /// The target does something else than the check needs, without being wrong.
    Unsuited(String),
    /// There is no connection any more to be had.
    Gone(String),
}

impl Verdict {
    /// A word for it.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail(_) => "fail",
            Self::Inconclusive(_) => "inconclusive",
        }
    }
}
