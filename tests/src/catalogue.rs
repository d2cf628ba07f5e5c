//! The normative requirements of the RFCs, and the tests that show them.
//!
//! `tests/conformance/requirements.csv` lists the requirements. `tests/conformance/exempt.csv` lists those that no
//! test can show, with the reasons. A test names its requirements in a comment above its attribute: `// Covers
//! 5044-4.3-7, 5044-4.3-8.` A script of TCP names them in the same way below its title. [`Catalogue::read`] reads all
//! three, [`Catalogue::faults`] returns the faults, [`Catalogue::render`] writes `docs/conformance.md`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// One normative sentence.
#[derive(Clone, Debug)]
pub struct Requirement {
    /// The number: RFC, section and number, such as `5044-4.3-7`.
    pub id: String,
    /// The RFC's number.
    pub rfc: String,
    /// The section.
    pub section: String,
    /// `MUST`, `SHOULD` or `MAY`.
    pub level: String,
    /// The text of the sentence.
    pub text: String,
    /// The tests that show it: the file, and the function, or what the title of a script says.
    pub tests: Vec<(String, String)>,
    /// The reason why no test can show it.
    pub exempt: Option<String>,
}

/// All requirements with their tests.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// The requirements in the order of the list.
    pub requirements: Vec<Requirement>,
    faults: Vec<String>,
}

/// The standing of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A test shows it.
    Covered,
    /// No test can show it, for a reason.
    Exempt,
    /// It has neither a test nor a reason.
    Missing,
}

impl Requirement {
    /// Returns whether the requirement is covered, exempt or missing.
    pub const fn standing(&self) -> Standing {
        match (self.tests.is_empty(), &self.exempt) {
            (false, _) => Standing::Covered,
            (true, Some(_)) => Standing::Exempt,
            (true, None) => Standing::Missing,
        }
    }
}

impl Catalogue {
    /// Reads the lists and all sources below `root`, the repository.
    ///
    /// # Errors
    /// If a file cannot be read or a list is malformed. The text names it.
    pub fn read(root: &Path) -> Result<Self, String> {
        let lists = root.join("tests/conformance");
        let mut catalogue =
            Self::parse(&read(&lists.join("requirements.csv"))?, &read(&lists.join("exempt.csv"))?)?;
        for path in sources(root)? {
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            let text = read(&path)?;
            if name.ends_with(".pkt") {
                catalogue.add_scripts(&name, &text);
            } else {
                catalogue.add_source(&name, &text);
            }
        }
        Ok(catalogue)
    }

    /// Reads the two lists. Their fields are: id, rfc, section, level, side, requirement, testable, test_idea; and
    /// id, reason.
    ///
    /// # Errors
    /// If a line is malformed. The text names it.
    pub fn parse(requirements: &str, exempt: &str) -> Result<Self, String> {
        let mut catalogue = Self { requirements: Vec::new(), faults: Vec::new() };
        for [id, rfc, section, level, _side, text, _testable, _idea] in records(requirements)? {
            let sctp = (rfc == SCTP).then(|| SCTP_REASON.to_owned());
            catalogue.requirements.push(Requirement {
                id,
                rfc,
                section,
                level,
                text,
                tests: Vec::new(),
                exempt: sctp,
            });
        }
        for [id, reason] in records(exempt)? {
            match catalogue.requirements.iter_mut().find(|requirement| requirement.id == id) {
                Some(requirement) => requirement.exempt = Some(reason),
                None => catalogue.faults.push(format!("exempt.csv: there is no requirement {id}")),
            }
        }
        Ok(catalogue)
    }

    /// Reads the covered requirements of the tests in one source file.
    pub fn add_source(&mut self, name: &str, text: &str) {
        let mut covers: Option<(usize, Vec<&str>)> = None;
        for (number, line) in (1..).zip(text.lines().map(str::trim)) {
            if let Some(ids) = line.strip_prefix(COVERS) {
                let ids = self.ids(name, number, line, ids);
                if covers.replace((number, ids)).is_some() {
                    self.faults.push(format!("{name}:{number}: {IDS_RULE}, directly above the test"));
                }
            } else if let (Some(function), Some((at, ids))) = (function(line), covers.as_ref()) {
                self.cover(name, function, *at, ids);
                covers = None;
            } else if let Some((at, _)) = covers.as_ref().filter(|_| !line.starts_with("#[")) {
                self.faults.push(format!("{name}:{at}: no test follows"));
                covers = None;
            }
        }
        if let Some((at, _)) = covers {
            self.faults.push(format!("{name}:{at}: no test follows"));
        }
    }

