//! `weft exs`: two processes copy files, and measure.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use serde_json::Value;

use crate::process::{Finished, Process, path_in, run, weft};
use crate::support::Folder;

/// Octets of which no two parts are alike.
fn octets(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    (0..len).map(next).collect()
}

/// Two processes send each other a file, at the same time.
#[test]
fn files_come_whole_both_ways() {
    for [ours, theirs] in [[0, 0], [1, 3_000_000], [3_000_000, 777]] {
        let folder = Folder::new();
        let (sent, answer) = (octets(ours, 1), octets(theirs, 2));
        fs::write(folder.0.join("sent"), &sent).unwrap();
        fs::write(folder.0.join("answer"), &answer).unwrap();
        let cat = |words: &[&str], input: &str, output: &str| {
            let mut command = weft();
            command.args(["exs", "cat"]).args(words).stdin(File::open(folder.0.join(input)).unwrap());
            command.stdout(File::create(folder.0.join(output)).unwrap()).stderr(Stdio::piped());
            command.spawn().unwrap()
        };
        let mut server = cat(&["-l", "127.0.0.1:0"], "answer", "came");
        let mut errors = BufReader::new(server.stderr.take().unwrap());
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("listening at ").unwrap();
        let client = cat(&[address], "sent", "back").wait_with_output().unwrap();
        assert!(client.status.success() && client.stderr.is_empty(), "{client:?}");
        line.clear();
        errors.read_to_string(&mut line).unwrap();
        assert!(server.wait().unwrap().success() && line.is_empty(), "{line}");
        assert!(fs::read(folder.0.join("came")).unwrap() == sent, "{ours} octets");
        assert!(fs::read(folder.0.join("back")).unwrap() == answer, "{theirs} octets");
    }
}

