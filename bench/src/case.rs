//! Cases: a comparison of ours with its references.

use core::fmt;
use std::time::Duration;

/// One comparison: a side of ours, and the references that it is compared with. Each reference gives a row.
#[derive(Debug)]
pub struct Case {
    /// Its name in the table, and for `--only`.
    pub name: &'static str,
    /// The quantity that is measured.
    pub quantity: Quantity,
    /// The references, a row each.
    pub references: &'static [Reference],
    /// How much faster than real time the clocks of the TCPs in it run.
    pub clock_scale: u32,
    /// Makes the sides: ours, and the references in the order of [`Case::references`].
    pub open: fn(&Self, &Effort) -> Result<Sides, Trouble>,
}

/// The other side of a comparison.
#[derive(Debug)]
pub struct Reference {
    /// Its name in the table.
    pub name: &'static str,
    /// The target of the comparison, if it has one.
    pub target: Option<Target>,
    /// The reference is a foreign program that may be missing, and so may the row.
    pub is_optional: bool,
}

impl Reference {
    /// Returns a reference with a target.
    pub const fn with_target(name: &'static str, target: Target) -> Self {
        Self { name, target: Some(target), is_optional: false }
    }

    /// Returns a reference without a target.
    pub const fn shown(name: &'static str) -> Self {
        Self { name, target: None, is_optional: false }
    }
}

/// The target of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// The ratio of ours to the reference is at least this.
    RatioAtLeast(f64),
    /// The ratio of ours to the reference is at most this.
    RatioAtMost(f64),
    /// Our value is at most this, whatever the reference has.
    ValueAtMost(f64),
    /// Our value is at least this, whatever the reference has.
    ValueAtLeast(f64),
    /// Our value lies between these, whatever the reference has.
    ValueWithin(f64, f64),
    /// Our value is at most the first of these, and its ratio to the reference at most the second.
    BothAtMost(f64, f64),
}

impl Target {
    /// Returns the number; of two numbers about the value the larger one.
    pub const fn bound(self) -> f64 {
        match self {
            Self::RatioAtLeast(bound)
            | Self::RatioAtMost(bound)
            | Self::ValueAtMost(bound)
            | Self::ValueAtLeast(bound)
            | Self::ValueWithin(_, bound)
            | Self::BothAtMost(bound, _) => bound,
        }
    }

    /// Returns true if our value, or its ratio to the reference, meets the target.
    pub fn is_met(self, value: f64, ratio: f64) -> bool {
        match self {
            Self::RatioAtLeast(bound) => ratio >= bound,
            Self::RatioAtMost(bound) => ratio <= bound,
            Self::ValueAtMost(bound) => value <= bound,
            Self::ValueAtLeast(bound) => value >= bound,
            Self::ValueWithin(low, high) => (low..=high).contains(&value),
            Self::BothAtMost(most, bound) => value <= most && ratio <= bound,
        }
    }

    /// Returns true if the ratio is worse than this part of what the target asks for. A target of the value alone asks
    /// for no ratio.
    pub fn is_far_from(self, ratio: f64, part: f64) -> bool {
        match self {
            Self::RatioAtLeast(bound) => ratio < bound * part,
            Self::RatioAtMost(bound) | Self::BothAtMost(_, bound) => ratio > bound / part,
            Self::ValueAtMost(_) | Self::ValueAtLeast(_) | Self::ValueWithin(..) => false,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RatioAtLeast(bound) => write!(f, ">= {bound}"),
            Self::RatioAtMost(bound) => write!(f, "<= {bound}"),
            Self::ValueAtMost(bound) => write!(f, "value <= {bound}"),
            Self::ValueAtLeast(bound) => write!(f, "value >= {bound}"),
            Self::ValueWithin(low, high) => write!(f, "value {low} to {high}"),
            Self::BothAtMost(most, bound) => write!(f, "value <= {most}, <= {bound}"),
        }
    }
}

/// The quantity that a case measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// 10^9 octets of user data in a second.
    Throughput,
    /// 10^6 octets of user data in a second.
    Goodput,
    /// Microseconds for one transfer or round trip.
    Micros,
    /// Nanoseconds for one call.
    Nanos,
    /// Millions of messages in a second.
    Rate,
    /// Transfers in a second.
    Frequency,
    /// Milliseconds that a side has measured by itself: of the longest time without an arrival, or until the full rate is
    /// back.
    Stall,
    /// A part of a whole.
    Share,
    /// A part of a whole that is of no use.
    Waste,
    /// Frames that a queue has lost.
    Drops,
    /// A part of a core that is used.
    Core,
    /// Microseconds that a side has measured by itself: a percentile, or CPU time.
    Measured,
    /// Switches to threads in 1000 operations.
    Switches,
}

