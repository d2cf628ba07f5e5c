//! `weft bench`: its rows, its exit statuses, and its errors about arguments that make no sense.

use crate::process::{path_in, run};
use crate::support::{Folder, skip};

#[test]
fn a_case_gives_a_row_in_the_table_and_one_object_as_json() {
    let folder = Folder::new();
    let saved = path_in(&folder, "rows.json");
    let text = run(&format!("bench --quick --only pair/ping-8 --save {saved}"));
    assert_eq!((text.status, text.stderr.len()), (0, 0), "{text:?}");
    assert!(text.stdout.iter().any(|line| line.starts_with("pair/ping-8") && line.contains("smoltcp")));
    assert!(text.stdout.iter().any(|line| line.contains("4 times real time")), "{text:?}");
    let json = run("bench --quick --only pair/ping-8 --json");
    assert_eq!((json.status, json.stderr.len(), json.stdout.len()), (0, 0, 1), "{json:?}");
    for line in [std::fs::read_to_string(saved).unwrap(), json.stdout[0].clone()] {
        for key in ["case", "ours", "reference", "reference_value", "ratio", "better", "target", "met"] {
            assert!(line.contains(&format!("\"{key}\":")), "{key}: {line}");
        }
    }
}

#[test]
fn a_combination_of_the_users_own_is_measured() {
    for (line, rows) in [
        ("bench run --quick --json --op write --size 64,65536 --mtu 9000", 6),
        ("bench run --quick --json --op write-immediate --size 4096 --no-crc --qps 3", 3),
        ("bench run --quick --json --op send --size 8 --batch 32 --signal-every 32 --depth 128", 3),
        ("bench run --quick --json --op read --size 100000 --markers", 3),
        ("bench run --quick --json --op fetch-add --qps 5 --depth 4", 3),
        ("bench run --quick --json --op send --size 64 --round-trips", 1),
        ("bench run --quick --json --op send --size 1000 --progress thread", 3),
    ] {
        let done = run(line);
        assert_eq!((done.status, done.stderr.len(), done.stdout.len()), (0, 0, rows), "{line}: {done:?}");
        for row in &done.stdout {
            assert!(row.contains("\"ratio\":") && row.contains("\"op\":"), "{line}: {row}");
        }
    }
}

#[test]
fn the_sweep_names_its_crossovers() {
    let done = run("bench sweep --transfers 5 --mtu 9000");
    assert_eq!((done.status, done.stderr.len()), (0, 0), "{done:?}");
    let sizes =
        done.stdout.iter().filter(|line| line.trim_start().starts_with(|first: char| first.is_ascii_digit()));
    assert_eq!(sizes.count(), 15, "{done:?}");
    assert_eq!(done.stdout.iter().filter(|line| line.contains("crossover")).count(), 2, "{done:?}");
}

#[test]
fn figures_of_programs_on_sockets_are_listed_and_printed() {
    let list = run("bench sockets --list");
    assert_eq!((list.status, list.stderr.len()), (0, 0), "{list:?}");
    for name in ["sockets/ping-8/epoll", "--figure s0-7.1 ", "--figure s1-t2 ", "--figure s1-11 "] {
        assert!(list.stdout.iter().any(|line| line.starts_with(name)), "{name}: {list:?}");
    }
    let features = run("bench sockets --figure s1-t3 --json");
    assert_eq!((features.status, features.stderr.len()), (0, 0), "{features:?}");
    assert!(features.stdout.iter().all(|line| line.contains("\"feature\":")), "{features:?}");
}

#[test]
fn rows_of_groups_are_listed() {
    let list = run("bench group --list");
    assert_eq!((list.status, list.stderr.len()), (0, 0), "{list:?}");
    for name in ["group/write-1k ", "group/file-flush-1k", "group/ycsb-f-files", "--figure latency "] {
        assert!(list.stdout.iter().any(|line| line.starts_with(name)), "{name}: {list:?}");
    }
}

