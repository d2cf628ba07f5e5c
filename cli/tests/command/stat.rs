//! `weft stat`: counters and objects of two rpings on one Unix socket.

use serde_json::Value;

use crate::process::{Finished, Process, path_in, run, weft};
use crate::support::Folder;

/// A server and a client with `WEFT_STAT`, and a folder for their sockets.
struct Watched {
    folder: Folder,
    stat: String,
}

impl Watched {
    fn new() -> Self {
        let folder = Folder::new();
        let stat = path_in(&folder, "stat");
        Self { folder, stat }
    }

    fn start(&self, line: &str) -> Process {
        let wire = path_in(&self.folder, "wire");
        let words: Vec<_> = line.split_whitespace().map(|word| word.replace("WIRE", &wire)).collect();
        Process::start(weft().args(words).env("WEFT_STAT", &self.stat))
    }

    fn server(&self) -> Process {
        self.start("rping -s -P --netif unix-listen:WIRE --ip 10.0.0.1/24 --timeout 5")
    }

    fn client(&self, flags: &str) -> Process {
        self.start(&format!("rping -c -a 10.0.0.1 --netif unix:WIRE --ip 10.0.0.2/24 {flags}"))
    }

    fn stat(&self, line: &str) -> Finished {
        Process::start(weft().args(["stat"]).args(line.split_whitespace()).env("WEFT_STAT", &self.stat))
            .finish()
    }

    /// Returns the answer of a process as JSON.
    fn json(&self, process: &Process, what: &str) -> Value {
        let done = self.stat(&format!("{} {what} --json", process.id()));
        assert_eq!((done.status, done.stdout.len(), done.stderr.len()), (0, 1, 0), "{what}: {done:?}");
        serde_json::from_str(&done.stdout[0]).unwrap()
    }

    fn counter(&self, process: &Process) -> impl Fn(&str) -> u64 + use<> {
        let answer = self.json(process, "counters");
        move |name| answer["counters"][name].as_u64().unwrap_or_else(|| panic!("{name}"))
    }
}

fn check_titles(done: &Finished, titles: &[&str]) {
    assert_eq!((done.status, done.stderr.len()), (0, 0), "{done:?}");
    assert_eq!(done.stdout[0].split_whitespace().collect::<Vec<_>>(), titles, "{done:?}");
    assert!(!done.stdout.iter().any(|line| line.contains('\x1b')), "colours are for terminals: {done:?}");
}

#[test]
fn counters_agree_with_what_rping_did() {
    let watched = Watched::new();
    let server = watched.server();
    let client = watched.client("-C 5 -S 5000").finish();
    assert_eq!((client.status, client.stderr.len()), (0, 0), "{client:?}");
    assert!(server.line().ends_with(" was served 5 pings"));
    let of = watched.counter(&server);
    // A ping: two advertisements of 16 octets each way, a Read of 28 octets for 5000, a Write of 5000. Segments are cut
    // to fit.
    assert_eq!((of("rdmap.send.segments_received"), of("rdmap.send.octets_received")), (10, 160));
    assert_eq!((of("rdmap.send.segments_sent"), of("rdmap.send.octets_sent")), (10, 160));
    assert_eq!((of("rdmap.read-request.segments_sent"), of("rdmap.read-request.octets_sent")), (5, 140));
    assert_eq!((of("rdmap.read-response.octets_received"), of("rdmap.write.octets_sent")), (25_000, 25_000));
    assert_eq!((of("verbs.sends_posted"), of("verbs.doorbells"), of("verbs.receives_started")), (20, 20, 11));
    assert_eq!((of("mpa.established"), of("tcp.accepted"), of("tcp.opened")), (1, 1, 0));
    assert_eq!((of("mpa.requests_received"), of("mpa.replies_sent"), of("mpa.crc_errors")), (1, 1, 0));
    assert_eq!((of("verbs.completed_success"), of("verbs.completed_flushed")), (30, 1));
    assert_eq!((of("rdmap.terminates_sent"), of("stack.connections")), (0, 0));
    assert!(of("engine.sleeps") > 0 && of("wire.octets_sent") > of("mpa.octets_sent"));

    let text = watched.stat(&server.id().to_string());
    check_titles(&text, &["COUNTER", "VALUE"]);
    let line = text.stdout.iter().find(|line| line.starts_with("rdmap.write.octets_sent ")).unwrap();
    assert!(line.ends_with(" 25000"), "{line}");
    assert!(text.stdout.iter().all(|line| !line.ends_with(" 0")), "zeros are left out: {text:?}");
    assert!(text.stdout.last().unwrap().ends_with(" counters are 0: --all shows them)"));
    let all = watched.stat(&format!("{} --all", server.id()));
    assert!(all.stdout.iter().any(|line| line.starts_with("tcp.timeouts ") && line.ends_with(" 0")));
}

