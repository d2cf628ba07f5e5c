//! A conversation of two programs over a socket, and the program at each end of it.

use std::io::{self, BufRead, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use rustix::net::sockopt;

use crate::cores::keep_to;
use crate::octets::{compare, pattern};

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
    /// The index of the core among those of the benchmark; by default all
    #[arg(long)]
    pub(crate) core: Option<usize>,
    /// Where to listen, or to connect to: a port of 127.0.0.1, or a path
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
    /// Connections, each with an octet there and back.
    Connect,
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
        let mut end = door.accept(args)?;
        let served = match args.work {
            Work::Ping | Work::Connect => end.echo(args.size),
            Work::Stream => end.take(args),
            Work::Relay => end.relay(args),
        };
        match served {
            Err(error) if args.work != Work::Connect => return Err(error),
            _ if args.work != Work::Connect => return Ok(()),
            _ => {}
        }
    }
}

/// Takes a turn for each line of the standard input, which has its nanoseconds. Prints transfers and nanoseconds.
#[expect(clippy::disallowed_methods, reason = "a measurement takes the time")]
fn ask(args: &TalkArgs, out: &mut dyn Write) -> io::Result<()> {
    let mut end = if args.work == Work::Connect { None } else { Some(End::connect(args)?) };
    let sent = pattern(args.size * if args.work == Work::Stream { args.round } else { 1 });
    writeln!(out, "ready")?;
    out.flush()?;
    for line in io::stdin().lock().lines() {
        let budget = Duration::from_nanos(line?.trim().parse().map_err(io::Error::other)?);
        let (mut wall, mut transfers) = (Duration::ZERO, 0);
        while transfers == 0 || wall < budget {
            let start = Instant::now();
            match &mut end {
                None => (0..args.round).try_for_each(|_| End::connect(args)?.round_trip(&sent))?,
                Some(end) if args.work == Work::Ping => {
                    (0..args.round).try_for_each(|_| end.round_trip(&sent))?
                }
                Some(end) => end.give(&sent, args.size)?,
            }
            wall += start.elapsed();
            transfers += args.round;
            if let (Some(end), Work::Stream) = (&mut end, args.work) {
                end.hear_verdict()?;
            }
        }
        writeln!(out, "{transfers} {}", wall.as_nanos())?;
        out.flush()?;
    }
    Ok(())
}

/// A listening socket.
enum Door {
    Tcp(TcpListener),
    Unix(UnixListener, String),
}

impl Door {
    fn open(args: &TalkArgs) -> io::Result<Self> {
        Ok(match args.socket {
            Socket::Unix => Self::Unix(UnixListener::bind(&args.at)?, args.at.clone()),
            Socket::Tcp | Socket::Cubic => Self::Tcp(TcpListener::bind(("127.0.0.1", 0))?),
        })
    }

    fn place(&self) -> io::Result<String> {
        Ok(match self {
            Self::Tcp(listener) => listener.local_addr()?.port().to_string(),
            Self::Unix(_, path) => path.clone(),
        })
    }

    fn accept(&mut self, args: &TalkArgs) -> io::Result<End> {
        let stream = match self {
            Self::Tcp(listener) => Stream::Tcp(listener.accept()?.0),
            Self::Unix(listener, _) => Stream::Unix(listener.accept()?.0),
        };
        End::new(stream, args)
    }
}

/// A connected socket.
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn read(&mut self, octets: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(octets),
            Self::Unix(stream) => stream.read(octets),
        }
    }

    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(octets),
            Self::Unix(stream) => stream.write(octets),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

/// A connected socket and its way to wait.
struct End {
    stream: Stream,
    wait: Wait,
    poll: Option<(Poll, Events)>,
}

impl End {
    fn connect(args: &TalkArgs) -> io::Result<Self> {
        let stream = match args.socket {
            Socket::Unix => Stream::Unix(UnixStream::connect(&args.at)?),
            Socket::Tcp | Socket::Cubic => {
                let port: u16 = args.at.parse().map_err(io::Error::other)?;
                Stream::Tcp(TcpStream::connect(("127.0.0.1", port))?)
            }
        };
        Self::new(stream, args)
    }