#[test]
fn a_peer_that_goes_ends_a_copy_with_a_line() {
    let folder = Folder::new();
    let input = folder.0.join("input");
    fs::write(&input, octets(50_000_000, 3)).unwrap();
    let mut command = weft();
    // Nobody reads its output, so that it takes only a part.
    command.args(["exs", "cat", "-l", "127.0.0.1:0"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut server = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    let mut command = weft();
    command.args(["exs", "cat", line.trim_end().strip_prefix("listening at ").unwrap()]);
    let client = command.stdin(File::open(&input).unwrap()).stdout(Stdio::null()).stderr(Stdio::piped());
    let client = client.spawn().unwrap();
    let mut some = [0; 1000];
    server.stdout.as_mut().unwrap().read_exact(&mut some).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    let done = client.wait_with_output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!((done.status.code(), said.as_str()), (Some(1), "weft exs cat: connection reset\n"));
}

#[test]
fn nobody_who_listens_is_one_line() {
    for line in ["exs cat 127.0.0.1:1", "exs blast -c 127.0.0.1:1"] {
        let done = run(line);
        assert_eq!((done.status, done.stdout.len(), done.stderr.len()), (1, 0, 1), "{done:?}");
        assert!(done.stderr[0].ends_with("127.0.0.1:1: nobody listens there"), "{done:?}");
    }
}

/// Checks rows of JSON, and the line behind them.
fn check(done: &Finished, rows: usize) -> Vec<Value> {
    assert_eq!((done.status, done.stderr.len()), (0, 0), "{done:?}");
    let mut objects: Vec<Value> =
        done.stdout.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let end = objects.pop().unwrap();
    assert_eq!((objects.len(), &end["ok"]), (rows, &Value::Bool(true)), "{done:?}");
    assert!(end["checked"].as_u64() > Some(1000), "{end}");
    for row in &objects {
        for key in ["size", "small", "count", "gbits", "micros", "cpu_send", "cpu_recv"] {
            assert!(row[key].as_f64().is_some_and(f64::is_finite), "{key}: {row}");
        }
        let octets = row["size"].as_u64().unwrap() * row["count"].as_u64().unwrap();
        let ways: u64 = row["ways"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
        assert_eq!(ways, octets, "{row}");
    }
    objects
}

#[test]
fn a_blast_without_a_peer_has_both_ends_and_checks_all_sizes() {
    let rows = check(&run("exs blast --sizes 1,5000,300K --small 0,1K,max --time 5 --json"), 18);
    let is_way = |row: &Value, way: &str| row["ways"].get(way).is_some();
    for row in rows.iter().filter(|row| row["type"] == "message") {
        let is_immediate = row["size"].as_u64() <= row["small"].as_u64();
        assert_eq!([is_way(row, "read"), is_way(row, "immediate")], [!is_immediate, is_immediate], "{row}");
    }
    let is_direct = |row: &&Value| row["type"] == "stream" && is_way(row, "direct");
    assert!(rows.iter().filter(is_direct).count() > 3, "{rows:?}");
    let table = run("exs blast --type stream --waitall --sizes 16K --time 5 --pending 3 --recvs 2");
    assert_eq!((table.status, table.stdout.len()), (0, 3), "{table:?}");
    assert!(table.stdout[2].ends_with("octets were checked, and all are right"), "{table:?}");
}

#[test]
fn both_ends_of_a_blast_wait_as_they_are_told() {
    for wait in ["adaptive", "notify", "poll"] {
        let rows = check(&run(&format!("exs blast --sizes 100,20K --sync --wait {wait} --time 5 --json")), 4);
        assert!(rows.iter().all(|row| row["wait"] == wait && row["recvs"] == 1), "{rows:?}");
    }
    let done = run("exs blast --sync --pending 3");
    assert_eq!((done.status, done.stdout.len(), done.stderr.len()), (2, 0, 1), "{done:?}");
}

#[test]
fn two_ends_of_a_blast_are_started_apart() {
    let server = Process::weft("exs blast -s 127.0.0.1:0 --json");
    let said: Value = serde_json::from_str(&server.line()).unwrap();
    let address = said["listening"].as_str().unwrap();
    check(&run(&format!("exs blast -c {address} --sizes 64..4K --time 5 --json")), 8);
    let done = server.finish();
    assert_eq!((done.status, done.stderr.len()), (0, 0), "{done:?}");
}

#[test]
fn a_stream_that_meets_a_blast_is_refused_and_the_server_goes_on() {
    let server = Process::weft("exs blast -s 127.0.0.1:0 --json");
    let said: Value = serde_json::from_str(&server.line()).unwrap();
    let address = said["listening"].as_str().unwrap();
    let refused = run(&format!("exs cat {address}"));
    assert_eq!((refused.status, refused.stderr.len()), (1, 1), "{refused:?}");
    assert!(refused.stderr[0].contains("one side has a stream, the other one messages"), "{refused:?}");
    check(&run(&format!("exs blast -c {address} --sizes 100,2000 --time 5 --json")), 4);
}

/// Two processes that hold a connection open tell of it.
#[test]
fn stat_shows_sockets_of_processes() {
    let folder = Folder::new();
    let sockets = path_in(&folder, "stat");
    let stat =
        |words: &[&str]| Process::start(weft().arg("stat").args(words).args(["--dir", &sockets])).finish();
    let empty = stat(&["exs"]);
    let expected = format!("no process with Extended Sockets answers in {sockets}");
    assert_eq!((empty.status, empty.stdout), (0, vec![expected]));
    let cat = |words: &[&str]| {
        let mut command = weft();
        command.args(["exs", "cat"]).args(words).env("WEFT_STAT", &sockets);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut server = cat(&["-l", "127.0.0.1:0"]);
    let mut line = String::new();
    BufReader::new(server.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    let mut client = cat(&[line.trim_end().strip_prefix("listening at ").unwrap()]);
    client.stdin.as_mut().unwrap().write_all(&octets(100_000, 5)).unwrap();
    server.stdout.as_mut().unwrap().read_exact(&mut vec![0; 100_000]).unwrap();
    let told = [&client, &server].map(|process| {
        let done = stat(&[&process.id().to_string(), "exs", "--json"]);
        assert_eq!((done.status, done.stdout.len(), done.stderr.len()), (0, 1, 0), "{done:?}");
        serde_json::from_str::<Value>(&done.stdout[0]).unwrap()["exs"][0].clone()
    });
    let [ours, theirs] = &told;
    assert_eq!((&ours["sent"], &theirs["received"]), (&100_000.into(), &100_000.into()));
    assert_eq!((&ours["local"], &ours["type"]), (&theirs["peer"], &"stream".into()));
    let of_all = stat(&["exs"]);
    assert_eq!((of_all.status, of_all.stdout.len(), of_all.stderr.len()), (0, 8, 0), "{of_all:?}");
    let words = |line: usize| of_all.stdout[line].split_whitespace().collect::<Vec<_>>();
    assert_eq!(words(1)[..5], ["SOCKET", "TYPE", "STATE", "LOCAL", "PEER"]);
    let pid = [&client, &server].map(|process| format!("process {}", process.id()));
    assert!(pid.iter().all(|line| of_all.stdout.contains(line)), "{of_all:?}");
    assert_eq!((words(2)[1..3].join(" "), words(3)[0]), ("stream open".to_owned(), "all"));
    let done = run("stat exs qp");
    assert_eq!((done.status, done.stderr.len()), (2, 1), "{done:?}");
    drop((client.stdin.take(), server.stdin.take()));
    assert!(client.wait().unwrap().success() && server.wait().unwrap().success());
}
