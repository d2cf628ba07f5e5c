//! `weft rping`: two processes on one Unix socket.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;
use weft_netif::Wire;
use weft_rnic::{Access, CmEvent, Config, ConnParam, Device, QpInit, RecvWr};

use crate::process::{Finished, PATIENCE, Process, path_in, run};
use crate::support::Folder;

/// The two ends of a wire.
pub(crate) struct Ends {
    /// `--netif` and `--ip` of the server.
    pub(crate) server: String,
    /// `--netif`, `--ip` and `-a` of the client.
    pub(crate) client: String,
    /// The folder of the Unix socket and of captures.
    pub(crate) folder: Folder,
}

impl Ends {
    pub(crate) fn start_server(&self, flags: &str) -> Process {
        Process::weft(&format!("rping -s {} {flags}", self.server))
    }

    pub(crate) fn start_client(&self, flags: &str) -> Process {
        Process::weft(&format!("rping -c {} {flags}", self.client))
    }

    /// Pings in this size, and compares the output of both sides with the ping.
    pub(crate) fn exchange(&self, size: usize) {
        let server = self.start_server("-v");
        let client = self.start_client(&format!("-v -C {PINGS} -S {size}"));
        check_pings(&client.finish(), &server.finish(), size);
    }
}

/// Returns a server that listens on the Unix socket and a client that connects, or the other way round.
fn unix(server_listens: bool, version: u8) -> Ends {
    let folder = Folder::new();
    let wire = path_in(&folder, "wire");
    let (server, client) = if server_listens { ("unix-listen", "unix") } else { ("unix", "unix-listen") };
    let [server_ip, client_ip, address] = if version == 4 {
        ["10.0.0.1/24", "10.0.0.2/24", "10.0.0.1"]
    } else {
        ["fd00::1/64", "fd00::2/64", "fd00::1"]
    };
    Ends {
        server: format!("--netif {server}:{wire} --ip {server_ip}"),
        client: format!("--netif {client}:{wire} --ip {client_ip} -a {address}"),
        folder,
    }
}

/// Returns the text of a ping of rdma-core's rping: a name, letters that begin one later each time, a zero at the end.
fn ping(index: usize, size: usize) -> String {
    let name = format!("rdma-ping-{index}: ");
    let letters = (b'A'..=b'z').cycle().skip(index).map(char::from);
    name.chars().chain(letters).take(size - 1).collect()
}

pub(crate) fn check_pings(client: &Finished, server: &Finished, size: usize) {
    assert_eq!((client.status, server.status), (0, 0), "{size}: {:?} {:?}", client.stderr, server.stderr);
    assert!(client.stderr.is_empty() && server.stderr.is_empty(), "{:?} {:?}", client.stderr, server.stderr);
    let mut expected: Vec<_> = (0..PINGS).map(|index| format!("ping data: {}", ping(index, size))).collect();
    let served: Vec<_> = expected.iter().map(|line| format!("server {line}")).collect();
    expected.push(format!("{PINGS} pings of {size} octets, every octet came back"));
    assert_eq!(client.stdout, expected, "{size}");
    assert_eq!(server.stdout[..PINGS], served, "{size}");
    assert!(
        server.stdout[PINGS].ends_with(&format!(" was served {PINGS} pings")),
        "{:?}",
        server.stdout.last()
    );
}

/// Waits until the server has its end of the wire.
pub(crate) fn await_socket(path: &str) {
    let start = UNIX_EPOCH.elapsed().unwrap();
    while !std::path::Path::new(path).exists() {
        assert!(UNIX_EPOCH.elapsed().unwrap() - start < PATIENCE, "nobody listens at {path}");
        std::thread::yield_now();
    }
}

#[test]
fn every_size_over_ipv4_and_ipv6() {
    for version in [4, 6] {
        for size in SIZES {
            unix(true, version).exchange(size);
        }
    }
}

#[test]
fn either_side_may_start_first() {
    for server_listens in [true, false] {
        let ends = unix(server_listens, 4);
        ends.exchange(64);
        let client = ends.start_client(&format!("-v -C {PINGS}"));
        if !server_listens {
            await_socket(&path_in(&ends.folder, "wire"));
        }
        let server = ends.start_server("-v");
        check_pings(&client.finish(), &server.finish(), 64);
    }
}

#[test]
fn each_kind_of_start_and_framing() {
    for (server_flags, client_flags) in [
        ("", "--no-p2p"),
        ("--markers", ""),
        ("", "--markers"),
        ("--markers --no-crc", "--markers --no-crc"),
        ("--mtu 9000", "--mtu 9000"),
        ("-p 1", "-p 1"),
    ] {
        let ends = unix(true, 4);
        let server = ends.start_server(&format!("-v {server_flags}"));
        let client = ends.start_client(&format!("-v -C {PINGS} -S 5000 {client_flags}"));
        check_pings(&client.finish(), &server.finish(), 5000);
    }
}

