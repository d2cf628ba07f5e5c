//! `weft decode`: shows a capture, with one line for each MPA frame and iWARP segment.

pub mod connection;
pub mod exs;
pub mod fpdu;
pub mod group;
pub mod hex;
pub mod lane;
pub mod packet;
pub mod pcap;
pub mod print;
pub mod reassembly;
pub mod record;
pub mod segment;
pub mod startup;
pub mod stream;
pub mod tracker;
pub mod ulp;

use std::fs::File;
use std::io::{self, BufReader, BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pcap::{Capture, Time};
use print::Style;
use record::{Item, Record};
use tracker::{Summary, Tracker};

use crate::failure::Failure;

/// Show the iWARP traffic of a capture file, one line for each message segment
///
/// One line for each MPA Request and Reply Frame and for each DDP Segment with its RDMAP message:
/// time (from the first packet on), sender and receiver, message, STag and TO or QN, MSN and MO,
/// octets of the ULPDU, verdict on the CRC. TCP streams are put back in order first, so a segment is
/// shown once however often TCP repeated it. Octets that the capture missed are noted, and segments
/// are looked for behind them.
///
/// Lanes, the connections between two daemons of `weft sockets`, are known by their private data: hellos,
/// letters (Sends) and notices (Immediate Data) are shown in words. So are the connections of `weft group`:
/// requests and answers of the control plane, operations and acknowledgements. Keys and tokens are not shown.
/// Of sockets of EXS, hellos and messages are shown.
///
/// With --json: one object a line with the keys time (the packet's own stamp in seconds), src, dst,
/// kind, length, crc, last and further ones; notes go to stderr.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, verbatim_doc_comment)]
pub struct Args {
    /// The capture, in classic pcap format (Ethernet or raw IP); `-` is stdin
    file: PathBuf,

    /// Write one JSON object a line
    #[arg(long)]
    json: bool,
}

/// Decodes the capture, and prints the failure if there is one.
pub fn run(args: &Args) -> ExitCode {
    let stdout = io::stdout();
    let terminal = stdout.is_terminal();
    let mut output = Output {
        sink: BufWriter::new(stdout.lock()),
        json: args.json,
        style: None,
        colours: terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        live: terminal || args.file == Path::new("-"),
    };
    match decode(&args.file, &mut output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.print("decode"),
    }
}

/// The output, and the form of the records in it.
struct Output<W: Write> {
    sink: W,
    json: bool,
    /// Set at the first packet.
    style: Option<Style>,
    colours: bool,
    /// Write each packet's records at once, for a person at a terminal.
    live: bool,
}

impl<W: Write> Output<W> {
    fn write_all(&mut self, tracker: &mut Tracker) -> io::Result<()> {
        while let Some(record) = tracker.next_record() {
            self.write(&record)?;
        }
        if self.live { self.sink.flush() } else { Ok(()) }
    }

    fn write(&mut self, record: &Record) -> io::Result<()> {
        let style = self.style.unwrap_or(Style { begin: Time(0), colours: false });
        if !self.json {
            return writeln!(self.sink, "{}", style.text(record));
        }
        match print::json(record) {
            Some(object) => writeln!(self.sink, "{object}"),
            None => {
                if let Item::Note(note) = record.item {
                    remark(&format!(
                        "packet {}: {} > {}: {note}",
                        record.stamp.number, record.src, record.dst
                    ));
                }
                Ok(())
            }
        }
    }
}

fn decode(path: &Path, output: &mut Output<impl Write>) -> Result<(), Failure> {
    let name = path.display();
    // A file that cannot even be opened is a wrong argument, not a failure on the way.
    let unusable = |error: &dyn std::error::Error| Failure::usage(format!("{name}: {error}"));
    let reader: Box<dyn Read> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(BufReader::new(File::open(path).map_err(|error| unusable(&error))?))
    };
    let mut capture = Capture::open(reader).map_err(|error| unusable(&error))?;
    let mut tracker = Tracker::new();
    let end = loop {
        match capture.next() {
            Ok(Some(packet)) => {
                let colours = output.colours;
                output.style.get_or_insert(Style { begin: packet.stamp.time, colours });
                tracker.handle_packet(capture.link(), &packet);
                output.write_all(&mut tracker)?;
            }
            Ok(None) => break Ok(()),
            // The records before the damage are shown first.
            Err(error) => break Err(error),
        }
    };
    tracker.finish();
    output.write_all(&mut tracker)?;
    output.sink.flush()?;
    if !output.json {
        remark(&summary_text(tracker.summary()));
    }
    end.map_err(|error| match error {
        pcap::Error::Io(_) => Failure::work(format!("{name}: {error}")),
        _ => unusable(&error),
    })
}

fn summary_text(summary: &Summary) -> String {
    let Summary { packets, iwarp, other, from_middle, fragments, malformed, cut, bad_checksums } = summary;
    let mut out = format!("packets: {packets}; iWARP connections: {iwarp}; other TCP connections: {other}");
    for (count, what) in [
        (from_middle, "of the others began before the capture, so their startup frames are not there"),
        (fragments, "IP fragments left out"),
        (malformed, "packets with damaged headers"),
        (cut, "packets cut short by the capture"),
        (bad_checksums, "TCP segments with a bad checksum"),
    ] {
        if *count > 0 {
            out.push_str(&format!("; {count} {what}"));
        }
    }
    out
}

/// Writes a line to stderr. If that fails, the exit status still shows a failure.
fn remark(message: &str) {
    let _ = writeln!(io::stderr(), "weft decode: {message}");
}

const EXAMPLES: &str = "\
Examples:
  weft decode trace.pcap
  weft decode --json trace.pcap | jq -r .kind | sort | uniq -c
  tcpdump -U -w - tcp | weft decode -

Exit status: 0 decoded (bad CRCs and gaps included), 1 reading or writing failed on the way, 2 not a
usable capture; a damaged one is decoded as far as it goes.";
