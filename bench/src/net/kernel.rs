//! The kernel's TCP by plain sockets, cubic set explicitly, `TCP_NODELAY`: the reference of the host's network.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::net::sockopt::set_tcp_congestion;

use super::place::{End, PATIENCE, Patience, Shared, turn};
use super::scene::Scene;
use super::work::{Kind, Source, Work};
use super::{Outcome, say};
use crate::case::{Effort, Sample, Side, Trouble};

/// How a thread waits for its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// The thread repeats non-blocking calls.
    Spinning,
    /// The thread sleeps in the kernel.
    Blocking,
}

/// Two sockets, on a thread each.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) scene: Arc<Scene>,
    /// The address where the server listens.
    pub(crate) address: IpAddr,
    pub(crate) waiting: Waiting,
    pub(crate) work: Work,
}

/// A socket and its messages.
#[derive(Debug)]
pub(crate) struct Socket<'a> {
    stream: TcpStream,
    patience: Patience<'a>,
    work: Work,
    source: Source,
    /// The messages that arrived in this round, one behind the other.
    sink: Vec<u8>,
    /// The sink was filled in this round.
    is_full: bool,
}

impl Side for Kernel {
    fn turn(&mut self, effort: &Effort) -> Result<Sample, Trouble> {
        let (tell, told) = channel();
        let Self { address, waiting, work, .. } = *self;
        let server = move |shared| Socket::accept(shared, (address, &tell), waiting, work);
        let client = move |shared| Socket::connect(shared, &told, waiting, work);
        turn((&self.scene.places, &Shared::default()), server, client, &work, effort)
    }
}

impl<'a> Socket<'a> {
    /// Listens, sends the address to the other end, and accepts one peer.
    pub(crate) fn accept(
        shared: &'a Shared,
        (address, tell): (IpAddr, &Sender<SocketAddr>),
        waiting: Waiting,
        work: Work,
    ) -> Outcome<Self> {
        let listener = TcpListener::bind((address, 0)).map_err(say("listening"))?;
        set_congestion(&listener, "cubic")?;
        listener.set_nonblocking(true).map_err(say("listening"))?;
        tell.send(listener.local_addr().map_err(say("listening"))?).map_err(say("listening"))?;
        let mut patience = shared.patience();
        loop {
            match listener.accept() {
                Ok((stream, _)) => return Self::new(shared, stream, waiting, work),
                Err(error) if error.kind() == ErrorKind::WouldBlock => patience.idle()?,
                Err(error) => return Err(say("accepting")(error)),
            }
        }
    }

    /// Connects to the address from the other end.
    pub(crate) fn connect(
        shared: &'a Shared,
        told: &Receiver<SocketAddr>,
        waiting: Waiting,
        work: Work,
    ) -> Outcome<Self> {
        let to = told.recv_timeout(PATIENCE).map_err(say("waiting for the server"))?;
        let stream = TcpStream::connect_timeout(&to, PATIENCE).map_err(say("connecting"))?;
        set_congestion(&stream, "cubic")?;
        Self::new(shared, stream, waiting, work)
    }

    fn new(shared: &'a Shared, stream: TcpStream, waiting: Waiting, work: Work) -> Outcome<Self> {
        let set_up = || {
            stream.set_nodelay(true)?;
            stream.set_nonblocking(waiting == Waiting::Spinning)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))
        };
        set_up().map_err(say("setting up a socket"))?;
        let source = Source::of(work);
        let sink = source.sink();
        Ok(Self { stream, patience: shared.patience(), work, source, sink, is_full: false })
    }

    /// Sends a part of the source, or of the sink.
    fn send(&mut self, from: impl Fn(&Self) -> &[u8]) -> Outcome {
        let mut sent = 0;
        while sent < from(self).len() {
            match (&self.stream).write(&from(self)[sent..]) {
                Ok(len) => sent += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait()?,
                Err(error) => return Err(say("sending")(error)),
            }
        }
        self.patience.rest();
        Ok(())
    }

    /// Fills a part of the sink.
    fn receive(&mut self, mut at: usize, end: usize) -> Outcome {
        while at < end {
            match (&self.stream).read(&mut self.sink[at..end]) {
                Ok(0) => return Err(Trouble::failed("the peer has closed the connection")),
                Ok(len) => at += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait()?,
                Err(error) => return Err(say("receiving")(error)),
            }
        }
        self.patience.rest();
        Ok(())
    }

    /// Notes a call without success. A blocking socket has waited in the kernel before.
    fn wait(&mut self) -> Outcome {
        self.patience.idle()
    }
}

impl End for Socket<'_> {
    const NAME: &'static str = "kernel";

    fn prepare(&mut self) -> Outcome {
        Ok(())
    }

    fn serve(&mut self) -> Outcome {
        let Work { size, round, .. } = self.work;
        match self.work.kind {
            Kind::RoundTrips => {
                for index in 0..round {
                    let (at, end) = (index * size, (index + 1) * size);
                    self.receive(at, end)?;
                    self.send(|me| &me.sink[at..end])?;
                }
            }
            Kind::Stream => {
                self.receive(0, size * round)?;
                self.send(|me| &me.source.octets()[..1])?;
            }
        }
        self.is_full = true;
        Ok(())
    }

    fn ask(&mut self) -> Outcome {
        let Work { size, batch, round, .. } = self.work;
        match self.work.kind {
            Kind::RoundTrips => {
                for index in 0..round {
                    self.send(|me| me.source.messages(index, 1))?;
                    self.receive(index * size, (index + 1) * size)?;
                }
                self.is_full = true;
            }
            Kind::Stream => {
                for index in (0..round).step_by(batch) {
                    self.send(|me| me.source.messages(index, batch))?;
                }
                self.receive(0, 1)?;
            }
        }
        Ok(())
    }

    fn check(&mut self) -> Outcome {
        if core::mem::take(&mut self.is_full) {
            self.source.check(&self.sink)?;
            self.sink.fill(0);
        }
        Ok(())
    }
}

/// Sets a congestion control. The system's default may not be the usual one, `cubic`, but one that is slower on a path
/// without loss.
pub(crate) fn set_congestion(socket: &impl AsFd, name: &str) -> Outcome {
    set_tcp_congestion(socket, name)
        .map_err(|errno| Trouble::Skipped(format!("the kernel's TCP with {name}: {errno}")))
}
