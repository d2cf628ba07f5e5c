//! Logarithmic axes: their ends, their ticks, and how values are written there.

/// What an axis counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Octets: powers of two, as KiB and MiB.
    Octets,
    /// Values of the given unit, which is written once beside the axis: powers of ten.
    Of(&'static str),
}

/// One axis.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    unit: Unit,
    low: f64,
    high: f64,
}

impl Axis {
    /// An axis on which all values have their place. All of them are above zero.
    pub(super) fn around(unit: Unit, values: impl Iterator<Item = f64>) -> Self {
        let (low, high) =
            values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        // Nothing at all, or a single value.
        let (low, high) = if low > high { (1.0, 10.0) } else { (low, high) };
        match unit {
            Unit::Octets => Self { unit, low: low / 1.25, high: (high * 1.25).max(low * 2.0) },
            Unit::Of(_) => {
                let (low, high) = (below(low), above(high));
                Self { unit, low, high: if high > low { high } else { above(low * 1.01) } }
            }
        }
    }

    /// Where a value lies: 0 at the beginning of the axis, 1 at its end.
    pub(super) fn place(&self, value: f64) -> f64 {
        (value / self.low).ln() / (self.high / self.low).ln()
    }

    /// The values that get a line and a text.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let steps = match self.unit {
            Unit::Octets => powers(2.0, if self.high / self.low > 5e4 { 2 } else { 1 }),
            Unit::Of(_) if self.high / self.low < 300.0 => decades(&[1.0, 2.0, 5.0]),
            Unit::Of(_) => decades(&[1.0]),
        };
        steps.filter(|value| (self.low * 0.999..=self.high * 1.001).contains(value)).collect()
    }

    /// How a value is written at its tick.
    pub(super) fn text(&self, value: f64) -> String {
        let short = |value: f64, unit: &str| {
            if value < 1.0 {
                format!("{}{unit}", (value * 1e4).round() / 1e4)
            } else if value < 10.0 {
                format!("{}{unit}", (value * 10.0).round() / 10.0)
            } else {
                format!("{value:.0}{unit}")
            }
        };
        match self.unit {
            Unit::Octets if value >= 1_048_576.0 => short(value / 1_048_576.0, " MiB"),
            Unit::Octets if value >= 1024.0 => short(value / 1024.0, " KiB"),
            Unit::Octets => short(value, " B"),
            Unit::Of(_) if value >= 1e6 => short(value / 1e6, " M"),
            Unit::Of(_) if value >= 1e4 => short(value / 1e3, " k"),
            Unit::Of(_) => short(value, ""),
        }
    }

    /// The unit that is written beside the axis.
    pub(super) const fn unit(&self) -> &'static str {
        match self.unit {
            Unit::Octets => "",
            Unit::Of(unit) => unit,
        }
    }
}

/// Powers of a number, each so-manieth of them.
fn powers(base: f64, step: i32) -> Box<dyn Iterator<Item = f64>> {
    Box::new((0..64).map(move |power| base.powi(power * step + 1)))
}

fn decades(steps: &'static [f64]) -> Box<dyn Iterator<Item = f64>> {
    Box::new((-9..12).flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power))))
}

/// The next round value that is not above, and not below.
fn below(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    [5.0, 2.0, 1.0].into_iter().map(|step| step * decade).find(|it| *it <= value * 1.001).unwrap_or(decade)
}

fn above(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0].into_iter().map(|step| step * decade);
    steps.into_iter().find(|it| *it >= value * 0.999).unwrap_or(decade * 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_ends_at_round_values_around_all_that_is_shown() {
        let axis = Axis::around(Unit::Of("GB/s"), [0.0312, 8.9].into_iter());
        assert!((axis.low - 0.02).abs() < 1e-12 && (axis.high - 10.0).abs() < 1e-12, "{axis:?}");
        assert!(axis.place(axis.low).abs() < 1e-12 && (axis.place(axis.high) - 1.0).abs() < 1e-12);
        assert!((axis.place(0.2) - axis.place(0.02) - (axis.place(2.0) - axis.place(0.2))).abs() < 1e-12);
        for values in [vec![], vec![7.0], vec![1.0, 1.0]] {
            let axis = Axis::around(Unit::Of("us"), values.clone().into_iter());
            assert!(axis.low < axis.high, "{values:?}: {axis:?}");
            assert!(values.iter().all(|&value| (0.0..=1.0).contains(&axis.place(value))));
            assert!(axis.ticks().len() >= 2, "{values:?}: {:?}", axis.ticks());
        }
    }

    #[test]
    fn ticks_are_written_as_people_write_them() {
        let sizes = Axis::around(Unit::Octets, [8.0, 4_194_304.0].into_iter());
        let texts: Vec<String> = sizes.ticks().into_iter().map(|tick| sizes.text(tick)).collect();
        assert_eq!(
            texts,
            ["8 B", "32 B", "128 B", "512 B", "2 KiB", "8 KiB", "32 KiB", "128 KiB", "512 KiB", "2 MiB"]
        );
        let times = Axis::around(Unit::Of("us"), [0.6, 4000.0].into_iter());
        let texts: Vec<String> = times.ticks().into_iter().map(|tick| times.text(tick)).collect();
        assert_eq!(texts, ["1", "10", "100", "1000"]);
        let rates = Axis::around(Unit::Of("GB/s"), [0.3, 9.0].into_iter());
        let texts: Vec<String> = rates.ticks().into_iter().map(|tick| rates.text(tick)).collect();
        assert_eq!(texts, ["0.2", "0.5", "1", "2", "5", "10"]);
    }
}