    /// Reads the covered requirements of the scripts in one file. Those of a script stand below its title.
    pub fn add_scripts(&mut self, name: &str, text: &str) {
        let mut before = "";
        for (number, line) in (1..).zip(text.lines().map(str::trim)) {
            if let Some(ids) = line.strip_prefix(COVERS) {
                let ids = self.ids(name, number, line, ids);
                match before.strip_prefix(TITLE).and_then(|title| title.split_once(": ")) {
                    Some((_, title)) => self.cover(name, title, number, &ids),
                    None => self.faults.push(format!("{name}:{number}: no title stands above")),
                }
            }
            before = line;
        }
    }

    /// Returns the ids of a comment.
    fn ids<'a>(&mut self, name: &str, number: usize, line: &str, ids: &'a str) -> Vec<&'a str> {
        let ids: Vec<&str> = ids.trim_end_matches('.').split(", ").collect();
        if !line.ends_with('.') || ids.len() > MAX_IDS {
            self.faults.push(format!("{name}:{number}: {IDS_RULE}"));
        }
        ids
    }

    fn cover(&mut self, name: &str, function: &str, at: usize, ids: &[&str]) {
        for id in ids {
            match self.requirements.iter_mut().find(|requirement| requirement.id == *id) {
                Some(requirement) => requirement.tests.push((name.to_owned(), function.to_owned())),
                None => self.faults.push(format!("{name}:{at}: there is no requirement {id}")),
            }
        }
    }

    /// Returns the faults: malformed comments, unknown ids, and each MUST without test and reason.
    pub fn faults(&self) -> Vec<String> {
        let missing = self
            .requirements
            .iter()
            .filter(|requirement| requirement.level == MUST && requirement.standing() == Standing::Missing)
            .map(|requirement| format!("{}: no test and no reason: {}", requirement.id, requirement.text));
        let both = self
            .requirements
            .iter()
            .filter(|requirement| requirement.exempt.is_some() && !requirement.tests.is_empty())
            .map(|requirement| format!("{}: exempt, but a test covers it", requirement.id));
        self.faults.iter().cloned().chain(missing).chain(both).collect()
    }

    /// Returns how many requirements of an RFC and level have this standing.
    pub fn count(&self, rfc: &str, level: &str, standing: Standing) -> usize {
        self.requirements
            .iter()
            .filter(|it| it.rfc == rfc && it.level == level && it.standing() == standing)
            .count()
    }

    /// Returns the matrix as a document.
    pub fn render(&self) -> String {
        let mut out = String::from(HEAD);
        self.render_summary(&mut out);
        let mut by_rfc: BTreeMap<&str, Vec<&Requirement>> = BTreeMap::new();
        for requirement in &self.requirements {
            by_rfc.entry(&requirement.rfc).or_default().push(requirement);
        }
        for (rfc, requirements) in by_rfc {
            let _ = write!(
                out,
                "\n## RFC {rfc}\n\n| requirement | level | what it says | shown by |\n|---|---|---|---|\n"
            );
            for Requirement { id, level, text, tests, exempt, .. } in requirements {
                let shown = match (tests.as_slice(), exempt) {
                    ([], Some(reason)) => format!("exempt: {}", escaped(reason)),
                    ([], None) => "-".to_owned(),
                    (tests, _) => tests.iter().map(short).collect::<Vec<_>>().join(", "),
                };
                let _ = writeln!(out, "| {id} | {level} | {} | {shown} |", escaped(text));
            }
        }
        out
    }

    fn render_summary(&self, out: &mut String) {
        let mut rfcs: Vec<&str> = self.requirements.iter().map(|it| it.rfc.as_str()).collect();
        rfcs.sort_unstable();
        rfcs.dedup();
        out.push_str(
            "| RFC | level | requirements | covered | exempt | neither |\n|---|---|---|---|---|---|\n",
        );
        for level in [MUST, "SHOULD", "MAY"] {
            let mut sums = [0; 3];
            for rfc in &rfcs {
                let counts = STANDINGS.map(|standing| self.count(rfc, level, standing));
                let [covered, exempt, missing] = counts;
                let all: usize = counts.iter().sum();
                if all == 0 {
                    continue;
                }
                let _ = writeln!(out, "| {rfc} | {level} | {all} | {covered} | {exempt} | {missing} |");
                sums = core::array::from_fn(|i| sums[i] + counts[i]);
            }
            let [covered, exempt, missing] = sums;
            let all: usize = sums.iter().sum();
            let _ = writeln!(out, "| all | {level} | {all} | {covered} | {exempt} | {missing} |");
        }
    }
}

