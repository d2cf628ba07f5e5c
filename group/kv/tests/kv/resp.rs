//! Clients of the server: a scripted one, and those of Redis.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command as Process;
use std::thread::JoinHandle;
use std::time::Duration;

use weft_group::{Limits, Mirror, Options, SessionError, Topology};
use weft_group_kv::{Server, Stopper, Store, StoreError};
use weft_rnic::Region;

use crate::hosts::{Group, eventually};
use crate::memory::Memory;

/// A server on a thread.
struct Serving {
    address: SocketAddr,
    stopper: Stopper,
    thread: JoinHandle<Result<(), StoreError>>,
}

impl Serving {
    fn start<G: weft_group::Group + core::fmt::Debug + Send + 'static>(group: G) -> Self {
        let server = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let (address, stopper) = (server.address(), server.stopper());
        let mut store = Store::open(Mirror::open(group).unwrap()).unwrap();
        Self { address, stopper, thread: std::thread::spawn(move || server.run(&mut store)) }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    fn stop(self) {
        self.stopper.stop().unwrap();
        self.thread.join().unwrap().unwrap();
    }
}

fn ask(stream: &mut TcpStream, octets: &[u8], expected: &str) {
    stream.write_all(octets).unwrap();
    let mut answer = vec![0; expected.len()];
    let read = stream.read_exact(&mut answer);
    let found = String::from_utf8_lossy(&answer).into_owned();
    let start = |text: &str| text.chars().take(200).collect::<String>();
    let asked = octets.escape_ascii().to_string();
    assert!(read.is_ok() && found == expected, "{:?}: {:?}", start(&asked), start(&found));
}

#[test]
fn a_scripted_client_gets_its_answers() {
    let serving = Serving::start(Memory::new(8 << 20));
    let mut stream = serving.connect();
    let script: [(&[u8], &str); 14] = [
        (b"*1\r\n$4\r\nPING\r\n", "+PONG\r\n"),
        (b"PING\r\n", "+PONG\r\n"),
        (b"SET a 1\r\nGET a\r\nGET b\r\n", "+OK\r\n$1\r\n1\r\n$-1\r\n"),
        (b"*3\r\n$3\r\nSET\r\n$2\r\n\r\n\r\n$0\r\n\r\n", "+OK\r\n"),
        (b"*2\r\n$3\r\nGET\r\n$2\r\n\r\n\r\n", "$0\r\n\r\n"),
        (b"MSET x 1 y 2 x 3\r\nMGET x nothing y\r\n", "+OK\r\n*3\r\n$1\r\n3\r\n$-1\r\n$1\r\n2\r\n"),
        (b"EXISTS x x y z\r\nDBSIZE\r\n", ":3\r\n:4\r\n"),
        (b"DEL x z\r\nGET x\r\nDEL x\r\n", ":1\r\n$-1\r\n:0\r\n"),
        (b"CONFIG GET save\r\n", "*2\r\n$4\r\nsave\r\n$0\r\n\r\n"),
        (b"CONFIG GET maxmemory\r\n", "*0\r\n"),
        (b"COMMAND COUNT\r\nCOMMAND DOCS\r\n", ":11\r\n*0\r\n"),
        (b"GET\r\n", "-ERR wrong number of arguments for 'get' command\r\n"),
        (
            b"FLUSHALL\r\nGET a\r\n",
            "-ERR unknown command 'FLUSHALL': this server knows GET SET MGET MSET DEL EXISTS DBSIZE PING INFO CONFIG \
             COMMAND\r\n$1\r\n1\r\n",
        ),
        (b"INFO keyspace\r\n", "$"),
    ];
    for (octets, expected) in script {
        ask(&mut stream, octets, expected);
    }
    let mut stream = serving.connect();
    ask(&mut stream, b"GET a\r\n*1\r\n:5\r\n", "$1\r\n1\r\n-ERR Protocol error: expected '$', got ':'\r\n");
    assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the connection has ended");
    serving.stop();
}

/// A client asks for much more than it reads. The server holds some of the answers only, and all come in their order.
#[test]
fn answers_that_nobody_reads_do_not_pile_up() {
    let serving = Serving::start(Memory::new(32 << 20));
    let mut stream = serving.connect();
    let value = "v".repeat(4 << 20);
    ask(
        &mut stream,
        format!("*3\r\n$3\r\nSET\r\n$1\r\na\r\n${}\r\n{value}\r\n", value.len()).as_bytes(),
        "+OK\r\n",
    );
    let before = memory();
    stream.write_all(&b"GET a\r\n".repeat(200)).unwrap();
    stream.write_all(b"*1\r\n:5\r\n").unwrap();
    // It is served beside others.
    for turn in 0..50 {
        ask(&mut serving.connect(), b"GET nothing\r\n", "$-1\r\n");
        assert!(memory() < before + (200 << 20), "{turn}: {} octets more", memory() - before);
    }
    let answer = format!("${}\r\n{value}\r\n", value.len());
    for _ in 0..200 {
        ask(&mut stream, b"", &answer);
    }
    ask(&mut stream, b"", "-ERR Protocol error");
    let many = format!("*130\r\n$4\r\nMGET\r\n{}", "$1\r\na\r\n".repeat(129));
    ask(&mut serving.connect(), many.as_bytes(), "-ERR the values are longer than an answer may be");
    serving.stop();
}

