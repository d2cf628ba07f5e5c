//! The lists of a device's objects, and the socket on which they are served.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use weft_rnic::{
    Access, Config, Data, Device, MemoryKind, QpCapacity, QpInit, QpState, RecvWr, SendWr, SrqInit,
    WindowType,
};
use weft_stat::{Server, device_sections};
use weft_tests::{PORT, Pair, PairConfig};

use crate::world::{WR, connected, end_of_b, post_recv};

#[test]
fn queue_pairs_and_their_connections() {
    let mut pair = connected();
    let sink = pair.a.memory(64);
    for wr_id in 0..3 {
        post_recv(&pair.a.qp, wr_id, &[sink.sge(0, 64)]);
    }
    let [a, b] = [&pair.a.device, &pair.b.device];
    let [qp, peer] = [a.qps()[0], b.qps()[0]];
    assert_eq!((qp.qp_num, qp.state, qp.pd), (pair.a.qp.number(), QpState::Rts, 1));
    assert_eq!((qp.send, qp.recv), ([0, 128], [3, 128]));
    assert_eq!((qp.send_cq, qp.recv_cq), (1, 1));
    assert_eq!((qp.peer, peer.local), (Some(b.address(PORT)), Some(b.address(PORT))));
    assert_eq!((qp.local, peer.peer), (peer.peer, qp.local));
    let [ours, theirs] = [a.connections()[0], b.connections()[0]];
    assert_eq!((ours.phase, ours.is_active, ours.qp_num), ("established", true, Some(qp.qp_num)));
    assert_eq!((theirs.phase, theirs.is_active, theirs.local), ("established", false, Some(b.address(PORT))));
    assert!(a.listeners().is_empty());
    let listener = b.listeners()[0];
    assert_eq!((listener.address.port(), listener.is_streaming, listener.unanswered), (PORT, false, 0));

    let before = a.qps()[0].counters;
    pair.b.qp.post_send(&SendWr { data: Data::Inline(b"fourteen octet"), ..WR }).unwrap();
    pair.completion_of_a();
    let after = pair.a.device.qps()[0];
    let received = after.counters.octets_received - before.octets_received;
    assert_eq!((received, after.counters.messages_received - before.messages_received), (14, 1));
    assert_eq!(after.recv, [2, 128]);
    pair.a.qp.disconnect().unwrap();
    end_of_b(&mut pair);
    pair.settle(weft_netif::Duration::from_secs(60));
    let ended = pair.b.device.qps()[0];
    assert_eq!((ended.state, ended.local, ended.peer), (QpState::Error, None, None));
    assert!(pair.b.device.connections().is_empty());
}

#[test]
fn completion_queues() {
    let mut pair = Pair::connected(&PairConfig { peer_to_peer: true, ..PairConfig::default() });
    let channel = pair.a.device.create_comp_channel().unwrap();
    let small = pair.a.device.create_cq(2, Some(&channel)).unwrap();
    let listed = |pair: &Pair| *pair.a.device.cqs().last().unwrap();
    let fresh = listed(&pair);
    assert_eq!((fresh.cq, fresh.used, fresh.entries, fresh.armed), (2, 0, 2, None));
    assert!(fresh.has_channel && !fresh.is_overrun);
    small.request_notification(true);
    assert_eq!(listed(&pair).armed, Some(true));
    small.request_notification(false);
    assert_eq!(listed(&pair).armed, Some(false));
    let init = QpInit::new(&small, &small);
    let qp = pair.a.device.create_qp(&pair.a.pd, &init).unwrap();
    let peer = pair.b.device.create_qp(&pair.b.pd, &QpInit::new(&pair.b.cq, &pair.b.cq)).unwrap();
    crate::world::link_simply(&mut pair, &qp, &peer);
    let sink = pair.b.memory(8);
    let write = SendWr { opcode: crate::world::write_to(&sink, 0), data: Data::Inline(b"octets"), ..WR };
    qp.post_send(&write).unwrap();
    pair.settle(weft_netif::Duration::from_secs(1));
    let one = listed(&pair);
    assert_eq!((one.used, one.armed, one.counters.events, one.counters.completions), (1, None, 1, 1));
    qp.post_sends(&[write, write]).unwrap();
    pair.settle(weft_netif::Duration::from_secs(1));
    let over = listed(&pair);
    assert_eq!((over.used, over.is_overrun, over.counters.overruns), (2, true, 1));
    assert_eq!(pair.a.device.counters().verbs.cq_overruns, 1);
    drop((qp, small));
    assert_eq!(pair.a.device.cqs().len(), 1);
    assert_eq!(pair.a.device.counters().verbs.cq_overruns, 1, "that was done all the same");
}

