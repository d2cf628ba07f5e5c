//! The files in `fuzz/seeds`. The generated ones must be up to date, and all of them are run.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use weft_tests::fuzzing;

use crate::{dialogs, exs, groups, layers, scripts, sockets, talk, tcp, verbs};

/// The seeds of a target: name and octets.
pub(crate) fn read(target: &str) -> Vec<(String, Vec<u8>)> {
    let mut seeds: Vec<_> = fs::read_dir(folder(target))
        .expect("a folder of seeds")
        .map(|entry| {
            let entry = entry.expect("a readable folder");
            let name = entry.file_name().into_string().expect("a name of this repository");
            (name, fs::read(entry.path()).expect("a readable seed"))
        })
        .collect();
    seeds.sort();
    assert!(!seeds.is_empty(), "{target} has no seeds");
    seeds
}

/// Returns the folder of a target's seeds.
fn folder(target: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    root.join("fuzz/seeds").join(target)
}

/// Returns names and octets of the generated seeds.
fn made(target: &str) -> Vec<(String, Vec<u8>)> {
    match target {
        "stream" => [scripts::all(), dialogs::all()].concat(),
        "verbs_ops" => verbs::seeds(),
        "group_message" | "group_control" => groups::all(target),
        "exs_message" => exs::all(),
        "exs_pair" => exs::pairs(),
        "exs_plain" => exs::plain(),
        "sockets_link" | "sockets_calls" | "sockets_far" => sockets::all(target),
        "sockets_message" | "sockets_order" | "sockets_answer" | "sockets_letter" | "sockets_record"
        | "sockets_session" => talk::all(target),
        "tcp_options" | "tcp_cookie" | "tcp_segment" => tcp::all(target),
        _ => layers::all(target),
    }
}

/// `WEFT_WRITE_SEEDS=1` writes them.
#[test]
fn the_made_seeds_are_up_to_date() {
    let writes = std::env::var_os("WEFT_WRITE_SEEDS").is_some();
    for target in TARGETS {
        let made = made(target);
        let names: BTreeSet<_> = made.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), made.len(), "{target}: two seeds with one name");
        for (name, octets) in &made {
            let path = folder(target).join(name);
            if writes {
                fs::create_dir_all(folder(target)).expect("a folder");
                fs::write(&path, octets).expect("a seed");
            }
            let found = fs::read(&path).unwrap_or_default();
            assert!(found == *octets, "{} is out of date: run again with WEFT_WRITE_SEEDS=1", path.display());
        }
    }
}

/// Findings have their seeds here too, so that a defect that comes back is found again.
#[test]
fn every_target_holds_on_its_seeds() {
    for target in TARGETS {
        for (name, octets) in read(target) {
            println!("{target}/{name}");
            run(target, &octets);
            // An input that ends early is valid, too.
            run(target, &octets[..octets.len() / 2]);
        }
    }
}

#[test]
fn every_target_is_known_here() {
    let targets = folder("..").join("fuzz_targets");
    let files = fs::read_dir(targets).expect("the targets");
    let names = files.map(|file| file.expect("a readable folder").path());
    let found: BTreeSet<_> = names.map(|path| path.file_stem().expect("a name").to_owned()).collect();
    assert_eq!(found, TARGETS.iter().map(|&name| name.into()).collect());
}

/// Each kind of message that one party sends another is among the seeds.
#[test]
fn every_kind_of_message_has_a_seed() {
    let kinds = |target: &str, prefix: &str| -> BTreeSet<u8> {
        let named = read(target).into_iter().filter(|(name, _)| name.starts_with(prefix));
        named.map(|(_, octets)| octets[0]).collect()
    };
    let all = |last: u8| -> BTreeSet<u8> { (1..=last).collect() };
    assert_eq!(kinds("sockets_message", "to-daemon-"), all(11));
    assert_eq!(kinds("sockets_message", "to-process-"), all(10));
    assert_eq!(kinds("sockets_letter", "letter-"), all(12));
}

/// Octets of the seeds are changed, one at a time.
#[test]
fn seeds_with_a_change_break_nothing() {
    for target in ["sockets_order", "sockets_answer", "sockets_record", "sockets_session"] {
        for (number, (_, seed)) in (100..).zip(read(target)) {
            let noise = sockets::chance(number);
            for at in 0..seed.len().min(CHANGES) {
                let mut octets = seed.clone();
                octets[at] ^= noise[at];
                run(target, &octets);
            }
        }
    }
}

/// Does the same as libFuzzer's target.
fn run(target: &str, octets: &[u8]) {
    match target {
        "mpa_startup" => weft_mpa::fuzzing::startup(octets),
        "mpa_deframe" => weft_mpa::fuzzing::deframe(octets),
        "mpa_locate" => weft_mpa::fuzzing::locate(octets),
        "ddp_header" => weft_ddp::fuzzing::header(octets),
        "rdmap_accept" => weft_rdmap::fuzzing::accept(octets),
        "rdmap_terminate" => weft_rdmap::fuzzing::terminate(octets),
        "netif_frame" => weft_netif::fuzzing::frame(octets),
        "sockets_message" => weft_sockets::fuzzing::message(octets),
        "sockets_order" => fuzzing::sockets_order(octets),
        "sockets_answer" => weft_sockets::fuzzing::answers(octets),
        "sockets_claim" => weft_sockets::fuzzing::claims(octets),
        "sockets_hello" => weft_sockets::fuzzing::hello(octets),
        "sockets_far" => fuzzing::sockets_far(octets),
        "sockets_letter" => fuzzing::sockets_letter(octets),
        "sockets_session" => weft_sockets::fuzzing::session(octets),
        "sockets_record" => weft_sockets::fuzzing::record(octets),
        "sockets_link" => fuzzing::sockets_link(octets),
        "sockets_calls" => fuzzing::sockets_calls(octets),
        "group_control" => weft_group::fuzzing::control(octets),
        "group_message" => {
            let _arrived = weft_group::fuzzing::message(octets);
        }
        "exs_message" => {
            let _completed = weft_exs_core::fuzzing::message(octets);
        }
        "exs_pair" => {
            let _completed = weft_exs_core::fuzzing::pair(octets);
        }
        "exs_plain" => {
            let _completed = weft_exs_core::fuzzing::plain(octets);
        }
        "tcp_options" => weft_tcp::fuzzing::options(octets),
        "tcp_cookie" => weft_tcp::fuzzing::cookie(octets),
        "tcp_segment" => {
            let _reached = weft_tcp::fuzzing::segment(octets);
        }
        "capture" => {
            let _records = weft_cli::fuzzing::capture(octets);
        }
        "stream" => {
            let _reached = fuzzing::stream(octets);
        }
        "verbs_ops" => {
            let _seen = fuzzing::verbs_ops(octets);
        }
        _ => panic!("nobody runs {target}"),
    }
}

/// Octets of each seed that are changed.
const CHANGES: usize = 40;
const TARGETS: [&str; 29] = [
    "mpa_startup",
    "mpa_deframe",
    "mpa_locate",
    "ddp_header",
    "rdmap_accept",
    "rdmap_terminate",
    "netif_frame",
    "sockets_message",
    "sockets_order",
    "sockets_answer",
    "sockets_claim",
    "sockets_hello",
    "sockets_far",
    "sockets_letter",
    "sockets_session",
    "sockets_record",
    "sockets_link",
    "sockets_calls",
    "capture",
    "stream",
    "verbs_ops",
    "group_message",
    "group_control",
    "exs_message",
    "exs_pair",
    "exs_plain",
    "tcp_options",
    "tcp_cookie",
    "tcp_segment",
];
