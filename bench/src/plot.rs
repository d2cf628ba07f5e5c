//! The contents of a chart: curves over size. `draw.rs` draws it as SVG.

use std::path::Path;

use crate::case::Trouble;

mod draw;

pub use draw::draw;

/// One diagram with logarithmic axes.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The title.
    pub title: String,
    /// Notes on the measurement, a line each, in smaller letters below.
    pub notes: Vec<String>,
    /// The title of the horizontal axis.
    pub x: String,
    /// The horizontal axis counts octets.
    pub has_octets: bool,
    /// The title of the vertical axis, with its unit.
    pub y: String,
    /// The corner for the legend, away from the curves.
    pub legend: Corner,
    /// The curves, in the order of the legend.
    pub curves: Vec<Curve>,
    /// Marks at sizes.
    pub marks: Vec<Mark>,
}

/// A corner of the field in which curves are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corner {
    /// The corner for curves that rise, or fall.
    UpperLeft,
    /// The corner for curves that rise.
    LowerRight,
    /// The corner for curves that fall.
    LowerLeft,
}

/// One curve.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// The number of its color. A curve of ours and its reference have the same.
    pub color: usize,
    /// The curve is ours and drawn in full. A reference is dashed.
    pub is_ours: bool,
    /// The measured points, from left to right. Values that are not above zero are left out.
    pub points: Vec<Point>,
}

/// A median with its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The place on the horizontal axis.
    pub x: f64,
    /// The median.
    pub y: f64,
    /// The smallest and the largest value.
    pub spread: [f64; 2],
}

/// A vertical line with a text.
#[derive(Clone, Debug)]
pub struct Mark {
    /// The place on the horizontal axis.
    pub x: f64,
    /// The text.
    pub text: String,
}

/// Writes a drawing to a file.
pub(crate) fn write(file: &Path, svg: &str) -> Result<(), Trouble> {
    std::fs::write(file, svg)
        .map_err(|error| Trouble::failed(format!("cannot write {}: {error}", file.display())))
}

impl Curve {
    /// Returns the points that a logarithmic axis can show.
    fn shown(&self) -> impl Iterator<Item = &Point> {
        self.points.iter().filter(|point| point.x > 0.0 && point.y > 0.0)
    }
}
