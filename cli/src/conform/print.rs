//! The report of `weft conform`, as text and as JSON.

use std::io::{self, Write};
use std::net::SocketAddr;

use serde_json::{Value, json};
use weft_conform::{Check, Report, Row, Verdict, digits, requirement};

/// Prints all checks with their requirements.
pub(super) fn list(out: &mut impl Write, checks: &[&'static Check], json: bool) -> io::Result<()> {
    if json {
        let object =
            |check: &&Check| json!({ "check": check.name, "title": check.title, "requirements": check.ids });
        return writeln!(out, "{}", Value::from(checks.iter().map(object).collect::<Vec<_>>()));
    }
    for check in checks {
        writeln!(out, "{}: {}", check.name, check.title)?;
        for id in check.ids {
            let Some(requirement) = requirement(id) else { continue };
            writeln!(out, "  {id:16} {:6} {}", requirement.level, requirement.text)?;
        }
    }
    Ok(())
}

/// Prints a line for each requirement, more lines for a requirement that the endpoint breaks, and the counts.
pub(super) fn text(out: &mut impl Write, report: &Report, colours: bool) -> io::Result<()> {
    for row in report.rows() {
        let word = row.finding.verdict.word();
        let colour = match row.finding.verdict {
            Verdict::Pass => "32",
            Verdict::Fail(_) => "31",
            Verdict::Inconclusive(_) => "33",
        };
        // The escape sequences have no width of their own.
        let word = if colours { format!("\x1b[{colour}m{word:12}\x1b[0m") } else { format!("{word:12}") };
        let (level, sentence) = row
            .requirement
            .map_or(("", ""), |requirement| (requirement.level.as_str(), requirement.text.as_str()));
        writeln!(out, "{word} {:16} {level:6} {sentence}", row.id)?;
        details(out, row)?;
    }
    let (passed, failed, inconclusive) = report.counts();
    writeln!(out, "{passed} passed, {failed} failed, {inconclusive} inconclusive")
}

fn details(out: &mut impl Write, row: &Row) -> io::Result<()> {
    match &row.finding.verdict {
        Verdict::Pass => Ok(()),
        Verdict::Inconclusive(reason) => writeln!(out, "    check    {}: {reason}", row.finding.check),
        Verdict::Fail(evidence) => {
            writeln!(out, "    check    {}", row.finding.check)?;
            writeln!(out, "    expected {}", evidence.expected)?;
            writeln!(out, "    observed {}", evidence.observed)?;
            writeln!(out, "    sent     {}", digits(&evidence.sent, SHOWN))?;
            writeln!(out, "    received {}", digits(&evidence.received, SHOWN))
        }
    }
}

/// Returns the report as a JSON object, with all octets.
pub(super) fn json(report: &Report, target: SocketAddr, is_enhanced: bool) -> Value {
    let (passed, failed, inconclusive) = report.counts();
    json!({
        "target": target.to_string(),
        "enhanced": is_enhanced,
        "passed": passed,
        "failed": failed,
        "inconclusive": inconclusive,
        "results": report.rows().iter().map(row_json).collect::<Vec<_>>(),
    })
}

fn row_json(row: &Row) -> Value {
    let mut object = json!({
        "id": row.id,
        "verdict": row.finding.verdict.word(),
        "check": row.finding.check,
        "checks": row.checks,
    });
    if let Some(requirement) = row.requirement {
        object["level"] = json!(requirement.level);
        object["requirement"] = json!(requirement.text);
    }
    match &row.finding.verdict {
        Verdict::Pass => {}
        Verdict::Inconclusive(reason) => object["reason"] = json!(reason),
        Verdict::Fail(evidence) => {
            object["expected"] = json!(evidence.expected);
            object["observed"] = json!(evidence.observed);
            object["sent"] = json!(digits(&evidence.sent, usize::MAX / 2));
            object["received"] = json!(digits(&evidence.received, usize::MAX / 2));
        }
    }
    object
}

/// Octets that the text shows of each end of a direction.
const SHOWN: usize = 80;
