//! `weft group client`: one operation on a group, for scripts.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand, ValueEnum};
use serde_json::json;
use weft_group::{Fresh, Options, Originals, Replicas, Session, SessionError, Topology};
use weft_rnic::Device;

use super::members::MembersArgs;
use super::units::whole;
use crate::failure::Failure;
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
    Read {
        #[command(flatten)]
        group: Group,
        /// The first octet
        #[arg(value_parser = whole)]
        at: u64,
        /// How many octets
        #[arg(value_parser = whole)]
        len: u64,
        /// Do not wait for the other replicas: the one that answers may have been dropped from the group
        #[arg(long)]
        maybe: bool,
    },
    /// Copy octets in the memory of each replica
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
        /// The numbers of the replicas that do it; the default is all
        #[arg(long, value_name = "N[,N...]", value_delimiter = ',', value_parser = number::<u8>(0..=15))]
        on: Option<Vec<u8>>,
    },
    /// Make octets durable at every replica
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
    /// How the replicas hang together
    #[arg(long, value_enum, default_value_t = Shape::Chain)]
    topology: Shape,
    /// The epoch of the group
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole)]
    epoch: u64,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shape {
    /// Each replica hands operations on to the next one
    Chain,
    /// The client sends operations to each replica
    Fan,
}

/// Does the operation.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.operation {
        Operation::Write { group, at, octets, file } => {
            let octets = match (octets, file) {
                (Some(octets), _) => octets.as_bytes().to_vec(),
                (None, Some(file)) => contents(file)?,
                (None, None) => Vec::new(),
            };
            write(group, *at, &octets)
        }
        Operation::Read { group, at, len, maybe } => {
            read(group, *at, *len, if *maybe { Fresh::Maybe } else { Fresh::Confirmed })
        }
        Operation::Copy { group, from, to, len } => {
            group.with(|session| session.copy(*from, *to, *len).and_then(|id| session.wait(id)))?;
            group.report("copied", u64::from(*len))
        }
        Operation::Swap { group, at, compare, swap, on } => {
            let bits = on.iter().flatten().fold(0, |bits, replica| bits | 1_u16 << replica);
            let on = if on.is_some() { Replicas(bits) } else { Replicas::ALL };
            let begin = |session: &mut Session| session.compare_swap(*at, *compare, *swap, on);
            let originals = group.with(|session| begin(session).and_then(|id| session.wait(id)))?;
            group.report_swap(&originals, on, *compare)
        }
        Operation::Flush { group, from, to } => {
            if from > to {
                return Err(Failure::usage(format!("octets {from} to {to}: the end is before the start")));
            }
            group.with(|session| session.flush(*from..*to).and_then(|id| session.wait(id)))?;
            group.report("flushed", to - from)
        }
    }
}

fn write(group: &Group, at: u64, octets: &[u8]) -> Result<(), Failure> {
    group.with(|session| {
        let mut from = at;
        for part in octets.chunks(LONGEST_WRITE).chain(octets.is_empty().then_some(octets)) {
            let id = session.write(from, part)?;
            session.wait(id)?;
            from += part.len() as u64;
        }
        Ok(())
    })?;
    group.report("written", octets.len() as u64)
}

fn read(group: &Group, at: u64, len: u64, fresh: Fresh) -> Result<(), Failure> {
    let octets = group.with(|session| {
        // The range is checked before there is memory for it.
        let end = at.checked_add(len).filter(|end| *end <= session.terms().len);
        let len = end.and_then(|_| usize::try_from(len).ok()).ok_or(weft_group::OpError::Bounds)?;
        let mut octets = vec![0; len];
        session.read(at, &mut octets, fresh)?;
        Ok(octets)
    })?;
    let mut out = std::io::stdout();
    if group.members.json {
        let digits: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
        writeln!(out, "{}", json!({"at": at, "octets": digits}))?;
    } else {
        out.write_all(&octets)?;
        out.flush()?;
    }
    Ok(())
}

/// Reads a file, or standard input.
fn contents(file: &Path) -> Result<Vec<u8>, Failure> {
    let mut octets = Vec::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().read_to_end(&mut octets)
    } else {
        File::open(file).and_then(|mut file| file.read_to_end(&mut octets))
    };
    read.map_err(|error| Failure::usage(format!("--file: {}: {error}", file.display())))?;
    Ok(octets)
}

impl Group {
    /// Opens a session with so many operations under way at most.
    pub(super) fn open(&self, window: u32) -> Result<(Device, Session), Failure> {
        let topology = match self.topology {
            Shape::Chain => Topology::Chain,
            Shape::Fan => Topology::Fan,
        };
        let options = Options { topology, epoch: self.epoch, window, ..self.members.options()? };
        let device = self.members.open()?;
        let opened = Session::open(&device, &self.members.members(), &options);
        let session = opened.map_err(Failure::work)?;
        Ok((device, session))
    }

    /// Returns whether results are JSON objects.
    pub(super) const fn is_json(&self) -> bool {
        self.members.json
    }

    /// Opens a session and does something with it.
    fn with<T>(&self, act: impl FnOnce(&mut Session) -> Result<T, SessionError>) -> Result<T, Failure> {
        let (_device, mut session) = self.open(WINDOW)?;
        act(&mut session).map_err(|error| match error {
            SessionError::Op(error) => Failure::usage(error),
            error => Failure::work(error),
        })
    }

    fn report(&self, what: &str, octets: u64) -> Result<(), Failure> {
        let replicas = self.members.members().len();
        let mut out = std::io::stdout();
        if self.members.json {
            writeln!(out, "{}", json!({"octets": octets, "replicas": replicas}))?;
        } else {
            let plural = if replicas == 1 { "" } else { "s" };
            writeln!(out, "{octets} octets {what} at {replicas} replica{plural}")?;
        }
        Ok(())
    }

    fn report_swap(&self, originals: &Originals, on: Replicas, compare: u64) -> Result<(), Failure> {
        let replicas = self.members.members().len();
        let found: Vec<Option<u64>> = originals
            .iter()
            .take(replicas)
            .enumerate()
            .map(|(replica, original)| on.contains(replica).then_some(*original))
            .collect();
        let mut out = std::io::stdout();
        if self.members.json {
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
const WINDOW: u32 = 16;
