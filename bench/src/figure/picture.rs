//! Figures as Markdown and as SVG.

use core::fmt::Write as _;

use super::row::Row;
use super::{Body, Figure};
use crate::case::{Effort, Trouble};
use crate::markdown::wrapped;
use crate::plot::{self, Chart, Corner, Curve};
use crate::process::Outcome;

/// Returns the table of a figure.
pub(crate) fn table(figure: &Figure, rows: &[Row], effort: &Effort) -> String {
    let (over, columns) = figure.columns();
    let is_compared = columns.len() > 1;
    let has_paper = rows.iter().any(|row| !row.paper().is_empty());
    let about = format!("**{}.** In the paper: {}. {}.", figure.title, figure.paper, turns(effort));
    let mut text = format!("{}\n\n", wrapped(&about));
    let mut heading = vec![over];
    heading.extend(columns);
    heading.extend(is_compared.then_some("ratio"));
    heading.extend(has_paper.then_some("paper"));
    let mut line = |cells: &[&str]| {
        // Writing to a string does not fail.
        let _ok = writeln!(text, "| {} |", cells.join(" | "));
    };
    line(&heading);
    line(&vec!["---"; heading.len()]);
    for row in rows {
        let ((cells, ratio), paper) = (row.cells(), row.paper());
        let mut all = vec![row.name.as_str()];
        all.extend(cells.iter().map(String::as_str));
        all.extend(is_compared.then_some(ratio.as_str()));
        all.extend(has_paper.then(|| paper.trim_start_matches("paper: ")));
        line(&all);
    }
    text
}

/// Returns how a figure was measured.
pub(crate) fn turns(effort: &Effort) -> String {
    format!("{} turns of {} ms of each side", effort.pairs, effort.turn.as_millis())
}

/// Draws the curves of a figure.
pub(crate) fn draw(figure: &Figure, rows: &[Row], effort: &Effort) -> Outcome<String> {
    let Body::Curves { over, quantity, columns, points, .. } = figure.body else {
        return Err(Trouble::failed(format!("{} is a table, which cannot be drawn", figure.name)));
    };
    let curve = |(index, name): (usize, &&str)| {
        let values = points.iter().zip(rows).filter_map(|(point, row)| Some((point, row.spread(index)?)));
        let points = values.map(|(&point, spread)| plot::Point {
            x: point as f64,
            y: spread.median,
            spread: [spread.min, spread.max],
        });
        Curve {
            name: (*name).to_owned(),
            color: index.saturating_sub(1),
            is_ours: index == 0,
            points: points.collect(),
        }
    };
    let chart = Chart {
        title: figure.title.to_owned(),
        notes: vec![format!("In the paper: {}", figure.paper), turns(effort)],
        x: over.to_owned(),
        has_octets: over == "octets",
        y: quantity.unit().to_owned(),
        legend: Corner::UpperLeft,
        curves: columns.iter().enumerate().map(curve).collect(),
        marks: Vec::new(),
    };
    plot::draw(&[chart])
}
