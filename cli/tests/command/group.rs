//! `weft group`: replicas as processes, and commands of a client.

use std::fs;
use std::net::Ipv4Addr;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use weft_group::{Fresh, Member, Options, Session, SessionError};
use weft_rnic::{Config, Device, Ground, Progress};

use crate::process::{Finished, Process, path_in, run};
use crate::support::Folder;

/// Three replicas.
pub(crate) struct Group {
    pub(crate) servers: Vec<Process>,
    addresses: Vec<String>,
}

impl Group {
    fn start(flags: &str) -> Self {
        Self::with(|_| format!("--memory 64K {flags}"))
    }

    /// The replicas have these flags, by their number.
    pub(crate) fn with(flags: impl Fn(usize) -> String) -> Self {
        let line = |index| format!("group server --listen 127.0.0.1:0 --json {}", flags(index));
        let servers: Vec<Process> = (0..3).map(|index| Process::weft(&line(index))).collect();
        let address = |server: &Process| {
            let said: Value = serde_json::from_str(&server.line()).unwrap();
            said["address"].as_str().unwrap().to_owned()
        };
        let addresses = servers.iter().map(address).collect();
        Self { servers, addresses }
    }

    fn members(&self) -> String {
        self.addresses.join(",")
    }

    /// Runs a command of the client to its end. The words behind the operation are its operands.
    fn client(&self, operation: &str, rest: &str) -> Finished {
        run(&format!("group client {operation} --members {} {rest}", self.members()))
    }

    pub(crate) fn members_of(&self) -> Vec<Member> {
        let parse = |address: &String| Member::from(address.parse::<std::net::SocketAddr>().unwrap());
        self.addresses.iter().map(parse).collect()
    }

    pub(crate) fn session(&self, device: &Device) -> Session {
        let options = Options { timeout: Duration::from_secs(2), ..Options::default() };
        Session::open(device, &self.members_of(), &options).unwrap()
    }
}

pub(crate) fn device() -> Device {
    let config = Config { progress: Progress::Thread, ..Config::host(Ipv4Addr::LOCALHOST.into(), 5) };
    Device::open(Ground::Host, config).unwrap()
}

/// What was flushed is in the files, and there again when the replicas are started anew.
#[test]
fn replicas_with_files_begin_with_what_was_flushed() {
    let folder = Folder::new();
    let files = [0, 1].map(|index| path_in(&folder, &format!("replica{index}")));
    let start = |file: &String| {
        let server =
            Process::weft(&format!("group server --listen 127.0.0.1:0 --file {file} --size 64K --json"));
        let said: Value = serde_json::from_str(&server.line()).unwrap();
        (said["address"].as_str().unwrap().to_owned(), server)
    };
    let servers: Vec<_> = files.iter().map(start).collect();
    let members = |servers: &[(String, Process)]| [&servers[0].0[..], &servers[1].0[..]].join(",");
    let client = |servers: &[(String, Process)], operation: &str, rest: &str| {
        good(run(&format!("group client {operation} --members {} {rest}", members(servers))))
    };
    client(&servers, "write", "8 kept");
    client(&servers, "flush", "0 16");
    client(&servers, "write", "8192 lost");
    let line = format!("group server --listen 127.0.0.1:0 --file {} --size 64K", files[0]);
    assert!(bad(&run(&line), 1).ends_with("another program has it"));
    for (_, server) in &servers {
        server.signal(Signal::KILL);
    }
    drop(servers);
    for file in &files {
        let octets = fs::read(file).unwrap();
        assert_eq!((octets.len(), &octets[8..12], &octets[8192..8196]), (65536, &b"kept"[..], &[0; 4][..]));
    }
    let servers: Vec<_> = files.iter().map(start).collect();
    assert_eq!(client(&servers, "read", "8 4"), ["kept"]);
}

/// The lines of a command that has worked.
pub(crate) fn good(finished: Finished) -> Vec<String> {
    assert_eq!((finished.status, finished.stderr.as_slice()), (0, &[][..]), "{finished:?}");
    finished.stdout
}

