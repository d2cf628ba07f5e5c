//! etcd as a register: the real one where it is installed, and one that answers octets.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use weft_group::{Etcd, Membership};

use super::{Folder, epochs_are_taken_once, record};

/// Only turns a hang into a failure.
const LIMIT: Duration = Duration::from_secs(20);

/// An etcd that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Starts etcd; `None` if it is not installed. Each number has a folder of its own.
fn start(folder: &Folder, number: u32, ports: [u16; 2]) -> Option<Server> {
    let urls = ports.map(|port| format!("http://127.0.0.1:{port}"));
    let started = Command::new("etcd")
        .arg("--data-dir")
        .arg(folder.0.join(format!("data{number}")))
        .args(["--listen-client-urls", &urls[0], "--advertise-client-urls", &urls[0]])
        .args(["--listen-peer-urls", &urls[1], "--initial-advertise-peer-urls", &urls[1]])
        .args(["--initial-cluster", &format!("default={}", urls[1])])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    started.ok().map(Server)
}

#[test]
fn etcd_gives_each_epoch_once() {
    let folder = Folder::new("etcd");
    for number in 0.. {
        let (client, peer) = (free_port(), free_port());
        let Some(mut server) = start(&folder, number, [client, peer]) else {
            println!("skipped: etcd is not installed (Debian's etcd-server)");
            return;
        };
        // The first endpoint is nobody's: the second one is asked.
        let url = format!("etcd://127.0.0.1:{},127.0.0.1:{client}/weft/g", free_port());
        let register = Etcd::parse(&url, LIMIT).unwrap();
        let mut attempts = 0;
        while register.get().is_err() && server.0.try_wait().unwrap().is_none() {
            attempts += 1;
            assert!(attempts < 400, "etcd does not answer");
            thread::sleep(Duration::from_millis(50));
        }
        // Another test may have got one of the ports meanwhile.
        if server.0.try_wait().unwrap().is_some() {
            assert!(number < 5, "etcd does not start");
            continue;
        }
        epochs_are_taken_once(&register);
        drop(server);
        assert!(register.get().unwrap_err().0.contains(&client.to_string()));
        return;
    }
}

/// Answers one request after the other with these octets, and returns the register and the requests.
fn scripted(answers: Vec<String>) -> (Etcd, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("etcd://{}/g", listener.local_addr().unwrap());
    let (sender, requests) = mpsc::channel();
    thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            sender.send(request(&mut stream)).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    (Etcd::parse(&url, LIMIT).unwrap(), requests)
}

/// Reads one request, head and body.
fn request(stream: &mut TcpStream) -> String {
    let mut octets = Vec::new();
    let mut octet = [0];
    let is_whole = |octets: &[u8]| {
        let text = String::from_utf8_lossy(octets).to_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
        let len = head.split_once("content-length: ").unwrap().1.split("\r\n").next().unwrap();
        body.len() == len.parse::<usize>().unwrap()
    };
    while !is_whole(&octets) {
        stream.read_exact(&mut octet).unwrap();
        octets.push(octet[0]);
    }
    String::from_utf8(octets).unwrap()
}

fn answer(status: &str, body: &str) -> String {
    let len = body.len();
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {len}\r\n\r\n{body}")
}

/// What etcd answers to a range, for a value in base64.
fn value(value: &str, revision: &str) -> String {
    let body = format!("{{\"header\":{{}},\"kvs\":[{{\"mod_revision\":{revision},\"value\":\"{value}\"}}]}}");
    answer("200 OK", &body)
}

fn base64(octets: &[u8]) -> String {
    base64::Engine::encode(&base64::engine::general_purpose::STANDARD, octets)
}

#[test]
fn wrong_answers_of_etcd_are_errors() {
    let good = base64(record(2, 2).to_json().as_bytes());
    let cases = [
        (String::new(), "etcd at http://127.0.0.1"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{\"header\"".into(), "etcd at"),
        ("no HTTP\r\n\r\n".into(), "etcd at"),
        (answer("200 OK", "{\"header\":{}"), "no JSON"),
        (answer("200 OK", "{}"), "without header"),
        (answer("200 OK", "[]"), "without header"),
        (answer("503 Service Unavailable", "{\"message\":\"no leader\"}"), "no leader"),
        (answer("404 Not Found", "not here"), "404"),
        (answer("301 Moved Permanently", ""), "301"),
        (answer("200 OK", "{\"header\":{},\"kvs\":1}"), "\"kvs\" is no list"),
        (answer("200 OK", "{\"header\":{},\"kvs\":[1]}"), "no \"mod_revision\""),
        (value(&good, "7"), "no \"mod_revision\""),
        (value(&good, "\"x\""), "\"mod_revision\" is no number"),
        (value("!", "\"7\""), "\"value\""),
        (value(&base64(&[0xFF]), "\"7\""), "no text"),
        (value(&base64(b"{}"), "\"7\""), "is no"),
        (answer("200 OK", &format!("{{\"header\":{{}},\"x\":\"{}\"}}", "x".repeat(200_000))), "etcd at"),
    ];
    for (octets, reason) in cases {
        let (register, _requests) = scripted(vec![octets]);
        let error = register.get().unwrap_err().0;
        assert!(error.contains(reason), "{error}, not {reason}");
    }
}

#[test]
fn a_transaction_compares_the_revision_that_was_read() {
    let old = record(2, 2);
    let found = value(&base64(old.to_json().as_bytes()), "\"41\"");
    let cases = [
        (answer("200 OK", "{\"header\":{},\"succeeded\":true}"), Some(true)),
        (answer("200 OK", "{\"header\":{}}"), Some(false)),
        (answer("200 OK", "{\"header\":{},\"succeeded\":1}"), None),
        // The answer is lost: nobody knows.
        (String::new(), None),
    ];
    for (octets, expected) in cases {
        let (register, requests) = scripted(vec![found.clone(), octets]);
        let swapped = register.swap(Some(&old), &weft_group::Record { next_epoch: 2, ..old.clone() });
        assert_eq!(swapped.ok(), expected);
        assert!(requests.recv().unwrap().starts_with("POST /v3/kv/range "));
        let request = requests.recv().unwrap();
        assert!(request.starts_with("POST /v3/kv/txn ") && request.contains("\"modRevision\":\"41\""));
    }
    let (register, requests) = scripted(vec![found]);
    assert_eq!(register.swap(Some(&weft_group::Record { next_epoch: 2, ..old.clone() }), &old), Ok(false));
    assert_eq!(requests.iter().count(), 1, "another record was there: nothing is written");
}

#[test]
fn what_names_no_etcd_is_refused() {
    for url in ["", "http://a:1/g", "etcd://a:1", "etcd://a:1/", "etcd:///g", "etcd://a:1,/g"] {
        assert!(Etcd::parse(url, LIMIT).is_err(), "{url}");
    }
}