/// Returns the lines of a list without its head, each with `N` fields.
fn records<const N: usize>(text: &str) -> Result<Vec<[String; N]>, String> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let records = reader.records().map(|record| {
        let fields: Vec<String> =
            record.map_err(|error| error.to_string())?.iter().map(str::to_owned).collect();
        fields.try_into().map_err(|fields| format!("not {N} fields: {fields:?}"))
    });
    records.collect()
}

/// Returns the name of the function that a line begins.
fn function(line: &str) -> Option<&str> {
    let name = line.strip_prefix("pub ").unwrap_or(line).strip_prefix("fn ")?;
    name.split('(').next()
}

/// Shortens a name: `tests/tests/conformance/atomics.rs`, `the_arithmetic` becomes
/// `conformance/atomics::the_arithmetic`. That of a script is its file and what its title says.
fn short((file, function): &(String, String)) -> String {
    if let Some(script) = file.strip_suffix(".pkt") {
        let script = script.rsplit('/').next().unwrap_or(script);
        return format!("`{script}.pkt`: {}", escaped(function));
    }
    let file = file.trim_end_matches(".rs").trim_start_matches("tests/tests/");
    format!("`{file}::{function}`")
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns all Rust sources of the workspace, and all scripts, in a fixed order.
fn sources(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut folders: Vec<PathBuf> = CRATES.iter().map(|name| root.join(name)).collect();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for entry in entries {
            let path = entry.map_err(|error| error.to_string())?.path();
            if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "pkt") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

const CRATES: [&str; 9] = ["cli", "ddp", "mpa", "netif", "rdmap", "rnic", "tcp", "tests", "verbs"];
const STANDINGS: [Standing; 3] = [Standing::Covered, Standing::Exempt, Standing::Missing];
const MUST: &str = "MUST";
const COVERS: &str = "// Covers ";
const MAX_IDS: usize = 4;
const IDS_RULE: &str = "ids separated by commas, at most 4, and a full stop";
const TITLE: &str = "== ";
const SCTP: &str = "5043";
const SCTP_REASON: &str = "DDP over SCTP: this device runs over TCP only.";
const HEAD: &str = "# Conformance

This page lists each normative sentence of RFC 5040 (RDMAP), 5041 (DDP), 5042 (security), 5043 (SCTP), 5044 (MPA),
6581 (enhanced connection setup) and 7306 (Atomics, Immediate Data), with the tests that fail when it is broken.
Of TCP ([tcp.md](tcp.md)) it lists the MUSTs and SHOULDs of RFC 9293's appendix B, under their numbers there, and the
MUSTs of RFC 2018, 2883 and 8985 (SACK, RACK-TLP), 3168 (ECN), 5681, 9406, 9438 and 9937 (congestion), 5682, 6298, 6582
and 3042 (recovery), 5961 and 6528 (robustness), 6691, 6928 and 7323. Where those RFCs describe an algorithm without the
word, the sentence is ours and says (implicit).
A test names its sentences in a comment (`// Covers 5044-4.3-7.`). The test `catalogue` fails while a MUST has neither
a test nor a reason in `tests/conformance/exempt.csv`. `cargo run -p weft-tests --bin conformance` writes this page.

";
