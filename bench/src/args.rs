//! The command line of `weft bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

use crate::case::{Case, Effort};
use crate::group::terms::ReplicaArgs;
use crate::ours::Op;
use crate::sockets::terms::TalkArgs;

/// Measures the data path beside references, turn by turn in one run.
///
/// Each row compares our data path with a reference that does the same work. The two take turns. A row has medians, the
/// smallest and the largest value in brackets, and the median of the ratios of neighbouring turns. Every octet of every
/// transfer is compared outside of the timed parts. docs/performance.md explains the rows and their targets.
///
/// Exit status: 0 if all rows are there, whatever their ratios are; 1 if one is missing or octets were not checked; 2
/// if the arguments make no sense. A row that the machine does not allow is named as skipped. With --strict it is
/// missing.
#[derive(Debug, Clone, Parser)]
#[command(
    verbatim_doc_comment,
    after_help = "Examples:
  weft bench --quick
  weft bench --list
  weft bench --only pair/ --pairs 9
  weft bench --quick --json | tail -n 1
  weft bench --save target/bench.json
  weft bench --only sizes --plot target/bench.svg
  weft bench run --op send --size 8 --batch 32 --signal-every 32 --depth 128
  weft bench sweep"
)]
pub struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Shorter turns: all rows in less than a minute
    #[arg(long, global = true)]
    pub quick: bool,
    /// List the cases with their references and targets, and measure nothing
    #[arg(long)]
    pub list: bool,
    /// Measure only cases whose names contain TEXT; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub only: Vec<String>,
    /// Turns of each side, 5 to 1000; by default 5, and 10 of `sockets`, `group` and `exs` without --quick; of `loss`
    /// 7, and 1 with --quick
    #[arg(long, value_name = "N", allow_negative_numbers = true, global = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(5..=1000))]
    pub pairs: Option<u32>,
    /// Print one JSON object for each row
    #[arg(long, global = true)]
    pub json: bool,
    /// Write the rows to this file, too, one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Draw throughput and latency over size to this file, as SVG
    #[arg(long, value_name = "FILE", global = true)]
    pub plot: Option<PathBuf>,
    /// Fail if a row was skipped, unless it needs a foreign program
    #[arg(long)]
    pub strict: bool,
    /// Replace the tables between their marks in this file, which is the page of the benchmark: docs/performance.md,
    /// docs/sockets/performance.md, docs/group/performance.md or docs/exs/performance.md
    #[arg(long, value_name = "FILE", global = true)]
    pub update: Option<PathBuf>,
}

/// The measurements beside the table.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    Run(RunArgs),
    Sweep(SweepArgs),
    Sockets(SocketsArgs),
    Group(GroupArgs),
    Exs(ExsArgs),
    Loss(LossArgs),
}

/// One operation over a wire in memory, in any size and setting, beside smoltcp alone and plain copies.
///
/// Sizes up to 4 KiB are shown as millions of messages in a second, larger ones as GB/s, and round trips as
/// microseconds.
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "Examples:
  weft bench run --op write --size 65536,1048576 --mtu 9000
  weft bench run --op send --size 8 --batch 32 --signal-every 32 --depth 128
  weft bench run --op fetch-add --qps 100 --depth 4
  weft bench run --op send --size 8 --round-trips --progress thread
  weft bench run --op read --size 1048576 --no-crc --markers --json")]