/// The line of a command that has failed.
fn bad(finished: &Finished, status: i32) -> &str {
    assert_eq!(
        (finished.status, finished.stdout.len(), finished.stderr.len()),
        (status, 0, 1),
        "{finished:?}"
    );
    &finished.stderr[0]
}

#[test]
fn three_processes_replicate_what_commands_do() {
    let group = Group::start("");
    for topology in ["", "--topology fan"] {
        let client = |operation: &str, rest: &str| group.client(operation, &format!("{rest} {topology}"));
        assert_eq!(good(client("write", "4096 hello~group")), ["11 octets written at 3 replicas"]);
        assert_eq!(good(client("read", "0x1000 11")), ["hello group"]);
        assert_eq!(good(client("copy", "4102 0 5")), ["5 octets copied at 3 replicas"]);
        assert_eq!(
            good(client("read", "0 5 --maybe --json")),
            [json!({"at": 0, "octets": "67726f7570"}).to_string()]
        );
        assert_eq!(good(client("flush", "0 8")), ["8 octets flushed at 3 replicas"]);
        assert_eq!(
            good(client("write", "8 --file /dev/null --json")),
            [json!({"octets": 0, "replicas": 3}).to_string()]
        );
        let swapped = good(client("swap", "64 0 7 --on 0,2"));
        let expected = ["replica 0: found 0, swapped", "replica 1: not asked", "replica 2: found 0, swapped"];
        assert_eq!(swapped, expected, "{topology}");
        let found: Value = serde_json::from_str(&good(client("swap", "64 0 9 --json"))[0]).unwrap();
        assert_eq!(found, json!({"found": [7, 0, 7], "swapped": [false, true, false]}));
        for (replica, word) in [(0, 7), (1, 9), (2, 7)] {
            let back = good(client("swap", &format!("64 {word} 0 --on {replica}")));
            assert_eq!(back[replica], format!("replica {replica}: found {word}, swapped"));
        }
    }
    // Each replica alone has the octets.
    for address in &group.addresses {
        let read = run(&format!("group client read --members {address} 4096 11"));
        assert_eq!(good(read), ["hello group"]);
    }
    let status = good(run(&format!("group status --members {}", group.members())));
    assert_eq!(status.len(), 3, "{status:?}");
    for (line, address) in status.iter().zip(&group.addresses) {
        assert!(line.starts_with(&format!("{address}: 65536 octets, ")), "{line}");
    }
}

