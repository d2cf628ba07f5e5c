//! The description of the machine.

use std::fs;

/// Returns model and number of the processors.
pub(crate) fn processor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
    let model = model.trim_start_matches([' ', '\t', ':']);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{model}, {cores} cores")
}

/// Returns the kernel's name and release.
pub(crate) fn kernel() -> String {
    format!("Linux {}", first_line("/proc/sys/kernel/osrelease"))
}

/// Returns the first line of a file of the kernel.
pub(crate) fn first_line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").trim().to_owned()
}
