//! The cost of a wake-up: two threads that sleep until an answer comes, on devices with their own threads.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use weft_rnic::Progress;

use crate::args::Args;
use crate::ends::Ends;
use crate::report::{Bound, Row, median};
use crate::side::Side;

/// Measures the round trip of 8 octets between two sleeping threads against that of blocking kernel sockets on the
/// same path.
pub(crate) fn sleeping(args: &Args) -> io::Result<Row> {
    let ends = Ends::new(args, Progress::Thread, 1, 1)?;
    let kernel = Kernel::new()?;
    let turns = args.turns;
    // The first turn of each warms caches and is not counted.
    weft_turn(&ends, turns)?;
    kernel.turn(turns)?;
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    for _ in 0..PAIRS {
        ours.push(weft_turn(&ends, turns)?);
        theirs.push(kernel.turn(turns)?);
    }
    let mut ratios: Vec<f64> = ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect();
    let ratio = median(&mut ratios);
    Ok(Row {
        case: "8 B Send round trip, asleep / blocking kernel TCP",
        value: ratio,
        unit: "times",
        bound: Bound::AtMost(1.3),
        note: format!("{:.1} us against {:.1} us", median(&mut ours), median(&mut theirs)),
    })
}

/// Returns the microseconds of one round trip. Each side is a thread or process that sleeps on its completion
/// channel.
fn weft_turn(ends: &Ends, turns: u32) -> io::Result<f64> {
    let near = ends.near();
    let asking = || {
        for _ in 0..turns {
            near.send(0)?;
            asleep(near)?;
        }
        Ok(())
    };
    match ends {
        Ends::Host { .. } => timed(turns, || Ok(()), asking),
        Ends::Pair { sides, .. } => {
            let right = &sides[1];
            let answering = move || {
                for _ in 0..turns {
                    asleep(right)?;
                    right.send(0)?;
                }
                Ok(())
            };
            timed(turns, answering, asking)
        }
    }
}

fn asleep(side: &Side) -> io::Result<()> {
    while side.sleep_for_message(PATIENCE)?.is_none() {}
    Ok(())
}

/// Two blocking sockets on loopback.
struct Kernel {
    ends: [TcpStream; 2],
}

impl Kernel {
    fn new() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let left = TcpStream::connect(listener.local_addr()?)?;
        let (right, _) = listener.accept()?;
        for end in [&left, &right] {
            end.set_nodelay(true)?;
        }
        Ok(Self { ends: [left, right] })
    }

    fn turn(&self, turns: u32) -> io::Result<f64> {
        let [mut left, mut right] = [&self.ends[0], &self.ends[1]];
        let answering = move || {
            let mut octets = [0; 8];
            for _ in 0..turns {
                right.read_exact(&mut octets)?;
                right.write_all(&octets)?;
            }
            Ok(())
        };
        timed(turns, answering, || {
            let mut octets = [0; 8];
            for _ in 0..turns {
                left.write_all(&octets)?;
                left.read_exact(&mut octets)?;
            }
            Ok(())
        })
    }
}

/// Runs `answering` in a thread beside `asking`. Returns the microseconds of one turn.
#[expect(clippy::disallowed_methods, reason = "a measurement takes the time")]
fn timed(
    turns: u32,
    answering: impl FnOnce() -> io::Result<()> + Send,
    asking: impl FnOnce() -> io::Result<()>,
) -> io::Result<f64> {
    std::thread::scope(|scope| {
        let other = scope.spawn(answering);
        let start = Instant::now();
        asking()?;
        let elapsed: Duration = start.elapsed();
        other.join().map_err(|_| io::Error::other("the answering thread has panicked"))??;
        Ok(elapsed.as_secs_f64() * 1e6 / f64::from(turns))
    })
}

/// The number of compared turns of each kind.
const PAIRS: usize = 9;
const PATIENCE: Duration = Duration::from_secs(30);
