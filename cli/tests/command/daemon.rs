//! `weft daemon`: its address, its rules, its end, and what `weft stat sockets` says of it.

use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::process::Command;

use rustix::process::Signal;

use crate::namespace::in_namespace;
use crate::process::{PATIENCE, Process, path_in, run};
use crate::support::Folder;

fn start(folder: &Folder, words: &[&str]) -> Process {
    Process::start(&mut command(folder, words))
}

fn command(folder: &Folder, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
    command.arg("daemon").args(words).env("WEFT_STAT", path_in(folder, "stat")).env_remove("WEFT_DAEMON");
    command
}

#[test]
fn signals_end_it_and_a_second_one_says_that_the_address_is_taken() {
    let folder = Folder::new();
    let name = format!("@weft-cli-{}", std::process::id());
    for end in [Signal::TERM, Signal::INT] {
        let daemon = start(&folder, &["--name", &name]);
        assert_eq!(daemon.line(), format!("listening at {name}"));
        // The variable names the same address.
        for mut second in [command(&folder, &["--name", &name]), command(&folder, &[])] {
            let second = Process::start(second.env("WEFT_DAEMON", &name)).finish();
            assert_eq!((second.status, second.stderr.len()), (1, 1), "{second:?}");
            assert!(second.stderr[0].contains("another daemon has the address"), "{second:?}");
        }
        daemon.signal(end);
        let done = daemon.finish();
        assert_eq!((done.status, done.stderr.len()), (0, 0), "{done:?}");
    }
}

#[test]
fn a_service_manager_hears_when_programs_can_come() {
    let folder = Folder::new();
    let (path, name) = (path_in(&folder, "notify"), format!("@weft-cli-ready-{}", std::process::id()));
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let daemon = Process::start(command(&folder, &["--name", &name]).env("NOTIFY_SOCKET", &path));
    let mut word = [0; 64];
    let len = manager.recv(&mut word).unwrap();
    assert_eq!(&word[..len], b"READY=1");
    assert_eq!(daemon.line(), format!("listening at {name}"));
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.finish().status, 0);
    // One on demand is not the service.
    let mut on_demand = command(&folder, &["--name", &name, "--linger", "0"]);
    assert_eq!(Process::start(on_demand.env("NOTIFY_SOCKET", &path)).finish().status, 0);
    manager.set_nonblocking(true).unwrap();
    assert!(manager.recv(&mut word).is_err());
}

#[test]
fn wrong_arguments_are_one_line() {
    let folder = Folder::new();
    let rules = path_in(&folder, "rules");
    std::fs::write(&rules, "allow port 80\ndeny prot 22\n").unwrap();
    for (line, words) in [
        ("daemon --name mine".to_owned(), "`mine`: a daemon's address is @NAME"),
        (format!("daemon --name @{}", "1".repeat(200)), "1`: a daemon's address has at most 108 octets"),
        (
            format!("sockets --daemon /{} -- true", "1".repeat(200)),
            "a daemon's address has at most 108 octets",
        ),
        (format!("daemon --rules {rules}"), "line 2: `prot`"),
        (format!("daemon --rules {rules}x"), "rulesx: No such file"),
        ("daemon --linger -1".to_owned(), "--linger"),
        (
            "daemon --lanes 10.0.0.0/33".to_owned(),
            "--lanes: `10.0.0.0/33`: a network is an address and a prefix",
        ),
        (
            "daemon --lanes 10.0.0.1/8".to_owned(),
            "--lanes: `10.0.0.1/8`: the address has bits behind the prefix: 10.0.0.0/8 is the network",
        ),
        ("daemon --lanes none,10.0.0.0/8".to_owned(), "--lanes: `none`"),
        ("daemon --lanes on-link,10.0.0.0/8".to_owned(), "--lanes: `on-link`"),
        ("sockets --lanes 10.0.0.1/8 -- true".to_owned(), "10.0.0.0/8 is the network"),
        ("sockets --lanes eth0 -- true".to_owned(), "or `on-link` or `none` alone"),
        ("daemon --drain 0".to_owned(), "--drain: `0` is not a whole number from 1"),
        ("daemon --drain redis-server".to_owned(), "--drain: `redis-server` is not a whole number from 1"),
        ("daemon --drain 4711 --replace".to_owned(), "--drain"),
        ("daemon --drain 4711 --lanes on-link".to_owned(), "--drain"),
        (format!("daemon --key {rules}x"), "rulesx: No such file"),
        ("daemon --key /dev/null".to_owned(), "--key: /dev/null: a key is in a plain file"),
        ("daemon --port 0".to_owned(), "--port: `0` is not a whole number from 1 to 65535"),
        ("daemon --netif eth0".to_owned(), "--netif: device `eth0`: no such device"),
        ("daemon --netif pair".to_owned(), "--netif: pair stays in one process"),
        (
            "daemon --netif packet:eth0".to_owned(),
            "--netif: packet:eth0 needs an IP address of the daemon's own, as in --ip 10.9.0.1/24",
        ),
        ("daemon --ip 10.9.0.1/24".to_owned(), "--ip is for the other devices"),
        ("daemon --netif tap:w --ip 10.9.0.1".to_owned(), "--ip"),
        ("daemon --netif tap:w --ip 10.9.0.1/24 --mtu 100".to_owned(), "--mtu"),
    ] {
        let done = run(&line);
        assert_eq!((done.status, done.stdout.len(), done.stderr.len()), (2, 0, 1), "{line}: {done:?}");
        assert!(done.stderr[0].contains(words), "{line}: {done:?}");
    }
}