#[test]
fn what_is_wrong_is_said_in_a_line() {
    let folder = Folder::new();
    let [key, other] = ["key", "other"].map(|name| path_in(&folder, name));
    for (path, octet) in [(&key, 1), (&other, 2)] {
        fs::write(path, [octet; 32]).unwrap();
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }
    let group = Group::start(&format!("--key {key} --sessions 1"));
    let with_key = |operation: &str, rest: &str| group.client(operation, &format!("{rest} --key {key}"));
    good(with_key("write", "0 hello"));
    for (wrong, complaint) in [
        (String::new(), "the group has a key, and none was given"),
        (format!("--key {other}"), "the key is not that of the group"),
    ] {
        let refused = group.client("read", &format!("0 5 {wrong}"));
        let line = bad(&refused, 1);
        let head = &group.addresses[0];
        assert_eq!(line, format!("weft group client: replica 0 at {head}: {complaint}"));
    }
    let cases = [
        ("write", "65533 hello", "the first replica has 65536 octets"),
        ("read", "0 65537", "the first replica has 65536 octets"),
        ("read", "18446744073709551615 2", "the first replica has 65536 octets"),
        ("write", "65530 --file /dev/zero", "the first replica has 65536 octets"),
        ("swap", "0 0 1 --on 3", "--on: there is no replica 3: the last one is 2"),
        ("copy", "0 4 8", "the parts of the operation overlap"),
        ("swap", "4 0 0", "a word for compare-and-swap lies at a multiple of 8"),
        ("flush", "8 4", "octets 8 to 4: the end is before the start"),
        ("read", "x 4", "<AT>: `x` is no whole number, as 4096 and 0x1000 are"),
        ("write", "0 --file /no/such/file", "--file: /no/such/file: No such file or directory (os error 2)"),
    ];
    for (operation, rest, line) in cases {
        let finished = with_key(operation, rest);
        let said = bad(&finished, 2);
        assert!(said.starts_with("weft group client") && said.ends_with(line), "{operation} {rest}: {said}");
    }
    let first = &group.addresses[0];
    let twice = run(&format!("group client write --members {first},{first} 0 hello"));
    let line = format!("--members: {first} is named twice: each replica is another server");
    assert!(bad(&twice, 2).ends_with(&line), "{twice:?}");
    let nobody = run("group client read --members 127.0.0.1:1 0 4");
    assert_eq!(bad(&nobody, 1), "weft group client: replica 0 at 127.0.0.1:1: nobody listens there");
    let status = run("group status --members 127.0.0.1:1");
    assert_eq!(
        (status.status, status.stdout.as_slice()),
        (1, &["127.0.0.1:1: nobody listens there".to_owned()][..])
    );
    let servers = [
        ("--listen 127.0.0.1:0 --memory 12q", "--memory: `12q` is no size, as 4096, 64M and 2G are"),
        (
            "--listen 127.0.0.1 --memory 12",
            "is no address with a port, as 10.0.0.1:7471 and [fd00::1]:7471 are",
        ),
        ("--listen 127.0.0.1:0 --memory 8 --key /", "--key: /: a key is in a plain file"),
        (
            "--listen 127.0.0.1:0 --memory 8 --netif unix:x",
            "needs an IP address of this side's own, as in --ip 10.0.0.1/24",
        ),
        ("--listen 127.0.0.1:0 --memory 8 --ip 10.0.0.1/24", "it cannot listen on 127.0.0.1"),
    ];
    for (flags, line) in servers {
        let finished = run(&format!("group server {flags}"));
        assert!(bad(&finished, 2).ends_with(line), "{flags}: {finished:?}");
    }
    let taken = run(&format!("group server --listen {} --memory 8", group.addresses[0]));
    assert!(bad(&taken, 1).ends_with(": the port is in use already"), "{taken:?}");
}

/// Each replica in turn is killed while operations are under way: the client hears which one.
#[test]
fn a_killed_replica_is_named() {
    for killed in 0..3 {
        let mut group = Group::start("");
        let device = device();
        let mut session = group.session(&device);
        let id = session.write(0, b"before").unwrap();
        session.wait(id).unwrap();
        for _ in 0..20 {
            session.write(64, b"under way").and_then(|_| session.write(128, b"under way")).ok();
        }
        group.servers[killed].kill();
        let end = loop {
            let begun = session.write(8, b"behind");
            match begun.and_then(|id| session.wait(id)) {
                Err(SessionError::Op(_)) => {}
                Err(error) => break error,
                Ok(_) => {}
            }
        };
        let mut read = [0; 8];
        let told = if end == SessionError::Lost(None) {
            session.read(0, &mut read, Fresh::Maybe).unwrap_err()
        } else {
            end
        };
        assert_eq!(told, SessionError::Lost(Some(killed)));
        group.addresses.remove(killed);
        assert_eq!(good(group.client("read", "0 6")), ["before"]);
    }
}

/// A replica stops, and its connections stay: the client gives up after its timeout.
#[test]
fn a_stopped_replica_is_a_timeout() {
    for stopped in 0..3 {
        let mut group = Group::start("");
        let device = device();
        let mut session = group.session(&device);
        let id = session.write(0, b"before").unwrap();
        session.wait(id).unwrap();
        group.servers[stopped].signal(Signal::STOP);
        // The signal takes a moment to reach all threads.
        let end = loop {
            if let Err(error) = session.write(8, b"behind").and_then(|id| session.wait(id)) {
                break error;
            }
        };
        assert_eq!(end, SessionError::TimedOut);
        assert_eq!(session.write(16, b"more"), Err(SessionError::TimedOut), "the session is over");
        drop(session);
        group.addresses.remove(stopped);
        assert_eq!(good(group.client("read", "0 6")), ["before"]);
    }
}

