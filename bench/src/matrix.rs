//! `weft bench run`: any combination of operation, size and setting.

use std::io::{self, Write};

use clap::ValueEnum as _;
use serde_json::json;
use weft_rnic::Progress;

use crate::args::{Args, Driver, RunArgs};
use crate::case::{Case, Effort, Quantity, Reference, Side, Sides, Trouble};
use crate::copies::Copies;
use crate::harness::{Row, judge, measure_sides, missing};
use crate::ours::{self, Ends, MAX_BATCH, Op, Work};
use crate::raw::{self, Pieces};
use crate::report;
use crate::setting::Setting;

/// Measures each size and prints its rows.
pub(crate) fn run(wanted: &RunArgs, args: &Args, out: &mut dyn Write) -> io::Result<Result<(), Trouble>> {
    wanted.check().map_err(|text| io::Error::new(io::ErrorKind::InvalidInput, text))?;
    let mut rows = Vec::new();
    if !args.json {
        writeln!(out, "TCP's clock at {} times real time\n", wanted.setting().clock_scale)?;
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

    /// Checks that the options fit together.
    fn check(&self) -> Result<(), String> {
        if self.batch > self.depth {
            return Err("--batch is at most --depth".to_owned());
        }
        // If no request under way had a completion, no place would ever be free again.
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
        Setting {
            crc: !self.no_crc,
            markers: self.markers,
            loss: self.loss,
            tcp_buffer: if self.qps > 64 { 16 << 10 } else { 256 << 10 },
            progress: if self.progress == Driver::Manual { Progress::Manual } else { Progress::Thread },
            ..Setting::new(mtu)
        }
    }

    fn open(&self, size: usize, effort: &Effort) -> Result<Sides, Trouble> {
        let setting = self.setting();
        let (depth, batch) = (self.depth as usize, (self.batch as usize).min(MAX_BATCH));
        let qps = effort.count(self.qps as usize);
        // The queues have room for the messages at the end of a round, too.
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

    /// Returns the row as a JSON object, with the options that it was measured with.
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
            ("clock_scale", json!(self.setting().clock_scale)),
            ("tcp_buffer", json!(self.setting().tcp_buffer)),
            ("progress", json!(if self.progress == Driver::Manual { "manual" } else { "thread" })),
        ] {
            object[key] = value;
        }
        object
    }
}

/// Returns a case of `run`. Its sides come from the options.
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
