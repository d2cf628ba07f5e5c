//! A worker: it connects as it is told, answers others, and says how that ended.

use std::io::{self, BufRead, ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::shared;
use crate::talk::Talk;

/// What the threads of a worker share.
#[derive(Debug, Default)]
struct Shared {
    /// The worker is to finish its connections.
    is_last: AtomicBool,
    talks: Mutex<Vec<Arc<Talk>>>,
    /// Connections whose threads still run.
    open: AtomicU64,
    /// Milliseconds of the longest rest between two messages.
    rest: u64,
}

/// Obeys the lines of standard input: `connect ID PORT`, `share ID PORT`, `settle`, `finish`, `exit`.
pub(crate) fn run(rest: u64) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let shared = Arc::new(Shared { rest, ..Shared::default() });
    let listener = TcpListener::bind("127.0.0.1:0")?;
    say(&format!("port {}", listener.local_addr()?.port()));
    let accepting = Arc::clone(&shared);
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            start(&accepting, stream, None, false);
        }
    });
    let watched = Arc::clone(&shared);
    std::thread::spawn(move || watch(&watched));
    for line in io::stdin().lock().lines() {
        let line = line?;
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            [kind @ ("connect" | "share"), id, port] => {
                let (Ok(id), Ok(port)) = (id.parse(), port.parse::<u16>()) else { continue };
                match TcpStream::connect(("127.0.0.1", port)) {
                    Ok(stream) => start(&shared, stream, Some(id), *kind == "share"),
                    Err(error) => say(&format!("broken {id} {error}")),
                }
            }
            ["settle"] => {
                settle()?;
                say("settled");
            }
            ["finish"] => {
                shared.is_last.store(true, Ordering::Relaxed);
                while shared.open.load(Ordering::Acquire) > 0 {
                    std::thread::sleep(Duration::from_millis(20));
                }
                say("finished");
            }
            ["spawn"] => drop(Command::new("true").status()),
            _ => return Ok(()),
        }
    }
    Ok(())
}

/// Starts a connection's thread. Without an id this is the side that answers, and the other side sends the id.
/// A connection `is_shared` with a child.
fn start(shared: &Arc<Shared>, stream: TcpStream, id: Option<u64>, is_shared: bool) {
    let shared = Arc::clone(shared);
    shared.open.fetch_add(1, Ordering::AcqRel);
    std::thread::spawn(move || {
        let (id, result) = talk(&shared, &stream, id, is_shared);
        // The descriptor is closed before the driver hears of the end.
        drop(stream);
        match result {
            Ok(()) => say(&format!("over {id}")),
            Err(error) if error.kind() == ErrorKind::InvalidData => say(&format!("wrong {id} {error}")),
            Err(error) => say(&format!("broken {id} {error}")),
        }
        shared.open.fetch_sub(1, Ordering::AcqRel);
    });
}

fn talk(shared: &Shared, mut stream: &TcpStream, id: Option<u64>, is_shared: bool) -> (u64, io::Result<()>) {
    let mut number = [0; 8];
    if id.is_none()
        && let Err(error) = io::Read::read_exact(&mut stream, &mut number)
    {
        return (0, Err(error));
    }
    let talk = Arc::new(Talk::new(id.unwrap_or_else(|| u64::from_le_bytes(number)), stream, shared.rest));
    if let Ok(mut talks) = shared.talks.lock() {
        talks.retain(|talk| !talk.is_over.load(Ordering::Relaxed));
        talks.push(Arc::clone(&talk));
    }
    let is_last = || shared.is_last.load(Ordering::Relaxed);
    let result = match id {
        Some(id) if is_shared => {
            shared::run(&talk, stream, is_last, |child| say(&format!("child {child} {id}")))
        }
        Some(_) => talk.ask(stream, is_last),
        None => talk.answer(stream),
    };
    talk.is_over.store(true, Ordering::Relaxed);
    (talk.id, result)
}

/// Talks to itself, so that the library hears what the daemon has told of the dead.
fn settle() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut here = TcpStream::connect(listener.local_addr()?)?;
    let (mut there, _) = listener.accept()?;
    for _ in 0..ROUNDS {
        here.write_all(b"octets")?;
        io::Read::read_exact(&mut there, &mut [0; 6])?;
    }
    Ok(())
}

/// Reports connections that stand still, and the octets that were verified.
fn watch(shared: &Shared) {
    let mut before: Vec<(u64, u64, u32)> = Vec::new();
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let look = share();
        let Ok(talks) = shared.talks.lock().map(|talks| talks.clone()) else { return };
        let living = talks.iter().filter(|talk| !talk.is_over.load(Ordering::Relaxed));
        let now: Vec<(u64, u64, u32)> = living
            .map(|talk| {
                let verified = talk.verified.load(Ordering::Relaxed);
                let same = before.iter().find(|(id, octets, _)| (*id, *octets) == (talk.id, verified));
                (talk.id, verified, same.map_or(0, |(_, _, still)| still + look))
            })
            .collect();
        let has_stalled = |still: u32| still >= STALL && still - look < STALL;
        for (id, octets, _) in now.iter().filter(|(_, _, still)| has_stalled(*still)) {
            let addresses = talks.iter().find(|talk| talk.id == *id).map_or("", |talk| &talk.addresses);
            say(&format!("stall {id} at {octets} octets {addresses}"));
        }
        before = now;
    }
}

/// Returns for how much a second counts, in hundredths: less the more threads wait for each CPU.
fn share() -> u32 {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(1));
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let running = text.split(' ').nth(3).and_then(|threads| threads.split('/').next()?.parse().ok());
    100 * WAITING * cpus / running.unwrap_or(0).max(WAITING * cpus)
}

/// Tells the driver a line.
fn say(line: &str) {
    // A driver that has gone kills this process.
    let _gone = writeln!(io::stdout().lock(), "{line}");
}

/// Messages of a worker to itself.
const ROUNDS: u32 = 20;
/// Hundredths of a second without an octet. Stops are much shorter.
const STALL: u32 = 2000;
/// Threads that may wait for a CPU at a time: with more of them, connections stand still for longer.
const WAITING: u32 = 8;