/// On a wire of its own a replica has an address of its own.
#[test]
fn a_replica_on_a_wire() {
    let folder = Folder::new();
    let wire = path_in(&folder, "wire");
    let line = "group server --listen 10.0.0.1:7471 --memory 64K";
    let server = Process::weft(&format!("{line} --netif unix-listen:{wire} --ip 10.0.0.1/24"));
    let write = "group client write --members 10.0.0.1:7471 0 hello";
    let written = run(&format!("{write} --netif unix:{wire} --ip 10.0.0.2/24"));
    assert_eq!(good(written), ["5 octets written at 1 replica"]);
    assert_eq!(server.line(), "replica at 10.0.0.1:7471: 65536 octets, 8 sessions at most");
}

/// `weft stat` tells the sessions of a replica. Their operations are counted though no thread of the replica runs for them.
#[test]
fn stat_tells_the_sessions_of_a_replica() {
    let group = Group::start("");
    let device = device();
    let options = Options { window: 8, range: Some(64..4096), ..Options::default() };
    let mut session = Session::open(&device, &group.members_of(), &options).unwrap();
    for _ in 0..20 {
        let id = session.write(0, b"counted").unwrap();
        session.wait(id).unwrap();
    }
    let own = session.terms().session;
    for (index, server) in group.servers.iter().enumerate() {
        let pid = server.id();
        let answer: Value = serde_json::from_str(&good(run(&format!("stat {pid} group --json")))[0]).unwrap();
        let [told] = answer["group"].as_array().unwrap().as_slice() else { panic!("{answer}") };
        let engine = &told["threads"]["weft-engine-0"];
        let name = fs::read_to_string(format!("/proc/{pid}/task/{engine}/comm")).unwrap();
        assert_eq!(name.trim(), "weft-engine-0");
        let (peer, qp) = (told["peer"].as_str().unwrap(), &told["qp_num"]);
        let expected = json!({
            "epoch": 0, "session": own, "peer": peer, "index": index, "replicas": 3, "range": [64, 4096], "window": 8,
            "ready": true, "slots": 20, "laps": 2, "qp_num": qp, "threads": {"weft-engine-0": engine},
        });
        assert_eq!(*told, expected);
        let text = good(run(&format!("stat {pid} group")));
        let titles = "SESSION EPOCH FROM REPLICA RANGE WINDOW READY SLOTS LAPS QP THREADS";
        assert_eq!(text[0].split_whitespace().collect::<Vec<_>>().join(" "), titles);
        let row = format!("{own:016x} 0 {peer} {index}/3 64,4096 8 yes 20 2 {qp} weft-engine-0={engine}");
        assert_eq!(text[1].split_whitespace().collect::<Vec<_>>().join(" "), row);
        let all = good(run("stat group"));
        let at = all.iter().position(|line| *line == format!("process {pid}")).unwrap();
        assert!(all[at + 2].starts_with(&format!("{own:016x} ")), "{all:?}");
    }
    drop(session);
    // The replicas hear of the end a moment later.
    for server in &group.servers {
        let is_empty = |_| good(run(&format!("stat {} group", server.id()))).len() == 1;
        assert!((0..1000).any(is_empty), "the session stays");
    }
    for (line, reason) in [
        ("stat group qp", "nothing stands behind `group`: weft stat PID group is for one process"),
        ("stat group --watch 1", "--watch needs a process: weft stat PID group --watch SECONDS"),
        ("stat group --all", "--all is for counters"),
    ] {
        assert_eq!(bad(&run(line), 2), format!("weft stat: {reason}"));
    }
}
