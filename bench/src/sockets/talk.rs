//! A conversation of two programs over a socket: the programs at its ends.

use std::io::{self, BufRead, Write};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, fcntl};

use super::end::{Door, End};
use super::terms::{TalkArgs, Threads, Work};
use super::{many, rpc};
use crate::cores::keep_to;
use crate::octets::pattern;

/// Plays one end until the other end or the benchmark goes away.
pub(crate) fn run(args: &TalkArgs, out: &mut dyn Write) -> io::Result<()> {
    if let Some(core) = args.core {
        keep_to(core)?;
    }
    if args.serve { serve(args, out) } else { ask(args, out) }
}

fn serve(args: &TalkArgs, out: &mut dyn Write) -> io::Result<()> {
    let mut door = Door::open(args)?;
    writeln!(out, "{}", door.place()?)?;
    out.flush()?;
    loop {
        let served = match args.work {
            Work::Many => many::serve(&mut door, args),
            Work::Ping | Work::Connect | Work::First | Work::Operate => door.accept(args)?.echo(args.size),
            Work::Call => rpc::answer(&mut door.accept(args)?, args.size),
            Work::Stream => door.accept(args)?.take(args),
            Work::Relay => door.accept(args)?.relay(args),
        };
        if !matches!(args.work, Work::Connect | Work::First) {
            return served;
        }
    }
}

/// Takes a turn for each line of the standard input, which has its nanoseconds. Prints transfers and nanoseconds, or all
/// times of one connection.
fn ask(args: &TalkArgs, out: &mut dyn Write) -> io::Result<()> {
    if args.threads == Threads::Idle {
        thread::spawn(|| {
            loop {
                thread::park();
            }
        });
    }
    let mut round = if args.work == Work::First { None } else { Some(rounds(args)?) };
    writeln!(out, "ready")?;
    out.flush()?;
    for line in io::stdin().lock().lines() {
        let budget = Duration::from_nanos(line?.trim().parse().map_err(io::Error::other)?);
        let Some(round) = &mut round else {
            first(args, out)?;
            continue;
        };
        let (mut wall, mut transfers) = (Duration::ZERO, 0);
        while transfers == 0 || wall < budget {
            wall += round()?;
            transfers += args.round;
        }
        writeln!(out, "{transfers} {}", wall.as_nanos())?;
        out.flush()?;
    }
    Ok(())
}

/// Does the work of one round, and returns its time.
type Round = Box<dyn FnMut() -> io::Result<Duration>>;

/// Connects, and returns what does a round.
fn rounds(args: &TalkArgs) -> io::Result<Round> {
    let (args, message) = (args.clone(), pattern(args.size));
    let times = args.round;
    if args.work == Work::Connect {
        return Ok(Box::new(move || {
            timed(|| {
                (0..times).try_for_each(|_| {
                    let mut end = End::connect(&args)?;
                    (0..args.count).try_for_each(|_| end.round_trip(&message))
                })
            })
        }));
    }
    if args.work == Work::Many {
        let mut ends = many::Ends::connect(&args, message)?;
        return Ok(Box::new(move || timed(|| (0..times).try_for_each(|_| ends.round_trip()))));
    }
    let mut end = End::connect(&args)?;
    Ok(match args.work {
        Work::Stream => {
            let octets = pattern(args.size * times);
            Box::new(move || {
                let wall = timed(|| match args.threads {
                    Threads::Alternate => end.give_by_two(&octets, args.size),
                    Threads::One | Threads::Idle => end.give(&octets, args.size),
                })?;
                end.hear_verdict().map(|()| wall)
            })
        }
        Work::Operate => {
            // The connection is one that has left TCP.
            (0..WARM).try_for_each(|_| end.round_trip(&message))?;
            Box::new(move || {
                let wall = timed(|| {
                    (0..times)
                        .try_for_each(|_| fcntl(&end, FcntlArg::F_GETFL).map(drop).map_err(io::Error::from))
                })?;
                (0..WARM).try_for_each(|_| end.round_trip(&message)).map(|()| wall)
            })
        }
        Work::Call => {
            let mut calls = rpc::Calls::new(end, message);
            Box::new(move || timed(|| (0..times).try_for_each(|_| calls.call())))
        }
        _ => Box::new(move || timed(|| (0..times).try_for_each(|_| end.round_trip(&message)))),
    })
}

/// Connects, and prints the time that this took and the times of the ends of the messages there and back.
#[expect(clippy::disallowed_methods, reason = "a measurement takes the time")]
fn first(args: &TalkArgs, out: &mut dyn Write) -> io::Result<()> {
    let message = pattern(args.size);
    let start = Instant::now();
    let mut end = End::connect(args)?;
    let mut times = vec![start.elapsed()];
    for _ in 0..args.count {
        end.round_trip(&message)?;
        times.push(start.elapsed());
    }
    let times: Vec<String> = times.iter().map(|time| time.as_nanos().to_string()).collect();
    writeln!(out, "{}", times.join(" "))?;
    out.flush()
}

#[expect(clippy::disallowed_methods, reason = "a measurement takes the time")]
fn timed(work: impl FnOnce() -> io::Result<()>) -> io::Result<Duration> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

/// Messages there and back that take a connection off TCP.
const WARM: usize = 32;
