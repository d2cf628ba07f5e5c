//! Throughput and latency over size: the curves of `--plot`.

use std::path::Path;

use crate::case::{Effort, Quantity, Side, Trouble};
use crate::harness::{Spread, checked_turn};
use crate::machine::{kernel, processor};
use crate::net::{self, Waiting, Way, Work};
use crate::ours::{self, Ends};
use crate::plot::{Chart, Corner, Curve, Point, draw};
use crate::raw;
use crate::setting::Setting;

type Opened = Result<Box<dyn Side>, Trouble>;

/// A curve before it is measured.
struct Line {
    name: &'static str,
    /// The number of its color. Ours and its reference have the same.
    color: usize,
    is_ours: bool,
    open: fn(usize, &Effort) -> Opened,
}

impl Line {
    const fn ours(name: &'static str, color: usize, open: fn(usize, &Effort) -> Opened) -> Self {
        Self { name, color, is_ours: true, open }
    }

    const fn reference(name: &'static str, color: usize, open: fn(usize, &Effort) -> Opened) -> Self {
        Self { name, color, is_ours: false, open }
    }
}

/// Measures all curves and draws them to `file`. Returns a line for each curve that was left out, with the reason.
///
/// # Errors
/// When a measurement fails, or the file cannot be written.
pub(crate) fn plot(file: &Path, effort: &Effort, tick: &mut dyn FnMut()) -> Result<Vec<String>, Trouble> {
    let effort = Effort { turn: effort.turn / SHORTER, ..*effort };
    let mut left_out = Vec::new();
    let mut charts = Vec::new();
    let kinds: [(&str, &str, Quantity, &[Line]); 2] = [
        ("Throughput over size", "RDMA Write, CRC on, and plain TCP", Quantity::Throughput, &STREAMS),
        (
            "Round trip over size",
            "Send there and back, CRC on, and plain TCP, all spinning",
            Quantity::Micros,
            &TRIPS,
        ),
    ];
    for (title, what, quantity, lines) in kinds {
        let curves = measure((lines, &SIZES), quantity, &effort, &mut left_out, tick)?;
        let (y, legend) = match quantity {
            Quantity::Micros => ("Round trip, µs", Corner::UpperLeft),
            _ => ("Throughput, GB/s", Corner::LowerRight),
        };
        charts.push(Chart {
            title: title.into(),
            notes: vec![
                format!("{what}. Medians of {} turns with their spread, side by side.", effort.pairs),
                format!("{}, {}", processor(), kernel()),
            ],
            x: "Octets of a message".into(),
            has_octets: true,
            y: y.into(),
            legend,
            curves,
            marks: Vec::new(),
        });
    }
    let cannot = |error| Trouble::failed(format!("cannot write {}: {error}", file.display()));
    std::fs::write(file, draw(&charts)?).map_err(cannot)?;
    Ok(left_out)
}

/// Returns how many times [`plot`] calls its `tick`, if no curve is left out.
pub(crate) const fn ticks() -> usize {
    SIZES.len() * 2
}

/// Measures all curves, which take turns at each size.
fn measure(
    (lines, sizes): (&[Line], &[usize]),
    quantity: Quantity,
    effort: &Effort,
    left_out: &mut Vec<String>,
    tick: &mut dyn FnMut(),
) -> Result<Vec<Curve>, Trouble> {
    let curve = |line: &Line| Curve {
        name: line.name.into(),
        color: line.color,
        is_ours: line.is_ours,
        points: Vec::new(),
    };
    let mut curves: Vec<Curve> = lines.iter().map(curve).collect();
    for &size in sizes {
        let mut sides: Vec<_> = lines.iter().map(|line| (line.open)(size, effort)).collect();
        let mut values = vec![Vec::new(); lines.len()];
        for round in 0..=effort.pairs {
            for (side, values) in sides.iter_mut().zip(&mut values) {
                let Ok(open) = side else { continue };
                match checked_turn(open.as_mut(), effort) {
                    // The first turn warms caches and is not counted.
                    Ok(sample) if round > 0 => values.push(sample.value(quantity)),
                    Ok(_) => {}
                    Err(trouble) => *side = Err(trouble),
                }
            }
        }
        for ((side, values), curve) in sides.into_iter().zip(values).zip(&mut curves) {
            match side {
                Ok(_) => {
                    let Spread { median, min, max } = Spread::of(values);
                    curve.points.push(Point { x: size as f64, y: median, spread: [min, max] });
                }
                Err(Trouble::Skipped(reason)) => {
                    let text = format!("{}: {reason}", curve.name);
                    if !left_out.contains(&text) {
                        left_out.push(text);
                    }
                }
                Err(Trouble::Failed(reason)) => {
                    return Err(Trouble::failed(format!("{}, {size} octets: {reason}", curve.name)));
                }
            }
        }
        tick();
    }
    curves.retain(|curve| !curve.points.is_empty());
    Ok(curves)
}

