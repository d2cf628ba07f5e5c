//! What an operator's command asks a daemon that runs.

use core::mem::MaybeUninit;
use core::time::Duration;
use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags, SocketType,
    connect, recvmsg, send, socket_with,
};
use rustix::process::geteuid;
use weft_sockets::{Answer, Denial, MESSAGE_LEN, Order};

use crate::address::Address;

/// A connection to a daemon that runs.
#[derive(Debug)]
pub struct Operator {
    socket: OwnedFd,
    address: Address,
}

/// What came of [`Operator::drain`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// How many connections have gone back to TCP.
    pub done: u32,
    /// How many have not.
    pub left: u32,
}

impl Operator {
    /// Connects to the daemon at an address. `None`: there is none.
    ///
    /// # Errors
    /// The kernel's, or that the daemon belongs to a user other than this one and root. Root may ask every daemon.
    pub fn connect(address: &Address) -> io::Result<Option<Self>> {
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        // A daemon that is stopped has a full queue at some time.
        set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE))?;
        match connect(&socket, &address.socket) {
            Ok(()) => {}
            Err(Errno::CONNREFUSED | Errno::NOENT) => return Ok(None),
            Err(error) => return Err(told(address, error)),
        }
        let (uid, own) = (socket_peercred(&socket)?.uid, geteuid());
        if !uid.is_root() && !own.is_root() && uid != own {
            let line = format!("the daemon at {address} belongs to user {}", uid.as_raw());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, line));
        }
        Ok(Some(Self { socket, address: address.clone() }))
    }

    /// True if the daemon has lanes to other hosts.
    ///
    /// # Errors
    /// The daemon does not answer, or not to this.
    pub fn has_lanes(&self) -> io::Result<bool> {
        match self.ask(Order::HasLanes {}, PATIENCE)? {
            (Answer::Lanes { has }, _) => Ok(has != 0),
            (answer, _) => Err(self.unexpected(answer)),
        }
    }

    /// Has the daemon take all connections of a process back to TCP, and waits until that is done.
    ///
    /// # Errors
    /// The daemon does not answer, or does not obey.
    pub fn drain(&self, pid: u32) -> io::Result<Drained> {
        match self.ask(Order::Drain { pid }, LONGEST)? {
            (Answer::Drained { done, left }, _) => Ok(Drained { done, left }),
            (Answer::Denied { why: Denial::NoProcess }, _) => {
                let line = format!("the daemon at {} knows no process {pid} that has left TCP", self.address);
                Err(io::Error::new(io::ErrorKind::NotFound, line))
            }
            (answer, _) => Err(self.unexpected(answer)),
        }
    }

    /// Takes the socket at which the daemon listens. The daemon goes on with the processes that it knows.
    ///
    /// # Errors
    /// The daemon does not answer, or does not obey.
    pub(crate) fn replace(&self) -> io::Result<OwnedFd> {
        match self.ask(Order::Replace {}, PATIENCE)? {
            (Answer::Listener {}, Some(listener)) => Ok(listener),
            (answer, _) => Err(self.unexpected(answer)),
        }
    }

    /// Tells the daemon that its successor serves by the socket. It leaves, and closes this connection with its last act.
    ///
    /// # Errors
    /// The daemon does not hear it.
    pub(crate) fn take_over(self) -> io::Result<OwnedFd> {
        self.tell(Order::Replaced {})?;
        Ok(self.socket)
    }

    fn tell(&self, order: Order) -> io::Result<()> {
        let sent = send(&self.socket, &order.encode(), SendFlags::NOSIGNAL);
        sent.map(drop).map_err(|error| told(&self.address, error))
    }

    fn ask(&self, order: Order, patience: Duration) -> io::Result<(Answer, Option<OwnedFd>)> {
        self.tell(order)?;
        set_socket_timeout(&self.socket, Timeout::Recv, Some(patience))?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut octets = [0; MESSAGE_LEN + 1];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = loop {
            match recvmsg(&self.socket, &mut [IoSliceMut::new(&mut octets)], &mut control, flags) {
                Err(Errno::INTR) => {}
                received => break received,
            }
        };
        let len = match received {
            Ok(received) => received.bytes,
            Err(Errno::AGAIN) => {
                let line = format!("the daemon at {} does not answer", self.address);
                return Err(io::Error::new(io::ErrorKind::TimedOut, line));
            }
            // It closes the connection of a process that says what it does not know.
            Err(Errno::CONNRESET) => 0,
            Err(error) => return Err(told(&self.address, error)),
        };
        let descriptor = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        let answer = octets.get(..len).and_then(Answer::decode);
        answer.map(|answer| (answer, descriptor)).ok_or_else(|| {
            io::Error::other(format!("the daemon at {} is of another version, or has ended", self.address))
        })
    }

    /// Returns the line for an answer that is not the wanted one.
    fn unexpected(&self, answer: Answer) -> io::Error {
        let address = &self.address;
        let line = match answer {
            Answer::Denied { why: Denial::User } => {
                format!(
                    "the daemon at {address} obeys its own user and root, and each user for its processes"
                )
            }
            Answer::Denied { why: Denial::Busy } => {
                format!("the daemon at {address} is busy with the same order of another command")
            }
            Answer::Denied { why: Denial::Ended } => "the process has ended meanwhile".to_owned(),
            _ => format!("the daemon at {address} gives no answer that fits"),
        };
        io::Error::other(line)
    }
}

fn told(address: &Address, error: Errno) -> io::Error {
    io::Error::new(io::Error::from(error).kind(), format!("{address}: {error}"))
}

/// How long a daemon has for an answer that it need not wait for.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a daemon has that waits for processes. Longer than it waits.
const LONGEST: Duration = Duration::from_secs(60);