    fn new(stream: Stream, args: &TalkArgs) -> io::Result<Self> {
        if let Stream::Tcp(stream) = &stream {
            stream.set_nodelay(true)?;
        }
        if args.socket == Socket::Cubic {
            sockopt::set_tcp_congestion(&stream, "cubic")?;
            sockopt::set_socket_send_buffer_size(&stream, LARGE)?;
            sockopt::set_socket_recv_buffer_size(&stream, LARGE)?;
        }
        let is_blocking = args.wait == Wait::Blocking;
        match &stream {
            Stream::Tcp(stream) => stream.set_nonblocking(!is_blocking)?,
            Stream::Unix(stream) => stream.set_nonblocking(!is_blocking)?,
        }
        let poll = if args.wait == Wait::Epoll {
            let poll = Poll::new()?;
            let descriptor = stream.as_fd().as_raw_fd();
            poll.registry().register(
                &mut SourceFd(&descriptor),
                Token(0),
                Interest::READABLE | Interest::WRITABLE,
            )?;
            Some((poll, Events::with_capacity(8)))
        } else {
            None
        };
        Ok(Self { stream, wait: args.wait, poll })
    }

    /// Reads all of `octets`. Returns false if the stream ends before the first one.
    fn read_all(&mut self, octets: &mut [u8]) -> io::Result<bool> {
        let mut done = 0;
        while done < octets.len() {
            match self.stream.read(&mut octets[done..]) {
                Ok(0) if done == 0 => return Ok(false),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(len) => done += len,
                Err(error) => self.wait_after(error)?,
            }
        }
        Ok(true)
    }

    fn write_all(&mut self, octets: &[u8]) -> io::Result<()> {
        let mut done = 0;
        while done < octets.len() {
            match self.stream.write(&octets[done..]) {
                Ok(len) => done += len,
                Err(error) => self.wait_after(error)?,
            }
        }
        Ok(())
    }

    /// Waits if a call has found nothing to do. Returns other errors.
    fn wait_after(&mut self, error: io::Error) -> io::Result<()> {
        match (error.kind(), &mut self.poll) {
            (io::ErrorKind::Interrupted, _) => Ok(()),
            (io::ErrorKind::WouldBlock, Some((poll, events))) => poll.poll(events, None),
            (io::ErrorKind::WouldBlock, None) if self.wait == Wait::Spinning => {
                core::hint::spin_loop();
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Sends back each message.
    fn echo(&mut self, size: usize) -> io::Result<()> {
        let mut octets = vec![0; size];
        while self.read_all(&mut octets)? {
            self.write_all(&octets)?;
        }
        Ok(())
    }

    fn round_trip(&mut self, sent: &[u8]) -> io::Result<()> {
        let mut came = [0; 4096];
        if sent.len() > came.len() {
            let mut came = vec![0; sent.len()];
            return self.exchange(sent, &mut came);
        }
        self.exchange(sent, &mut came[..sent.len()])
    }

    fn exchange(&mut self, sent: &[u8], came: &mut [u8]) -> io::Result<()> {
        self.write_all(sent)?;
        if !self.read_all(came)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        compare(came, sent).map_err(io::Error::other)
    }

    /// Takes rounds of messages. Answers each round twice: when it has come, and when its octets were compared.
    fn take(&mut self, args: &TalkArgs) -> io::Result<()> {
        let wanted = pattern(args.size * args.round);
        let mut came = vec![0; wanted.len()];
        while self.read_all(&mut came)? {
            self.write_all(b"t")?;
            let verdict = if compare(&came, &wanted).is_ok() { b"r" } else { b"w" };
            came.fill(0);
            self.write_all(verdict)?;
        }
        Ok(())
    }

    /// Passes on each message to the next program, and each answer back.
    fn relay(&mut self, args: &TalkArgs) -> io::Result<()> {
        let at = args.next.clone().unwrap_or_default();
        let mut next = Self::connect(&TalkArgs { at, ..args.clone() })?;
        let (mut message, mut answer) = (vec![0; args.size], [0]);
        loop {
            for _ in 0..args.round {
                if !self.read_all(&mut message)? {
                    return Ok(());
                }
                next.write_all(&message)?;
            }
            // A round has two answers.
            for _ in 0..2 {
                if !next.read_all(&mut answer)? {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                self.write_all(&answer)?;
            }
        }
    }

    /// Sends a round of messages, each by a call of its own, up to the answer that it has come.
    fn give(&mut self, sent: &[u8], size: usize) -> io::Result<()> {
        for message in sent.chunks(size) {
            self.write_all(message)?;
        }
        self.hear(b't')
    }

    fn hear_verdict(&mut self) -> io::Result<()> {
        self.hear(b'r')
    }

    fn hear(&mut self, wanted: u8) -> io::Result<()> {
        let mut answer = [0];
        if self.read_all(&mut answer)? && answer[0] == wanted {
            return Ok(());
        }
        Err(io::Error::other("the server found wrong octets, or went away"))
    }
}

const LARGE: usize = 4 << 20;