#[test]
fn a_daemon_takes_the_place_of_another_one() {
    let folder = Folder::new();
    let name = format!("@weft-cli-replace-{}", std::process::id());
    // Nobody is there.
    let mut last = start(&folder, &["--name", &name, "--replace"]);
    assert_eq!(last.line(), format!("listening at {name}"));
    for _ in 0..3 {
        let next = start(&folder, &["--name", &name, "--replace"]);
        assert_eq!(next.line(), format!("listening at {name}"));
        let done = last.finish();
        assert_eq!((done.status, done.stderr.len()), (0, 0), "{done:?}");
        last = next;
    }
    last.signal(Signal::TERM);
    assert_eq!(last.finish().status, 0);
}

#[test]
fn a_daemon_drains_only_what_it_knows() {
    let folder = Folder::new();
    let name = format!("@weft-cli-drain-{}", std::process::id());
    let drain = |name: &str, pid: &str| {
        Process::start(&mut command(&folder, &["--name", name, "--drain", pid])).finish()
    };
    let done = drain(&name, "1");
    assert_eq!((done.status, done.stdout.len(), done.stderr.len()), (1, 0, 1), "{done:?}");
    assert!(done.stderr[0].contains(&format!("no daemon answers at {name}")), "{done:?}");
    let daemon = start(&folder, &["--name", &name]);
    daemon.line();
    let done = drain(&name, "1");
    assert_eq!((done.status, done.stdout.len(), done.stderr.len()), (1, 0, 1), "{done:?}");
    assert!(done.stderr[0].contains(&format!("the daemon at {name} knows no process 1 ")), "{done:?}");
}

#[test]
fn a_wrong_variable_is_one_line() {
    let folder = Folder::new();
    let done = Process::start(command(&folder, &[]).env("WEFT_DAEMON", "mine")).finish();
    assert_eq!((done.status, done.stdout.len(), done.stderr.len()), (2, 0, 1), "{done:?}");
    assert!(done.stderr[0].contains("WEFT_DAEMON: `mine`: a daemon's address is @NAME"), "{done:?}");
}

#[test]
fn stat_names_each_of_several_daemons() {
    let folder = Folder::new();
    let names = ["one", "two"].map(|name| format!("@weft-cli-{name}-{}", std::process::id()));
    let daemons = names.each_ref().map(|name| start(&folder, &["--name", name]));
    let dir = path_in(&folder, "stat");
    for daemon in &daemons {
        daemon.line();
    }
    let text = run(&format!("stat sockets --dir {dir}"));
    for (daemon, name) in daemons.iter().zip(&names) {
        let title = format!("daemon {} at {name} in network namespace {}", daemon.id(), namespace_of(daemon));
        assert!(text.stdout.contains(&title), "{title}: {text:?}");
    }
    // By its number one daemon answers, and no other.
    let json = run(&format!("stat {} sockets --json --dir {dir}", daemons[1].id()));
    assert_eq!((json.status, json.stdout.len()), (0, 1), "{json:?}");
    let answer: serde_json::Value = serde_json::from_str(&json.stdout[0]).unwrap();
    assert_eq!(answer["address"], names[1].as_str());
}

