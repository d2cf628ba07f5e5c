//! Throughput over loss as curves, a diagram for each delay.

use super::cases::place;
use crate::case::Effort;
use crate::figure::turns;
use crate::harness::{Row, Spread};
use crate::plot::{self, Chart, Corner, Curve, Mark, Point};
use crate::process::Outcome;

/// Draws the rows that have a loss and a delay.
pub(super) fn draw(rows: &[Row], effort: &Effort) -> Outcome<String> {
    plot::draw(&charts(rows, effort))
}

fn charts(rows: &[Row], effort: &Effort) -> Vec<Chart> {
    let places = || rows.iter().filter_map(|row| place(row.case.name).map(|place| (row, place)));
    let mut delays: Vec<u64> = places().map(|(_, (_, delay))| delay).collect();
    delays.sort_unstable();
    delays.dedup();
    let chart = |delay: u64| {
        let here = || places().filter(move |&(_, (_, own))| own == delay);
        let mut curves: Vec<Curve> = Vec::new();
        for (row, (loss, _)) in here() {
            let Ok(outcome) = &row.outcome else { continue };
            // Each reference is compared with the same turns of ours.
            let sides = [(OURS, outcome.ours), (row.reference.name, outcome.theirs)];
            for (name, spread) in sides {
                add(&mut curves, name, loss, spread);
            }
        }
        let has_no_loss = here().any(|(_, (loss, _))| loss == 0.0);
        Chart {
            title: format!("Throughput over loss, {delay} ms of delay each way"),
            notes: vec![turns(effort)],
            x: "Frames lost in each direction, %".to_owned(),
            has_octets: false,
            y: "Throughput, MB/s".to_owned(),
            legend: Corner::LowerLeft,
            curves,
            marks: has_no_loss.then(|| Mark { x: NO_LOSS, text: "no loss".to_owned() }).into_iter().collect(),
        }
    };
    delays.into_iter().map(chart).collect()
}

/// Adds a point to the curve of this name.
fn add(curves: &mut Vec<Curve>, name: &str, loss: f64, spread: Spread) {
    let x = if loss == 0.0 { NO_LOSS } else { loss * 100.0 };
    let index = curves.iter().position(|curve| curve.name == name).unwrap_or_else(|| {
        let color = curves.len();
        curves.push(Curve { name: name.to_owned(), color, is_ours: name == OURS, points: Vec::new() });
        color
    });
    let points = &mut curves[index].points;
    if points.last().is_none_or(|last| last.x < x) {
        points.push(Point { x, y: spread.median, spread: [spread.min, spread.max] });
    }
}

const OURS: &str = "RDMA Write";
/// Where an axis of percentages that has no 0 shows it.
const NO_LOSS: f64 = 0.001;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::case::Trouble;
    use crate::harness::Outcome as Values;
    use crate::loss::cases::CASES;

    #[test]
    fn each_delay_has_a_curve_of_each_side() {
        let mut rows = Vec::new();
        for case in CASES.iter().filter(|case| case.name.ends_with("/0ms") || case.name.contains("blackout"))
        {
            for (number, reference) in case.references.iter().enumerate() {
                let of = |value: f64| Spread { median: value, min: value, max: value };
                let outcome = Values {
                    ours: of(5.0),
                    theirs: of(10.0 * (1.0 + number as f64)),
                    ratio: of(0.5),
                    cpu_per_gb: [0.0; 2],
                    floor: None,
                };
                rows.push(Row { case, reference, outcome: Ok(outcome) });
            }
        }
        rows[3].outcome = Err(Trouble::Skipped("no such congestion control".to_owned()));
        let effort = Effort { turn: Duration::from_millis(1), pairs: 5, is_tiny: true };
        let [chart] = &charts(&rows, &effort)[..] else { panic!("one delay") };
        let told: Vec<(&str, bool, usize)> = chart
            .curves
            .iter()
            .map(|curve| (curve.name.as_str(), curve.is_ours, curve.points.len()))
            .collect();
        assert_eq!(told, [(OURS, true, 5), ("kernel TCP, cubic", false, 5), ("kernel TCP, bbr", false, 4)]);
        let places: Vec<f64> = chart.curves[0].points.iter().map(|point| point.x).collect();
        assert_eq!(places, [0.001, 0.01, 0.1, 1.0, 5.0]);
        assert_eq!(chart.marks.len(), 1);
        let svg = draw(&rows, &effort).unwrap();
        assert!(svg.contains("0 ms of delay") && svg.contains("no loss"), "{svg}");
    }
}
