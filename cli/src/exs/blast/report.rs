//! The results, as a table or as JSON.

use serde_json::{Value, json};

use super::output::print;
use super::plan::Plan;
use crate::failure::Failure;

/// What came of a row.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    /// Sends.
    pub(super) count: u64,
    /// From the first receive to the last one.
    pub(super) seconds: f64,
    /// Seconds of CPU time of the two ends, the sending one first.
    pub(super) cpu: [f64; 2],
    /// Octets by the way that they took.
    pub(super) ways: Value,
    /// Octets that were checked.
    pub(super) checked: u64,
}

/// What prints results.
pub(super) struct Report {
    json: bool,
    checked: u64,
}

impl Report {
    pub(super) fn new(json: bool) -> Result<Self, Failure> {
        if !json {
            print(format_args!(
                "{:<8} {:>9} {:>9} {:>9} {:>11} {:>9} {:>9}  way",
                "type", "octets", "small", "Gbit/s", "us a send", "CPU send", "CPU recv"
            ))?;
        }
        Ok(Self { json, checked: 0 })
    }

    pub(super) fn print(&mut self, plan: &Plan, measured: &Measured) -> Result<(), Failure> {
        self.checked += measured.checked;
        let seconds = measured.seconds.max(f64::MIN_POSITIVE);
        let octets = measured.count as f64 * plan.size as f64;
        let (gbits, micros) = (octets * 8.0 / seconds / 1e9, seconds * 1e6 / measured.count as f64);
        let [send, recv] = measured.cpu.map(|cpu| cpu / seconds);
        let (name, size, small) = (plan.carries.name(), plan.size, plan.small);
        if self.json {
            return print(json!({
                "type": name, "size": size, "small": small, "recvs": plan.recvs, "wait": plan.wait.name(),
                "count": measured.count, "gbits": gbits,
                "micros": micros, "cpu_send": send, "cpu_recv": recv, "ways": measured.ways,
            }));
        }
        let (send, recv) = (send * 100.0, recv * 100.0);
        print(format_args!(
            "{name:<8} {size:>9} {small:>9} {gbits:>9.3} {micros:>11.2} {send:>7.0} % {recv:>7.0} %  {}",
            ways(&measured.ways, octets)
        ))
    }

    pub(super) fn end(self) -> Result<(), Failure> {
        if self.json {
            print(json!({ "ok": true, "checked": self.checked }))
        } else {
            print(format_args!("{} octets were checked, and all are right", self.checked))
        }
    }
}

/// Returns the ways of octets in words.
fn ways(ways: &Value, octets: f64) -> String {
    let Some(ways) = ways.as_object() else { return String::new() };
    let part = |octets_so: &Value| octets_so.as_f64().unwrap_or(0.0) / octets;
    let words = ways.iter().map(|(way, so)| match part(so) {
        part if part >= 0.9995 => way.clone(),
        part => format!("{way} {:.1} %", part * 100.0),
    });
    words.collect::<Vec<_>>().join(", ")
}