const STREAMS: [Line; 6] = [
    Line::ours("pair (memory, one thread)", 0, |size, _| {
        let ends = Ends::on_pair(&Setting::new(PAIR_MTU), 1, 64)?;
        Ok(Box::new(ours::Stream::new(ends, ours::Work::new(ours::Op::Write, size))?))
    }),
    Line::reference("smoltcp there, without messages", 0, |size, _| {
        Ok(Box::new(raw::Stream::new(&Setting::new(PAIR_MTU), raw::Pieces::new(size))?))
    }),
    Line::ours("host (loopback)", 1, |size, effort| {
        Way::Loopback.ours(net::Op::Write, Work::stream(size, effort), true)
    }),
    Line::reference("kernel TCP, loopback", 1, |size, effort| {
        Way::Loopback.kernel(Work::stream(size, effort), Waiting::Spinning)
    }),
    Line::ours("packet (veth)", 2, |size, effort| {
        Way::Veth.ours(net::Op::Write, Work::stream(size, effort), true)
    }),
    Line::reference("kernel TCP, veth", 2, |size, effort| {
        Way::Veth.kernel(Work::stream(size, effort), Waiting::Spinning)
    }),
];

const TRIPS: [Line; 6] = [
    Line::ours("pair (memory, one thread)", 0, |size, _| {
        let ends = Ends::on_pair(&Setting::new(PAIR_MTU), 1, 64)?;
        Ok(Box::new(ours::Ping::new(ends, size, 0)?))
    }),
    Line::reference("smoltcp there", 0, |size, _| {
        Ok(Box::new(raw::Ping::new(&Setting::new(PAIR_MTU), size)?))
    }),
    Line::ours("host (loopback)", 1, |size, effort| {
        Way::Loopback.ours(net::Op::Send, Work::round_trips(size, effort), true)
    }),
    Line::reference("kernel TCP, loopback", 1, |size, effort| {
        Way::Loopback.kernel(Work::round_trips(size, effort), Waiting::Spinning)
    }),
    Line::ours("packet (veth)", 2, |size, effort| {
        Way::Veth.ours(net::Op::Send, Work::round_trips(size, effort), true)
    }),
    Line::reference("kernel TCP, veth", 2, |size, effort| {
        Way::Veth.kernel(Work::round_trips(size, effort), Waiting::Spinning)
    }),
];

const SIZES: [usize; 11] =
    [8, 32, 128, 512, 2 << 10, 8 << 10, 32 << 10, 128 << 10, 512 << 10, 2 << 20, 4 << 20];
const PAIR_MTU: usize = 65_535;
/// A turn of one of so many points is shorter than that of a row, by this factor.
const SHORTER: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_curve_has_all_sizes_or_a_reason() {
        let effort = Effort { turn: std::time::Duration::ZERO, pairs: 5, is_tiny: true };
        for (lines, quantity) in [(&STREAMS[..], Quantity::Throughput), (&TRIPS[..], Quantity::Micros)] {
            let (mut left_out, mut ticks) = (Vec::new(), 0);
            let tick = &mut || ticks += 1;
            let curves = measure((lines, &[8, 3000]), quantity, &effort, &mut left_out, tick).unwrap();
            assert_eq!(ticks, 2);
            for line in lines {
                let reason = left_out.iter().any(|text| text.starts_with(line.name));
                let curve = curves.iter().find(|curve| curve.name == line.name);
                assert_ne!(reason, curve.is_some(), "{}: {left_out:?}", line.name);
                let points = curve.map_or(&[][..], |curve| &curve.points);
                for (point, size) in points.iter().zip([8.0, 3000.0]) {
                    assert!(point.x == size && point.spread[0] > 0.0, "{point:?}");
                    assert!(point.spread[0] <= point.y && point.y <= point.spread[1], "{point:?}");
                }
                assert!(curve.is_none() || points.len() == 2, "{}", line.name);
                assert!(curve.is_some() || !line.name.contains("smoltcp") && !line.name.contains("memory"));
            }
        }
    }
}
