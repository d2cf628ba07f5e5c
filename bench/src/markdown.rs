//! The tables of docs/performance.md, between the marks for them.

use core::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use crate::case::{Case, Trouble};
use crate::harness::Row;
use crate::machine::{first_line, kernel, processor};
use crate::report::value;

/// A file with marks: `<!-- bench:NAME -->` and behind it `<!-- bench:end -->`.
#[derive(Debug)]
pub(crate) struct Page<'a> {
    path: &'a Path,
    text: String,
}

impl<'a> Page<'a> {
    /// Reads the file, and checks that it has the marks of `names`, before anything is measured.
    pub(crate) fn open(path: &'a Path, names: &[&str]) -> io::Result<Self> {
        let refuse = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
        let text = fs::read_to_string(path)
            .map_err(|error| refuse(format!("cannot read {}: {error}", path.display())))?;
        match names.iter().find(|name| place(&text, name).is_none()) {
            None => Ok(Self { path, text }),
            Some(name) => {
                let text = format!("{} has no `{}` with a `{END}` behind it", path.display(), mark(name));
                Err(refuse(text))
            }
        }
    }

    /// Replaces the text behind a mark by `body`.
    pub(crate) fn replace(&mut self, name: &str, body: &str) {
        if let Some((start, end)) = place(&self.text, name) {
            self.text.replace_range(start..end, &format!("\n{}\n", body.trim_end()));
        }
    }

    /// Replaces the lines of a table that begin with the same two cells as lines of `table`. New ones go to its end.
    pub(crate) fn merge(&mut self, name: &str, table: &str) {
        let Some((start, end)) = place(&self.text, name) else { return };
        let key = |line: &str| line.splitn(4, '|').take(3).collect::<String>();
        let mut lines: Vec<String> = self.text[start..end].trim().lines().map(str::to_owned).collect();
        for line in table.lines() {
            match lines.iter_mut().find(|old| key(old) == key(line)) {
                Some(old) => line.clone_into(old),
                None => lines.push(line.to_owned()),
            }
        }
        self.replace(name, &lines.join("\n"));
    }

    pub(crate) fn save(&self) -> io::Result<()> {
        fs::write(self.path, &self.text)
    }
}

/// Returns the beginning and the end of the text behind a mark.
fn place(text: &str, name: &str) -> Option<(usize, usize)> {
    let mark = mark(name);
    let start = text.find(&mark)? + mark.len();
    Some((start, start + text[start..].find(END)?))
}

fn mark(name: &str) -> String {
    format!("<!-- bench:{name} -->")
}

/// Returns a paragraph in lines of at most 120 characters.
pub(crate) fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + word.chars().count() < LONGEST => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

/// Returns the table of all rows.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| case | against | ours | reference | ratio | target | | CPU s/GB |\n|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let (name, reference) = (row.case.name, row.reference.name);
        let target = row.reference.target.map_or_else(String::new, |target| target.to_string());
        let verdict = match row.is_met() {
            Some(true) => "met",
            Some(false) => "**missed**",
            None => "",
        };
        let cells = match &row.outcome {
            Ok(outcome) => {
                let unit = row.case.quantity.unit();
                let [ours, theirs] = outcome.cpu_per_gb;
                let cpu = if ours > 0.0 { format!("{ours:.2}, {theirs:.2}") } else { String::new() };
                let [one, other, ratio] =
                    [value(outcome.ours, unit), value(outcome.theirs, unit), value(outcome.ratio, "")];
                format!("{one} | {other} | {ratio} | {target} | {verdict} | {cpu}")
            }
            Err(Trouble::Skipped(reason)) => format!("skipped: {reason} | | | {target} | |"),
            Err(trouble) => format!("{trouble} | | | {target} | **missing** |"),
        };
        // Writing to a string does not fail.
        let _ok = writeln!(text, "| `{name}` | {reference} | {} |", cells.replace('\n', " "));
    }
    text
}

/// Returns a description of the machine and of the turns.
pub(crate) fn machine(cases: &[&Case], pairs: usize) -> String {
    let mut scales: Vec<u32> = cases.iter().map(|case| case.clock_scale).collect();
    scales.sort_unstable();
    scales.dedup();
    let scales: Vec<String> = scales.iter().map(u32::to_string).collect();
    format!("{}; {pairs} turns of each side; TCP's clock at {} times real time", host(), scales.join(", "))
}

/// Returns a description of the machine.
pub(crate) fn host() -> String {
    let cache = |index: u32| first_line(&format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size"));
    let congestion = first_line("/proc/sys/net/ipv4/tcp_congestion_control");
    format!(
        "{} (caches: L1d {}, L2 {}, L3 {}), {}, TCP's default {congestion}",
        processor(),
        cache(0),
        cache(2),
        cache(3),
        kernel(),
    )
}

/// Characters of a line.
const LONGEST: usize = 120;
const END: &str = "<!-- bench:end -->";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_has_lines_of_a_bounded_length() {
        let text = "word ".repeat(100);
        let lines = wrapped(&text);
        assert!(lines.lines().count() == 5 && lines.lines().all(|line| line.len() <= LONGEST), "{lines}");
        assert_eq!(lines.split_whitespace().count(), 100);
    }

    #[test]
    fn only_the_text_between_the_marks_is_replaced() {
        let path = std::env::temp_dir().join(format!("weft-bench-page-{}", std::process::id()));
        fs::write(&path, "a\n<!-- bench:table -->\nold\n<!-- bench:end -->\nb\n").unwrap();
        assert!(Page::open(&path, &["table", "sweep"]).is_err(), "there is no mark for the sweep");
        for body in ["new\n", "newer"] {
            let mut page = Page::open(&path, &["table"]).unwrap();
            page.replace("table", body);
            page.save().unwrap();
            let expected = format!("a\n<!-- bench:table -->\n{}\n<!-- bench:end -->\nb\n", body.trim_end());
            assert_eq!(fs::read_to_string(&path).unwrap(), expected);
        }
        let mut page = Page::open(&path, &["table"]).unwrap();
        page.replace("table", "| a | x | 1 |\n| b | x | 2 |");
        page.merge("table", "| b | x | 3 |\n| b | y | 4 |\n");
        page.save().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("\n| a | x | 1 |\n| b | x | 3 |\n| b | y | 4 |\n<!--"), "{text}");
        fs::remove_file(&path).unwrap();
        assert!(Page::open(&path, &[]).is_err());
    }
}