#[test]
fn stat_tells_daemons_of_one_address_apart() {
    in_namespace("daemon::stat_tells_daemons_of_one_address_apart", "link", || {
        let folder = Folder::new();
        let weft = command(&folder, &["--name", "@same"]);
        let mut there = Command::new("unshare");
        there.arg("-n").arg(weft.get_program()).args(weft.get_args());
        there.env("WEFT_STAT", path_in(&folder, "stat")).env_remove("WEFT_DAEMON");
        let daemons = [start(&folder, &["--name", "@same"]), Process::start(&mut there)];
        for daemon in &daemons {
            daemon.line();
        }
        let text = run(&format!("stat sockets --dir {}", path_in(&folder, "stat")));
        let namespaces = daemons.each_ref().map(namespace_of);
        assert_ne!(namespaces[0], namespaces[1]);
        for namespace in namespaces {
            let heads = text.stdout.iter().filter(|line| line.ends_with(&format!("namespace {namespace}")));
            assert_eq!(heads.count(), 1, "{namespace}: {text:?}");
        }
    });
}

/// The number of a process' network namespace, as `lsns` has it.
fn namespace_of(process: &Process) -> u64 {
    std::fs::metadata(format!("/proc/{}/ns/net", process.id())).unwrap().ino()
}

#[test]
fn stat_tells_that_no_daemon_knows_a_process() {
    let folder = Folder::new();
    let daemon = start(&folder, &["--name", &format!("@weft-cli-unknown-{}", std::process::id())]);
    daemon.line();
    let dir = path_in(&folder, "stat");
    let own = std::process::id();
    for (line, status, words) in [
        (format!("stat 4294967295 sockets --dir {dir}"), 1, "there is no process 4294967295".to_owned()),
        (
            format!("stat {own} sockets --dir {dir}"),
            1,
            format!("knows process {own}: `weft sockets` did not"),
        ),
        (format!("stat {} --dir {dir}", daemon.id()), 1, "no `counters`, but device and sockets".to_owned()),
        (format!("stat sockets --all --dir {dir}"), 2, "--all is for counters".to_owned()),
        (format!("stat {own} sockets --all --dir {dir}"), 2, "--all is for counters".to_owned()),
        (format!("stat sockets qp --dir {dir}"), 2, "nothing stands behind `sockets`".to_owned()),
    ] {
        let done = run(&line);
        assert_eq!((done.status, done.stdout.len(), done.stderr.len()), (status, 0, 1), "{line}: {done:?}");
        assert!(done.stderr[0].contains(&words), "{line}: {done:?}");
    }
}

#[test]
fn stat_shows_what_the_daemon_knows() {
    let folder = Folder::new();
    let name = format!("@weft-cli-stat-{}", std::process::id());
    let daemon = start(&folder, &["--name", &name]);
    daemon.line();
    let dir = path_in(&folder, "stat");
    let json = run(&format!("stat sockets --json --dir {dir}"));
    assert_eq!((json.status, json.stdout.len()), (0, 1), "{json:?}");
    let answer: serde_json::Value = serde_json::from_str(&json.stdout[0]).unwrap();
    assert_eq!(answer["pid"], daemon.id());
    assert_eq!(answer["sums"]["seen"], 0);
    let text = run(&format!("stat sockets --dir {dir}"));
    assert_eq!((text.status, text.stderr.len()), (0, 0), "{text:?}");
    assert!(text.stdout.iter().any(|line| line.contains("no open connection has left TCP")), "{text:?}");
    let all = run(&format!("stat --dir {dir}"));
    assert!(all.stdout.iter().any(|line| line.contains(&name)), "{all:?}");
    let by_process = run(&format!("stat {} sockets --dir {dir}", daemon.id()));
    assert_eq!(by_process.status, 0, "{by_process:?}");
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.finish().status, 0);
    let none = run(&format!("stat sockets --dir {dir}"));
    assert_eq!((none.status, none.stdout.len()), (1, 0), "{none:?}");
    assert!(none.stderr[0].contains("no daemon answers"), "{none:?}");
}
