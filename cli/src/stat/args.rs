//! The arguments of `weft stat`.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Show the counters and objects of running processes, and the connections of programs under `weft sockets`.
///
/// A process answers if it was started with WEFT_STAT=1, or if it has started a weft_stat::Server. It listens
/// on a Unix socket in $XDG_RUNTIME_DIR/weft, or without that variable in /tmp/weft-UID, and answers its own user and
/// root. WEFT_STAT=FOLDER names another folder, for both sides. docs/observability.md has the meaning of every counter.
#[derive(Debug, Clone, Parser)]
#[command(after_help = "Examples:
  weft stat                     which processes there are
  weft stat 4711                the counters of process 4711 that are not 0
  weft stat 4711 --watch 1      what moves, each second, with rates
  weft stat 4711 qp             its queue pairs: state, addresses, fill
  weft stat 4711 mr --stags     its memory with the STags, which are a secret towards peers
  weft stat 4711-1 cq --json    the completion queues of its second device, for machines
  weft stat sockets             the connections of programs under `weft sockets`, and why others stay on TCP
  weft stat 4711 sockets        those of process 4711, or all if it is a daemon
  weft stat group               the sessions at replicas of groups, and how many operations they had
  weft stat exs                 Extended Sockets: octets by their ways, and what sends waited for

Columns of `weft stat sockets`, connections that are open and have left TCP:
  LOCAL, PEER             the addresses of both ends
  PIDS, PEER-PIDS         the processes that hold each end; - is an end on another host, whose address is that of PEER
  SENDS-BY, READS-BY      what carries a direction now: tcp, memory, or rdma to another host
  SENT, READ, BY-RING     octets in all, and those of them that did not go by TCP
  WINDOW, UNREAD          octets of the ring for what is sent, and those in it that the reader has not taken
  SPINS, YIELDS, SLEEPS, WAKES   how often a wait spun, yielded and slept, and how often this end woke the other one
  REASON                  why a direction is on TCP
Columns of its table of processes: connections that were SEEN and CLAIMED, octets by rings, and ON-TCP, how many
connections stayed there for which reason. Columns of its table of hosts: LANE is up, opening or none, and REASON says
why there is none: no-daemon, no-route, no-answer, key, version, addresses, refused, rule, silent or lost.
docs/sockets.md explains all reasons.")]
pub struct Args {
    /// The process, or one device of it as PID-N; without it all are listed. Or the word sockets, group or exs
    #[arg(value_name = "PID", value_parser = subject)]
    pub subject: Option<Subject>,
    /// What to show
    #[arg(value_name = "WHAT", value_enum, default_value_t = What::Counters)]
    pub what: What,
    /// Counters: those that are 0, too
    #[arg(long)]
    pub all: bool,
    /// Memory: the STags and tagged offsets, too
    #[arg(long)]
    pub stags: bool,
    /// Ask again every so many seconds, until the process ends
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = seconds)]
    pub watch: Option<f64>,
    /// Print each answer as one line of JSON
    #[arg(long)]
    pub json: bool,
    /// The folder of the sockets
    #[arg(long, value_name = "FOLDER")]
    pub dir: Option<PathBuf>,
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A process.
    Process(Target),
    /// All daemons, for their connections.
    Sockets,
    /// All replicas of groups, for their sessions.
    Group,
    /// All processes with Extended Sockets.
    Exs,
}

/// A process, and perhaps one device of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    pub(crate) pid: u32,
    pub(crate) device: Option<u32>,
}

/// The kinds of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// What each layer has counted
    Counters,
    /// Queue pairs
    Qp,
    /// Memory regions and windows
    Mr,
    /// Completion queues
    Cq,
    /// Shared receive queues
    Srq,
    /// Protection domains
    Pd,
    /// Connections
    Cm,
    /// Listeners
    Listener,
    /// Connections of programs under `weft sockets`, as their daemon knows them
    Sockets,
    /// Sessions at a replica of a group
    Group,
    /// Extended Sockets
    Exs,
}

impl What {
    /// Returns the request by which a process is asked for this kind.
    pub(crate) const fn request(self, with_stags: bool) -> &'static str {
        match self {
            Self::Counters => "counters",
            Self::Qp => "qp",
            Self::Mr if with_stags => "mr stags",
            Self::Mr => "mr",
            Self::Cq => "cq",
            Self::Srq => "srq",
            Self::Pd => "pd",
            Self::Cm => "cm",
            Self::Listener => "listener",
            Self::Sockets => "sockets",
            Self::Group => "group",
            Self::Exs => "exs",
        }
    }
}

fn subject(text: &str) -> Result<Subject, String> {
    match text {
        "sockets" => Ok(Subject::Sockets),
        "group" => Ok(Subject::Group),
        "exs" => Ok(Subject::Exs),
        _ => target(text).map(Subject::Process),
    }
}

fn target(text: &str) -> Result<Target, String> {
    let number = |text: &str| text.parse::<u32>().ok();
    let parsed = match text.split_once('-') {
        None => number(text).map(|pid| Target { pid, device: None }),
        Some((pid, device)) => {
            let device = number(device);
            number(pid).filter(|_| device.is_some()).map(|pid| Target { pid, device })
        }
    };
    parsed.filter(|target| target.pid > 0).ok_or_else(|| {
        format!(
            "`{text}` is neither the number of a process nor that of a device, such as 4711 or 4711-0 (`weft stat` lists them)"
        )
    })
}

fn seconds(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value| (0.01..=3600.0).contains(value));
    value.ok_or_else(|| format!("`{text}` is not a number of seconds from 0.01 to 3600"))
}
