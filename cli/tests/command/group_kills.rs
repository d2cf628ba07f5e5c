//! Processes of a group are killed in turn while clients use its database. What was acknowledged is there, and nobody reads
//! anything older.
//!
//! `WEFT_GROUP_KILLS` is how many processes are killed; 50 if it is not set.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::group::good;
use crate::group_repair::Server;
use crate::process::{PATIENCE, Process, path_in, run};
use crate::support::Folder;

const CLIENTS: usize = 3;
const SERVERS: usize = 4;

/// A write or a read of one key. Values of a key only grow: its one writer counts.
#[derive(Clone, Copy, Debug)]
struct Event {
    key: usize,
    is_write: bool,
    value: u64,
    begun: u64,
    /// `None`: there was no answer.
    ended: Option<u64>,
}

/// What the clients share.
struct Stage {
    /// Where the database is served.
    address: Mutex<String>,
    is_over: AtomicBool,
    /// Orders what happens.
    clock: AtomicU64,
    history: Mutex<Vec<Event>>,
    acknowledged: AtomicU64,
}

impl Stage {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// A client writes its own key and reads those of all, with a new connection after each failure.
    fn play(&self, own: usize) {
        let (mut value, mut turn) = (0, own);
        while !self.is_over.load(Ordering::Relaxed) {
            let address = self.address.lock().unwrap().clone();
            let Ok(stream) = TcpStream::connect(&address) else {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            };
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut stream = BufReader::new(stream);
            loop {
                turn += 1;
                let (is_write, key) =
                    if turn.is_multiple_of(2) { (true, own) } else { (false, turn / 2 % CLIENTS) };
                value += u64::from(is_write);
                let begun = self.now();
                let line = if is_write { format!("SET k{key} {value}") } else { format!("GET k{key}") };
                let answer = ask(&mut stream, &line);
                let ended = answer.as_ref().map(|_| self.now());
                let seen = answer.as_ref().and_then(|answer| answer.parse().ok()).unwrap_or(0);
                let value = if is_write { value } else { seen };
                if is_write || ended.is_some() {
                    self.history.lock().unwrap().push(Event { key, is_write, value, begun, ended });
                }
                if ended.is_none() || self.is_over.load(Ordering::Relaxed) {
                    break;
                }
                self.acknowledged.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Waits until the database has answered so many more commands.
    fn await_progress(&self) {
        let before = self.acknowledged.load(Ordering::Relaxed);
        for _ in 0..60_000 {
            if self.acknowledged.load(Ordering::Relaxed) >= before + 20 {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("the database does not answer");
    }
}

/// Ends the clients when it is dropped, so that a check that fails does not leave them running.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends a command; `None` if there is no answer, or an error: then it is not known what was done.
fn ask(stream: &mut BufReader<TcpStream>, line: &str) -> Option<String> {
    stream.get_mut().write_all(format!("{line}\r\n").as_bytes()).ok()?;
    let mut answer = String::new();
    let mut read = |answer: &mut String| {
        answer.clear();
        stream.read_line(answer).ok().filter(|len| *len > 0 && answer.ends_with("\r\n"))
    };
    read(&mut answer)?;
    match answer.as_bytes()[0] {
        b'+' => Some(String::new()),
        b'$' if answer.starts_with("$-1") => Some("0".into()),
        b'$' => read(&mut answer).map(|_| answer.trim().to_owned()),
        _ => None,
    }
}

/// Checks that each read found a value that was there at some moment between its beginning and its end, and that no later
/// read found an older one. Returns how many events there were.
fn check(history: &[Event]) -> usize {
    for key in 0..CLIENTS {
        let of_key = |is_write: bool| history.iter().filter(move |e| e.key == key && e.is_write == is_write);
        let reads: Vec<&Event> = of_key(false).collect();
        for read in &reads {
            let is_before = |event: &&Event| event.ended.is_some_and(|ended| ended < read.begun);
            let known = of_key(true).chain(of_key(false)).filter(is_before).map(|event| event.value).max();
            assert!(Some(read.value) >= known, "{known:?} was there before {read:?}");
            let is_begun = |write: &Event| write.value == read.value && Some(write.begun) < read.ended;
            assert!(read.value == 0 || of_key(true).any(is_begun), "nobody has written this: {read:?}");
        }
    }
    history.len()
}

fn serve(register: &str, takeover: &str) -> (Process, String) {
    let kv = Process::weft(&format!(
        "group kv --resp 127.0.0.1:0 --register {register} {takeover} --timeout 1 --json"
    ));
    let said: Value = serde_json::from_str(&kv.line()).unwrap();
    (kv, said["resp"].as_str().unwrap().to_owned())
}

#[test]
fn nothing_that_was_acknowledged_is_lost() {
    let kills = std::env::var("WEFT_GROUP_KILLS").map_or(50, |count| count.parse().expect("a number"));
    let folder = Folder::new();
    let register = path_in(&folder, "group");
    // Every other replica comes back with what its file has, the others with nothing.
    let memory = |at: usize| match at % 2 {
        0 => "--memory 4M".to_owned(),
        _ => format!("--file {} --size 4M", path_in(&folder, &format!("replica{at}"))),
    };
    let mut servers: Vec<Server> = (0..SERVERS).map(|at| Server::start("127.0.0.1:0", &memory(at))).collect();
    let names: Vec<&str> = servers.iter().map(|server| server.address.as_str()).collect();
    good(run(&format!("group create --register {register} {} --spare {}", names[..3].join(" "), names[3])));
    let (mut kv, address) = serve(&register, "");
    let stage = Stage {
        address: Mutex::new(address),
        is_over: AtomicBool::new(false),
        clock: AtomicU64::new(0),
        history: Mutex::new(Vec::new()),
        acknowledged: AtomicU64::new(0),
    };
    std::thread::scope(|scope| {
        for own in 0..CLIENTS {
            let stage = &stage;
            scope.spawn(move || stage.play(own));
        }
        let _over = Over(&stage.is_over);
        for turn in 0..kills {
            stage.await_progress();
            match turn % 4 {
                // A replica is stopped. It goes on when the group does without it.
                2 if turn % 24 == 2 => {
                    let at = turn / 24 % SERVERS;
                    servers[at].process.signal(Signal::STOP);
                    stage.await_progress();
                    servers[at].process.signal(Signal::CONT);
                }
                // The host of the database: another one takes over, while the old one is there or after it was killed.
                1 => {
                    kv.signal(Signal::KILL);
                    let (next, address) = serve(&register, "--takeover");
                    *stage.address.lock().unwrap() = address;
                    kv = next;
                }
                3 if turn % 8 == 3 => {
                    let (next, address) = serve(&register, "--takeover");
                    *stage.address.lock().unwrap() = address;
                    let old = std::mem::replace(&mut kv, next).finish();
                    assert!(old.status == 1 && old.stderr.last().unwrap().contains("has begun"), "{old:?}");
                }
                // A replica, whichever it is: a spare takes its place, and it comes back.
                _ => {
                    let at = turn / 2 % SERVERS;
                    let address = servers[at].address.clone();
                    servers[at].process.signal(Signal::KILL);
                    stage.await_progress();
                    servers[at] = Server::start(&address, &memory(at));
                }
            }
        }
        stage.await_progress();
    });
    let events = check(&stage.history.lock().unwrap());
    let record: Value = serde_json::from_str(&std::fs::read_to_string(&register).unwrap()).unwrap();
    eprintln!("{kills} kills, {events} events, epoch {}", record["epoch"]);
    assert!(record["epoch"].as_u64().unwrap() > kills as u64 / 2 && events > 20 * kills);
    kv.signal(Signal::TERM);
    assert_eq!(kv.finish().status, 0);
}
