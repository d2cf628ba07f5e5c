//! `weft exs`: two processes copy files, and measure.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::process::{Finished, Process, path_in, run, weft};
use crate::support::{Folder, is_installed, skip};

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

/// Ends of a copy to a listener with this output, and of a sender with this input: statuses, and what they said.
fn fail(input: &str, output: &str) -> [(Option<i32>, String); 2] {
    let start = |words: &[&str], input: File, output: File| {
        let mut command = weft();
        command.args(["exs", "cat"]).args(words).stdin(input).stdout(output).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let open = |path: &str| File::options().write(true).open(path).unwrap();
    let mut server = start(&["-l", "127.0.0.1:0"], File::open("/dev/null").unwrap(), open(output));
    let mut said = BufReader::new(server.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let address = line.trim_end().strip_prefix("listening at ").unwrap();
    let client = start(&[address], File::open(input).unwrap(), open("/dev/null")).wait_with_output().unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    let client = (client.status.code(), String::from_utf8(client.stderr).unwrap());
    [client, (server.wait().unwrap().code(), rest)]
}

/// A folder cannot be read, and a full device not be written. The other side takes nothing for the whole.
#[test]
fn an_input_or_output_that_fails_makes_both_ends_fail() {
    let reset = (Some(1), "weft exs cat: connection reset\n".to_owned());
    let [client, server] = fail("/", "/dev/null");
    assert!(
        client.0 == Some(1) && client.1.starts_with("weft exs cat: cannot read the input: "),
        "{client:?}"
    );
    assert_eq!(server, reset);
    // A sender that has sent all, and has heard the end of the other input, has ended.
    let folder = Folder::new();
    let input = path_in(&folder, "input");
    fs::write(&input, octets(30_000_000, 9)).unwrap();
    let [client, server] = fail(&input, "/dev/full");
    assert!(
        server.0 == Some(1) && server.1.starts_with("weft exs cat: cannot write the output: "),
        "{server:?}"
    );
    assert_eq!(client, reset);
}

/// The shell's terminal is the standard input of a listener that writes a file, and stays open.
#[test]
fn a_listener_at_a_terminal_that_writes_a_file_ends_with_the_copy() {
    if !is_installed("script") {
        skip("exs::a_listener_at_a_terminal_that_writes_a_file_ends_with_the_copy: no script(1)");
        return;
    }
    let folder = Folder::new();
    let [copy, said, sent] = ["copy", "said", "sent"].map(|name| folder.0.join(name));
    fs::write(&sent, octets(100_000, 7)).unwrap();
    let line = format!(
        "exec {} exs cat -l 127.0.0.1:0 > {} 2> {}",
        weft().get_program().display(),
        copy.display(),
        said.display()
    );
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut terminal = terminal.spawn().unwrap();
    let address = loop {
        let text = fs::read_to_string(&said).unwrap_or_default();
        if let Some(address) = text.strip_prefix("listening at ").and_then(|text| text.strip_suffix('\n')) {
            break address.to_owned();
        }
        assert!(terminal.try_wait().unwrap().is_none(), "the listener ends: {text}");
        std::thread::sleep(Duration::from_millis(10));
    };
    let mut command = weft();
    let client = command.args(["exs", "cat", &address]).stdin(File::open(&sent).unwrap()).status().unwrap();
    assert!(client.success() && terminal.wait().unwrap().success());
    assert!(fs::read(&copy).unwrap() == octets(100_000, 7));
}

/// A peer that speaks something else is no riddle.
#[test]
fn a_peer_without_exs_gets_a_hint() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let peer = std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        peer.write_all(b"220 a server of mail, which speaks first\r\n").unwrap();
        let _until_it_has_ended = peer.read_to_end(&mut Vec::new());
    });
    let done = run(&format!("exs cat {address}"));
    assert_eq!((done.status, done.stderr.len()), (1, 1), "{done:?}");
    assert!(done.stderr[0].ends_with(" (perhaps it does not speak EXS)"), "{done:?}");
    peer.join().unwrap();
}

/// A program of the system says something, and hears the other side's octets and end.
#[test]
fn a_peer_over_plain_tcp_may_connect_or_listen() {
    let talk = |mut peer: TcpStream| {
        peer.write_all(b"from the peer").unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        let mut came = Vec::new();
        peer.read_to_end(&mut came).unwrap();
        assert!(came == fs::read("/etc/passwd").unwrap());
    };
    let cat = |words: &[&str]| {
        let mut command = weft();
        command.args(["exs", "cat", "--plain"]).args(words).stdin(File::open("/etc/passwd").unwrap());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut server = cat(&["-l", "localhost:0"]);
    let mut line = String::new();
    BufReader::new(server.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    talk(TcpStream::connect(line.trim_end().strip_prefix("listening at ").unwrap()).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = cat(&[&format!("localhost:{}", listener.local_addr().unwrap().port())]);
    talk(listener.accept().unwrap().0);
    for process in [server, client] {
        let done = process.wait_with_output().unwrap();
        assert!(done.status.success() && done.stdout == b"from the peer", "{done:?}");
    }
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
    for line in ["exs blast --sync --pending 3", "exs blast --type message --waitall"] {
        let done = run(line);
        assert_eq!((done.status, done.stdout.len(), done.stderr.len()), (2, 0, 1), "{done:?}");
    }
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
    let expected =
        format!("no process with Extended Sockets answers in {sockets}: start one with WEFT_STAT=1");
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