/// Returns how much memory this process has, in octets.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// Commands that came together are one transaction and one sync.
#[test]
fn a_pipeline_is_one_transaction() {
    let memory = Memory::new(8 << 20);
    let serving = Serving::start(memory.clone());
    let mut stream = serving.connect();
    let mut steps = |count: usize| {
        memory.ends_after(1 << 40, SessionError::TimedOut);
        let sets: String = (0..count).map(|key| format!("SET key{key} value\r\n")).collect();
        ask(&mut stream, sets.as_bytes(), &"+OK\r\n".repeat(count));
        (1 << 40) - memory.steps_left()
    };
    steps(50);
    let (one, fifty) = (steps(1), steps(50));
    assert!(fifty < 3 * one, "{fifty} steps for fifty commands, {one} for one");
    serving.stop();
}

/// Answers that a client does not take hold up nobody else, and none of them is lost.
#[test]
fn a_client_that_does_not_read_is_not_read() {
    let serving = Serving::start(Memory::new(8 << 20));
    let mut slow = serving.connect();
    let value = "v".repeat(100_000);
    let set = format!("*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$100000\r\n{value}\r\n");
    ask(&mut slow, set.as_bytes(), "+OK\r\n");
    slow.write_all("GET big\r\n".repeat(400).as_bytes()).unwrap();
    let mut other = serving.connect();
    for _ in 0..20 {
        ask(&mut other, b"EXISTS big\r\n", ":1\r\n");
    }
    let answers = format!("$100000\r\n{value}\r\n").repeat(400);
    ask(&mut slow, b"PING\r\n", &(answers + "+PONG\r\n"));
    serving.stop();
}

/// The epoch ends: a client is told so, and the server ends.
#[test]
fn a_sealed_session_ends_the_server() {
    let memory = Memory::new(8 << 20);
    let serving = Serving::start(memory.clone());
    let mut stream = serving.connect();
    ask(&mut stream, b"SET a 1\r\n", "+OK\r\n");
    memory.ends_after(0, SessionError::Sealed { epoch: 5 });
    ask(
        &mut stream,
        b"GET a\r\n",
        "-ERR epoch 5 has begun, by a repair or another client: the session is over\r\n",
    );
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    let end = serving.thread.join().unwrap();
    assert!(matches!(end, Err(StoreError::Session(SessionError::Sealed { epoch: 5 }))), "{end:?}");
}

/// Over three replicas: Redis' own clients, and another host that opens the database.
#[test]
fn clients_of_redis_use_a_group() {
    let group = Group::of(3, &Limits::default(), 16 << 20);
    let open = || group.open(&Options { topology: Topology::Chain, ..Options::default() });
    let serving = Serving::start(open().unwrap());
    ask(&mut serving.connect(), b"SET here before\r\n", "+OK\r\n");
    let port = serving.address.port().to_string();
    let run = |program: &str, arguments: &[&str]| {
        let output = Process::new(program).args(["-p", &port]).args(arguments).output();
        let output = match output {
            Ok(output) => output,
            Err(error) => return println!("skipped: {program}: {error}"),
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{program} {arguments:?}: {text}");
        println!("{text}");
        let expected = if program == "redis-cli" { "before" } else { "requests per second" };
        assert!(text.contains(expected) && !text.contains("ERR"), "{program} {arguments:?}: {text}");
    };
    run("redis-cli", &["GET", "here"]);
    run("redis-benchmark", &["-t", "set,get", "-n", "2000", "-c", "20", "-r", "500", "-q"]);
    run(
        "redis-benchmark",
        &["-t", "set,get,mset,ping", "-n", "2000", "-c", "5", "-P", "16", "-r", "500", "-q"],
    );
    serving.stop();
    let mut next = None;
    eventually("another session", || {
        next = open().ok();
        next.is_some()
    });
    let serving = Serving::start(next.unwrap());
    let mut stream = serving.connect();
    ask(&mut stream, b"GET here\r\n", "$6\r\nbefore\r\n");
    serving.stop();
    let contents: Vec<Vec<u8>> = group.hosts.iter().map(|host| copy(&host.memory)).collect();
    assert!(contents.iter().all(|octets| *octets == contents[0]), "all replicas hold the same");
}

fn copy(memory: &Region) -> Vec<u8> {
    let mut octets = vec![0; memory.len()];
    assert!(memory.copy_out(0, &mut octets));
    octets
}
