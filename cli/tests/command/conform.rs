//! `weft conform`: against our own server, against fakes on loopback, and against targets that do not answer.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::process::{Finished, Process, path_in, run};
use crate::rping::await_socket;
use crate::saboteur::{Sabotage, relay};
use crate::support::Folder;

/// Serves every connection to a port of loopback by `serve`, as long as the test runs.
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

/// As [`fake`], with a server that answers a Request by a frame of the key, flags, revision and private data in
/// `reply`. Then it takes octets.
fn responder(reply: &'static [u8]) -> SocketAddr {
    fake(move |stream| {
        let mut request = [0; 1024];
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        // A silent tester ends the connection, and so does an error.
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

/// The target answers the greeting, and is gone then.
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

/// The first conversation hangs, and there is never another. Its findings stay, although the check is repeated.
#[test]
fn a_target_that_hangs_for_good() {
    let connections = AtomicUsize::new(0);
    let address = fake(move |stream| {
        // The greeting, and the check's first connection.
        let answers = connections.fetch_add(1, Ordering::Relaxed) < 2;
        let mut octets = [0; 1024];
        while let Ok(len @ 1..) = stream.read(&mut octets) {
            if answers && octets[..len].starts_with(b"MPA ID Req Frame") {
                stream.write_all(b"MPA ID Rep Frame\x40\x01\0\0").unwrap();
            }
        }
    });
    let done = conform(address, "--only fpdu-layout");
    assert_eq!((done.status, done.stderr.len()), (1, 0), "{done:?}");
    assert!(done.stdout.iter().any(|line| line.starts_with("fail         5044-4.1-1 ")), "{done:?}");
    assert_eq!(done.stdout.last().unwrap(), "0 passed, 3 failed, 4 inconclusive");
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

/// Our own server, with each of its settings. All settings together show every requirement, except two on targets that
/// lack features of ours.
#[test]
fn our_own_server_keeps_everything() {
    let folder = Folder::new();
    let mut kept = BTreeSet::new();
    let mut open = BTreeSet::new();
    for flags in ["", "--no-crc", "--markers"] {
        let wire = path_in(&folder, &format!("wire{flags}"));
        let pcap = path_in(&folder, &format!("conform{flags}.pcap"));
        let _server =
            Process::weft(&format!("rping -s -P --netif unix-listen:{wire} --ip 10.0.0.1/24 {flags}"));
        let done =
            run(&format!("conform 10.0.0.1 --netif unix:{wire} --ip 10.0.0.2/24 --pcap {pcap} --json"));
        assert_eq!((done.status, done.stderr.len()), (0, 0), "{done:?}");
        let report: Value = serde_json::from_str(&done.stdout.concat()).unwrap();
        let of = |verdict: &str| {
            let rows = report["results"].as_array().unwrap().iter().filter(|row| row["verdict"] == verdict);
            rows.map(|row| row["id"].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>()
        };
        assert!(of("fail").is_empty(), "{flags}: {:?}", of("fail"));
        assert!(of("pass").len() >= 300, "{flags}: {}", of("pass").len());
        assert_eq!(report["passed"], of("pass").len());
        kept.append(&mut of("pass"));
        open.append(&mut of("inconclusive"));
        let decoded = run(&format!("decode {pcap}"));
        assert!(decoded.status == 0 && decoded.stdout.len() > 500, "{:?}", decoded.stderr);
    }
    let left: Vec<_> = open.difference(&kept).collect();
    assert_eq!(left, ["6581-10-7", "7306-1.1-4"]);
}

/// The changes that a saboteur makes to the server's octets, and the requirements that the judge has to find broken.
const SABOTAGES: [(&str, Sabotage, &[&str]); 22] = [
    (
        "a reserved bit in the Reply",
        Sabotage::Reply(|reply| reply[16] |= 0x01),
        &["5044-7.1.1-14", "6581-6-2"],
    ),
    ("revision 3 in the Reply", Sabotage::Reply(|reply| reply[17] = 3), &["5044-7.1.1-16"]),
    ("Replies without S", Sabotage::Reply(|reply| reply[16] &= !0x10), &["6581-10-1"]),
    (
        "the peer-to-peer bit turned round",
        Sabotage::Reply(|reply| turn(reply, 20, 0x80)),
        &["6581-9.2-4", "6581-9.2-13"],
    ),
    (
        "a CRC with a wrong bit",
        Sabotage::Fpdu(|fpdu| *fpdu.last_mut().unwrap() ^= 1),
        &["5044-4.4-13", "5044-4.4-17"],
    ),
    ("a CRC in the other octet order", Sabotage::Fpdu(|fpdu| swap_crc(fpdu)), &["5044-4.4-13"]),
    ("reserved bits of DDP", Sabotage::Ulpdu(|ulpdu| ulpdu[0] |= 0x3C), &["5041-4.1-8"]),
    ("DDP version 2", Sabotage::Ulpdu(|ulpdu| ulpdu[0] = ulpdu[0] & !0x03 | 2), &["5041-4.1-10"]),
    ("no segment is the last one", Sabotage::Ulpdu(|ulpdu| ulpdu[0] &= !0x40), &["5041-4.1-3"]),
    ("every segment is the last one", Sabotage::Ulpdu(|ulpdu| ulpdu[0] |= 0x40), &["5041-4.1-4"]),
    ("RDMAP version 0", Sabotage::Ulpdu(|ulpdu| ulpdu[1] &= 0x3F), &["5040-4.1-8"]),
    ("reserved bits of RDMAP", Sabotage::Ulpdu(|ulpdu| ulpdu[1] |= 0x30), &["5040-4.1-10"]),
    ("an STag to invalidate in every message", Sabotage::Ulpdu(|ulpdu| untagged(ulpdu, 5)), &["5040-4.1-12"]),
    (
        "Terminates on the queue of Sends",
        Sabotage::Ulpdu(|ulpdu| terminate(ulpdu, |ulpdu| ulpdu[9] = 0)),
        &["5040-5.4-2"],
    ),
    ("MSNs from 2 on", Sabotage::Ulpdu(|ulpdu| untagged(ulpdu, 13)), &["5041-4.3-9"]),
    ("offsets from 1 on", Sabotage::Ulpdu(|ulpdu| untagged(ulpdu, 17)), &["5041-4.3-13"]),
    (
        "Terminates in the bit order of siw",
        Sabotage::Ulpdu(|ulpdu| terminate(ulpdu, |ulpdu| ulpdu[18] = ulpdu[18].rotate_left(4))),
        &["5041-7.2-1", "5040-4.8-3"],
    ),
    (
        "M, D and R in the low bits",
        Sabotage::Ulpdu(|ulpdu| terminate(ulpdu, low_bits)),
        &["5040-4.8-4", "5040-4.8-5", "5040-4.8-7"],
    ),
    (
        "another DDP Segment Length",
        Sabotage::Ulpdu(|ulpdu| terminate(ulpdu, |ulpdu| ulpdu[23] ^= 8)),
        &["5040-4.8-9"],
    ),
    (
        "Read Responses with another STag",
        Sabotage::Ulpdu(|ulpdu| of_opcode(ulpdu, 2, |ulpdu| ulpdu[5] ^= 1)),
        &["5040-4.4-2"],
    ),
    (
        "Read Responses at another offset",
        Sabotage::Ulpdu(|ulpdu| of_opcode(ulpdu, 2, |ulpdu| ulpdu[13] ^= 1)),
        &["5040-4.4-3"],
    ),
    (
        "Writes with another octet",
        Sabotage::Ulpdu(|ulpdu| of_opcode(ulpdu, 0, |ulpdu| *ulpdu.last_mut().unwrap() ^= 1)),
        &["5041-5.2-3"],
    ),
];

fn turn(octets: &mut [u8], at: usize, bit: u8) {
    if let Some(octet) = octets.get_mut(at) {
        *octet ^= bit;
    }
}

fn swap_crc(fpdu: &mut [u8]) {
    let at = fpdu.len() - 4;
    fpdu[at..].reverse();
}

/// Adds one to an octet of every untagged segment.
fn untagged(ulpdu: &mut [u8], at: usize) {
    if ulpdu[0] & 0x80 == 0 {
        ulpdu[at] = ulpdu[at].wrapping_add(1);
    }
}

fn of_opcode(ulpdu: &mut [u8], opcode: u8, change: impl Fn(&mut [u8])) {
    if ulpdu[1] & 0x0F == opcode {
        change(ulpdu);
    }
}

fn terminate(ulpdu: &mut [u8], change: impl Fn(&mut [u8])) {
    // A Terminate without headers has no length to be changed.
    if ulpdu.len() > 23 {
        of_opcode(ulpdu, 7, change);
    }
}

fn low_bits(ulpdu: &mut [u8]) {
    ulpdu[20] = ulpdu[20].reverse_bits();
}

/// A saboteur between the tester and our server changes octets. The judge has to find each change.
#[test]
fn every_sabotage_is_found() {
    let folder = Folder::new();
    for (number, (what, sabotage, ids)) in SABOTAGES.into_iter().enumerate() {
        let wire = folder.0.join(number.to_string());
        let _server =
            Process::weft(&format!("rping -s -P --netif unix-listen:{} --ip 10.0.0.1/24", wire.display()));
        await_socket(wire.to_str().unwrap());
        let address = relay(&wire, "10.0.0.1:7174".parse().unwrap(), sabotage);
        let done = conform(address, &format!("--json --only {}", ids.join(" ")));
        assert_eq!((done.status, done.stderr.len()), (1, 0), "{what}: {done:?}");
        let report: Value = serde_json::from_str(&done.stdout.concat()).unwrap();
        for id in ids {
            let row = report["results"].as_array().unwrap().iter().find(|row| row["id"] == *id).unwrap();
            assert_eq!(row["verdict"], "fail", "{what}: {row}");
        }
    }
}
