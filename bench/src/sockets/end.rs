//! A socket at one end of a conversation, and its way to wait.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use rustix::net::sockopt;

use super::terms::{Socket, TalkArgs, Wait};
use crate::octets::{compare, pattern};

/// A listening socket.
pub(super) enum Door {
    Tcp(TcpListener),
    Unix(UnixListener, String),
}

impl Door {
    pub(super) fn open(args: &TalkArgs) -> io::Result<Self> {
        Ok(match args.socket {
            Socket::Unix => Self::Unix(UnixListener::bind(&args.at)?, args.at.clone()),
            Socket::Tcp | Socket::Cubic => Self::Tcp(TcpListener::bind(&args.at)?),
        })
    }

    pub(super) fn place(&self) -> io::Result<String> {
        Ok(match self {
            Self::Tcp(listener) => listener.local_addr()?.to_string(),
            Self::Unix(_, path) => path.clone(),
        })
    }

    pub(super) fn accept(&mut self, args: &TalkArgs) -> io::Result<End> {
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
    fn read(&self, octets: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => (&*stream).read(octets),
            Self::Unix(stream) => (&*stream).read(octets),
        }
    }

    fn write(&self, octets: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => (&*stream).write(octets),
            Self::Unix(stream) => (&*stream).write(octets),
        }
    }
}

impl AsFd for End {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
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
pub(super) struct End {
    stream: Stream,
    wait: Wait,
    poll: Option<(Poll, Events)>,
}

impl End {
    pub(super) fn connect(args: &TalkArgs) -> io::Result<Self> {
        let stream = match args.socket {
            Socket::Unix => Stream::Unix(UnixStream::connect(&args.at)?),
            Socket::Tcp | Socket::Cubic => Stream::Tcp(TcpStream::connect(&args.at)?),
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

    /// Reads once.
    pub(super) fn read(&self, octets: &mut [u8]) -> io::Result<usize> {
        self.stream.read(octets)
    }

    /// Reads all of `octets`. Returns false if the stream ends before the first one.
    pub(super) fn read_all(&mut self, octets: &mut [u8]) -> io::Result<bool> {
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

    pub(super) fn write_all(&mut self, octets: &[u8]) -> io::Result<()> {
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
    pub(super) fn echo(&mut self, size: usize) -> io::Result<()> {
        let mut octets = vec![0; size];
        while self.read_all(&mut octets)? {
            self.write_all(&octets)?;
        }
        Ok(())
    }

    pub(super) fn round_trip(&mut self, sent: &[u8]) -> io::Result<()> {
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
    pub(super) fn take(&mut self, args: &TalkArgs) -> io::Result<()> {
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
    pub(super) fn relay(&mut self, args: &TalkArgs) -> io::Result<()> {
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
    pub(super) fn give(&mut self, sent: &[u8], size: usize) -> io::Result<()> {
        for message in sent.chunks(size) {
            self.write_all(message)?;
        }
        self.hear(b't')
    }

    /// As [`Self::give`], by two threads that send by turns.
    pub(super) fn give_by_two(&mut self, sent: &[u8], size: usize) -> io::Result<()> {
        let (turn, stream) = (AtomicUsize::new(0), &self.stream);
        let send = |own: usize| -> io::Result<()> {
            for (number, message) in sent.chunks(size).enumerate().filter(|(number, _)| number % 2 == own) {
                while turn.load(Ordering::Acquire) < number {
                    thread::yield_now();
                }
                if stream.write(message)? < message.len() {
                    return Err(io::Error::other("a message that was sent in parts"));
                }
                turn.store(number + 1, Ordering::Release);
            }
            Ok(())
        };
        let done = |own: usize| {
            let sent = send(own);
            if sent.is_err() {
                // The other thread goes on, and the server finds that octets are missing.
                turn.store(usize::MAX, Ordering::Release);
            }
            sent
        };
        thread::scope(|scope| {
            let other = scope.spawn(|| done(1));
            let own = done(0);
            let other = other.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")));
            own.and(other)
        })?;
        self.hear(b't')
    }

    /// Hears that the server has found all octets of the round as they were sent.
    pub(super) fn hear_verdict(&mut self) -> io::Result<()> {
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
