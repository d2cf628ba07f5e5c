//! `weft group create`, `repair` and `status` with a register, and replicas that are processes.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::group::good;
use crate::process::{Finished, Process, path_in, run};
use crate::support::Folder;

/// A replica, and where it listens.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) address: String,
}

impl Server {
    /// Starts one. It has 8 MiB of memory unless `memory` says something else.
    pub(crate) fn start(address: &str, memory: &str) -> Self {
        let process = Process::weft(&format!("group server --listen {address} {memory} --json"));
        let said: Value = serde_json::from_str(&process.line()).unwrap();
        Self { process, address: said["address"].as_str().unwrap().to_owned() }
    }
}

fn object(done: Finished) -> Value {
    serde_json::from_str(&good(done)[0]).unwrap()
}

fn complaint(done: &Finished, status: i32) -> &str {
    assert_eq!(done.status, status, "{done:?}");
    done.stderr.last().unwrap()
}

/// A group is made, loses members one after the other, and gets them back.
#[test]
fn members_are_replaced_and_come_back() {
    let folder = Folder::new();
    let register = path_in(&folder, "group");
    let mut servers: Vec<Server> = (0..4).map(|_| Server::start("127.0.0.1:0", "--memory 300000")).collect();
    let addresses: Vec<String> = servers.iter().map(|server| server.address.clone()).collect();
    let [a, b, c, d] = [0, 1, 2, 3].map(|at| addresses[at].as_str());
    let client = |what: &str| run(&format!("group client {what}"));
    let create = format!("group create --register {register} {a} {b} {c} --spare {d} --name orders");
    let made = good(run(&create));
    assert_eq!(made[0], "orders: epoch 1, a chain of 3, 300000 octets");
    assert_eq!(made[1..], [format!("members: {a} {b} {c}"), format!("spares: {d}")]);
    assert!(complaint(&run(&create), 1).contains("there is a group already"));
    good(client(&format!("write --register {register} 70000 hello")));
    let told = run(&format!("group client read --members {a},{b},{c} 0 1"));
    assert!(complaint(&told, 1).contains("it is sealed with epoch 1"), "{told:?}");

    // Nothing is wrong, and nothing is done.
    let repair = format!("group repair --register {register} --timeout 2");
    assert_eq!(good(run(&repair))[0], made[0]);
    servers[0].process.signal(Signal::KILL);
    let status = run(&format!("group status --register {register}"));
    assert!(complaint(&status, 1).ends_with("the group cannot count on 1 of 4 replicas"), "{status:?}");
    assert!(status.stdout[1].starts_with(&format!("{a} (member): ")), "{status:?}");
    assert!(status.stdout[4].starts_with(&format!("{d} (spare): 300000 octets")), "{status:?}");
    let repaired = run(&format!("{repair} --json"));
    let expected = json!({"epoch": 2, "members": [b, c, d], "spares": [a], "size": 300_000});
    assert_eq!((repaired.status, &repaired.stdout[0]), (0, &expected.to_string()), "{repaired:?}");
    assert!(repaired.stderr[0].contains(&format!("{a}: nobody listens there")), "{repaired:?}");
    assert_eq!(good(client(&format!("read --register {register} 70000 5"))), ["hello"]);

    // The killed one is started again, empty, and takes the next place.
    servers[0] = Server::start(a, "--memory 300000");
    servers[1].process.signal(Signal::KILL);
    assert_eq!(run(&repair).stdout[1], format!("members: {c} {d} {a}"));
    servers[2].process.signal(Signal::KILL);
    let few = run(&repair);
    assert_eq!(few.stdout[0], "orders: epoch 4, a chain of 2 of 3, 300000 octets", "{few:?}");
    assert_eq!(good(client(&format!("read --register {register} 70000 5"))), ["hello"]);
    good(client(&format!("write --register {register} 70000 there")));

    // Spares by hand.
    let none = run(&format!("{repair} --forget 127.0.0.1:1"));
    assert!(complaint(&none, 2).ends_with("127.0.0.1:1 is no spare of the group"), "{none:?}");
    let other = Server::start("127.0.0.1:0", "--memory 300000");
    let more = run(&format!("{repair} --spare {} --forget {b} --forget {c}", other.address));
    assert_eq!(more.stdout[1], format!("members: {d} {a} {}", other.address), "{more:?}");
    let state = object(run(&format!("group status --register {register} --json")));
    assert_eq!((&state["record"]["epoch"], state["replicas"].as_array().unwrap().len()), (&json!(5), 3));
    assert_eq!((&state["replicas"][0]["sealed"], &state["replicas"][0]["member"]), (&json!(5), &json!(true)));
    servers.truncate(1);
    drop(servers);
    assert_eq!(run(&repair).stdout[0], "orders: epoch 6, a chain of 1 of 3, 300000 octets");
    assert_eq!(good(client(&format!("read --register {register} 70000 5"))), ["there"]);
}

