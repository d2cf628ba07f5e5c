//! The structure of the repository: the imports between files, the dependencies between crates, and the head of every
//! file.
//!
//! `today.txt` lists the remaining faults. The list only shrinks: a new fault fails, and so does an entry that is no
//! longer a fault.

mod checks;
mod circles;
mod imports;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::imports::Files;

/// A breach of a rule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fault {
    /// The fault's name in the list.
    pub(crate) name: String,
    /// The place of the fault, and what would be right.
    pub(crate) message: String,
}

#[test]
fn rows_of_rnic_import_rows_below_them_only() {
    hold("row", &checks::rows(&files("rs")));
}

#[test]
fn rows_of_capi_import_rows_below_them_only() {
    hold("row of capi", &checks::rows_of_capi(&files("rs")));
}

#[test]
fn fields_of_the_engine_are_visible_in_its_folder_only() {
    hold("field", &checks::engine_fields(&files("rs")));
}

#[test]
fn no_circle_of_files_is_unknown() {
    hold("circle", &checks::circles(&files("rs"), checks::REASONS));
}

#[test]
fn crates_depend_on_each_other_as_the_architecture_says() {
    hold("crate", &checks::crates(&files("toml")));
}

#[test]
fn every_file_says_what_it_is() {
    hold("no //!", &checks::headless(&files("rs")));
}

#[test]
fn lines_of_markdown_are_short() {
    hold("long line", &checks::long_lines(&files("md")));
}

/// Fails unless `faults` are those of this kind in the list.
fn hold(kind: &str, faults: &[Fault]) {
    let news = differences(kind, faults, include_str!("today.txt"));
    assert!(news.is_empty(), "\n{}", news.join("\n"));
}

/// Returns faults that the list lacks, each with its entry in brackets, and entries that are no longer faults.
fn differences(kind: &str, faults: &[Fault], list: &str) -> Vec<String> {
    let start = format!("{kind}: ");
    let known: BTreeSet<_> = list.lines().filter_map(|line| line.strip_prefix(&start)).collect();
    let mut news: BTreeMap<_, _> = faults
        .iter()
        .filter(|fault| !known.contains(fault.name.as_str()))
        .map(|fault| (fault.name.as_str(), format!("{} [{kind}: {}]", fault.message, fault.name)))
        .collect();
    for name in known.into_iter().filter(|name| !faults.iter().any(|fault| fault.name == *name)) {
        let message = format!("take it off the list (tests/structure/today.txt): {kind}: {name}");
        news.insert(name, message);
    }
    news.into_values().collect()
}

/// Returns the files of the repository with that ending.
fn files(ending: &str) -> Files {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace");
    let mut folders = vec![root.to_owned()];
    let mut found = Files::new();
    while let Some(folder) = folders.pop() {
        for path in read(&folder) {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() && !name.starts_with('.') && !FOREIGN.contains(&name) {
                folders.push(path);
            } else if name.ends_with(&format!(".{ending}")) {
                let relative = path.strip_prefix(root).expect("below the root").display().to_string();
                found.insert(relative, fs::read_to_string(&path).expect("a readable file"));
            }
        }
    }
    assert!(!found.is_empty(), "the files are not where this test looks for them");
    found
}

fn read(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a readable folder");
    entries.map(|entry| entry.expect("a readable entry").path()).collect()
}

#[test]
fn the_list_of_faults_only_shrinks() {
    let fault = |name: &str| Fault { name: name.to_owned(), message: format!("{name} is wrong") };
    let list = "row: a\nrow: b\ncircle: c\n";
    assert_eq!(differences("row", &[fault("a"), fault("b")], list), [""; 0]);
    assert_eq!(differences("row", &[fault("a"), fault("b"), fault("d")], list), ["d is wrong [row: d]"]);
    let news = differences("row", &[fault("a")], list);
    assert_eq!(news, ["take it off the list (tests/structure/today.txt): row: b"]);
}

/// Folders with files that tools have made.
const FOREIGN: [&str; 5] = ["target", "data", "corpus", "artifacts", "coverage"];
