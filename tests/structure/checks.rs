//! The rules. Each is a function from files to faults, with a test that plants a fault.

use std::collections::BTreeSet;

use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};

use crate::Fault;
use crate::imports::{Files, Import, imports};
use crate::source::fields;

/// Returns imports of rnic's files that go up or sideways, and files that are in no row.
pub(crate) fn rows(files: &Files) -> Vec<Fault> {
    let own = files.keys().filter_map(|path| path.strip_prefix("rnic/src/")).filter(|path| *path != "lib.rs");
    let homeless = own.filter(|path| row(path).is_none()).map(|path| Fault {
        name: format!("{path} is in no row"),
        message: format!("rnic/src/{path} is in none of the folders {ROWS:?}"),
    });
    let upward = imports(files, "rnic/src/lib.rs").into_iter().filter_map(|import| {
        let (from, to) = (import.from.strip_prefix("rnic/src/")?, import.to.strip_prefix("rnic/src/")?);
        let ((above, folder), (below, target)) = (row(from)?, row(to)?);
        let is_right =
            above < below || folder == target || (above, below) == (ROWS.len() - 1, ROWS.len() - 1);
        let message = format!("{}: a row imports rows below it only: {ROWS:?}", told(&import));
        (!is_right).then(|| Fault { name: format!("{from} imports {to}"), message })
    });
    homeless.chain(upward).collect()
}

/// Returns imports of capi's files that go up. Objects know no process and no calls, and `raw/` and `abi/` know no
/// objects.
pub(crate) fn rows_of_capi(files: &Files) -> Vec<Fault> {
    let row = |path: &str| match path.split(['/', '.']).next().unwrap_or_default() {
        "c" => 0,
        "calls" => 1,
        "process" => 2,
        "raw" | "abi" => 4,
        _ => 3,
    };
    let upward = imports(files, "capi/src/lib.rs").into_iter().filter_map(|import| {
        let (from, to) = (import.from.strip_prefix("capi/src/")?, import.to.strip_prefix("capi/src/")?);
        let message = format!("{}: the rows are c, calls, process, objects, raw and abi", told(&import));
        (row(from) > row(to)).then(|| Fault { name: format!("{from} imports {to}"), message })
    });
    upward.collect()
}

/// Returns fields of `Engine` that the rest of rnic could name. The compiler keeps the others inside the folder.
pub(crate) fn engine_fields(files: &Files) -> Vec<Fault> {
    let places = ["rnic/src/engine.rs", "rnic/src/engine/tables.rs"];
    let found = places.iter().find_map(|path| Some((path, fields(files.get(*path)?, "Engine")?)));
    let Some((path, fields)) = found else {
        let message = format!("none of {places:?} declares the struct Engine");
        return vec![Fault { name: "Engine".to_owned(), message }];
    };
    let is_open = |visibility: &str| match visibility.replace(' ', "").as_str() {
        "" | "pub(incrate::engine)" | "pub(self)" => false,
        "pub(super)" => *path == "rnic/src/engine.rs",
        _ => true,
    };
    let open = fields.into_iter().filter(|field| is_open(&field.visibility));
    open.map(|field| Fault {
        message: format!(
            "{path}:{}: {} {} can be named outside of engine/: make it private or pub(in crate::engine)",
            field.line, field.visibility, field.name
        ),
        name: field.name,
    })
    .collect()
}

/// Returns circles of more than three files, smaller ones without a reason, and reasons without such a smaller
/// circle.
pub(crate) fn circles(files: &Files, reasons: &[(&[&str], &str)]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut unused: Vec<_> = reasons.iter().map(|(files, _)| *files).collect();
    for root in files.keys().filter(|path| is_root(path)) {
        let imports = imports(files, root);
        for (circle, closing) in crate::circles::circles(&imports) {
            let known = unused.iter().position(|files| circle.iter().eq(files.iter()));
            if let Some(known) = known.filter(|_| circle.len() <= LARGEST) {
                unused.remove(known);
                continue;
            }
            let name = match circle.len() {
                ..=LARGEST => circle.join(", "),
                _ => format!("{root}: more than three files"),
            };
            let mut pairs = BTreeSet::new();
            let one_for_each = closing.into_iter().filter(|import| pairs.insert((&import.from, &import.to)));
            let told: Vec<_> = one_for_each.map(told).collect();
            faults.push(Fault { message: format!("circle {name}:\n  {}", told.join("\n  ")), name });
        }
    }
    faults.extend(unused.into_iter().map(|circle| Fault {
        name: circle.join(", "),
        message: format!(
            "this is no circle of two or three files: take it out of REASONS: {}",
            circle.join(", ")
        ),
    }));
    faults
}

