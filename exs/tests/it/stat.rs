//! What `weft stat exs` is told.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde_json::{Value, json};
use weft_exs::{Messages, Options, Plain, Stream, stat_section};
use weft_stat::Server;

use crate::world::{LOCAL, PATIENCE, World};

/// A server for the client's context, in a folder of its own.
struct Told {
    _server: Server,
    folder: PathBuf,
}

impl Told {
    fn new(world: &World, name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("weft-exs-stat-{}-{name}", std::process::id()));
        let watcher = world.client.watcher();
        let server = Server::start(&folder, vec![stat_section(move || Some(watcher.clone()))]).unwrap();
        Self { _server: server, folder }
    }

    fn ask(&self) -> Value {
        let socket = std::fs::read_dir(&self.folder).unwrap().next().unwrap().unwrap().path();
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.write_all(b"exs\n").unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let _left = std::fs::remove_dir_all(&self.folder);
    }
}

fn some(value: &Value, names: &[&str]) -> Value {
    names.iter().map(|name| value[name].clone()).collect()
}

#[test]
fn sockets_are_told_with_their_counters_and_sums_outlive_them() {
    let world = World::new();
    let told = Told::new(&world, "messages");
    let options = Options { recv_credits: 2, ..Options::default() };
    let (ours, theirs) = world.connect::<Messages>(&options, &options);
    let sends: Vec<_> = [5000, 300, 1].map(|len| ours.send(world.client.buffer(5000).unwrap(), ..len)).into();
    // The receiver takes two messages at a time, so that the third one waits.
    let asked = told.ask();
    let socket = &asked["exs"][0];
    assert_eq!(some(socket, &["type", "state", "sends", "receives"]), json!(["message", "open", 3, 0]));
    assert_eq!(some(socket, &["credits_used", "credits", "ring", "adverts"]), json!([2, 2, null, null]));
    let ends = ours.addresses().unwrap().map(|end| end.to_string());
    assert_eq!(some(socket, &["local", "peer"]), json!(ends));
    let qps = world.client.device().qps();
    assert_eq!(socket["qp_num"], qps[0].qp_num);
    for _ in 0..3 {
        let receiving = theirs.recv(world.server.buffer(5000).unwrap(), ..);
        assert!(receiving.wait_timeout(PATIENCE).unwrap().0.is_ok());
    }
    assert!(sends.into_iter().all(|op| op.wait_timeout(PATIENCE).unwrap().0.is_ok()));
    let sent = ["sent", "sent_direct", "sent_inline", "sent_ring", "sent_direct_percent", "received"];
    let asked = told.ask();
    assert_eq!(some(&asked["exs"][0], &sent), json!([5301, 5000, 301, 0, 94, 0]));
    assert_eq!(some(&asked["exs"][0], &["received_direct_percent", "sends"]), json!([null, 0]));
    assert_eq!(asked["exs"][0]["advert_stalls"], ours.stats().advert_stalls);

    let plain = Options { plain: Plain::Always, ..Options::default() };
    let listener = world.server.listen::<Stream>(SocketAddr::new(LOCAL, 0), &plain).unwrap();
    let (accepting, connecting) =
        (listener.accept(), world.client.connect::<Stream>(listener.local_addr(), &plain));
    let (theirs_too, other) = (accepting.wait().unwrap(), connecting.wait().unwrap());
    let receiving = other.recv_all(world.client.buffer(70).unwrap(), ..);
    assert!(theirs_too.send(world.server.buffer(70).unwrap(), ..).wait().0.is_ok());
    assert!(receiving.wait_timeout(PATIENCE).unwrap().0.is_ok());
    let asked = told.ask();
    let socket = &asked["exs"][1];
    assert_eq!(
        some(socket, &["type", "received", "received_plain", "qp_num", "window"]),
        json!(["stream", 70, 70, null, null])
    );

    theirs.shutdown();
    ours.close().wait_timeout(PATIENCE).unwrap().unwrap();
    drop((ours, theirs));
    while world.client.sockets() > 1 {
        std::thread::yield_now();
    }
    let asked = told.ask();
    assert_eq!(asked["exs"].as_array().unwrap().len(), 1);
    assert_eq!(some(&asked["sums"], &["sent", "sent_direct", "received"]), json!([5301, 5000, 70]));
}

#[test]
fn a_stream_tells_of_the_ring_and_adverts_of_its_peer() {
    let world = World::new();
    let told = Told::new(&world, "stream");
    let options = Options { ring: 8192, adverts: 4, small_packet_max: 0, ..Options::default() };
    let (ours, theirs) = world.connect::<Stream>(&options, &options);
    // Nothing is received yet: it goes into the ring.
    assert!(ours.send(world.client.buffer(1000).unwrap(), ..).wait_timeout(PATIENCE).unwrap().0.is_ok());
    let asked = told.ask();
    assert_eq!(
        some(&asked["exs"][0], &["ring_used", "ring", "adverts_unused", "adverts", "credits", "sent_ring"]),
        json!([1000, 8192, 0, 4, null, 1000])
    );
    // A receive that takes all of it, and two that wait for more.
    let first = theirs.recv_all(world.server.buffer(1000).unwrap(), ..);
    assert!(first.wait_timeout(PATIENCE).unwrap().0.is_ok());
    let _more = [1, 2].map(|_| theirs.recv_all(world.server.buffer(1000).unwrap(), ..));
    while told.ask()["exs"][0]["adverts_unused"] != 2 {
        std::thread::yield_now();
    }
}
