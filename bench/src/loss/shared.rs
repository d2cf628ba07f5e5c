//! Turns that several rows share: each of them is taken once, and every row has its own figure of it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::case::{Effort, Sample, Side};
use crate::process::Outcome;

/// What a turn gives.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    pub(super) sample: Sample,
    /// The figures beside time and octets, or why there is none.
    pub(super) figures: Vec<Outcome<f64>>,
}

/// A side whose turns give several figures.
pub(super) trait Measured {
    /// Does one turn, as [`Side::turn`].
    fn take(&mut self, effort: &Effort) -> Outcome<Taken>;

    /// As [`Side::floor`].
    fn floor(&self) -> Option<f64>;
}

/// One figure of such a side.
pub(super) struct Part {
    /// The same for all rows that share the turns.
    name: String,
    side: Box<dyn Measured>,
    /// The index of the figure; `None` for time and octets alone.
    figure: Option<usize>,
    turns: usize,
}

impl Part {
    pub(super) fn of(name: String, side: impl Measured + 'static, figure: Option<usize>) -> Box<dyn Side> {
        Box::new(Self { name, side: Box::new(side), figure, turns: 0 })
    }

    /// Returns the next turn, which another row may have taken.
    fn next(&mut self, effort: &Effort) -> Outcome<Taken> {
        static ALL: Mutex<BTreeMap<(String, Duration, usize), Outcome<Taken>>> = Mutex::new(BTreeMap::new());
        let all = || ALL.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (self.name.clone(), effort.turn, self.turns);
        self.turns += 1;
        let found = all().get(&key).cloned();
        found.unwrap_or_else(|| {
            let taken = self.side.take(effort);
            all().insert(key, taken.clone());
            taken
        })
    }
}

impl Side for Part {
    fn turn(&mut self, effort: &Effort) -> Outcome<Sample> {
        let Taken { sample, figures } = self.next(effort)?;
        let figure = self.figure.map_or(Ok(0.0), |index| figures[index].clone())?;
        Ok(Sample { figure, ..sample })
    }

    fn is_fresh(&self) -> bool {
        true
    }

    fn floor(&self) -> Option<f64> {
        self.side.floor()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Trouble;

    struct Counting(f64);

    impl Measured for Counting {
        fn take(&mut self, effort: &Effort) -> Outcome<Taken> {
            self.0 += 1.0;
            let sample = Sample { wall: effort.turn, ..Sample::default() };
            Ok(Taken { sample, figures: vec![Ok(self.0), Err(Trouble::failed("none"))] })
        }

        fn floor(&self) -> Option<f64> {
            Some(0.5)
        }
    }

    #[test]
    fn each_turn_is_taken_once() {
        let effort = |millis| Effort { turn: Duration::from_millis(millis), pairs: 1, is_tiny: true };
        let part = |name: &str, start, figure| Part::of(name.to_owned(), Counting(start), figure);
        let (mut one, mut other) = (part("a", 0.0, Some(0)), part("a", 10.0, Some(0)));
        let figure =
            |side: &mut Box<dyn Side>, millis| side.turn(&effort(millis)).map(|sample| sample.figure);
        assert_eq!([figure(&mut one, 1), figure(&mut one, 1)], [Ok(1.0), Ok(2.0)]);
        assert_eq!([figure(&mut other, 1), figure(&mut other, 1)], [Ok(1.0), Ok(2.0)]);
        assert_eq!(figure(&mut other, 1), Ok(11.0), "no row has taken that one");
        assert_eq!(figure(&mut part("a", 20.0, Some(0)), 2), Ok(21.0), "another effort");
        assert_eq!(figure(&mut part("b", 30.0, Some(0)), 1), Ok(31.0), "another side");
        assert_eq!(figure(&mut part("a", 40.0, None), 1), Ok(0.0));
        assert_eq!(figure(&mut part("a", 50.0, Some(1)), 1), Err(Trouble::failed("none")));
        assert_eq!((one.floor(), one.is_fresh()), (Some(0.5), true));
    }
}
