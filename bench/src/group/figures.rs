//! The tables and figures of the report and of the paper.
//!
//! The report is *Implementing Hyperloop* (2020), the paper HyperLoop (SIGCOMM 2018).

use super::terms::Mode;
use super::work::{Gauge, Kind, Work};
use crate::case::{Quantity, Side};
use crate::figure::{Body, Compared, Figure, Line};
use crate::process::Outcome;

pub(super) static FIGURES: [Figure; 9] = [
    Figure {
        name: "5.2-20",
        title: "Report, figure 5.2: time of a gWRITE with 20 under way, over its size",
        paper: "elapsed time of 100,000 operations; a busy host takes 2.3 times as long at 1 KiB and 1,000 under way",
        body: curves(Quantity::Micros, SIZES, |size| refills(write(size).deep(20))),
    },
    Figure {
        name: "5.2-busy",
        title: "Report, figure 5.2: the same with a program at a replica that computes half of the time",
        paper: "a busy host takes 2.3 times as long at 1 KiB and 1,000 under way",
        body: curves(Quantity::Micros, SIZES, |size| refills(write(size).deep(20).busy(1))),
    },
    Figure {
        name: "5.2-window",
        title: "Report, figure 5.2: time of a gWRITE of 1 KiB, over the number under way",
        paper: "windows from 20 to 2,000",
        body: Body::Curves {
            over: "under way",
            quantity: Quantity::Micros,
            columns: REFILLS,
            points: &[1, 20, 100, 500, 2000],
            open: |depth| refills(windowed(write(1024), depth)),
        },
    },
    Figure {
        name: "5.3",
        title: "Report, figure 5.3: operations of 1 KiB per second, 16 under way",
        paper: "compared with the paper of HyperLoop; the values are not known here",
        body: Body::Lines { columns: ALL, lines: RATES },
    },
    Figure {
        name: "5.4",
        title: "Report, figure 5.4: bandwidth of gWRITE through three replicas, over its size",
        paper: "19 of 25 Gb/s, 76 percent",
        body: Body::Curves {
            over: "octets",
            quantity: Quantity::Throughput,
            columns: &["Weft, three replicas", "Weft, one replica", "driven, sleeping"],
            points: &[1 << 14, 1 << 16, 1 << 18],
            open: |size| {
                let work = large(write(size).deep(8));
                start([work, work.of(1), work.with(Mode::Sleep)])
            },
        },
    },
    Figure {
        name: "5.5",
        title: "Report, figures 5.5 and 5.6: time of an operation in which the client waits for refilled queues",
        paper: "refilling dominates below 32 KiB",
        body: Body::Curves {
            over: "octets",
            quantity: Quantity::Measured,
            columns: &["refilled by the program", "the whole operation"],
            points: SIZES,
            open: |size| {
                let work = write(size).deep(20).with(Mode::Refilled);
                start([work.gauge(Gauge::Refill), work.gauge(Gauge::Whole)])
            },
        },
    },
    Figure {
        name: "5.7",
        title: "Report, figures 5.7 and 5.8: latency of a gWRITE of 1 KiB, over the number of replicas",
        paper: "two replicas and a client apart: refilling is what is left",
        body: Body::Curves {
            over: "replicas",
            quantity: Quantity::Micros,
            columns: TWO,
            points: &[1, 2, 3, 5, 7],
            open: |replicas| {
                start([write(1024), write(1024).with(Mode::Sleep)].map(|work| work.of(replicas)))
            },
        },
    },
    Figure {
        name: "latency",
        title: "Paper: latency of the primitives",
        paper: "the 99th percentile is up to 800 times lower on busy hosts",
        body: Body::Lines { columns: ALL, lines: LATENCIES },
    },
    Figure {
        name: "cpu",
        title: "Paper: CPU time of the replicas for an operation",
        paper: "about 0 %",
        body: Body::Lines { columns: ALL, lines: CPU },
    },
];

const RATES: &[Line] = &[
    line("gWRITE", Quantity::Rate, || all(write(1024).deep(16))),
    line("gMEMCPY", Quantity::Rate, || all(work(Kind::Copy, 1024).deep(16))),
    line("gCAS", Quantity::Rate, || all(work(Kind::Swap, 8).deep(16))),
    line("gFLUSH of memory", Quantity::Rate, || all(work(Kind::Flush, 1024).deep(16))),
    line("gFLUSH of files", Quantity::Rate, || all(work(Kind::Flush, 1024).on_files().deep(16))),
];