/// The direction in which values are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Larger values are better.
    Higher,
    /// Smaller values are better.
    Lower,
}

impl Quantity {
    /// Returns its unit in the table; empty for none.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Throughput => "GB/s",
            Self::Goodput => "MB/s",
            Self::Micros => "us",
            Self::Nanos => "ns",
            Self::Rate => "M/s",
            Self::Frequency => "/s",
            Self::Stall => "ms",
            Self::Share | Self::Waste => "",
            Self::Drops => "frames",
            Self::Core => "core",
            Self::Measured => "us",
            Self::Switches => "/1000",
        }
    }

    /// Returns the direction in which values are better.
    pub const fn better(self) -> Better {
        match self {
            Self::Throughput | Self::Goodput | Self::Rate | Self::Frequency | Self::Share => Better::Higher,
            Self::Micros
            | Self::Nanos
            | Self::Stall
            | Self::Waste
            | Self::Drops
            | Self::Core
            | Self::Measured
            | Self::Switches => Better::Lower,
        }
    }
}

impl Better {
    /// Returns its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Higher => "higher",
            Self::Lower => "lower",
        }
    }
}

/// How much work a turn does.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The least time of all timed parts of a turn.
    pub turn: Duration,
    /// Turns of each side.
    pub pairs: usize,
    /// All sizes and numbers are small: a test that the cases work.
    pub is_tiny: bool,
}

impl Effort {
    /// Returns a size in octets, or a small one for a tiny effort.
    pub fn octets(&self, wanted: usize) -> usize {
        if self.is_tiny { wanted.min(3000) } else { wanted }
    }

    /// Returns a number of things, or a few for a tiny effort.
    pub fn count(&self, wanted: usize) -> usize {
        if self.is_tiny { wanted.min(8) } else { wanted }
    }
}

/// The sides that take turns: two or more that do the same work.
pub struct Sides {
    /// Ours.
    pub ours: Box<dyn Side>,
    /// The references.
    pub references: Vec<Box<dyn Side>>,
}

impl fmt::Debug for Sides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sides").field("references", &self.references.len()).finish_non_exhaustive()
    }
}

/// A side of a comparison, which works in turns.
pub trait Side {
    /// Does one turn as `effort` wants it, and checks every octet that has arrived.
    ///
    /// # Errors
    /// [`Trouble::Failed`], above all when an octet differs from the one sent.
    fn turn(&mut self, effort: &Effort) -> Result<Sample, Trouble>;

    /// Returns true if each turn warms up by itself, so that the first one counts like all others.
    fn is_fresh(&self) -> bool {
        false
    }

    /// Returns the part of a target's ratio below which the whole run fails. `None` if no ratio is that bad.
    fn floor(&self) -> Option<f64> {
        None
    }
}

/// The result of one turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// Real time of the timed parts.
    pub wall: Duration,
    /// CPU time of all threads in them.
    pub cpu: Duration,
    /// Transfers, messages, round trips or calls.
    pub transfers: u64,
    /// Octets of user data in them.
    pub octets: u64,
    /// Transfers whose octets were all compared at the sink. A turn that checks fewer than it transfers is a failure.
    pub checked: u64,
    /// The value of a quantity that does not follow from the other fields, such as [`Quantity::Stall`].
    pub figure: f64,
}

impl Sample {
    /// Returns the value.
    pub fn value(&self, quantity: Quantity) -> f64 {
        let seconds = self.wall.as_secs_f64();
        let transfers = self.transfers as f64;
        match quantity {
            Quantity::Throughput => self.octets as f64 / seconds / 1e9,
            Quantity::Goodput => self.octets as f64 / seconds / 1e6,
            Quantity::Micros => seconds * 1e6 / transfers,
            Quantity::Nanos => seconds * 1e9 / transfers,
            Quantity::Rate => transfers / seconds / 1e6,
            Quantity::Frequency => transfers / seconds,
            Quantity::Stall
            | Quantity::Share
            | Quantity::Waste
            | Quantity::Drops
            | Quantity::Core
            | Quantity::Measured
            | Quantity::Switches => self.figure,
        }
    }
}

/// The reason for a missing row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The machine does not allow the case, or lacks a program.
    Skipped(String),
    /// The case failed, or octets were wrong.
    Failed(String),
}

impl Trouble {
    /// Returns a failure for this reason.
    pub fn failed(reason: impl fmt::Display) -> Self {
        Self::Failed(reason.to_string())
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skipped(reason) => write!(f, "skipped: {reason}"),
            Self::Failed(reason) => f.write_str(reason),
        }
    }
}

impl core::error::Error for Trouble {}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Self::failed(error)
    }
}
