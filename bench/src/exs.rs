//! `weft bench exs`: Extended Sockets beside raw verbs and the kernel's TCP.
//!
//! ```text
//!   cases.rs     the comparisons; figures.rs: those of the paper
//! ```
//! The ends are those of `net/exs.rs`, `net/verbs.rs` and `net/kernel.rs`: two threads, each with a device or a socket, on
//! the kernel's loopback.

mod cases;
mod figures;

use std::io::{self, Write};

use crate::args::{Args, ExsArgs, Turns};
use crate::choice::{self, Catalogue};
use crate::process::Outcome;

/// Measures and prints a row for each comparison, or a figure.
pub(crate) fn run(wanted: &ExsArgs, args: &Args, out: &mut dyn Write) -> io::Result<Outcome<()>> {
    let (cases, figures) = (cases::CASES.iter().collect(), figures::FIGURES.iter().collect());
    choice::run(&wanted.choice, Catalogue { cases, figures, turns: Turns::PROGRAMS, draw: None }, args, out)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::cases::CASES;
    use crate::case::{Effort, Trouble};
    use crate::harness::measure;

    #[test]
    fn every_case_has_all_its_rows() {
        let effort = Effort { turn: Duration::ZERO, pairs: 5, is_tiny: true };
        for case in &CASES {
            let rows = measure(case, &effort, &mut || {});
            assert_eq!(rows.len(), case.references.len(), "{}", case.name);
            for row in rows {
                match row.outcome {
                    Ok(outcome) => {
                        assert!(
                            outcome.ours.median.is_finite() && outcome.ours.median > 0.0,
                            "{}",
                            case.name
                        );
                    }
                    // The system may deny cubic to ordinary users.
                    Err(Trouble::Skipped(reason)) => println!("skipped: {}: {reason}", case.name),
                    Err(trouble) => panic!("{} against {}: {trouble}", case.name, row.reference.name),
                }
            }
        }
    }
}
