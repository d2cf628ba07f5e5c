//! A worker: it connects as it is told, answers others, and says how that ended.

use std::io::{self, BufRead, ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::talk::Talk;

/// What the threads of a worker share.
#[derive(Debug, Default)]
struct Shared {
    /// The worker is to finish its connections.
    is_last: AtomicBool,
    talks: Mutex<Vec<Arc<Talk>>>,
    /// Connections whose threads still run.
    open: AtomicU64,
}

/// Obeys the lines of standard input: `connect ID PORT`, `finish`, `exit`.
pub(crate) fn run() -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let shared = Arc::new(Shared::default());
    let listener = TcpListener::bind("127.0.0.1:0")?;
    say(&format!("port {}", listener.local_addr()?.port()));
    let accepting = Arc::clone(&shared);
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            start(&accepting, stream, None);
        }
    });
    let watched = Arc::clone(&shared);
    std::thread::spawn(move || watch(&watched));
    for line in io::stdin().lock().lines() {
        let line = line?;
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["connect", id, port] => {
                let (Ok(id), Ok(port)) = (id.parse(), port.parse::<u16>()) else { continue };
                match TcpStream::connect(("127.0.0.1", port)) {
                    Ok(stream) => start(&shared, stream, Some(id)),
                    Err(error) => say(&format!("broken {id} {error}")),
                }
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
fn start(shared: &Arc<Shared>, stream: TcpStream, id: Option<u64>) {
    let shared = Arc::clone(shared);
    shared.open.fetch_add(1, Ordering::AcqRel);
    std::thread::spawn(move || {
        let (id, result) = talk(&shared, &stream, id);
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

fn talk(shared: &Shared, mut stream: &TcpStream, id: Option<u64>) -> (u64, io::Result<()>) {
    let mut number = [0; 8];
    if id.is_none()
        && let Err(error) = io::Read::read_exact(&mut stream, &mut number)
    {
        return (0, Err(error));
    }
    let talk = Arc::new(Talk::new(id.unwrap_or_else(|| u64::from_le_bytes(number))));
    if let Ok(mut talks) = shared.talks.lock() {
        talks.retain(|talk| !talk.is_over.load(Ordering::Relaxed));
        talks.push(Arc::clone(&talk));
    }
    let result = match id {
        Some(_) => talk.ask(stream, || shared.is_last.load(Ordering::Relaxed)),
        None => talk.answer(stream),
    };
    talk.is_over.store(true, Ordering::Relaxed);
    (talk.id, result)
}

/// Reports connections that stand still, and the octets that were verified.
fn watch(shared: &Shared) {
    let mut before: Vec<(u64, u64, u32)> = Vec::new();
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let Ok(talks) = shared.talks.lock().map(|talks| talks.clone()) else { return };
        let living = talks.iter().filter(|talk| !talk.is_over.load(Ordering::Relaxed));
        let now: Vec<(u64, u64, u32)> = living
            .map(|talk| {
                let verified = talk.verified.load(Ordering::Relaxed);
                let same = before.iter().find(|(id, octets, _)| (*id, *octets) == (talk.id, verified));
                (talk.id, verified, same.map_or(0, |(_, _, seconds)| seconds + 1))
            })
            .collect();
        for (id, octets, _) in now.iter().filter(|(_, _, seconds)| *seconds == STALL) {
            say(&format!("stall {id} at {octets} octets"));
        }
        before = now;
    }
}

/// Tells the driver a line.
fn say(line: &str) {
    // A driver that has gone kills this process.
    let _gone = writeln!(io::stdout().lock(), "{line}");
}

/// Seconds without an octet. Stops are much shorter.
const STALL: u32 = 20;
