//! `weft group kv`: a database on replicas that are processes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::process::{Process, run};
use crate::support::Folder;

fn address(process: &Process, name: &str) -> String {
    let said: Value = serde_json::from_str(&process.line()).unwrap();
    said[name].as_str().unwrap().to_owned()
}

/// Sends a line to a server, and compares the beginning of its answer.
fn ask(address: &str, line: &str, expected: &str) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
    let mut answer = vec![0; expected.len()];
    let read = stream.read_exact(&mut answer);
    assert!(read.is_ok() && answer == expected.as_bytes(), "{line}: {:?}", String::from_utf8_lossy(&answer));
}

/// The server is killed, and another one finds what was acknowledged. A member is killed: the server says so and goes on.
#[test]
fn a_database_outlives_its_server_and_a_replica() {
    let start = || Process::weft("group server --listen 127.0.0.1:0 --memory 8M --json");
    let mut servers: Vec<Process> = (0..3).map(|_| start()).collect();
    let addresses: Vec<String> = servers.iter().map(|server| address(server, "address")).collect();
    let folder = Folder::new();
    let register = folder.0.join("kv").display().to_string();
    let made = run(&format!("group create --register {register} {}", addresses.join(" ")));
    assert_eq!(made.status, 0, "{made:?}");
    let serve = |more: &str| {
        let line = format!("group kv --resp 127.0.0.1:0 --register {register} --json --timeout 2 {more}");
        let kv = Process::weft(&line);
        let address = address(&kv, "resp");
        (kv, address)
    };
    let (kv, resp) = serve("");
    ask(&resp, "SET here before", "+OK\r\n");
    kv.signal(Signal::KILL);
    kv.finish();

    let (kv, resp) = serve("--takeover");
    ask(&resp, "GET here", "$6\r\nbefore\r\n");
    // An address that is in use replaces nobody.
    let second = run(&format!("group kv --resp {resp} --register {register} --takeover"));
    assert!(second.status == 1 && second.stderr[0].contains("in use"), "{second:?}");
    ask(&resp, "SET there now", "+OK\r\n");
    let lost = servers.remove(1);
    lost.signal(Signal::KILL);
    lost.finish();
    ask(&resp, "MGET here there", "*2\r\n$6\r\nbefore\r\n$3\r\nnow\r\n");
    kv.signal(Signal::TERM);
    let done = kv.finish();
    assert_eq!((done.status, done.stderr.len()), (0, 1), "{done:?}");
    assert!(done.stderr[0].contains("a chain of 2 of 3"), "{done:?}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let server = Process::weft("group server --listen 127.0.0.1:0 --memory 64K --json");
    let member = address(&server, "address");
    let folder = Folder::new();
    let register = folder.0.join("kv").display().to_string();
    let kv = |resp: &str| run(&format!("group kv --resp {resp} --register {register}"));
    let made = run(&format!("group create --register {register} {member}"));
    assert_eq!(made.status, 0, "{made:?}");
    let wrong = kv("nowhere");
    assert_eq!(wrong.status, 2, "{wrong:?}");
    let small = kv("127.0.0.1:0");
    assert_eq!(small.status, 1, "{small:?}");
    assert!(small.stderr[0].contains("no room"), "{small:?}");
    let written = run(&format!("group client write --register {register} 0 something"));
    assert_eq!(written.status, 0, "{written:?}");
    let foreign = kv("127.0.0.1:0");
    assert!(foreign.status == 1 && foreign.stderr[0].contains("no mirror has written"), "{foreign:?}");
}
