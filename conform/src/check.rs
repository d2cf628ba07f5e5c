//! A check: a dialogue with the target, the requirements that it judges, and how it runs.

use std::time::Duration;

use crate::finding::{Finding, Stop, Verdict};
use crate::target::Target;
use crate::trial::Trial;

/// A dialogue that judges some requirements of the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// A short name, such as `crc-mismatch`.
    pub name: &'static str,
    /// What the check does, in one line.
    pub title: &'static str,
    /// The requirements, such as `5044-4.3-7`. The check judges each of them, unless the dialogue ends earlier.
    pub ids: &'static [&'static str],
    pub(crate) run: fn(&mut Trial<'_>) -> Result<(), Stop>,
}

impl Target {
    /// Runs one check and returns a finding for each of its requirements. If the target was silent, the check is
    /// repeated with longer pauses. Some targets answer a Request before they are ready for FPDUs.
    ///
    /// # Errors
    /// If the target no longer takes connections. The text names the check and the reason.
    pub fn run(&self, check: &'static Check) -> Result<Vec<Finding>, String> {
        let mut findings: Vec<Finding> = Vec::new();
        for pause in PAUSES {
            let (mut found, is_silent) = self.attempt(check, pause)?;
            // A target may hang for good and show this only once. So an earlier judgement stays if the repetition
            // cannot judge.
            let is_judged = |finding: &Finding| !matches!(finding.verdict, Verdict::Inconclusive(_));
            findings.retain(|former| {
                is_judged(former) && !found.iter().any(|new| new.id == former.id && is_judged(new))
            });
            findings.append(&mut found);
            if !is_silent {
                break;
            }
        }
        Ok(findings)
    }

    fn attempt(&self, check: &'static Check, pause: Duration) -> Result<(Vec<Finding>, bool), String> {
        let mut trial = Trial::new(self, check.name, pause);
        let reason = match (check.run)(&mut trial) {
            Ok(()) | Err(Stop::Judged) => "the dialogue ended before it came to this requirement".to_owned(),
            Err(Stop::Unsuited(reason)) => reason,
            Err(Stop::Gone(reason)) => return Err(format!("during the check {}: {reason}", check.name)),
        };
        let (mut findings, is_silent) = trial.finish();
        for &id in check.ids {
            if findings.iter().all(|finding| finding.id != id) {
                let verdict = Verdict::Inconclusive(reason.clone());
                findings.push(Finding { id, check: check.name, verdict });
            }
        }
        Ok((findings, is_silent))
    }
}

/// The wait between the Reply and the first FPDU, for one run after the other.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(20), Duration::from_millis(700), Duration::from_millis(2000)];