const LATENCIES: &[Line] = &[
    line("gWRITE of 128 octets, p50", Quantity::Measured, || all(write(128).gauge(P50))),
    line("gWRITE of 128 octets, p95", Quantity::Measured, || all(write(128).gauge(P95))),
    line("gWRITE of 128 octets, p99", Quantity::Measured, || all(write(128).gauge(P99))),
    line("gWRITE of 1 KiB, p50", Quantity::Measured, || all(write(1024).gauge(P50))),
    line("gWRITE of 1 KiB, p99", Quantity::Measured, || all(write(1024).gauge(P99))),
    line("gWRITE of 8 KiB, p50", Quantity::Measured, || all(write(8192).gauge(P50))),
    line("gWRITE of 8 KiB, p99", Quantity::Measured, || all(write(8192).gauge(P99))),
    line("gMEMCPY of 1 KiB, p50", Quantity::Measured, || all(work(Kind::Copy, 1024).gauge(P50))),
    line("gMEMCPY of 1 KiB, p99", Quantity::Measured, || all(work(Kind::Copy, 1024).gauge(P99))),
    line("gCAS, p50", Quantity::Measured, || all(work(Kind::Swap, 8).gauge(P50))),
    line("gCAS, p99", Quantity::Measured, || all(work(Kind::Swap, 8).gauge(P99))),
    line("gFLUSH of memory, p50", Quantity::Measured, || all(work(Kind::Flush, 1024).gauge(P50))),
    line("gFLUSH of memory, p99", Quantity::Measured, || all(work(Kind::Flush, 1024).gauge(P99))),
    line("gFLUSH of files, p50", Quantity::Measured, || all(work(Kind::Flush, 1024).on_files().gauge(P50))),
    line("gFLUSH of files, p99", Quantity::Measured, || all(work(Kind::Flush, 1024).on_files().gauge(P99))),
];

const CPU: &[Line] = &[
    line("programs, gWRITE of 1 KiB", Quantity::Measured, || all(write(1024).gauge(Gauge::ProgramCpu))),
    line("programs and devices", Quantity::Measured, || all(write(1024).gauge(Gauge::AllCpu))),
    line("switches to threads of programs", Quantity::Switches, || all(write(1024).gauge(Gauge::Switches))),
];

const fn line(name: &'static str, quantity: Quantity, open: fn() -> Compared) -> Line {
    Line { name, paper: "", quantity, open }
}

const fn curves(quantity: Quantity, points: &'static [usize], open: fn(usize) -> Compared) -> Body {
    Body::Curves { over: "octets", quantity, columns: REFILLS, points, open }
}

const fn work(kind: Kind, size: usize) -> Work {
    Work::new(Mode::Cyclic, kind, size)
}

const fn write(size: usize) -> Work {
    large(work(Kind::Write, size))
}

/// Returns the same work with pieces and a range that are large enough for its size.
const fn large(mut work: Work) -> Work {
    if work.size > work.plan.piece as usize {
        (work.plan.piece, work.plan.window, work.plan.len) = (1 << 18, 32, 8 << 20);
    }
    work
}

/// Returns the same work with a window for so many under way.
fn windowed(work: Work, depth: usize) -> Work {
    let window = u32::try_from(depth.next_power_of_two()).unwrap_or(4096).max(16);
    let mut work = work.deep(depth as u64);
    work.plan = super::chain::Plan { window, piece: 1024, len: 4 << 20, ..work.plan };
    work
}

/// In the order of [`ALL`].
fn all(work: Work) -> Compared {
    start([work, work.with(Mode::Sleep), work.with(Mode::Poll), work.with(Mode::Spin)])
}

/// In the order of [`REFILLS`].
fn refills(work: Work) -> Compared {
    start([work, work.with(Mode::Refilled), work.with(Mode::Sleep)])
}

fn start<const N: usize>(works: [Work; N]) -> Vec<Outcome<Box<dyn Side>>> {
    works.into_iter().map(Work::start).collect()
}

const ALL: &[&str] = &["Weft", "driven, sleeping", "driven, in poll(2)", "driven, spinning"];
const REFILLS: &[&str] = &["Weft", "refilled by the program", "driven, sleeping"];
const TWO: &[&str] = &["Weft", "driven, sleeping"];
const SIZES: &[usize] = &[1 << 10, 1 << 12, 1 << 14, 1 << 16];
const P50: Gauge = Gauge::Percentile(50);
const P95: Gauge = Gauge::Percentile(95);
const P99: Gauge = Gauge::Percentile(99);