#[test]
fn shared_receive_queues() {
    let pair = connected();
    let srq = pair.a.pd.create_srq(&SrqInit { max_wr: 4, max_sge: 1, limit: 2 }).unwrap();
    let init = QpInit { srq: Some(&srq), ..QpInit::new(&pair.a.cq, &pair.a.cq) };
    let qp = pair.a.device.create_qp(&pair.a.pd, &init).unwrap();
    srq.post_recv(&RecvWr { wr_id: 1, sges: &[] }).unwrap();
    let listed =
        || pair.a.device.srqs().iter().map(|it| (it.srq, it.recv, it.limit, it.qps)).collect::<Vec<_>>();
    assert_eq!(listed(), [(1, [1, 4], 2, 1)]);
    assert_eq!(pair.a.device.qps().iter().map(|qp| qp.srq).collect::<Vec<_>>(), [None, Some(1)]);
    let (srq, _busy) = srq.destroy().unwrap_err();
    drop(qp);
    assert_eq!(listed(), [(1, [1, 4], 2, 0)]);
    assert!(srq.destroy().is_ok());
    assert_eq!(listed(), []);
}

#[test]
fn memory_and_domains() {
    let pair = connected();
    let pd = pair.a.device.alloc_pd();
    let own = pair.a.own_memory(100);
    let region = pd.register(4096, Access::ALL | Access::MW_BIND).unwrap();
    let window = pd.alloc_mw(WindowType::Type1).unwrap();
    let mrs = pair.a.device.mrs();
    assert_eq!(mrs.len(), 3);
    let of = |stag| *mrs.iter().find(|info| info.memory.stag == stag).unwrap();
    let listed = of(own.rkey());
    assert_eq!((listed.memory.len, listed.qp_num, listed.memory.pd.0), (100, Some(pair.a.qp.number()), 1));
    let listed = of(region.rkey());
    assert_eq!((listed.memory.kind, listed.memory.len, listed.qp_num), (MemoryKind::Region, 4096, None));
    assert_eq!((listed.memory.iova, listed.memory.is_valid), (region.addr(), true));
    assert_eq!(listed.memory.access, Access::ALL | Access::MW_BIND);
    let unbound = mrs.iter().find(|info| info.memory.kind == MemoryKind::Window(WindowType::Type1)).unwrap();
    assert_eq!((unbound.memory.is_valid, unbound.memory.len, unbound.memory.pd.0), (false, 0, 2));
    let pds = || pair.a.device.pds().iter().map(|info| (info.pd, info.qps, info.mrs)).collect::<Vec<_>>();
    assert_eq!(pds(), [(1, 1, 1), (2, 0, 2)]);
    own.invalidate();
    assert!(!pair.a.device.mrs().iter().any(|info| info.memory.stag == own.rkey() && info.memory.is_valid));
    drop((region, window));
    assert_eq!(pds(), [(1, 1, 1), (2, 0, 0)]);
    drop(pd);
    assert_eq!(pds(), [(1, 1, 1)]);
}

/// A device that serves its state, in a folder of its own.
struct Told {
    server: Server,
    device: Device,
    folder: Folder,
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

impl Told {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("weft-told-{}-{name}", std::process::id()));
        let _not_there = std::fs::remove_dir_all(&folder);
        let (wire, _peer) = weft_netif::pair(1500);
        let device = Device::open(wire, Config::new("10.0.0.1/24".parse().unwrap(), 1)).unwrap();
        let server = Server::start(&folder, device_sections(&device.watcher())).unwrap();
        Self { server, device, folder: Folder(folder) }
    }

    fn socket(&self) -> PathBuf {
        std::fs::read_dir(&self.folder.0).unwrap().next().unwrap().unwrap().path()
    }
}

