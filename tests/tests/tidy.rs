//! The style that a compiler cannot check.

use std::fs;
use std::path::{Path, PathBuf};

/// Every Rust source file of the repository.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let mut folders: Vec<PathBuf> = CRATES.iter().map(|name| root.join(name)).collect();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() && !["target", "data", "corpus", "artifacts"].contains(&name) {
                folders.push(path);
            } else if name.ends_with(".rs") {
                let relative = path.strip_prefix(root).expect("below the root").display().to_string();
                found.push((relative, fs::read_to_string(&path).expect("a readable file")));
            }
        }
    }
    assert!(found.len() > 60, "the sources are not where this test looks for them");
    found
}

/// Lines before the unit tests of a file.
fn production_lines(text: &str) -> usize {
    text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).count()
}

#[test]
fn files_are_short() {
    let long: Vec<_> = sources()
        .into_iter()
        .filter(|(path, text)| {
            text.lines().count() > 800 || is_production(path) && production_lines(text) > 500
        })
        .map(|(path, text)| format!("{path}: {} lines", text.lines().count()))
        .collect();
    assert!(long.is_empty(), "split these files: {long:?}");
}

#[test]
fn unsafe_stands_where_the_architecture_says() {
    let strays: Vec<_> = sources()
        .into_iter()
        .filter(|(path, text)| is_production(path) && text.contains("allow(unsafe_code)"))
        .map(|(path, _)| path)
        .filter(|path| !UNSAFE_FILES.contains(&path.as_str()) && !path.starts_with(UNSAFE_FOLDER))
        .collect();
    assert!(strays.is_empty(), "unsafe code outside of the listed files: {strays:?}");
}

#[test]
fn the_pure_crates_are_pure() {
    for name in ["mpa", "ddp", "rdmap"] {
        let (_, text) = sources()
            .into_iter()
            .find(|(path, _)| *path == format!("{name}/src/lib.rs"))
            .expect("the crate's root");
        for line in ["#![forbid(unsafe_code)]", "no_std"] {
            assert!(text.contains(line), "{name} lacks {line}");
        }
    }
    for (path, text) in sources() {
        let pure = ["mpa/src/", "ddp/src/", "rdmap/src/"].iter().any(|start| path.starts_with(start));
        let production = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code: String = production.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        for word in ["std::time", "std::net", "std::io", "std::fs", "std::thread", "Vec::new()", "Box<"] {
            let heapless = word == "Vec::new()" && text.contains("heapless");
            assert!(!pure || heapless || !code.contains(word), "{path} uses {word}");
        }
    }
}

#[test]
fn nothing_is_left_for_later() {
    let marks = [
        "TO".to_owned() + "DO",
        "FIX".to_owned() + "ME",
        "unimplemented".to_owned() + "!(",
        "to".to_owned() + "do!(",
    ];
    for (path, text) in sources() {
        for mark in &marks {
            assert!(!text.contains(mark.as_str()), "{path} contains {mark}");
        }
    }
}

#[test]
fn the_architecture_fits_a_page_or_two() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    assert!(text.lines().count() <= 150);
    for file in UNSAFE_FILES.into_iter().chain([UNSAFE_FOLDER]) {
        assert!(text.contains(file), "ARCHITECTURE.md does not list {file} among the files with unsafe code");
    }
}

fn is_production(path: &str) -> bool {
    path.contains("/src/") && !path.ends_with("tests.rs")
}

const CRATES: [&str; 13] = [
    "mpa", "ddp", "rdmap", "verbs", "netif", "rnic", "cm", "capi", "conform", "bench", "cli", "tests", "fuzz",
];
/// The boundary to C.
const UNSAFE_FOLDER: &str = "capi/src/c/";
const UNSAFE_FILES: [&str; 11] = [
    "verbs/src/crc.rs",
    "verbs/src/region.rs",
    "verbs/src/ring.rs",
    "netif/src/held.rs",
    "netif/src/tap.rs",
    "netif/src/packet/ring.rs",
    "netif/src/packet/socket.rs",
    "netif/src/xdp/queue.rs",
    "netif/src/xdp/kernel.rs",
    "netif/src/host/socket.rs",
    "bench/src/net/device.rs",
];
