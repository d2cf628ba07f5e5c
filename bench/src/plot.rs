//! Curves over size, as SVG: what a chart shows. `draw.rs` draws it.

mod draw;

pub use draw::draw;

/// One diagram with logarithmic axes.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What is shown.
    pub title: String,
    /// How it was measured, a line each, in smaller letters below.
    pub notes: Vec<String>,
    /// What the horizontal axis means; it counts octets.
    pub x: String,
    /// What the vertical axis means, with its unit.
    pub y: String,
    /// The corner of the legend, where no curve is.
    pub legend: Corner,
    /// The curves, in the order of the legend.
    pub curves: Vec<Curve>,
    /// Sizes at which something happens.
    pub marks: Vec<Mark>,
}

/// A corner of the field in which curves are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corner {
    /// For curves that rise, or fall.
    UpperLeft,
    /// For curves that rise.
    LowerRight,
}

/// One curve.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// Which color it has; a curve of ours and its reference have the same.
    pub color: usize,
    /// Ours is drawn, a reference is dashed.
    pub is_ours: bool,
    /// What was measured, from left to right; values that are not above zero are left out.
    pub points: Vec<Point>,
}

/// A median with its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// On the horizontal axis.
    pub x: f64,
    /// The median.
    pub y: f64,
    /// The smallest and the largest value.
    pub spread: [f64; 2],
}

/// A vertical line with a text.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Where.
    pub x: f64,
    /// What is there.
    pub text: String,
}

impl Curve {
    /// The points that a logarithmic axis can show.
    fn shown(&self) -> impl Iterator<Item = &Point> {
        self.points.iter().filter(|point| point.x > 0.0 && point.y > 0.0)
    }
}
