//! Turns, and the rows that result from them.

use crate::case::{Case, Effort, Quantity, Reference, Sample, Side, Sides, Trouble};

/// One row: ours beside one reference.
#[derive(Clone, Debug)]
pub struct Row {
    /// The case.
    pub case: &'static Case,
    /// The reference that ours is compared with.
    pub reference: &'static Reference,
    /// The result.
    pub outcome: Result<Outcome, Trouble>,
}

/// The result of the turns of two sides.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Our values.
    pub ours: Spread,
    /// The values of the reference.
    pub theirs: Spread,
    /// The ratios of neighbouring turns.
    pub ratio: Spread,
    /// CPU seconds for 10^9 octets of user data: ours and theirs.
    pub cpu_per_gb: [f64; 2],
    /// The part of a target's ratio below which the whole run fails ([`Side::floor`] of ours).
    pub floor: Option<f64>,
}

/// A summary of several values of the same quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The median; of an even number the higher of both in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Returns the summary of `values`; all zero if there are none.
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or_default();
        Self { median: at(values.len() / 2), min: at(0), max: at(values.len().saturating_sub(1)) }
    }
}

impl Row {
    /// Returns true if the target was met, and `None` without a target or without values.
    pub fn is_met(&self) -> Option<bool> {
        let outcome = self.outcome.as_ref().ok()?;
        Some(self.reference.target?.is_met(outcome.ours.median, outcome.ratio.median))
    }

    /// Returns why the whole run has failed: values are missing that the machine could have given, or the ratio is below
    /// the floor of our side.
    pub fn failure(&self, is_strict: bool) -> Option<String> {
        let why = match &self.outcome {
            Ok(outcome) => {
                let (floor, target) = (outcome.floor?, self.reference.target?);
                let ratio = outcome.ratio.median;
                if !target.is_far_from(ratio, floor) {
                    return None;
                }
                format!("a ratio of {ratio:.3} is not even {floor} of `{target}`")
            }
            Err(Trouble::Skipped(_)) if !is_strict || self.reference.is_optional => return None,
            Err(trouble) => trouble.to_string(),
        };
        Some(format!("{} against {}: {why}", self.case.name, self.reference.name))
    }
}

/// Takes all turns of a case. Returns a row for each of its references, also if the case failed. Calls `tick` after
/// each turn.
pub fn measure(case: &'static Case, effort: &Effort, tick: &mut dyn FnMut()) -> Vec<Row> {
    match (case.open)(case, effort) {
        Ok(sides) => measure_sides(case, sides, effort, tick),
        Err(trouble) => missing(case, &trouble),
    }
}

/// As [`measure`], with sides that are already made.
pub(crate) fn measure_sides(
    case: &'static Case,
    sides: Sides,
    effort: &Effort,
    tick: &mut dyn FnMut(),
) -> Vec<Row> {
    let outcomes = take_turns(sides, case, effort, tick);
    let rows = case.references.iter().zip(outcomes);
    rows.map(|(reference, outcome)| Row { case, reference, outcome }).collect()
}

/// Returns the rows of a case whose sides could not be made.
pub(crate) fn missing(case: &'static Case, trouble: &Trouble) -> Vec<Row> {
    let row = |reference| Row { case, reference, outcome: Err(trouble.clone()) };
    case.references.iter().map(row).collect()
}

/// Returns why the run has failed: rows are missing, or octets were not checked. A ratio is a reason only if it is below
/// the floor of our side.
pub(crate) fn judge(rows: &[Row], is_strict: bool) -> Result<(), Trouble> {
    let failures: Vec<String> = rows.iter().filter_map(|row| row.failure(is_strict)).collect();
    match failures.as_slice() {
        [] => Ok(()),
        [one] => Err(Trouble::failed(one)),
        [first, rest @ ..] => Err(Trouble::failed(format!("{first} (and {} more)", rest.len()))),
    }
}

/// Returns how many turns a case takes at most: those that are counted, and a first one of each side that warms caches.
pub(crate) const fn turns(case: &Case, effort: &Effort) -> usize {
    (1 + case.references.len()) * (effort.pairs + 1)
}

fn take_turns(
    mut sides: Sides,
    case: &Case,
    effort: &Effort,
    tick: &mut dyn FnMut(),
) -> Vec<Result<Outcome, Trouble>> {
    let mut ours = Vec::new();
    let mut theirs: Vec<Result<Vec<Sample>, Trouble>> =
        case.references.iter().map(|_| Ok(Vec::new())).collect();
    if sides.references.len() != theirs.len() {
        let text = format!("{} references instead of {}", sides.references.len(), theirs.len());
        return theirs.iter().map(|_| Err(Trouble::failed(&text))).collect();
    }
    let not_counted = usize::from(!sides.ours.is_fresh());
    for _ in 0..effort.pairs + not_counted {
        match checked_turn(sides.ours.as_mut(), effort) {
            Ok(sample) => ours.push(sample),
            Err(trouble) => return theirs.iter().map(|_| Err(trouble.clone())).collect(),
        }
        tick();
        for (side, samples) in sides.references.iter_mut().zip(&mut theirs) {
            let Ok(taken) = samples else { continue };
            match checked_turn(side.as_mut(), effort) {
                Ok(sample) => taken.push(sample),
                Err(trouble) => *samples = Err(trouble),
            }
            tick();
        }
    }
    let floor = sides.ours.floor();
    let compare = |theirs: Vec<Sample>| {
        let outcome = outcome(case.quantity, &ours[not_counted..], &theirs[not_counted..]);
        Outcome { floor, ..outcome }
    };
    theirs.into_iter().map(|samples| samples.map(compare)).collect()
}

/// Checks that a turn did work, and compared all its octets.
pub(crate) fn checked_turn(side: &mut dyn Side, effort: &Effort) -> Result<Sample, Trouble> {
    let sample = side.turn(effort)?;
    if sample.transfers == 0 || sample.wall.is_zero() {
        return Err(Trouble::failed("a turn in which nothing was done"));
    }
    if sample.checked < sample.transfers {
        let text =
            format!("of {} transfers the octets of only {} were checked", sample.transfers, sample.checked);
        return Err(Trouble::failed(text));
    }
    Ok(sample)
}

fn outcome(quantity: Quantity, ours: &[Sample], theirs: &[Sample]) -> Outcome {
    let values = |samples: &[Sample]| -> Vec<f64> { samples.iter().map(|it| it.value(quantity)).collect() };
    let (our_values, their_values) = (values(ours), values(theirs));
    let ratios = our_values.iter().zip(&their_values).map(|(ours, theirs)| ours / theirs).collect();
    let cpu = |samples: &[Sample]| {
        let octets: u64 = samples.iter().map(|it| it.octets).sum();
        let cpu: f64 = samples.iter().map(|it| it.cpu.as_secs_f64()).sum();
        if octets == 0 { 0.0 } else { cpu / octets as f64 * 1e9 }
    };
    Outcome {
        ours: Spread::of(our_values),
        theirs: Spread::of(their_values),
        ratio: Spread::of(ratios),
        cpu_per_gb: [cpu(ours), cpu(theirs)],
        floor: None,
    }
}

/// Returns the value that so many of 1000 values do not exceed, or the largest one. Sorts them.
pub(crate) fn percentile(values: &mut [f64], per_mille: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = values.len() * per_mille / 1000;
    values.get(at).or_else(|| values.last()).copied().unwrap_or_default()
}