#[test]
fn both_ends_of_a_connection_show_their_objects() {
    let watched = Watched::new();
    let server = watched.server();
    let client = watched.client("-v -S 4096");
    for _ in 0..3 {
        assert!(client.line().starts_with("ping data: "));
    }
    let list = watched.stat("");
    check_titles(
        &list,
        &["PROCESS", "DEVICE", "PROGRAM", "ADDRESS", "QP", "MR", "CQ", "CM", "LISTENERS", "THREADS"],
    );
    for (process, address) in [(&server, "10.0.0.1"), (&client, "10.0.0.2")] {
        let pid = process.id().to_string();
        let row = list.stdout.iter().find(|line| line.split_whitespace().next() == Some(&pid)).unwrap();
        assert_eq!(
            row.split_whitespace().skip(1).take(3).collect::<Vec<_>>(),
            ["0", "weft", address],
            "{row}"
        );
    }
    let [ours, theirs] = [&client, &server].map(|process| watched.json(process, "qp")["qp"][0].clone());
    assert_eq!((&ours["state"], &theirs["state"]), (&"RTS".into(), &"RTS".into()));
    assert_eq!((&ours["peer"], &theirs["local"]), (&"10.0.0.1:7174".into(), &"10.0.0.1:7174".into()));
    assert_eq!((&ours["local"], &ours["send_wr"]), (&theirs["peer"], &8.into()));
    let of = watched.counter(&client);
    assert!(of("rdmap.send.segments_sent") >= 6 && of("rdmap.read-response.octets_sent") >= 3 * 4096);
    assert_eq!(of("rdmap.send.octets_sent"), 16 * of("rdmap.send.segments_sent"));
    assert_eq!((of("tcp.opened"), of("mpa.requests_sent"), of("mpa.replies_received")), (1, 1, 1));

    let memory = watched.json(&client, "mr");
    let memory = memory["mr"].as_array().unwrap();
    let mut lengths: Vec<_> = memory.iter().map(|mr| mr["len"].as_u64().unwrap()).collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [16, 4096, 4096]);
    assert!(memory.iter().all(|mr| mr.get("stag").is_none()), "{memory:?}");
    let shown = watched.stat(&format!("{} mr --stags", client.id()));
    check_titles(&shown, &["STAG", "IOVA", "KIND", "LENGTH", "PD", "QP", "VALID", "ACCESS"]);
    assert!(shown.stdout[1].starts_with("0x") && shown.stdout[1].contains("local-write"), "{shown:?}");
    check_titles(
        &watched.stat(&format!("{} mr", client.id())),
        &["KIND", "LENGTH", "PD", "QP", "VALID", "ACCESS"],
    );
    let cq = &watched.json(&client, "cq")["cq"][0];
    assert_eq!((&cq["entries"], &cq["channel"], &cq["overrun"]), (&64.into(), &true.into(), &false.into()));
    assert_eq!(watched.json(&client, "pd")["pd"], serde_json::json!([{ "pd": 1, "qps": 1, "mrs": 3 }]));
    let connection = &watched.json(&server, "cm")["cm"][0];
    assert_eq!((&connection["phase"], &connection["role"]), (&"established".into(), &"passive".into()));
    let listener = &watched.json(&server, "listener")["listener"][0];
    assert!(listener["address"].as_str().unwrap().ends_with(":7174"), "{listener}");
    for what in ["qp", "cq", "pd", "cm", "listener"] {
        let done = watched.stat(&format!("{}-0 {what}", server.id()));
        assert_eq!((done.status, done.stdout.len()), (0, 2), "{what}: {done:?}");
    }
}

#[test]
fn objects_have_the_same_columns_and_keys_as_ever() {
    let watched = Watched::new();
    let server = watched.server();
    let client = watched.client("-v");
    assert!(client.line().starts_with("ping data: "));
    let keys = |what: &str| {
        let answer = watched.json(&server, what);
        let mut keys: Vec<_> = answer[what][0].as_object().unwrap().keys().cloned().collect();
        keys.sort_unstable();
        keys.join(" ")
    };
    let titles = |what: &str| {
        let done = watched.stat(&format!("{} {what}", server.id()));
        done.stdout[0].split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        keys("qp"),
        "local messages_received messages_sent octets_received octets_sent pd peer qp_num recv_cq recv_used recv_wr \
         send_cq send_used send_wr srq state"
    );
    assert_eq!(
        titles("qp"),
        "QP STATE LOCAL PEER SQ RQ SRQ SEND-CQ RECV-CQ PD MESSAGES-SENT OCTETS-SENT MESSAGES-RECEIVED OCTETS-RECEIVED"
    );
    assert_eq!(
        keys("cq"),
        "armed channel completions cq entries events overrun polls_empty polls_found used"
    );
    assert_eq!(titles("cq"), "CQ USED ARMED CHANNEL OVERRUN COMPLETIONS EVENTS POLLS-FOUND POLLS-EMPTY");
}