#[test]
fn results_as_json() {
    let ends = unix(true, 4);
    let server = ends.start_server("--json");
    let client = ends.start_client("--json -C 5 -S 100").finish();
    let server = server.finish();
    let object = |done: &Finished| serde_json::from_str::<Value>(&done.stdout.join("\n")).unwrap();
    assert_eq!(object(&client), serde_json::json!({ "pings": 5, "size": 100, "ok": true }));
    let served = object(&server);
    assert_eq!((&served["pings"], &served["ok"]), (&5.into(), &true.into()));
    assert!(served["peer"].as_str().unwrap().starts_with("10.0.0.2:"), "{served}");
}

#[test]
fn a_persistent_server_serves_one_client_after_the_other() {
    let ends = unix(true, 4);
    let server = ends.start_server("-P --timeout 1");
    for pings in [1, 3] {
        let client = ends.start_client(&format!("-C {pings}")).finish();
        assert_eq!((client.status, client.stderr.len()), (0, 0), "{client:?}");
        let line = server.line();
        assert!(
            line.starts_with("10.0.0.2:") && line.ends_with(&format!(" was served {pings} pings")),
            "{line}"
        );
    }
    // The server prints a line about a client that vanishes, and serves the next one.
    let mut client = ends.start_client("-v");
    assert!(client.line().starts_with("ping data: "));
    client.kill();
    assert!(is_lost(&server.complaint()));
    let client = ends.start_client("-C 2").finish();
    assert_eq!((client.status, client.stderr.len()), (0, 0), "{client:?}");
    assert!(server.line().ends_with(" was served 2 pings"));
}

/// Returns the counts of the frames in an rping's capture, by kind.
fn kinds(pcap: &str) -> String {
    let done = run(&format!("decode --json {pcap}"));
    assert_eq!((done.status, done.stderr.len()), (0, 0), "{:?}", done.stderr);
    let mut counts = std::collections::BTreeMap::<String, u32>::new();
    for line in done.stdout {
        let object: Value = serde_json::from_str(&line).unwrap();
        let text = |key: &str| object[key].as_str().unwrap().to_owned();
        *counts.entry(format!("{} {}", text("kind"), text("crc"))).or_default() += 1;
    }
    counts.iter().map(|(key, count)| format!("{key} {count}")).collect::<Vec<_>>().join(", ")
}

#[test]
fn captures_show_the_protocol() {
    for (flags, crc, writes) in [("", "good", 5), ("--no-p2p", "good", 4), ("--no-crc", "off", 5)] {
        let ends = unix(true, 4);
        let [ours, theirs] = ["c", "s"].map(|name| path_in(&ends.folder, name));
        let begin = UNIX_EPOCH.elapsed().unwrap();
        let server_flags = flags.replace("--no-p2p", "");
        let server = ends.start_server(&format!("{server_flags} --pcap {theirs}"));
        let client = ends.start_client(&format!("{flags} -C 4 --pcap {ours}")).finish();
        assert_eq!((client.status, server.finish().status), (0, 0), "{client:?}");
        let end = UNIX_EPOCH.elapsed().unwrap();
        // Each ping is four Sends, a Read and a Write; the peer-to-peer start is an empty Write before them all.
        let expected = format!(
            "mpa-reply off 1, mpa-request off 1, read-request {crc} 4, read-response {crc} 4, send {crc} 16, \
             write {crc} {writes}"
        );
        assert_eq!(kinds(&ours), expected, "{flags}");
        assert_eq!(kinds(&theirs), expected, "{flags}");
        let first = run(&format!("decode --json {ours}")).stdout;
        let first: Value = serde_json::from_str(&first[0]).unwrap();
        let stamp = Duration::from_secs_f64(first["time"].as_f64().unwrap());
        let rounding = Duration::from_micros(2);
        assert!(begin <= stamp + rounding && stamp <= end + rounding, "{begin:?} {stamp:?} {end:?}");
    }
}

#[test]
fn a_server_that_is_killed_leaves_a_whole_capture() {
    let ends = unix(true, 4);
    let pcap = path_in(&ends.folder, "s");
    let mut server = ends.start_server(&format!("-P --pcap {pcap}"));
    assert_eq!(ends.start_client("-C 2").finish().status, 0);
    assert!(server.line().ends_with("was served 2 pings"));
    server.kill();
    assert_eq!(server.finish().status, -1);
    assert!(kinds(&pcap).contains("read-request good 2"), "{}", kinds(&pcap));
}

/// Returns the line of a failed client, without the name of the command.
fn failure(client: &Finished) -> &str {
    assert_eq!((client.status, client.stderr.len()), (1, 1), "{client:?}");
    client.stderr[0].strip_prefix("weft rping: ").unwrap()
}

