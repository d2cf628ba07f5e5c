//! A check: a dialogue with the target and the requirements that it judges, and how it is run.

use std::time::Duration;

use crate::finding::{Finding, Stop, Verdict};
use crate::target::Target;
use crate::trial::Trial;

/// A dialogue that judges some requirements of the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// A short name, such as `crc-mismatch`.
    pub name: &'static str,
    /// What is done, in one line.
    pub title: &'static str,
    /// The requirements, such as `5044-4.3-7`: each is judged unless the dialogue ends before.
    pub ids: &'static [&'static str],
    pub(crate) run: fn(&mut Trial<'_>) -> Result<(), Stop>,
}

impl Target {
    /// Runs one check; every requirement of it gets a finding. A check in which the target was silent is repeated with
    /// longer pauses: some targets answer a Request before they are ready for FPDUs.
    ///
    /// # Errors
    /// When the target takes no connections any more, in words.
    pub fn run(&self, check: &'static Check) -> Result<Vec<Finding>, String> {
        let mut findings: Vec<Finding> = Vec::new();
        for pause in PAUSES {
            let (mut found, is_silent) = self.attempt(check, pause)?;
            // A target that hangs for good can be seen to do so only once: what the repetition cannot judge stays
            // judged.
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
            Ok(()) | Err(Stop::Judged) => "the dialogue ended before".to_owned(),
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

/// How long is waited between the Reply and the first FPDU, one run after the other.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(20), Duration::from_millis(700), Duration::from_millis(2000)];