pub(crate) struct RunArgs {
    /// The operation
    #[arg(long, value_enum, default_value_t = Op::Write)]
    pub(crate) op: Op,
    /// Octets of a message, 8 to 4194304; several with commas between them. A FetchAdd has 8
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1048576")]
    #[arg(value_parser = clap::value_parser!(u32).range(8..=4_194_304))]
    pub(crate) size: Vec<u32>,
    /// Connected queue pairs that take turns, 1 to 10000
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) qps: u32,
    /// Requests under way on each queue pair, 1 to 128
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=128))]
    pub(crate) depth: u32,
    /// Requests for each doorbell, at most the depth
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=128))]
    pub(crate) batch: u32,
    /// Requests for each completion, at most half the depth, or the batch
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=128))]
    pub(crate) signal_every: u32,
    /// Sends back and forth, one at a time, instead of a stream
    #[arg(long)]
    pub(crate) round_trips: bool,
    /// Turn the CRC32c of FPDUs off
    #[arg(long)]
    pub(crate) no_crc: bool,
    /// Put Markers into the streams of both directions
    #[arg(long)]
    pub(crate) markers: bool,
    /// Octets of the largest IP packet, 576 to 65535
    #[arg(long, value_name = "N", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(576..=65_535))]
    pub(crate) mtu: u32,
    /// The thread that drives the engines: the polling one, or one of each device's own
    #[arg(long, value_enum, default_value_t = Driver::Manual)]
    pub(crate) progress: Driver,
    /// Lose this part of all frames in each direction, 0 to 0.5
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = loss)]
    pub(crate) loss: f64,
}

/// The thread that drives the engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Driver {
    /// The thread that polls.
    Manual,
    /// A thread of each device's own.
    Thread,
}

/// RDMA Write against plain TCP over size, on the same smoltcp and the same wire in memory.
///
/// Prints time and CPU time of each transfer, and the size from which a Write is the cheaper one.
///
/// Each size has 5,000 transfers of either kind, in turns of 1,000, with one thread for both ends. Plain TCP is smoltcp
/// alone, without framing or CRC, with a `send` for each transfer.
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "Examples:
  weft bench sweep
  weft bench sweep --mtu 65535 --json")]
pub(crate) struct SweepArgs {
    /// Octets of the largest IP packet, 576 to 65535
    #[arg(long, value_name = "N", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(576..=65_535))]
    pub(crate) mtu: u32,
    /// Turn the CRC32c of FPDUs off
    #[arg(long)]
    pub(crate) no_crc: bool,
    /// Transfers of each size and kind, 5 to 1000000
    #[arg(long, value_name = "N", default_value_t = 5000, value_parser = clap::value_parser!(u32).range(5..=1_000_000))]
    pub(crate) transfers: u32,
}

/// Unmodified programs on sockets, with `weft sockets` and without it, turn by turn.
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "Examples:
  weft bench sockets --quick
  weft bench sockets --only redis
  weft bench sockets --figure s1-7b --plot target/latency.svg
  weft bench sockets --only stream --turn 500 --json
  weft bench sockets --update docs/sockets/performance.md")]
pub(crate) struct SocketsArgs {
    #[command(subcommand)]
    pub(crate) program: Option<Program>,
    #[command(flatten)]
    pub(crate) choice: Choice,
}

/// Replicas whose devices do the work of each operation (HyperLoop), beside replicas whose programs do it, turn by turn.
///
/// Each replica is a process, and the benchmark is the client. Every octet of all replicas is compared. The RNIC is
/// software: its engine thread is CPU time of the host, which is told apart from that of the replica's program.
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "Examples:
  weft bench group --quick
  weft bench group --only p99
  weft bench group --figure 5.2-20 --plot target/5.2.svg
  weft bench group --only file --dir /var/tmp
  weft bench group --update docs/group/performance.md")]
pub(crate) struct GroupArgs {
    #[command(subcommand)]
    pub(crate) program: Option<GroupProgram>,
    #[command(flatten)]
    pub(crate) choice: Choice,
    /// Where replicas with files have them, as /var/lib; by default the folder for temporary files
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,
}

/// Extended Sockets (EXS) beside raw verbs and the kernel's TCP, turn by turn.
///
/// Each end is a thread with a device, on a core of its own. Every octet is compared outside of the timed parts.
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "Examples:
  weft bench exs --quick
  weft bench exs --only stream
  weft bench exs --figure exs-2 --turn 200 --plot target/fig2.svg
  weft bench exs --update docs/exs/performance.md")]