#[test]
fn rows_of_exs_are_listed_and_measured() {
    let list = run("bench exs --list");
    assert_eq!((list.status, list.stderr.len()), (0, 0), "{list:?}");
    for name in ["exs/message-1k ", "exs/stream-1m/no-crc ", "exs/host-cpu-1m ", "--figure exs-3 "] {
        assert!(list.stdout.iter().any(|line| line.starts_with(name)), "{name}: {list:?}");
    }
    let json = run("bench exs --quick --turn 1 --only message-1k --json");
    assert_eq!((json.status, json.stderr.len(), json.stdout.len()), (0, 0, 1), "{json:?}");
    let row = &json.stdout[0];
    if row.contains("\"missing\":\"skipped: ") {
        skip(&format!("bench::rows_of_exs_are_listed_and_measured: {row}"));
    } else {
        assert!(row.contains("\"target\":1.5"), "{json:?}");
    }
}

#[test]
fn rows_of_paths_with_loss_are_listed_and_measured() {
    let list = run("bench loss --list");
    assert_eq!((list.status, list.stderr.len()), (0, 0), "{list:?}");
    for name in
        ["loss/0.01%/50ms ", "loss/ping-64/p99.9 ", "loss/blackout-200ms ", "loss/fair/two-of-ours/drops "]
    {
        assert!(list.stdout.iter().any(|line| line.starts_with(name)), "{name}: {list:?}");
    }
    let quick = run("bench loss --quick --list");
    assert_eq!(quick.stdout.len(), 6, "{quick:?}");
    let folder = Folder::new();
    let plot = path_in(&folder, "loss.svg");
    let json = run(&format!("bench loss --quick --turn 30 --only loss/1%/1ms --json --plot {plot}"));
    assert_eq!((json.status, json.stderr.len(), json.stdout.len()), (0, 0, 2), "{json:?}");
    let row = &json.stdout[0];
    if row.contains("\"missing\":\"skipped: ") {
        skip(&format!("bench::rows_of_paths_with_loss_are_listed_and_measured: {row}"));
    } else {
        assert!(row.contains("\"target\":1.0") && row.contains("\"unit\":\"MB/s\""), "{json:?}");
        let svg = std::fs::read_to_string(plot).unwrap();
        assert!(svg.contains("1 ms of delay each way") && svg.contains("kernel TCP, cubic"), "{svg}");
    }
}

#[test]
fn arguments_that_make_no_sense_are_named() {
    for (line, what) in [
        ("bench --only nothing-like-that", "no case has nothing-like-that in its name"),
        ("bench --pairs 4", "--pairs"),
        ("bench --save /nowhere/at/all --only ping-8", "cannot write /nowhere/at/all"),
        ("bench --update /nowhere/at/all --only ping-8", "cannot read /nowhere/at/all"),
        ("bench sockets --figure nothing", "there is no figure nothing"),
        ("bench sockets --figure s1-t2 --update /nowhere/at/all", "cannot read /nowhere/at/all"),
        ("bench sockets --only nothing", "no case has nothing in its name"),
        ("bench loss --only nothing", "no case has nothing in its name"),
        ("bench loss --quick --turn 0", "--turn"),
        ("bench group --only swap --dir /nowhere/at/all", "--dir: there is no folder /nowhere/at/all"),
        ("bench sockets --turn 0", "--turn"),
        ("bench run --op fly", "--op"),
        ("bench run --size 7", "--size"),
        ("bench run --batch 32", "--batch is at most --depth"),
        ("bench run --signal-every 9", "--signal-every is at most half"),
        ("bench run --op read --round-trips", "--round-trips are of --op send"),
        ("bench run --loss 0.6", "--loss"),
    ] {
        let done = run(line);
        assert_eq!((done.status, done.stdout.len(), done.stderr.len()), (2, 0, 1), "{line}: {done:?}");
        assert!(done.stderr[0].contains(what), "{line}: {done:?}");
    }
}
