//! `weft bench run`: one combination of operation, size and setting, of one's own choice.

use std::io::{self, Write};

use clap::{Args as ClapArgs, ValueEnum};
use serde_json::json;
use weft_netif::Congestion;
use weft_rnic::Progress;

use crate::args::{self, Args};
use crate::case::{Case, Effort, Quantity, Reference, Side, Sides, Trouble};
use crate::copies::Copies;
use crate::harness::{Row, judge, measure_sides, missing};
use crate::ours::{self, Ends, MAX_BATCH, Op, Work};
use crate::raw::{self, Pieces};
use crate::report;
use crate::setting::Setting;

/// One operation over a wire in memory, in any size and setting, beside smoltcp alone and plain copies.
///
/// Sizes up to 4 KiB are shown as millions of messages in a second, larger ones as GB/s, and round trips as microseconds.
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
    /// One of so many requests makes a completion, at most half the depth unless that is the batch
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
    /// Who drives the engines: the thread that polls, or a thread of each device's own
    #[arg(long, value_enum, default_value_t = Driver::Manual)]
    pub(crate) progress: Driver,
    /// Lose this part of all frames in each direction, 0 to 0.5
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = args::loss)]
    pub(crate) loss: f64,
    /// TCP without congestion control
    #[arg(long)]
    pub(crate) no_congestion_control: bool,
    /// How much faster than real time TCP's clock runs
    #[arg(long, value_name = "N", default_value_t = weft_rnic::CLOCK_SCALE)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) clock_scale: u32,
    /// Octets of each TCP buffer; 262144 if there are few queue pairs, 16384 if there are many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(4096..=4_194_304))]
    pub(crate) tcp_buffer: Option<u32>,
}

/// Who drives the engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Driver {
    /// The thread that polls.
    Manual,
    /// A thread of each device's own.
    Thread,
}

/// Measures each size and prints its rows.
pub(crate) fn run(wanted: &RunArgs, args: &Args, out: &mut dyn Write) -> io::Result<Result<(), Trouble>> {
    wanted.check().map_err(|text| io::Error::new(io::ErrorKind::InvalidInput, text))?;
    let mut rows = Vec::new();
    if !args.json {
        writeln!(out, "TCP's clock at {} times real time\n", wanted.clock_scale)?;
        report::heading(out)?;
    }
    for size in wanted.sizes() {
        let (case, effort) = (wanted.case(size), args.effort());
        let measured = match wanted.open(size, &effort) {
            Ok(sides) => measure_sides(case, sides, &effort, &mut || {}),
            Err(trouble) => missing(case, &trouble),
        };
        if !args.json {
            writeln!(out, "{} of {size} octets", wanted.name())?;
        }
        for row in measured {
            if args.json {
                writeln!(out, "{}", wanted.object(&row, size))?;
            } else {
                report::line(out, &row)?;
            }
            rows.push(row);
        }
        out.flush()?;
    }
    Ok(judge(&rows, args.strict))
}

impl RunArgs {
    fn sizes(&self) -> Vec<usize> {
        if self.op == Op::FetchAdd { vec![8] } else { self.size.iter().map(|&size| size as usize).collect() }
    }

    /// What does not go together.
    fn check(&self) -> Result<(), String> {
        if self.batch > self.depth {
            return Err("--batch is at most --depth".to_owned());
        }
        // Less than all that is under way must be without completion, or nothing more could be posted.
        if self.signal_every > self.batch && 2 * self.signal_every > self.depth {
            return Err("--signal-every is at most half of --depth, or the batch".to_owned());
        }
        let largest = self.sizes().into_iter().max().unwrap_or_default();
        if self.round_trips && (self.op != Op::Send || largest > weft_rnic::QpCapacity::default().inline) {
            return Err("--round-trips are of --op send, of at most 64 octets".to_owned());
        }
        Ok(())
    }

    fn name(&self) -> String {
        let name = self.op.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
        if self.round_trips { format!("round trips of {name}") } else { name }
    }

    fn case(&self, size: usize) -> &'static Case {
        match size {
            _ if self.round_trips => &ROUND_TRIPS,
            0..=4096 => &MESSAGES,
            _ => &STREAM,
        }
    }

    fn setting(&self) -> Setting {
        let mtu = self.mtu as usize;
        let buffer = if self.qps > 64 { 16 << 10 } else { 256 << 10 };
        Setting {
            crc: !self.no_crc,
            markers: self.markers,
            loss: self.loss,
            clock_scale: self.clock_scale,
            tcp_buffer: self.tcp_buffer.map_or(buffer, |octets| octets as usize),
            congestion: if self.no_congestion_control { Congestion::None } else { Congestion::Cubic },
            progress: if self.progress == Driver::Manual { Progress::Manual } else { Progress::Thread },
            ..Setting::new(mtu)
        }
    }

    fn open(&self, size: usize, effort: &Effort) -> Result<Sides, Trouble> {
        let setting = self.setting();
        let (depth, batch) = (self.depth as usize, (self.batch as usize).min(MAX_BATCH));
        let qps = effort.count(self.qps as usize);
        // Room for what says at the end of a round that all has come.
        let ends = Ends::on_pair(&setting, qps, self.depth + 16)?;
        if self.round_trips {
            let ours = Box::new(ours::Ping::new(ends, size, qps / 2)?);
            return Ok(Sides { ours, references: vec![Box::new(raw::Ping::new(&setting, size)?)] });
        }
        let signal_every = self.signal_every as usize;
        let doorbells = (depth / batch).max(1);
        let work = Work { depth, batch, doorbells, signal_every, ..Work::new(self.op, size) };
        let references: Vec<Box<dyn Side>> = vec![
            Box::new(raw::Stream::new(&setting, Pieces::new(size))?),
            Box::new(Copies::new(size, false)),
            Box::new(Copies::new(size, true)),
        ];
        Ok(Sides { ours: Box::new(ours::Stream::new(ends, work)?), references })
    }

    /// The row, and what it is a row of.
    fn object(&self, row: &Row, size: usize) -> serde_json::Value {
        let mut object = report::object(row);
        for (key, value) in [
            ("op", json!(self.name())),
            ("size", json!(size)),
            ("qps", json!(self.qps)),
            ("depth", json!(self.depth)),
            ("batch", json!(self.batch)),
            ("signal_every", json!(self.signal_every)),
            ("crc", json!(!self.no_crc)),
            ("markers", json!(self.markers)),
            ("mtu", json!(self.mtu)),
            ("loss", json!(self.loss)),
            ("clock_scale", json!(self.clock_scale)),
            ("tcp_buffer", json!(self.setting().tcp_buffer)),
            ("progress", json!(if self.progress == Driver::Manual { "manual" } else { "thread" })),
        ] {
            object[key] = value;
        }
        object
    }
}

/// The three ways in which `run` measures; the sides come from its options.
const fn case(quantity: Quantity, references: &'static [Reference]) -> Case {
    let open = |_: &Case, _: &Effort| Err(Trouble::Skipped("for `weft bench run` only".to_owned()));
    Case { name: "run", quantity, references, clock_scale: weft_rnic::CLOCK_SCALE, open }
}

static STREAM: Case = case(Quantity::Throughput, REFERENCES);
static MESSAGES: Case = case(Quantity::Rate, REFERENCES);
static ROUND_TRIPS: Case = case(Quantity::Micros, &[Reference::shown("smoltcp ping-pong")]);
const REFERENCES: &[Reference] = &[
    Reference::shown("smoltcp stream, no CRC"),
    Reference::shown("memcpy"),
    Reference::shown("memcpy and CRC32c"),
];
