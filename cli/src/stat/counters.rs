//! Counters and their rates.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::Value;

use super::table::Table;
use crate::failure::Failure;

/// Prints the counters of one device. Counters that are 0 need `all`.
pub(super) fn print(answer: &Value, all: bool) -> Result<(), Failure> {
    let counters = read(answer);
    let mut table = Table::new(&["COUNTER", "VALUE"]);
    for (name, value) in &counters {
        if all || *value != 0 {
            table.push(vec![name.clone(), value.to_string()]);
        }
    }
    table.print()?;
    let zeros = counters.values().filter(|value| **value == 0).count();
    if !all && zeros > 0 {
        writeln!(std::io::stdout(), "({zeros} counters are 0: --all shows them)")?;
    }
    Ok(())
}

/// Prints the counters that have moved in the last `seconds`, with their rates.
pub(super) fn moved(
    old: &BTreeMap<String, u64>,
    new: &BTreeMap<String, u64>,
    seconds: f64,
) -> Result<(), Failure> {
    let mut table = Table::new(&["COUNTER", "VALUE", "CHANGE", "PER-SECOND"]);
    for (name, &value) in new {
        let change = i128::from(value) - i128::from(old.get(name).copied().unwrap_or(0));
        if change != 0 {
            #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
            let rate = change as f64 / seconds.max(1e-9);
            table.push(vec![name.clone(), value.to_string(), change.to_string(), format!("{rate:.1}")]);
        }
    }
    writeln!(std::io::stdout())?;
    table.print()
}

pub(super) fn read(answer: &Value) -> BTreeMap<String, u64> {
    let counters = answer["counters"].as_object().into_iter().flatten();
    counters.map(|(name, value)| (name.clone(), value.as_u64().unwrap_or(0))).collect()
}