#[test]
fn a_watch_shows_the_counters_that_move_until_the_end() {
    let watched = Watched::new();
    let _server = watched.server();
    let mut client = watched.client("-v");
    assert!(client.line().starts_with("ping data: "));
    let watcher = watched.start(&format!("stat {} --watch 0.05", client.id()));
    let line = |start: &str| loop {
        let line = watcher.line();
        if line.starts_with(start) {
            break line;
        }
    };
    line("rdmap.send.octets_sent ");
    assert_eq!(
        line("COUNTER").split_whitespace().collect::<Vec<_>>(),
        ["COUNTER", "VALUE", "CHANGE", "PER-SECOND"]
    );
    let moved = line("rdmap.send.octets_sent ");
    let words: Vec<&str> = moved.split_whitespace().collect();
    let change: u64 = words[2].parse().unwrap();
    let rate: f64 = words[3].parse().unwrap();
    assert!(change > 0 && change.is_multiple_of(16) && rate > 0.0, "{moved}");
    client.kill();
    assert_eq!(watcher.finish().status, 0, "the end of the process is no failure");
}

#[test]
fn a_process_that_is_not_there() {
    let watched = Watched::new();
    let empty = watched.stat("");
    let expected = format!("no process answers in {}: start one with WEFT_STAT=1", watched.stat);
    assert_eq!((empty.status, empty.stdout), (0, vec![expected]));
    assert_eq!(watched.stat("--json"), Finished { status: 0, stdout: vec![], stderr: vec![] });
    let complaint = |line: &str| {
        let done = watched.stat(line);
        assert_eq!((done.status, done.stdout.len(), done.stderr.len()), (1, 0, 1), "{line}: {done:?}");
        done.stderr[0].clone()
    };
    // The kernel's largest number of a process is 4194304.
    assert_eq!(complaint("2000000000"), "weft stat: there is no process 2000000000");
    let own = std::process::id();
    assert_eq!(
        complaint(&own.to_string()),
        format!("weft stat: process {own} has no socket in {}: start it with WEFT_STAT=1", watched.stat)
    );
    let mut server = watched.server();
    assert!(server_is_told(&watched, &server), "the server answers");
    assert!(complaint(&format!("{}-7", server.id())).contains(" has no device 7 in "));
    let pid = server.id();
    server.kill();
    assert_eq!(server.finish().status, -1);
    // The killed process could not remove its socket, on which no process listens any more.
    assert_eq!(complaint(&pid.to_string()), format!("weft stat: process {pid} has ended"));
    assert!(watched.stat("").stdout[0].starts_with("no process answers in "));
    let other = run(&format!("stat --dir {}", path_in(&watched.folder, "elsewhere")));
    assert_eq!((other.status, other.stdout.len()), (0, 1), "{other:?}");
}

/// Waits until a process that has just been started answers.
fn server_is_told(watched: &Watched, server: &Process) -> bool {
    crate::rping::await_socket(&format!("{}/{}-0.sock", watched.stat, server.id()));
    watched.stat("").stdout.len() == 2
}

#[test]
fn the_log_has_the_events_of_connections() {
    let watched = Watched::new();
    let wire = path_in(&watched.folder, "wire");
    let start = |line: &str, level: &str| {
        let words = line.split_whitespace().map(|word| word.replace("WIRE", &wire));
        Process::start(weft().args(words).env("WEFT_LOG", level))
    };
    let server = start("rping -s --netif unix-listen:WIRE --ip 10.0.0.1/24", "debug");
    let client = start("rping -c -a 10.0.0.1 --netif unix:WIRE --ip 10.0.0.2/24 -C 3", "info").finish();
    let server = server.finish();
    assert_eq!((client.status, server.status), (0, 0), "{client:?} {server:?}");
    for (done, events) in [
        (&client, &["begun", "established", "ended", "closed"][..]),
        (&server, &["begun", "MPA Request received", "MPA Reply sent", "established", "ended", "closed"]),
    ] {
        let mut lines = done.stderr.iter();
        for event in events {
            let line = lines
                .find(|line| line.contains(&format!("}}: {event}")))
                .unwrap_or_else(|| panic!("{event}: {done:?}"));
            assert!(line.contains(" connection{id=1 role=\""), "{line}");
        }
    }
    assert!(!client.stderr.iter().any(|line| line.contains("MPA Request")), "that is for debug: {client:?}");
    let bad = start("demo", "loud").finish();
    let expected =
        "weft: WEFT_LOG: there is no level `loud` (there are off, error, warn, info, debug and trace)";
    assert_eq!(bad, Finished { status: 2, stdout: vec![], stderr: vec![expected.to_owned()] });
}