/// All members restart: volatile memory is gone, and what was flushed to files is used only if somebody says so.
#[test]
fn a_group_that_has_restarted_goes_on_from_its_files() {
    let folder = Folder::new();
    let register = path_in(&folder, "group");
    let files =
        [0, 1].map(|at| format!("--file {} --size 200000", path_in(&folder, &format!("replica{at}"))));
    let start = |address: [&str; 2]| [0, 1].map(|at| Server::start(address[at], &files[at]));
    let servers = start(["127.0.0.1:0"; 2]);
    let [a, b] = servers.each_ref().map(|server| server.address.clone());
    good(run(&format!("group create --register {register} {a} {b} --topology fan")));
    let client =
        |what: &str, rest: &str| good(run(&format!("group client {what} --register {register} {rest}")));
    client("write", "100000 flushed");
    client("flush", "0 200000");
    client("write", "0 not");
    drop(servers);
    let _servers = start([&a, &b]);
    let repair = format!("group repair --register {register} --timeout 2");
    let asked = run(&repair);
    assert!(complaint(&asked, 1).contains("--from-storage goes on with that"), "{asked:?}");
    let done = good(run(&format!("{repair} --from-storage")));
    assert!(done[0].contains(", a fan of 2, 200000 octets"), "{done:?}");
    assert_eq!(client("read", "100000 7"), ["flushed"]);
    assert_eq!(client("read", "0 3"), ["\0\0\0"]);
}

/// All hosts lose their power right after a spare has joined. Its file has what older epochs had flushed.
#[test]
fn a_spare_that_has_joined_has_flushed() {
    let folder = Folder::new();
    let register = path_in(&folder, "group");
    let file = |at: usize| format!("--file {} --size 200000", path_in(&folder, &format!("replica{at}")));
    let mut servers: Vec<Server> = (0..3).map(|at| Server::start("127.0.0.1:0", &file(at))).collect();
    let [a, b, c] = [0, 1, 2].map(|at| servers[at].address.clone());
    good(run(&format!("group create --register {register} {a} {b} --spare {c}")));
    let client =
        |what: &str, rest: &str| good(run(&format!("group client {what} --register {register} {rest}")));
    client("write", "100000 flushed");
    client("flush", "0 200000");
    servers[0].process.signal(Signal::KILL);
    let repair = format!("group repair --register {register} --timeout 2");
    assert_eq!(run(&repair).stdout[1], format!("members: {b} {c}"));
    for server in servers.drain(1..) {
        server.process.signal(Signal::KILL);
        server.process.finish();
    }
    // The first member of the epoch is lost for good.
    let _spare = Server::start(&c, &file(2));
    let alone = run(&format!("{repair} --from-storage"));
    assert_eq!(alone.stdout[1], format!("members: {c}"), "{alone:?}");
    assert_eq!(client("read", "100000 7"), ["flushed"]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = Folder::new();
    let register = path_in(&folder, "group");
    let server = Server::start("127.0.0.1:0", "--memory 64K");
    let larger = Server::start("127.0.0.1:0", "--memory 65K");
    let (a, b) = (&server.address, &larger.address);
    let cases = [
        (format!("group create --register {register} {a} {b}"), 2, "all replicas have the same size"),
        (format!("group create --register {register} {a} {a}"), 2, "is there twice"),
        (
            format!("group create --register {register} {a} 127.0.0.1:1"),
            1,
            "127.0.0.1:1: nobody listens there",
        ),
        (format!("group create --register {register} {a} nowhere"), 1, "nowhere: "),
        (format!("group create --register http://x/y {a}"), 2, "is no register"),
        (format!("group create --register etcd://x {a}"), 2, "is not etcd://HOST:PORT"),
        (format!("group create --register etcd://127.0.0.1:1/x {a}"), 1, "127.0.0.1:1"),
        (format!("group create --register {}/none/x {a}", folder.0.display()), 1, "No such file"),
        (format!("group repair --register {register}"), 1, "the group has not been created"),
        (format!("group status --register {register}"), 1, "the group has not been created"),
        (format!("group kv --resp 127.0.0.1:0 --register {register}"), 1, "the group has not been created"),
        (format!("group kv --resp 127.0.0.1:0 --members {a}"), 2, "--members"),
        (format!("group client read --members {a} --register {register} 0 1"), 2, "--register"),
        ("group client read 0 1".into(), 2, "--members"),
    ];
    for (line, status, expected) in cases {
        let done = run(&line);
        assert_eq!(done.status, status, "{line}: {done:?}");
        assert!(done.stderr.join(" ").contains(expected), "{line}: {done:?}");
    }
}