#[test]
fn a_port_where_nobody_listens() {
    let ends = unix(true, 4);
    let _server = ends.start_server("-p 9");
    let client = ends.start_client("-C 1").finish();
    assert_eq!(failure(&client), "10.0.0.1:7174: nobody listens there");
}

#[test]
fn an_address_that_nobody_has() {
    let ends = unix(true, 4);
    let _server = ends.start_server("");
    let client = Ends { client: ends.client.replace("-a 10.0.0.1", "-a 10.0.0.77"), ..ends };
    let client = client.start_client("-C 1 --timeout 1").finish();
    assert!(failure(&client).starts_with("10.0.0.77:7174: the peer "), "{client:?}");
}

#[test]
fn a_wire_where_nobody_is() {
    let ends = unix(true, 4);
    let client = ends.start_client("-C 1 --timeout 1").finish();
    let wire = path_in(&ends.folder, "wire");
    let expected =
        format!("unix:{wire}: nobody has listened there for 1 s; the other side needs unix-listen:{wire}");
    assert_eq!(failure(&client), expected);
}

#[test]
fn a_server_that_vanishes() {
    let ends = unix(true, 4);
    let mut server = ends.start_server("-v");
    let client = ends.start_client("-v --timeout 1");
    for index in 0..3 {
        assert_eq!(client.line(), format!("ping data: {}", ping(index, 64)));
    }
    server.kill();
    assert_eq!(failure(&client.finish()), "the TCP connection was lost");
}

#[test]
fn a_client_that_vanishes() {
    let ends = unix(true, 4);
    let server = ends.start_server("--timeout 1");
    let mut client = ends.start_client("-v");
    assert!(client.line().starts_with("ping data: "));
    client.kill();
    let server = server.finish();
    assert!(server.status == 1 && server.stderr.len() == 1 && is_lost(&server.stderr[0]), "{server:?}");
}

/// Returns true if a server says of a client of these tests that its connection was lost.
fn is_lost(complaint: &str) -> bool {
    complaint.starts_with("weft rping: 10.0.0.2:") && complaint.ends_with(": the TCP connection was lost")
}

#[test]
fn a_server_whose_reader_goes_away_tells_its_client() {
    let ends = unix(true, 4);
    let (reader, writer) = std::io::pipe().unwrap();
    let mut server = crate::process::weft();
    let words = format!("rping -s -v {}", ends.server);
    let mut server = server.args(words.split_whitespace()).stdout(writer).spawn().unwrap();
    drop(reader);
    // The client would wait for an hour if the server did not close the connection.
    let client = ends.start_client("--timeout 3600").finish();
    assert_eq!(server.wait().unwrap().code(), Some(0), "nobody's fault");
    assert_eq!(failure(&client), "the TCP connection was lost");
}

/// Linux siw may leave octets right behind its Reply unread until more octets come.
#[test]
fn a_server_without_a_first_message_is_nudged() {
    let ends = unix(true, 4);
    let spec = format!("unix-listen:{}", path_in(&ends.folder, "wire"));
    let wire = Wire::open(&spec.parse().unwrap(), 1500).unwrap();
    let device = Device::open(wire, Config::new("10.0.0.1/24".parse().unwrap(), 1)).unwrap();
    let events = device.create_event_channel().unwrap();
    let _listener = device.listen(&events, 7174).unwrap();
    let client = ends.start_client("--no-p2p");
    let Some(CmEvent::ConnectRequest(request)) = events.wait(Some(PATIENCE)) else { panic!("no request") };
    let pd = device.alloc_pd();
    let cq = device.create_cq(4, None).unwrap();
    let init = QpInit { signal_all: true, ..QpInit::new(&cq, &cq) };
    let qp = device.create_qp(&pd, &init).unwrap();
    let inbox = pd.register(16, Access::LOCAL_WRITE).unwrap();
    qp.post_recv(&RecvWr { wr_id: 0, sges: &[inbox.sge(0, 16)] }).unwrap();
    device.accept(request.id, &qp, ConnParam::default()).unwrap();
    let start = UNIX_EPOCH.elapsed().unwrap();
    let write = |device: &Device| device.counters().received.by_opcode[0];
    while write(&device) == 0 {
        assert!(UNIX_EPOCH.elapsed().unwrap() - start < PATIENCE, "{:?}", device.counters());
        events.wait(Some(Duration::from_millis(10)));
    }
    qp.disconnect().unwrap();
    while events.wait(Some(Duration::from_millis(200))).is_some() {}
    assert_eq!(failure(&client.finish()), "the server disconnected after 0 pings");
}

pub(crate) const SIZES: [usize; 5] = [1, 64, 1460, 65_535, 1 << 20];
pub(crate) const PINGS: usize = 3;
