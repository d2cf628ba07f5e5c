//! `weft group client`: one operation on a group, for scripts.

use std::fs::File;
use std::io::{Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand, ValueEnum};
use serde_json::json;
use weft_group::{
    Coordinator, Fresh, OpError, Options, Originals, Replicas, Session, SessionError, Topology,
};
use weft_rnic::Device;

use super::members::MembersArgs;
use crate::failure::Failure;
use crate::units::whole;
use crate::usage::number;

/// Do one operation on the memory of all replicas, and wait until it is done.
#[derive(Debug, Clone, Parser)]
#[command(
    subcommand_required = true,
    after_help = "Offsets are octets in the memory of each replica, decimal or with 0x before them.

Examples:
  weft group client write --members 10.0.0.1:7471,10.0.0.2:7471 4096 hello
  weft group client write --members 10.0.0.1:7471,10.0.0.2:7471 0 --file page
  weft group client read --members 10.0.0.1:7471,10.0.0.2:7471 4096 5
  weft group client copy --members 10.0.0.1:7471,10.0.0.2:7471 4096 8192 5
  weft group client swap --members 10.0.0.1:7471,10.0.0.2:7471 0 0 1
  weft group client flush --members 10.0.0.1:7471,10.0.0.2:7471 4096 8192"
)]
pub(super) struct Args {
    #[command(subcommand)]
    operation: Operation,
}

#[derive(Debug, Clone, Subcommand)]
enum Operation {
    /// Write octets to the same place of every replica
    #[command(after_help = "Examples:
  weft group client write --members 10.0.0.1:7471,10.0.0.2:7471 4096 hello
  weft group client write --members 10.0.0.1:7471,10.0.0.2:7471 0 --file page")]
    Write {
        #[command(flatten)]
        group: Group,
        /// Where the octets go
        #[arg(value_parser = whole)]
        at: u64,
        /// The octets themselves
        #[arg(required_unless_present = "file", conflicts_with = "file")]
        octets: Option<String>,
        /// A file with the octets; - is standard input
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Read octets, and print them as they are; with --json in hexadecimal digits
    ///
    /// The last member has them in its memory, the only one of its chain that is read. Then an operation that changes nothing
    /// goes through all replicas: its answer shows that none of them was dropped from the group before.
    #[command(after_help = "Example:
  weft group client read --members 10.0.0.1:7471,10.0.0.2:7471 4096 5")]
    Read {
        #[command(flatten)]
        group: Group,
        /// The first octet
        #[arg(value_parser = whole)]
        at: u64,
        /// How many octets
        #[arg(value_parser = whole)]
        len: u64,
        /// Leave that operation out: the octets come one round earlier, and may be older than the group's
        #[arg(long)]
        maybe: bool,
    },
    /// Copy octets in the memory of each replica
    #[command(after_help = "Example:
  weft group client copy --members 10.0.0.1:7471,10.0.0.2:7471 4096 8192 5")]
    Copy {
        #[command(flatten)]
        group: Group,
        /// The first octet of the source
        #[arg(value_parser = whole)]
        from: u64,
        /// The first octet of the sink
        #[arg(value_parser = whole)]
        to: u64,
        /// How many octets
        #[arg(value_parser = number::<u32>(0..=u32::MAX.into()))]
        len: u32,
    },
    /// Compare a word of 8 octets with a value, and swap it if it is equal. Prints what each replica found
    #[command(
        after_help = "The exit status is 0 though no replica swaps. With --json, `swapped` tells which ones did.

Example:
  weft group client swap --members 10.0.0.1:7471,10.0.0.2:7471 0 0 1"
    )]
    Swap {
        #[command(flatten)]
        group: Group,
        /// Where the word is, a multiple of 8
        #[arg(value_parser = whole)]
        at: u64,
        /// The value that it must have
        #[arg(value_parser = whole)]
        compare: u64,
        /// The value that it gets
        #[arg(value_parser = whole)]
        swap: u64,
        /// The numbers of the replicas that do it, from 0 for the first member on; the default is all
        #[arg(long, value_name = "N[,N...]", value_delimiter = ',', value_parser = number::<u8>(0..=15))]
        on: Option<Vec<u8>>,
    },
    /// Make octets durable at every replica whose memory has a file
    ///
    /// For memory without a file nothing has to be done.
    #[command(after_help = "Example:
  weft group client flush --members 10.0.0.1:7471,10.0.0.2:7471 4096 8192")]
    Flush {
        #[command(flatten)]
        group: Group,
        /// The first octet
        #[arg(value_parser = whole)]
        from: u64,
        /// The octet behind the last one
        #[arg(value_parser = whole)]
        to: u64,
    },
}

/// The group that a client uses.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Group {
    #[command(flatten)]
    members: MembersArgs,
    /// How the replicas of --members hang together
    #[arg(long, value_enum, default_value_t = Shape::Chain, conflicts_with = "register")]
    topology: Shape,
}

/// How replicas hang together.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Shape {
    /// Each replica hands operations on to the next one
    Chain,
    /// The client sends operations to each replica
    Fan,
}

