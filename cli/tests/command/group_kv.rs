//! `weft group kv`: a database on replicas that are processes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::process::{Process, run};

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

/// The server is killed, and another one finds what was acknowledged. A replica is killed: the server says so and ends, and
/// one with the other replicas goes on.
#[test]
fn a_database_outlives_its_server_and_a_replica() {
    let start = || Process::weft("group server --listen 127.0.0.1:0 --memory 8M --json");
    let mut servers: Vec<Process> = (0..3).map(|_| start()).collect();
    let addresses: Vec<String> = servers.iter().map(|server| address(server, "address")).collect();
    let serve = |members: &[String]| {
        let members = members.join(",");
        let kv =
            Process::weft(&format!("group kv --resp 127.0.0.1:0 --members {members} --json --timeout 2"));
        let address = address(&kv, "resp");
        (kv, address)
    };
    let (kv, resp) = serve(&addresses);
    ask(&resp, "SET here before", "+OK\r\n");
    kv.signal(Signal::KILL);
    kv.finish();

    let (kv, resp) = serve(&addresses);
    ask(&resp, "GET here", "$6\r\nbefore\r\n");
    ask(&resp, "SET there now", "+OK\r\n");
    let lost = servers.remove(1);
    lost.signal(Signal::KILL);
    lost.finish();
    ask(&resp, "GET here", "-ERR ");
    let done = kv.finish();
    assert_eq!((done.status, done.stderr.len()), (1, 1), "{done:?}");
    assert!(done.stderr[0].contains("is lost"), "{done:?}");

    let (kv, resp) = serve(&[addresses[0].clone(), addresses[2].clone()]);
    ask(&resp, "MGET here there", "*2\r\n$6\r\nbefore\r\n$3\r\nnow\r\n");
    kv.signal(Signal::TERM);
    assert_eq!(kv.finish().status, 0);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let server = Process::weft("group server --listen 127.0.0.1:0 --memory 64K --json");
    let member = address(&server, "address");
    let wrong = run(&format!("group kv --resp nowhere --members {member}"));
    assert_eq!(wrong.status, 2, "{wrong:?}");
    let small = run(&format!("group kv --resp 127.0.0.1:0 --members {member}"));
    assert_eq!(small.status, 1, "{small:?}");
    assert!(small.stderr[0].contains("no room"), "{small:?}");
    let written = run(&format!("group client write --members {member} 0 something"));
    assert_eq!(written.status, 0, "{written:?}");
    let foreign = run(&format!("group kv --resp 127.0.0.1:0 --members {member}"));
    assert!(foreign.status == 1 && foreign.stderr[0].contains("no mirror has written"), "{foreign:?}");
}
