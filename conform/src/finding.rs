//! The result of a check: a verdict on each requirement, with the octets that show it.

/// The result of one check for one requirement.
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
    /// The target keeps it.
    Pass,
    /// The target breaks it.
    Fail(Evidence),
    /// The check could not judge it. The text says why.
    Inconclusive(String),
}

/// The octets and words that show that a requirement is not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The right behaviour.
    pub expected: String,
    /// The observed behaviour.
    pub observed: String,
    /// All octets that the tester sent on this connection until then.
    pub sent: Vec<u8>,
    /// All octets that it received.
    pub received: Vec<u8>,
}

/// Why a dialogue ends early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A judgement has been made, and the rest of the dialogue cannot be seen.
    Judged,
    /// The target behaves differently from what the check needs, without being wrong.
    Unsuited(String),
    /// The target no longer takes connections.
    Gone(String),
}

impl Verdict {
    /// Returns a word for the verdict.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail(_) => "fail",
            Self::Inconclusive(_) => "inconclusive",
        }
    }
}