impl From<Shape> for Topology {
    fn from(shape: Shape) -> Self {
        match shape {
            Shape::Chain => Self::Chain,
            Shape::Fan => Self::Fan,
        }
    }
}

/// A session, with what has to stay as long as it does.
pub(super) struct Opened {
    pub(super) session: Session,
    /// The names of the replicas, the head first.
    names: Vec<String>,
    _device: Device,
}

/// Does the operation.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.operation {
        Operation::Write { group, at, octets, file } => {
            let source: Box<dyn Read + '_> = match (octets, file) {
                (Some(octets), _) => Box::new(octets.as_bytes()),
                (None, Some(file)) => open(file)?,
                (None, None) => Box::new(std::io::empty()),
            };
            write(group, *at, source)
        }
        Operation::Read { group, at, len, maybe } => {
            read(group, *at, *len, if *maybe { Fresh::Maybe } else { Fresh::Confirmed })
        }
        Operation::Copy { group, from, to, len } => {
            let reach = format!("{len} octets from {from} to {to}");
            let copied = group
                .with(&reach, |session| session.copy(*from, *to, *len).and_then(|id| session.wait(id)))?;
            group.report("copied", u64::from(*len), copied.replicas)
        }
        Operation::Swap { group, at, compare, swap, on } => {
            let mut opened = group.open(WINDOW)?;
            let replicas = opened.session.replicas();
            let none = on.iter().flatten().filter(|replica| usize::from(**replica) >= replicas).min();
            if let Some(none) = none {
                let last = replicas - 1;
                return Err(Failure::usage(format!(
                    "--on: there is no replica {none}: the last one is {last}"
                )));
            }
            let bits = on.iter().flatten().fold(0, |bits, replica| bits | 1_u16 << replica);
            let on = if on.is_some() { Replicas(bits) } else { Replicas::ALL };
            let begin = |session: &mut Session| session.compare_swap(*at, *compare, *swap, on);
            let reach = format!("a word at {at}");
            let done =
                group.act(&mut opened, &reach, |session| begin(session).and_then(|id| session.wait(id)))?;
            group.report_swap(&done.value, (on, replicas), *compare)
        }
        Operation::Flush { group, from, to } => {
            if from > to {
                return Err(Failure::usage(format!("octets {from} to {to}: the end is before the start")));
            }
            let reach = format!("octets {from} to {to}");
            let flushed = group.with(&reach, |session| flush(session, *from..*to))?;
            group.report("flushed", to - from, flushed.replicas)
        }
    }
}

fn write(group: &Group, at: u64, source: Box<dyn Read + '_>) -> Result<(), Failure> {
    let mut octets = Vec::new();
    let written = group.with(&format!("octets from {at} on"), |session| {
        // A file without an end is read no further than the replicas have room.
        let room = session.terms().len.checked_sub(at).ok_or(OpError::Bounds)?;
        if let Err(error) = source.take(room.saturating_add(1)).read_to_end(&mut octets) {
            return Err(SessionError::Device(format!("--file: {error}")));
        }
        let mut from = at;
        if octets.len() as u64 > room {
            return Err(OpError::Bounds.into());
        }
        for part in octets.chunks(LONGEST_WRITE).chain(octets.is_empty().then_some(&octets[..])) {
            let id = session.write(from, part)?;
            session.wait(id)?;
            from += part.len() as u64;
        }
        Ok(())
    })?;
    group.report("written", octets.len() as u64, written.replicas)
}

/// Flushes in pieces that an operation can have.
fn flush(session: &mut Session, range: Range<u64>) -> Result<(), SessionError> {
    let mut from = range.start;
    loop {
        let end = range.end.min(from.saturating_add(LONGEST_FLUSH));
        let id = session.flush(from..end)?;
        session.wait(id)?;
        from = end;
        if from == range.end {
            return Ok(());
        }
    }
}

fn read(group: &Group, at: u64, len: u64, fresh: Fresh) -> Result<(), Failure> {
    let read = group.with(&format!("{len} octets from {at} on"), |session| {
        // The range is checked before there is memory for it.
        let end = at.checked_add(len).filter(|end| *end <= session.terms().len);
        let len = end.and_then(|_| usize::try_from(len).ok()).ok_or(OpError::Bounds)?;
        let mut octets = vec![0; len];
        session.read(at, &mut octets, fresh)?;
        Ok(octets)
    })?;
    let (mut out, octets) = (std::io::stdout(), read.value);
    if group.is_json() {
        let digits: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
        writeln!(out, "{}", json!({"at": at, "octets": digits}))?;
    } else {
        out.write_all(&octets)?;
        out.flush()?;
    }
    Ok(())
}

/// Opens a file, or standard input.
fn open(file: &Path) -> Result<Box<dyn Read>, Failure> {
    if file.as_os_str() == "-" {
        return Ok(Box::new(std::io::stdin()));
    }
    let opened = File::open(file).and_then(|opened| match opened.metadata()?.is_dir() {
        true => Err(std::io::ErrorKind::IsADirectory.into()),
        false => Ok(opened),
    });
    let opened = opened.map_err(|error| Failure::usage(format!("--file: {}: {error}", file.display())))?;
    Ok(Box::new(opened))
}

