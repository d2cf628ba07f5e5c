//! How often a case is tried. A defect of the peer must not fail a case, and a repetition must not hide one of ours.

/// The result of one try.
#[derive(Debug)]
pub(crate) struct Try {
    pub(crate) outcome: Result<(), String>,
    /// The warning of the guest's kernel about itself during the try.
    pub(crate) warning: Option<String>,
}

/// The result of a case.
#[derive(Debug)]
pub(crate) struct Tried {
    /// The outcome of the last try.
    pub(crate) outcome: Result<(), String>,
    pub(crate) tries: usize,
    /// The warnings of all tries.
    pub(crate) warnings: Vec<String>,
}

/// Repeats a failed case on a fresh guest if the guest's kernel warned about itself during the try, at most [`AGAIN`] times.
/// A failure without such a warning is final.
pub(crate) fn repeat(mut attempt: impl FnMut() -> Try) -> Tried {
    let mut tries = 0;
    let mut warnings = Vec::new();
    loop {
        let Try { outcome, warning } = attempt();
        tries += 1;
        let is_blamed = warning.is_some();
        warnings.extend(warning);
        if outcome.is_ok() || !is_blamed || tries > AGAIN {
            return Tried { outcome, tries, warnings };
        }
    }
}

/// The most repetitions of a case.
const AGAIN: usize = 2;

#[cfg(test)]
mod tests {
    use super::{Tried, Try, repeat};
    use crate::console;
    use crate::console::tests::{QUIET, UNDERFLOW};

    const FAILED: Result<(), &str> = Err("rdma_connect: UNREACHABLE, -110");

    /// Runs a case whose tries have these outcomes and leave these texts on the console.
    fn run(tries: &[(Result<(), &str>, &str)]) -> Tried {
        let mut left = tries.iter();
        let tried = repeat(|| {
            let (outcome, console) = left.next().expect("no more tries than were planned");
            Try { outcome: outcome.map_err(str::to_owned), warning: console::warning(console) }
        });
        assert_eq!(left.len(), 0, "all tries that were planned were made");
        tried
    }

    #[test]
    fn a_case_that_passes_is_run_once() {
        let tried = run(&[(Ok(()), QUIET)]);
        assert_eq!((tried.outcome, tried.tries, tried.warnings.len()), (Ok(()), 1, 0));
    }

    #[test]
    fn a_failure_with_a_quiet_kernel_is_final() {
        let tried = run(&[(FAILED, QUIET)]);
        assert!(tried.outcome.is_err());
        assert_eq!((tried.tries, tried.warnings.len()), (1, 0));
    }

    #[test]
    fn a_failure_with_a_warning_is_tried_again() {
        let tried = run(&[(FAILED, UNDERFLOW), (Ok(()), QUIET)]);
        assert_eq!((tried.outcome, tried.tries), (Ok(()), 2));
        assert!(tried.warnings[0].contains("siw_cm.c:453"), "{:?}", tried.warnings);
    }

    #[test]
    fn a_second_try_without_a_warning_is_final() {
        let tried = run(&[(FAILED, UNDERFLOW), (FAILED, QUIET)]);
        assert!(tried.outcome.is_err());
        assert_eq!((tried.tries, tried.warnings.len()), (2, 1));
    }

    #[test]
    fn a_case_is_tried_three_times_at_most() {
        let tried = run(&[(FAILED, UNDERFLOW), (FAILED, UNDERFLOW), (FAILED, UNDERFLOW)]);
        assert!(tried.outcome.is_err());
        assert_eq!((tried.tries, tried.warnings.len()), (3, 3));
    }

    #[test]
    fn a_warning_of_a_case_that_passes_is_told() {
        let tried = run(&[(Ok(()), UNDERFLOW)]);
        assert_eq!((tried.outcome, tried.tries, tried.warnings.len()), (Ok(()), 1, 1));
    }
}
