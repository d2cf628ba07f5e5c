//! The results: a table for people, JSON for machines.

use std::fmt;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::bench::Role;
use crate::tries::Tried;

/// One case on one guest in one role.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) kernel: String,
    pub(crate) siw: &'static str,
    /// The guest's description of itself, if it booted.
    pub(crate) version: Option<String>,
    pub(crate) case: &'static str,
    pub(crate) role: Role,
    pub(crate) tried: Tried,
    pub(crate) time: Duration,
}

/// Prints all rows and a summary.
pub(crate) fn print(rows: &[Row]) -> Result<(), String> {
    let mut text = format!("{:7}{:7}{:14}{:13}{:>6}  result\n", "kernel", "siw", "case", "role", "s");
    for row in rows {
        text.push_str(&format!("{row}\n"));
    }
    let failed = rows.iter().filter(|row| row.tried.outcome.is_err()).count();
    text.push_str(&format!("{} passed, {failed} failed\n", rows.len() - failed));
    say(&text)
}

/// Writes to standard output. A closed output is no failure.
pub(crate) fn say(text: &str) -> Result<(), String> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(format!("standard output: {error}"))
        }
        _ => Ok(()),
    }
}

/// Writes all rows as an array of objects.
pub(crate) fn write_json(rows: &[Row], path: &Path) -> Result<(), String> {
    let rows: Vec<Value> = rows.iter().map(Row::json).collect();
    let text = format!("{:#}\n", Value::from(rows));
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

impl Row {
    fn json(&self) -> Value {
        json!({
            "kernel": self.kernel,
            "siw": self.siw,
            "guest": self.version,
            "case": self.case,
            "role": self.role.name(),
            "ok": self.tried.outcome.is_ok(),
            "error": self.tried.outcome.as_ref().err(),
            "tries": self.tried.tries,
            "warnings": self.tried.warnings,
            "seconds": (self.time.as_secs_f64() * 10.0).round() / 10.0,
        })
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, siw, case, role, tried, time, .. } = self;
        write!(f, "{kernel:7}{siw:7}{case:14}{:13}{:6.1}  ", role.name(), time.as_secs_f64())?;
        match &tried.outcome {
            Ok(()) => f.write_str("ok")?,
            // The JSON and the captures have the whole error.
            Err(error) if error.chars().count() > WIDTH => {
                write!(f, "FAILED: {} …", error.chars().take(WIDTH).collect::<String>())?;
            }
            Err(error) => write!(f, "FAILED: {error}")?,
        }
        if tried.warnings.is_empty() {
            return Ok(());
        }
        write!(f, " (try {}; the guest's kernel warned: {})", tried.tries, tried.warnings.join("; "))
    }
}

/// The characters of an error in the table.
const WIDTH: usize = 200;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Row;
    use crate::bench::Role;
    use crate::tries::Tried;

    fn row(tried: Tried) -> String {
        let (kernel, version, time) = ("6.1".into(), None, Duration::ZERO);
        Row { kernel, siw: "p2p", version, case: "programs", role: Role::Passive, tried, time }.to_string()
    }

    #[test]
    fn the_table_tells_tries_and_warnings() {
        let warnings = vec!["WARNING: CPU: 0 PID: 7 at siw/siw_cm.c:453".to_owned()];
        let again = row(Tried { outcome: Ok(()), tries: 2, warnings });
        let told = "ok (try 2; the guest's kernel warned: WARNING: CPU: 0 PID: 7 at siw/siw_cm.c:453)";
        assert!(again.ends_with(told), "{again}");
        let once = row(Tried { outcome: Ok(()), tries: 1, warnings: Vec::new() });
        assert!(once.ends_with("  ok"), "{once}");
    }
}
