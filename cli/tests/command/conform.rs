//! `weft conform`: against our own server, against fakes on loopback, and against targets that are none.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::process::{Finished, Process, path_in, run};
use crate::support::Folder;

/// Serves every connection to a port of loopback by `serve`, for as long as the test runs.
fn fake(serve: impl Fn(&mut TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            serve(&mut stream);
        }
    });
    address
}

/// The same, which answers a Request by a frame of the key, flags, revision and private data in `reply`, and takes octets then.
fn responder(reply: &'static [u8]) -> SocketAddr {
    fake(move |stream| {
        let mut request = [0; 1024];
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        // A tester that says nothing ends the connection, and so does an error.
        if !matches!(stream.read(&mut request), Ok(len) if len > 0) || stream.write_all(reply).is_err() {
            return;
        }
        while matches!(stream.read(&mut request), Ok(len) if len > 0) {}
    })
}

fn conform(address: SocketAddr, flags: &str) -> Finished {
    run(&format!("conform {} --port {} --timeout 1 {flags}", address.ip(), address.port()))
}

#[track_caller]
fn check_complaint(done: &Finished, complaint: &str) {
    assert_eq!((done.status, done.stderr.len(), done.stdout.len()), (1, 1, 0), "{done:?}");
    assert!(done.stderr[0].contains(complaint), "{complaint}: {}", done.stderr[0]);
}

#[test]
fn a_port_where_nobody_listens() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    check_complaint(&conform(address, ""), "nobody listens there");
}

#[test]
fn a_host_that_is_not_there() {
    let folder = Folder::new();
    let netif = format!("--netif unix-listen:{} --ip 10.0.0.2/24", path_in(&folder, "wire"));
    let done = run(&format!("conform 10.0.0.1 {netif} --timeout 1"));
    check_complaint(&done, "weft conform: 10.0.0.1:7174: no answer to the TCP connection in time");
}

#[test]
fn a_target_that_never_answers() {
    let address = fake(|stream| while matches!(stream.read(&mut [0; 1024]), Ok(len) if len > 0) {});
    check_complaint(&conform(address, ""), "no answer to an MPA Request within 1 s");
    // Half a Reply is no answer.
    let address = responder(b"MPA ID Rep");
    check_complaint(&conform(address, ""), "no answer to an MPA Request within 1 s");
}

#[test]
fn a_target_that_closes_at_once() {
    let address = fake(|_| {});
    check_complaint(
        &conform(address, ""),
        "it closes the connection at an MPA Request of revision 2 and of revision 1",
    );
}

#[test]
fn a_target_that_speaks_something_else() {
    for greeting in [
        &b"SSH-2.0-OpenSSH_9.2p1\r\n"[..],
        b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
        b"MPA ID Req Frame\x40\x01\0\0",
    ] {
        let address = responder(greeting);
        check_complaint(&conform(address, ""), "it does not speak MPA: instead of a Reply it sends ");
    }
}

#[test]
fn a_target_that_rejects() {
    let address = responder(b"MPA ID Rep Frame\x60\x01\0\0");
    check_complaint(&conform(address, ""), "it rejects the connection");
}

/// The greeting is answered, and then nobody is there any more.
#[test]
fn a_target_that_goes() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        drop(listener);
        stream.read_exact(&mut [0; 20]).unwrap();
        stream.write_all(b"MPA ID Rep Frame\x40\x01\0\0").unwrap();
    });
    let done = conform(address, "");
    assert_eq!((done.status, done.stderr.len()), (1, 1), "{done:?}");
    assert!(done.stderr[0].contains(" is gone during the check "), "{done:?}");
    assert_eq!(done.stdout, ["0 passed, 0 failed, 0 inconclusive"]);
}

/// Reserved bits in a Reply: that requirement fails, with the octets, and its neighbours do not.
#[test]
fn a_fault_is_shown_with_its_octets() {
    let address = responder(b"MPA ID Rep Frame\x41\x01\0\0");
    let done = conform(address, "--only 5044-7.1.1-14 5044-7.1.1-3");
    assert_eq!((done.status, done.stderr.len()), (1, 0), "{done:?}");
    let fault =
        done.stdout.iter().position(|line| line.starts_with("fail         5044-7.1.1-14    MUST")).unwrap();
    assert!(
        done.stdout.iter().any(|line| line.starts_with("pass         5044-7.1.1-3     MUST")),
        "{done:?}"
    );
    let text = done.stdout[fault..].join("\n");
    let octets = "received 4d504120494420526570204672616d6541010000";
    assert!(text.contains("expected ") && text.contains("observed ") && text.contains(octets), "{text}");
    assert_eq!(done.stdout.last().unwrap(), "1 passed, 1 failed, 0 inconclusive");
}

#[test]
fn the_list_has_every_check() {
    let text = run("conform --list");
    assert_eq!((text.status, text.stderr.len()), (0, 0));
    let ids = text.stdout.iter().filter(|line| line.starts_with("  ")).count();
    let list: Value = serde_json::from_str(&run("conform --list --json").stdout.concat()).unwrap();
    let listed = list.as_array().unwrap().iter().map(|check| check["requirements"].as_array().unwrap().len());
    assert_eq!(listed.sum::<usize>(), ids);
    let one = run("conform --list --only 5044-7.1.1-3").stdout;
    assert!(one.len() > 1 && one.len() < text.stdout.len(), "{one:?}");
}

/// The done-when of the tester: more than 120 requirements, and our own server keeps them all.
#[test]
fn our_own_server_keeps_everything() {
    let folder = Folder::new();
    let wire = path_in(&folder, "wire");
    let pcap = path_in(&folder, "conform.pcap");
    let _server = Process::weft(&format!("rping -s -P --netif unix-listen:{wire} --ip 10.0.0.1/24"));
    let done = run(&format!("conform 10.0.0.1 --netif unix:{wire} --ip 10.0.0.2/24 --pcap {pcap} --json"));
    assert_eq!((done.status, done.stderr.len()), (0, 0), "{done:?}");
    let report: Value = serde_json::from_str(&done.stdout.concat()).unwrap();
    let of = |verdict: &str| {
        let rows = report["results"].as_array().unwrap().iter().filter(|row| row["verdict"] == verdict);
        rows.map(|row| row["id"].to_string()).collect::<Vec<_>>()
    };
    assert!(
        of("fail").is_empty() && of("inconclusive").is_empty(),
        "{:?} {:?}",
        of("fail"),
        of("inconclusive")
    );
    assert!(of("pass").len() >= 120, "{}", of("pass").len());
    assert_eq!(report["passed"], of("pass").len());
    let decoded = run(&format!("decode {pcap}"));
    assert!(decoded.status == 0 && decoded.stdout.len() > 200, "{:?}", decoded.stderr);
}