pub(crate) struct ExsArgs {
    #[command(flatten)]
    pub(crate) choice: Choice,
}

/// RDMA Writes beside the kernel's TCP on paths that lose, delay and reorder frames, turn by turn.
///
/// The two hosts are network namespaces of the benchmark's own, on real time. Between them is a relay that drops, delays
/// and reorders frames. No frame is longer than one segment. Every octet is compared. A cell without progress for five
/// seconds fails. A ratio below a quarter of its target fails, too, if the TCP of the row is there to reach it.
///
/// Turns of paths with 50 ms of delay are five times as long, and those of fairness ten times. All rows take about two
/// hours. --quick measures six cells of loss and delay in less than a minute. --plot FILE draws throughput over loss.
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "Examples:
  weft bench loss --quick
  weft bench loss --only /10ms --turn 1000
  weft bench loss --only blackout --json
  weft bench loss --update docs/tcp/performance.md --plot docs/tcp/loss.svg")]
pub(crate) struct LossArgs {
    #[command(flatten)]
    pub(crate) choice: Choice,
}

/// The programs that the benchmark of groups starts.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum GroupProgram {
    /// A replica.
    #[command(hide = true)]
    Replica(ReplicaArgs),
}

/// What is measured.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Choice {
    /// Measure only cases whose names contain TEXT; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Vec<String>,
    /// List the cases and figures, and measure nothing
    #[arg(long)]
    pub(crate) list: bool,
    /// Measure a table or figure of the papers instead; `--list` names them. --plot FILE draws a figure
    #[arg(long, value_name = "NAME")]
    pub(crate) figure: Option<String>,
    /// Milliseconds of a turn, 1 to 60000; by default 2000, and 100 with --quick; of `loss` 4000 and 3000
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub(crate) turn: Option<u64>,
}

/// The programs that the benchmark starts.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Program {
    /// An end of a conversation.
    #[command(hide = true)]
    Talk(TalkArgs),
    /// A third program, which never stops computing.
    #[command(hide = true)]
    Hog,
}

/// Milliseconds of a turn, and turns of each side, if the arguments say nothing else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turns {
    pub(crate) full: (u64, u32),
    pub(crate) quick: (u64, u32),
}

impl Turns {
    /// Those of programs.
    pub(crate) const PROGRAMS: Self = Self { full: (2000, 10), quick: (100, 5) };
}

impl Choice {
    /// Returns the effort that the options ask for.
    pub(crate) fn effort(&self, args: &Args, usual: Turns) -> Effort {
        let (millis, turns) = if args.quick { usual.quick } else { usual.full };
        let turn = Duration::from_millis(self.turn.unwrap_or(millis));
        Effort { turn, pairs: args.pairs.unwrap_or(turns) as usize, is_tiny: false }
    }
}

impl Args {
    /// Returns true if the measurement takes place in a network namespace of its own. Programs are measured where their
    /// users run them.
    pub const fn is_isolated(&self) -> bool {
        !self.list && !matches!(self.command, Some(Command::Sockets(_) | Command::Group(_) | Command::Exs(_)))
    }

    /// Returns the effort that the options ask for.
    pub(crate) fn effort(&self) -> Effort {
        let turn = if self.quick { QUICK_TURN } else { TURN };
        Effort { turn, pairs: self.pairs.unwrap_or(TURNS) as usize, is_tiny: false }
    }

    /// Returns true if `--only` names the case, or no case at all.
    pub(crate) fn wants(&self, case: &Case) -> bool {
        self.only.is_empty() || self.only.iter().any(|text| case.name.contains(text.as_str()))
    }
}

/// Reads a share of frames.
pub(crate) fn loss(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=0.5).contains(&value) => Ok(value),
        _ => Err(format!("`{text}` is not a number from 0 to 0.5, as 0.01 is")),
    }
}

const TURN: Duration = Duration::from_millis(250);
const TURNS: u32 = 5;
const QUICK_TURN: Duration = Duration::from_millis(15);