fn ask(socket: &Path, request: &str) -> serde_json::Value {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(format!("{request}\n").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.ends_with('\n') && text.lines().count() == 1, "{text:?}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn one_line_asks_and_one_line_answers() {
    let told = Told::new("asks");
    let socket = told.socket();
    let cq = told.device.create_cq(16, None).unwrap();
    let pd = told.device.alloc_pd();
    let _qp = told.device.create_qp(&pd, &QpInit::new(&cq, &cq)).unwrap();
    let memory = pd.register(64, Access::ALL).unwrap();
    let counters = ask(&socket, "counters");
    assert_eq!((&counters["weft_stat"], &counters["pid"]), (&1.into(), &std::process::id().into()));
    let names = counters["counters"].as_object().unwrap();
    assert!(told.device.counters().list().iter().all(|(name, _)| names.contains_key(name)));
    assert_eq!(ask(&socket, "qp")["qp"][0]["state"], "IDLE");
    assert_eq!(ask(&socket, "cq")["cq"][0]["entries"], 16);
    assert_eq!(ask(&socket, "pd")["pd"][0]["mrs"], 1);
    let [secret, open] = ["mr", "mr stags"].map(|request| ask(&socket, request)["mr"][0].clone());
    assert_eq!((&secret["len"], secret.get("stag"), secret.get("iova")), (&64.into(), None, None));
    assert_eq!(open["stag"], memory.rkey().to_string());
    for empty in ["cm", "listener", "srq"] {
        assert_eq!(ask(&socket, empty)[empty].as_array().map(Vec::len), Some(0), "{empty}");
    }
    assert_eq!(ask(&socket, "device")["address"], "10.0.0.1");
    assert!(
        ask(&socket, "secrets")["error"].as_str().unwrap().contains("no `secrets`, but device, counters")
    );
}

#[test]
fn a_bad_client_does_not_delay_others() {
    let told = Told::new("bad");
    let socket = told.socket();
    let cq = told.device.create_cq(16, None).unwrap();
    let pd = told.device.alloc_pd();
    let capacity = QpCapacity { send_wr: 1, recv_wr: 1, send_sge: 1, recv_sge: 1, inline: 0 };
    let init = QpInit { capacity, ..QpInit::new(&cq, &cq) };
    // So many queue pairs make an answer that exceeds any socket buffer.
    let qps: Vec<_> = (0..2000).map(|_| told.device.create_qp(&pd, &init).unwrap()).collect();
    let connect = || UnixStream::connect(&socket).unwrap();
    let mut kept = Vec::new();
    let mut speak = |octets: &[u8]| {
        let mut stream = connect();
        // The server may have closed the connection before the end.
        let _cut_off = stream.write_all(octets);
        kept.push(stream);
    };
    speak(b"qp\n");
    speak(b"half a li");
    speak(b"");
    speak(&[0xFF; 1 << 16]);
    speak(b"\xC3\x28\n");
    speak(b"\n\n\n\n\n");
    drop(connect());
    connect().shutdown(Shutdown::Both).unwrap();
    assert_eq!(ask(&socket, "qp")["qp"].as_array().map(Vec::len), Some(2000));
    for _ in 0..100 {
        kept.push(connect());
    }
    assert_eq!(ask(&socket, "device")["qps"], 2000, "a hundred silent ones are in nobody's way");
    let mut late = kept.pop().unwrap();
    late.write_all(b"device\n").unwrap();
    let mut text = String::new();
    late.read_to_string(&mut text).unwrap();
    assert!(text.contains("2000"), "the last ones are still heard: {text:?}");
    let Told { server, device, folder } = told;
    drop((qps, cq, pd, device));
    assert_eq!(ask(&socket, "device")["error"], "the device is closed", "the server keeps no device");
    drop(server);
    assert!(!socket.exists(), "nobody who is still connected keeps the socket");
    std::fs::remove_dir(&folder.0).unwrap();
}

#[test]
fn an_impossible_folder_is_an_error_when_the_server_starts() {
    let error = Server::start(Path::new("/proc/nowhere/weft"), Vec::new()).unwrap_err();
    assert!(error.to_string().starts_with("statistics cannot be served at /proc/nowhere/weft: "), "{error}");
}
