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
fn unsafe_stands_in_the_listed_files_only() {
    let strays: Vec<_> = sources()
        .into_iter()
        .filter(|(path, text)| is_production(path) && is_unsafe(text))
        .map(|(path, _)| path)
        .filter(|path| {
            !UNSAFE
                .iter()
                .any(|(listed, _)| path == listed || listed.ends_with('/') && path.starts_with(listed))
        })
        .collect();
    assert!(strays.is_empty(), "unsafe code outside of the listed files: {strays:?}");
}

#[test]
fn each_file_in_the_list_of_unsafe_files_needs_to_be_there() {
    let sources = sources();
    for (listed, reason) in UNSAFE {
        let mut below = sources.iter().filter(|(path, _)| path.starts_with(listed));
        assert!(below.any(|(_, text)| is_unsafe(text)), "no unsafe code in {listed} ({reason})");
    }
}

#[test]
fn the_pure_crates_are_pure() {
    for name in ["mpa", "ddp", "rdmap", "exs/core", "tcp"] {
        let (_, text) = sources()
            .into_iter()
            .find(|(path, _)| *path == format!("{name}/src/lib.rs"))
            .expect("the crate's root");
        for line in ["#![forbid(unsafe_code)]", "no_std"] {
            assert!(text.contains(line), "{name} lacks {line}");
        }
    }
    for (path, text) in sources() {
        let is_below = |folders: &[&str]| folders.iter().any(|folder| path.starts_with(folder));
        let allocates = is_below(&["exs/core/src/"]);
        let pure = allocates || is_below(&["mpa/src/", "ddp/src/", "rdmap/src/", "tcp/src/"]);
        let production = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code: String = production.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        for word in ["std::time", "std::net", "std::io", "std::fs", "std::thread", "Vec::new()", "Box<"] {
            let heapless = word == "Vec::new()" && text.contains("heapless");
            let allowed = heapless || allocates && !word.starts_with("std::");
            assert!(!pure || allowed || !code.contains(word), "{path} uses {word}");
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

/// The page names them between grave accents. Words without `_` are something else.
#[test]
fn the_tests_in_the_page_of_threats_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let page = fs::read_to_string(root.join("docs/sockets/threats.md")).expect("the page");
    let sources = sources();
    let is_name =
        |word: &&str| word.contains('_') && word.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '_'));
    let names: Vec<&str> = page.split('`').skip(1).step_by(2).filter(is_name).collect();
    assert!(names.len() > 40, "{names:?}");
    let is_missing = |name: &&str| {
        // Some tests are made by a macro, from a name and a colon.
        let (plain, made) = (format!("fn {name}("), format!("    {name}: "));
        let is_test = sources.iter().any(|(_, text)| text.contains(&plain) || text.contains(&made));
        !is_test && !root.join(format!("fuzz/fuzz_targets/{name}.rs")).exists()
    };
    let missing: Vec<&str> = names.into_iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "no such test or fuzz target: {missing:?}");
}

/// Returns true if a file has unsafe code, or allows it in the modules below.
fn is_unsafe(text: &str) -> bool {
    let mut code = text.lines().map(str::trim_start).filter(|line| !line.starts_with("//"));
    code.any(|line| {
        ["allow(unsafe_code)", "unsafe {", "unsafe fn", "unsafe impl"].iter().any(|word| line.contains(word))
    })
}

fn is_production(path: &str) -> bool {
    path.contains("/src/") && !path.ends_with("tests.rs")
}

const CRATES: [&str; 18] = [
    "mpa", "ddp", "rdmap", "verbs", "netif", "rnic", "stat", "cm", "capi", "conform", "bench", "cli",
    "sockets", "group", "exs", "tcp", "tests", "fuzz",
];
/// The files with unsafe code, or their folder, each with its reason. There is no other list.
const UNSAFE: [(&str, &str); 33] = [
    ("verbs/src/copy.rs", "tells what the copies of registered memory need"),
    ("verbs/src/copy/", "copies and exchanges of memory that others change or take away"),
    ("verbs/src/guard.rs", "the handler of faults in those copies"),
    ("verbs/src/region.rs", "gives registered memory to the copies and the kernel; mappings of memory"),
    ("verbs/src/region/owned.rs", "memory of our own, and slices for an owner that keeps all others away"),
    ("verbs/src/ring/words.rs", "a queue's memory, which the application's threads and the engine share"),
    ("verbs/src/crc.rs", "calls CRC32c kernels that need instructions of the CPU"),
    ("verbs/src/crc/x86.rs", "CRC32c by instructions, and along with a copy from registered memory"),
    ("netif/src/tap.rs", "the request that opens a TAP queue"),
    ("netif/src/packet/ring.rs", "AF_PACKET's ring, which the kernel writes to"),
    ("netif/src/packet/socket.rs", "calls of AF_PACKET that rustix lacks"),
    ("netif/src/xdp/queue.rs", "AF_XDP's frames, which the kernel writes to"),
    ("netif/src/xdp/kernel.rs", "bpf(2), which rustix lacks"),
    ("netif/src/host/socket.rs", "two questions to a socket that rustix lacks"),
    ("netif/src/held.rs", "a descriptor that the program may have closed"),
    ("bench/src/net/device.rs", "opens the devices of the reference"),
    ("capi/src/c/", "the boundary to C"),
    ("capi/group/src/c/", "the boundary to C"),
    ("capi/src/raw/", "memory that C sees, signals, the host's addresses, and where a call comes from"),
    ("exs/src/buf.rs", "slices of registered memory, while no request and no window names it"),
    ("exs/src/raw.rs", "memory of the caller's, for operations"),
    ("sockets/src/memory.rs", "mappings of memory that other processes change"),
    ("sockets/daemon/src/kernel.rs", "calls that rustix lacks"),
    ("sockets/preload/src/buffers.rs", "the buffers of a program's calls"),
    ("sockets/preload/src/c/", "the boundary to C"),
    ("sockets/preload/src/calls.rs", "questions to the kernel and waits in it"),
    ("sockets/preload/src/cells.rs", "values that a lock guards"),
    ("sockets/preload/src/real.rs", "raw system calls, and memory that lives as long as the process"),
    ("tests/src/bin/havoc/fork.rs", "children that share connections"),
    ("tests/src/bin/twin/calls.rs", "makes socket calls as C programs do"),
    ("tests/src/bin/twin/connections.rs", "makes connections as C programs do"),
    ("tests/src/bin/twin/handler.rs", "a signal handler that makes socket calls"),
    ("tests/src/bin/twin/launch.rs", "starts programs and passes descriptors as C programs do"),
];
