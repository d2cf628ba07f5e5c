//! Findings, by requirement.

use crate::catalogue::{Requirement, requirement};
use crate::finding::{Finding, Verdict};

/// All findings about one target.
#[derive(Clone, Debug, Default)]
pub struct Report {
    rows: Vec<Row>,
}

/// The findings about one requirement.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its number.
    pub id: &'static str,
    /// The requirement; `None` for a number that is not in the catalogue.
    pub requirement: Option<&'static Requirement>,
    /// The finding that decides: a failure before a pass, a pass before an inconclusive one.
    pub finding: Finding,
    /// The checks that reached the same verdict.
    pub checks: Vec<&'static str>,
}

impl Report {
    /// Adds the findings of one more check.
    pub fn add(&mut self, findings: Vec<Finding>) {
        for finding in findings {
            match self.rows.iter_mut().find(|row| row.id == finding.id) {
                None => self.rows.push(Row {
                    id: finding.id,
                    requirement: requirement(finding.id),
                    checks: vec![finding.check],
                    finding,
                }),
                Some(row) if weight(&finding) > weight(&row.finding) => {
                    row.checks = vec![finding.check];
                    row.finding = finding;
                }
                Some(row) if weight(&finding) == weight(&row.finding) => {
                    if !row.checks.contains(&finding.check) {
                        row.checks.push(finding.check);
                    }
                }
                Some(_) => {}
            }
        }
        self.rows.sort_by_key(|row| sort_key(row.id));
    }

    /// Returns one row for each requirement, sorted by RFC, section and number.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns how many requirements passed, failed, and stayed inconclusive.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        let count = |wanted: u8| self.rows.iter().filter(|row| weight(&row.finding) == wanted).count();
        (count(1), count(2), count(0))
    }
}

const fn weight(finding: &Finding) -> u8 {
    match finding.verdict {
        Verdict::Inconclusive(_) => 0,
        Verdict::Pass => 1,
        Verdict::Fail(_) => 2,
    }
}

/// Sorts numbers by their value, so that 4.3-10 comes after 4.3-9.
fn sort_key(id: &str) -> Vec<(u32, &str)> {
    id.split(['-', '.']).map(|part| (part.parse().unwrap_or(u32::MAX), part)).collect()
}
