//! Curves over size, as SVG: logarithmic axes, readable on a light and on a dark page, without any program or font of its own.

mod axis;
mod draw;

pub use axis::Unit;
pub use draw::draw;

/// One diagram.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What is shown.
    pub title: String,
    /// How it was measured, in smaller letters below.
    pub subtitle: String,
    /// What the horizontal axis means, and its unit.
    pub x: (String, Unit),
    /// What the vertical axis means, and its unit.
    pub y: (String, Unit),
    /// The curves, in the order of the legend.
    pub curves: Vec<Curve>,
    /// Sizes at which something happens.
    pub marks: Vec<Mark>,
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
