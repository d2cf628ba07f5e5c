//! A check: a dialogue with the target, the requirements that it judges, and the judgements.

use std::fmt::Write;

use crate::trial::Trial;

/// A dialogue that judges some requirements of the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// A short name, such as `crc-mismatch`.
    pub name: &'static str,
    /// What is done, in one line.
    pub title: &'static str,
    /// The requirements, such as `5044-4.3-7`: each is judged unless the dialogue ends before.
    pub ids: &'static [&'static str],
    pub(crate) run: fn(&mut Trial<'_>) -> Result<(), Stop>,
}

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

/// Octets as digits, at most `limit` of them from each end.
#[must_use]
pub fn digits(octets: &[u8], limit: usize) -> String {
    let mut out = String::new();
    let mut write = |octets: &[u8]| {
        for octet in octets {
            // A String takes everything.
            let _infallible = write!(out, "{octet:02x}");
        }
    };
    if octets.len() <= 2 * limit {
        write(octets);
        return out;
    }
    write(&octets[..limit]);
    let left_out = octets.len() - 2 * limit;
    let mut tail = digits(&octets[octets.len() - limit..], limit);
    tail.insert_str(0, &format!("…({left_out} octets)…"));
    out.push_str(&tail);
    out
}
