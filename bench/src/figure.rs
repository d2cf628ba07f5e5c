//! What a table or figure of a paper consists of, when it is measured anew.

use std::io::{self, Write};

use crate::case::{Quantity, Side};
use crate::process::Outcome;

mod measure;
mod picture;
mod row;

pub(crate) use measure::run;
pub(crate) use picture::turns;

/// One table or figure.
pub(crate) struct Figure {
    /// Its name for `--figure`.
    pub(crate) name: &'static str,
    /// What it shows.
    pub(crate) title: &'static str,
    /// The paper's figures, as far as a sentence can tell them.
    pub(crate) paper: &'static str,
    pub(crate) body: Body,
}

/// What a table or figure consists of.
pub(crate) enum Body {
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
    /// No measurement.
    Text {
        /// Prints it, as JSON or for people.
        print: fn(bool, &mut dyn Write) -> io::Result<()>,
        /// Returns it as a table in Markdown.
        table: fn() -> String,
    },
}

/// A line of a table.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    /// The paper's value.
    pub(crate) paper: &'static str,
    pub(crate) quantity: Quantity,
    /// Makes the sides, in the order of the columns.
    pub(crate) open: fn() -> Compared,
}

/// The sides of a point, in the order of the columns.
pub(crate) type Compared = Vec<Outcome<Box<dyn Side>>>;

impl Figure {
    /// Returns the name of the column of names, and the names of the others.
    pub(crate) fn columns(&self) -> (&'static str, &'static [&'static str]) {
        match self.body {
            Body::Curves { over, columns, .. } => (over, columns),
            Body::Lines { columns, .. } => ("", columns),
            Body::Text { .. } => ("", &[]),
        }
    }
}
