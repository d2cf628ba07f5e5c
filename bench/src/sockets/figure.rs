//! What a table or figure of two papers consists of.
//!
//! S0 is the thesis "Low-Latency Implementation of Network Sockets over Remote DMA", S1 is SocksDirect (SIGCOMM 2019).

use super::carrier::Carrier;
use super::compatibility::Feature;
use super::process::Outcome;
use crate::case::{Quantity, Side};

/// One table or figure.
pub(super) struct Figure {
    /// Its name for `--figure`.
    pub(super) name: &'static str,
    /// What it shows.
    pub(super) title: &'static str,
    /// The paper's figures, as far as a sentence can tell them.
    pub(super) paper: &'static str,
    pub(super) body: Body,
}

/// What a table or figure consists of.
pub(super) enum Body {
    /// A value for each point and column, which can be drawn.
    Curves {
        /// The quantity on the abscissa.
        over: &'static str,
        quantity: Quantity,
        /// The names of the sides. The first one is ours.
        columns: &'static [&'static str],
        points: &'static [usize],
        /// Makes the sides of a point, in the order of the columns.
        open: fn(usize) -> Compared,
    },
    /// A value for each line and column.
    Lines { columns: &'static [&'static str], lines: &'static [Line] },
    /// A test for each feature.
    Features(&'static [Feature]),
}

/// A line of a table.
pub(super) struct Line {
    pub(super) name: &'static str,
    /// The paper's value.
    pub(super) paper: &'static str,
    pub(super) quantity: Quantity,
    /// Makes the sides, in the order of the columns.
    pub(super) open: fn() -> Compared,
}

/// The sides of a point, in the order of the columns.
pub(super) type Compared = Vec<Outcome<Box<dyn Side>>>;

/// Returns a program on each carrier, in the order of the columns.
pub(super) fn compare(
    carriers: [Outcome<Carrier>; 2],
    start: impl Fn(&Carrier) -> Outcome<Box<dyn Side>>,
) -> Compared {
    carriers.into_iter().map(|carrier| carrier.and_then(|carrier| start(&carrier))).collect()
}

impl Figure {
    /// Returns the name of the column of names, and the names of the others.
    pub(super) fn columns(&self) -> (&'static str, &'static [&'static str]) {
        match self.body {
            Body::Curves { over, columns, .. } => (over, columns),
            Body::Lines { columns, .. } => ("", columns),
            Body::Features(_) => ("", &[]),
        }
    }
}