/// What an operation gave, and at how many replicas.
struct Finished<T> {
    value: T,
    replicas: usize,
}

impl Group {
    /// Opens a session with so many operations under way at most.
    pub(super) fn open(&self, window: u32) -> Result<Opened, Failure> {
        let reach = &self.members.reach;
        let options = Options { topology: self.topology.into(), window, ..reach.options()? };
        let Some(register) = &self.members.register else {
            let members = self.members.named()?;
            let device = reach.open()?;
            let session = Session::open(&device, &members, &options).map_err(Failure::work)?;
            let names = members.iter().map(|member| member.address.to_string()).collect();
            return Ok(Opened { session, names, _device: device });
        };
        let membership = reach.register(register)?;
        let device = reach.open()?;
        let coordinator = Coordinator::new(&device, &*membership, &options);
        let record = coordinator.record().map_err(|error| Failure::work(error).of(register))?;
        let session = coordinator.open(&record).map_err(Failure::work)?;
        let names = record.members.into_iter().map(|seat| seat.host.addr).collect();
        Ok(Opened { session, names, _device: device })
    }

    /// Returns whether results are JSON objects.
    pub(super) const fn is_json(&self) -> bool {
        self.members.reach.json
    }

    /// Opens a session and does something with it. `reach` says which octets that uses.
    fn with<T>(
        &self,
        reach: &str,
        act: impl FnOnce(&mut Session) -> Result<T, SessionError>,
    ) -> Result<Finished<T>, Failure> {
        self.act(&mut self.open(WINDOW)?, reach, act)
    }

    fn act<T>(
        &self,
        opened: &mut Opened,
        reach: &str,
        act: impl FnOnce(&mut Session) -> Result<T, SessionError>,
    ) -> Result<Finished<T>, Failure> {
        let replicas = opened.session.replicas();
        let done = act(&mut opened.session);
        let value = done.map_err(|error| self.complain(&error, reach, opened))?;
        Ok(Finished { value, replicas })
    }

    /// Says what went wrong, with whom, and what would be right.
    fn complain(&self, error: &SessionError, reach: &str, opened: &Opened) -> Failure {
        let len = opened.session.terms().len;
        match error {
            SessionError::Op(OpError::Bounds) => {
                Failure::usage(format!("{reach}: the first replica has {len} octets"))
            }
            SessionError::Op(error) => Failure::usage(format!("{reach}: {error}")),
            SessionError::Lost(Some(index)) => {
                let address = opened.names.get(*index).map_or_else(String::new, |name| format!(" at {name}"));
                Failure::work(format!(
                    "replica {index}{address} is lost: some replicas may have done a part of it"
                ))
            }
            SessionError::TimedOut => Failure::work(format!(
                "not all replicas have answered in {} s: `weft group status` tells which one is silent; some may have done a \
                 part of it",
                self.members.reach.seconds()
            )),
            error => Failure::work(error),
        }
    }

    fn report(&self, what: &str, octets: u64, replicas: usize) -> Result<(), Failure> {
        let mut out = std::io::stdout();
        if self.is_json() {
            writeln!(out, "{}", json!({"octets": octets, "replicas": replicas}))?;
        } else {
            let plural = |number| if number == 1 { "" } else { "s" };
            let (of_octets, of_replicas) = (plural(octets), plural(replicas as u64));
            writeln!(out, "{octets} octet{of_octets} {what} at {replicas} replica{of_replicas}")?;
        }
        Ok(())
    }

    fn report_swap(
        &self,
        originals: &Originals,
        (on, replicas): (Replicas, usize),
        compare: u64,
    ) -> Result<(), Failure> {
        let found: Vec<Option<u64>> = originals
            .iter()
            .take(replicas)
            .enumerate()
            .map(|(replica, original)| on.contains(replica).then_some(*original))
            .collect();
        let mut out = std::io::stdout();
        if self.is_json() {
            let swapped: Vec<Option<bool>> =
                found.iter().map(|found| found.map(|found| found == compare)).collect();
            writeln!(out, "{}", json!({"found": found, "swapped": swapped}))?;
            return Ok(());
        }
        for (replica, found) in found.iter().enumerate() {
            match found {
                None => writeln!(out, "replica {replica}: not asked")?,
                Some(found) if *found == compare => {
                    writeln!(out, "replica {replica}: found {found}, swapped")?
                }
                Some(found) => writeln!(out, "replica {replica}: found {found}, not swapped")?,
            }
        }
        Ok(())
    }
}

/// Octets that are written at a time: what the slots of a session hold.
const LONGEST_WRITE: usize = 65_536 * WINDOW as usize;
/// Octets that are flushed at a time.
const LONGEST_FLUSH: u64 = 1 << 30;
const WINDOW: u32 = 16;