/// Returns dependencies between crates that are not in the table, and denied dependencies.
pub(crate) fn crates(manifests: &Files) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (path, text) in manifests {
        let Some(name) = path.strip_suffix("/Cargo.toml") else { continue };
        let wanted = CRATES.iter().find(|(one, _)| *one == name).map(|(_, wanted)| *wanted);
        let dependencies = dependencies(text).unwrap_or_else(|error| {
            let message = format!("{path}: {error}");
            faults.push(Fault { name: format!("{name} has a manifest that is no TOML"), message });
            Vec::new()
        });
        for (line, dependency) in dependencies {
            let is_right = match dependency.strip_prefix("weft-") {
                Some(one) => wanted.is_none_or(|wanted| wanted.contains(&one)),
                None => !DENIED.contains(&(name, &dependency)),
            };
            if !is_right {
                let name = format!("{name} on {dependency}");
                faults.push(Fault { message: format!("{path}:{line}: {name}: see CRATES and DENIED"), name });
            }
        }
    }
    faults
}

/// Returns Rust files that do not begin with `//!`.
pub(crate) fn headless(files: &Files) -> Vec<Fault> {
    let without = files.iter().filter(|(_, text)| !text.starts_with("//!"));
    without
        .map(|(path, _)| Fault {
            name: path.clone(),
            message: format!("{path}:1: begin with //! and a sentence that says what the file is for"),
        })
        .collect()
}

/// Returns Markdown files with lines of more than 120 characters outside of tables and code.
pub(crate) fn long_lines(files: &Files) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (path, text) in files {
        let mut is_code = false;
        let mut long = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let start = line.trim_start();
            is_code ^= start.starts_with("```");
            if !is_code && !start.starts_with('|') && line.chars().count() > 120 {
                long.push(number);
            }
        }
        if !long.is_empty() {
            let message = format!("{path}: more than 120 characters in lines {long:?}");
            faults.push(Fault { name: path.clone(), message });
        }
    }
    faults
}

fn told(import: &Import) -> String {
    format!("{}:{}: {} of {}", import.from, import.path.line, import.path.segments.join("::"), import.to)
}

/// Returns the number of a file's row and the name of its folder.
fn row(path: &str) -> Option<(usize, &str)> {
    let folder = path.split(['/', '.']).next()?;
    let number = ROWS.iter().position(|row| row.contains(&folder))?;
    Some((number, folder))
}

/// Returns true for the roots of libraries, programs and test programs.
fn is_root(path: &str) -> bool {
    matches!(
        path.split('/').collect::<Vec<_>>().as_slice(),
        [.., "src", "lib.rs" | "main.rs"]
            | [.., "src", "bin", _]
            | [.., "tests", _]
            | [.., "src", "bin", _, "main.rs"]
            | [.., "tests", _, "main.rs"]
    )
}

/// Returns the crates that a manifest and its build script depend on, for any target, each with its line.
/// Dependencies of tests do not count.
fn dependencies(manifest: &str) -> Result<Vec<(usize, String)>, Error> {
    let root = DeTable::parse(manifest)?;
    let targets = table(root.get_ref(), "target").into_iter().flat_map(DeTable::values);
    let sections = targets.filter_map(|target| as_table(target)).chain([root.get_ref()]);
    let kinds = sections.flat_map(|section| KINDS.iter().filter_map(|kind| table(section, kind)));
    let found = kinds.flatten().map(|(key, value)| {
        // A crate may be renamed here.
        let package = as_table(value).and_then(|value| value.get("package")?.get_ref().as_str());
        let line = manifest[..key.span().start].matches('\n').count() + 1;
        (line, package.unwrap_or(key.get_ref()).to_owned())
    });
    Ok(found.collect())
}

