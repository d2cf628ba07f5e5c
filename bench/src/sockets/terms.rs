//! What the program at one end of a conversation is told.

use clap::{Args, ValueEnum};

/// One end of a conversation. The benchmark starts it; it prints lines for the benchmark only.
#[derive(Clone, Debug, Args)]
pub(crate) struct TalkArgs {
    /// Listen instead of connecting
    #[arg(long)]
    pub(crate) serve: bool,
    /// What is said
    #[arg(long, value_enum)]
    pub(crate) work: Work,
    /// Octets of a message
    #[arg(long)]
    pub(crate) size: usize,
    /// Messages of a round
    #[arg(long)]
    pub(crate) round: usize,
    /// How an end waits for octets
    #[arg(long, value_enum)]
    pub(crate) wait: Wait,
    /// The kind of socket
    #[arg(long, value_enum)]
    pub(crate) socket: Socket,
    /// The threads that send messages one way
    #[arg(long, value_enum)]
    pub(crate) threads: Threads,
    /// Connections at a time, or messages there and back on each of many connections
    #[arg(long)]
    pub(crate) count: usize,
    /// The index of the core among those of the benchmark; by default all
    #[arg(long)]
    pub(crate) core: Option<usize>,
    /// Where to listen, or to connect to: an address and a port, or a path
    #[arg(long)]
    pub(crate) at: String,
    /// Where a relay connects to
    #[arg(long)]
    pub(crate) next: Option<String>,
}

/// What is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Work {
    /// Messages there and back, one at a time.
    Ping,
    /// Messages one way, each by a call of its own. The server answers behind the last one of a round.
    Stream,
    /// Connections, each with messages there and back.
    Connect,
    /// A connection for each turn, whose messages there and back are timed one by one.
    First,
    /// Messages there and back, on many connections in turn. The server has them in one epoll set.
    Many,
    /// Calls in MessagePack, with answers of the same size.
    Call,
    /// Calls of fcntl, which moves no octets.
    Operate,
    /// Messages that come on one connection go out on the next one.
    Relay,
}

/// How an end waits for octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wait {
    /// In the call that reads.
    Blocking,
    /// By epoll.
    Epoll,
    /// It asks again and again.
    Spinning,
}

/// The kind of socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Socket {
    /// TCP as it is configured.
    Tcp,
    /// TCP with cubic and buffers of 4 MiB.
    Cubic,
    /// A socket of the file system.
    Unix,
}

/// The threads of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Threads {
    /// One.
    One,
    /// One that sends, and one that sleeps.
    Idle,
    /// Two that send by turns.
    Alternate,
}