fn table<'a>(parent: &'a DeTable<'_>, name: &str) -> Option<&'a DeTable<'a>> {
    as_table(parent.get(name)?)
}

fn as_table<'a>(value: &'a Spanned<DeValue<'_>>) -> Option<&'a DeTable<'a>> {
    value.get_ref().as_table()
}

/// The tables of a manifest, or of a target in it, that name dependencies.
const KINDS: [&str; 2] = ["dependencies", "build-dependencies"];

/// The largest circle for which there may be a reason, in files.
const LARGEST: usize = 3;

/// The rows of rnic from above. A row imports rows below it. The files of the last row may import each other.
const ROWS: [&[&str]; 6] = [
    &["objects"],
    &["drive"],
    &["engine"],
    &["connection", "ulp"],
    &["stream"],
    &["counters", "events", "config", "clock", "error", "failure", "ids"],
];

/// The crates that each crate may depend on. Crates that are not named here are above all: cli, tests, fuzz and
/// examples.
const CRATES: [(&str, &[&str]); 22] = [
    ("mpa", &[]),
    ("ddp", &[]),
    ("rdmap", &["ddp"]),
    ("tcp", &[]),
    ("netif", &["tcp"]),
    ("verbs", &["ddp", "rdmap"]),
    ("rnic", &["mpa", "ddp", "rdmap", "netif", "verbs"]),
    ("stat", &["netif", "verbs", "rnic"]),
    ("cm", &["netif", "rnic"]),
    ("capi", &["netif", "verbs", "rnic", "cm", "stat", "exs"]),
    ("capi/preload", &["capi"]),
    ("capi/directory", &["capi"]),
    ("capi/exs", &["capi"]),
    ("conform", &["netif"]),
    ("sockets/preload", &["sockets"]),
    ("sockets/daemon", &["netif", "rnic", "sockets", "stat"]),
    ("group", &["netif", "rnic"]),
    ("group/kv", &["group"]),
    ("exs/core", &["ddp"]),
    ("exs", &["netif", "rnic", "exs-core", "stat"]),
    ("capi/group", &["netif", "rnic", "group"]),
    ("bench", &["mpa", "netif", "verbs", "rnic", "sockets", "group", "group-kv", "exs"]),
];

/// External crates that a crate must not use.
const DENIED: [(&str, &str); 1] = [("rnic", "serde_json")];

/// Circles of two and three files that stay, with their reasons.
pub(crate) const REASONS: &[(&[&str], &str)] = &[
    (
        &["capi/preload/tests/it/main.rs", "capi/preload/tests/it/program.rs"],
        "the root of the tests knows the form of the library, which a program that it starts needs",
    ),
    (
        &["capi/src/abi/object.rs", "capi/src/abi/work.rs"],
        "C's structs of objects and of requests point at each other",
    ),
    (
        &["mpa/src/fpdu.rs", "mpa/src/marker.rs"],
        "an FPDU has Markers, and a Marker's place follows from the lengths of an FPDU's fields",
    ),
    (
        &["netif/src/host.rs", "netif/src/host/accept.rs"],
        "the stack holds listeners, and a listener's connections are entered into the stack",
    ),
    (
        &["netif/src/hub.rs", "netif/src/wire.rs"],
        "a wire may be one of a hub's, and a hub hands on the frames of one wire",
    ),
    (
        &["netif/src/stack/sockets/own.rs", "netif/src/stack/sockets/sequence.rs"],
        "sequence numbers are corrected in segments of our own, whose place in a frame they know",
    ),
    (
        &["netif/src/stack/sockets.rs", "netif/src/stack/sockets/asking.rs"],
        "the stack holds the questions for neighbors, and asks them through its interface",
    ),
    (
        &["rdmap/src/message.rs", "rdmap/src/outstanding.rs", "rdmap/src/terminate.rs"],
        "messages, the Reads and Atomics in them, and the Terminate that names one of these are one vocabulary",
    ),
    (
        &["tests/src/sockets/process.rs", "tests/src/sockets/world.rs"],
        "a world has processes, and a process speaks to the daemon of its world and wakes others there",
    ),
    (
        &["verbs/src/cq.rs", "verbs/src/cq/rings.rs"],
        "a completion queue consists of rings, whose sizes end at the queue's limit",
    ),
    (
        &["tests/src/fuzzing/verbs/memory.rs", "tests/src/fuzzing/verbs/windows.rs"],
        "the model's memory holds the windows on it, and a window's rights are those of its memory",
    ),
    (
        &["tests/src/simulate/draft.rs", "tests/src/simulate/plan.rs", "tests/src/simulate/workload.rs"],
        "a plan has the lanes that a workload draws, and the sizes in them follow the hosts of the plan",
    ),
    (
        &["tests/tests/fuzzing/layers.rs", "tests/tests/fuzzing/seeds.rs"],
        "the files of seeds are compared with those that the layers make, and a test of the layers reads the files",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn files(all: &[(&str, &str)]) -> Files {
        all.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
    }

    fn names(faults: &[Fault]) -> Vec<&str> {
        faults.iter().map(|fault| fault.name.as_str()).collect()
    }

    #[test]
    fn an_import_of_a_row_above_is_a_fault() {
        let faults = rows(&files(&[
            ("rnic/src/lib.rs", "mod engine; mod stream; mod ids; mod clock; pub use engine::Engine;"),
            ("rnic/src/engine.rs", "mod tables; use crate::stream::Stream; pub use tables::Engine;"),
            ("rnic/src/engine/tables.rs", "use super::poll; pub struct Engine;"),
            ("rnic/src/stream.rs", "pub struct Stream;\nuse crate::{ids::Id, Engine};"),
            ("rnic/src/ids.rs", "use crate::clock::Clock;"),
            ("rnic/src/clock.rs", ""),
        ]));
        assert_eq!(names(&faults), ["stream.rs imports engine/tables.rs"]);
        let place = "rnic/src/stream.rs:2: crate::Engine of rnic/src/engine/tables.rs";
        assert!(faults[0].message.starts_with(place), "{}", faults[0].message);
    }

    #[test]
    fn an_import_of_a_folder_of_the_same_row_is_a_fault_and_so_is_a_file_without_a_row() {
        let faults = rows(&files(&[
            ("rnic/src/lib.rs", "mod connection; mod ulp; mod motor;"),
            ("rnic/src/connection.rs", "use crate::motor::Motor;"),
            ("rnic/src/motor.rs", ""),
            ("rnic/src/ulp.rs", "fn f() { crate::connection::g() }"),
        ]));
        assert_eq!(names(&faults), ["motor.rs is in no row", "ulp.rs imports connection.rs"]);
    }

    #[test]
    fn an_object_of_capi_that_knows_the_process_is_a_fault() {
        let faults = rows_of_capi(&files(&[
            ("capi/src/lib.rs", "mod c; mod calls; mod process; mod qp; mod raw;"),
            ("capi/src/c.rs", "use crate::calls; use crate::raw::Visible;"),
            ("capi/src/calls.rs", "use crate::process::Process; use crate::qp::Qp;"),
            ("capi/src/process.rs", "use crate::qp::Qp; pub struct Process;"),
            ("capi/src/qp.rs", "use crate::process::Process; use crate::raw::Visible; pub struct Qp;"),
            ("capi/src/raw.rs", "use crate::qp::Qp; pub struct Visible;"),
        ]));
        assert_eq!(names(&faults), ["qp.rs imports process.rs", "raw.rs imports qp.rs"]);
    }

    #[test]
    fn a_field_of_the_engine_that_others_can_name_is_a_fault() {
        let text =
            "struct Engine { a: A, pub(in crate::engine) b: B, pub(super) c: C, pub(crate) d: D, pub e: E }";
        assert_eq!(names(&engine_fields(&files(&[("rnic/src/engine/tables.rs", text)]))), ["d", "e"]);
        assert_eq!(names(&engine_fields(&files(&[("rnic/src/engine.rs", text)]))), ["c", "d", "e"]);
        assert_eq!(names(&engine_fields(&files(&[]))), ["Engine"]);
    }

    #[test]
    fn a_circle_is_a_fault() {
        let four = files(&[
            ("x/src/lib.rs", "mod a; mod b; mod c; mod d;"),
            ("x/src/a.rs", "use crate::b::B;"),
            ("x/src/b.rs", "use crate::c::C;"),
            ("x/src/c.rs", "use crate::d::D;"),
            ("x/src/d.rs", "#[cfg(test)] mod tests { } fn f() { crate::a::g() }"),
        ]);
        let large = "x/src/lib.rs: more than three files";
        assert_eq!(names(&circles(&four, &[])), [large]);
        let all: &[&str] = &["x/src/a.rs", "x/src/b.rs", "x/src/c.rs", "x/src/d.rs"];
        let faults = circles(&four, &[(all, "no reason is good enough")]);
        assert_eq!(names(&faults), [large, &all.join(", ")]);
        let two = files(&[
            ("x/tests/it/main.rs", "mod a; mod b;"),
            ("x/tests/it/a.rs", "use crate::b::B;"),
            ("x/tests/it/b.rs", "#[cfg(test)] use crate::a::A; use super::a::f;"),
        ]);
        let faults = circles(&two, &[]);
        assert_eq!(names(&faults), ["x/tests/it/a.rs, x/tests/it/b.rs"]);
        assert!(faults[0].message.contains("x/tests/it/b.rs:1: super::a::f of x/tests/it/a.rs"));
        let reason: (&[&str], &str) = (&["x/tests/it/a.rs", "x/tests/it/b.rs"], "they are one");
        assert_eq!(circles(&two, &[reason]), []);
        assert_eq!(names(&circles(&four, &[reason]))[1], "x/tests/it/a.rs, x/tests/it/b.rs");
    }

    #[test]
    fn a_dependency_that_the_table_lacks_is_a_fault() {
        let faults = crates(&files(&[
            (
                "netif/Cargo.toml",
                "[dependencies]\nlibc = \"1\"\nweft-verbs = { path = \"\" }\n[dev-dependencies]\nweft-rnic = 1\n",
            ),
            ("rnic/Cargo.toml", "[dependencies]\n# Why.\nweft-verbs.workspace = true\nserde_json = \"1\"\n"),
        ]));
        assert_eq!(names(&faults), ["netif on weft-verbs", "rnic on serde_json"]);
        assert!(faults[0].message.starts_with("netif/Cargo.toml:3: "), "{}", faults[0].message);
    }

    #[test]
    fn a_dependency_is_found_wherever_a_manifest_names_it() {
        let found = |text: &str| -> Vec<_> {
            let faults = crates(&files(&[("ddp/Cargo.toml", text)]));
            faults.into_iter().map(|fault| fault.name).collect()
        };
        for manifest in [
            "[dependencies.weft-cli]\npath = \"../cli\"\n",
            "[target.'cfg(unix)'.dependencies]\nweft-cli = \"1\"\n",
            "[target.'cfg(unix)'.build-dependencies.weft-cli]\nworkspace = true\n",
            "[build-dependencies]\nweft-cli.workspace = true\n",
            "[dependencies] # of the crate\nweft-cli = \"1\"\n",
            "dependencies = { weft-cli = \"1\" }\n",
            "[dependencies]\nother = { package = \"weft-cli\", path = \"../cli\" }\n",
        ] {
            assert_eq!(found(manifest), ["ddp on weft-cli"], "{manifest}");
        }
        assert_eq!(found("[dev-dependencies.weft-cli]\npath = \"../cli\"\n"), [""; 0]);
        assert_eq!(found("[dependencies\n"), ["ddp has a manifest that is no TOML"]);
    }

    #[test]
    fn a_file_without_a_description_is_a_fault() {
        let faults = headless(&files(&[("a.rs", "//! Text.\n"), ("b.rs", "use a;\n//! Late.")]));
        assert_eq!(names(&faults), ["b.rs"]);
    }

    #[test]
    fn a_long_line_outside_of_tables_and_code_is_a_fault() {
        let long = "ü".repeat(121);
        let fine = format!("{}\n| {long}\n```\n{long}\n```\n", "ü".repeat(120));
        let faults = long_lines(&files(&[("a.md", &fine), ("b.md", &format!("{fine}{long}\n"))]));
        assert_eq!(names(&faults), ["b.md"]);
        assert!(faults[0].message.contains("[6]"), "{}", faults[0].message);
    }
}
