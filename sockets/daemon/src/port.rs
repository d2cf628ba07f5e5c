//! A port: a process as its daemon knows it, and the socket between them.

use core::mem::MaybeUninit;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use weft_sockets::sync::Ordering;
use weft_sockets::{Answer, MESSAGE_LEN, Order, Status, ToDaemon, ToProcess};

use crate::bell::Bell;
use crate::foreign::{Closer, Foreign};

/// A process as its daemon knows it.
#[derive(Debug)]
pub(crate) struct Port {
    /// The user and the process id, as the kernel tells them.
    pub(crate) uid: u32,
    pub(crate) pid: i32,
    /// `None` if the process has closed the port, or is a relative that never opened one.
    socket: Option<Foreign>,
    closer: Closer,
    outbox: VecDeque<Mail>,
    /// There once the process has registered.
    pub(crate) member: Option<Member>,
}

/// A registered process.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) family: u64,
    /// Its place in the slab of the family.
    pub(crate) place: u16,
    /// The process id and the start time that the slab has in this place.
    pub(crate) identity: (u32, u64),
    pub(crate) pidfd: Foreign,
    pub(crate) status: Option<(Arc<Foreign>, Status)>,
    pub(crate) bells: BTreeMap<u8, Bell>,
    /// The ports that were told of this process, and those that it was told of.
    pub(crate) known_by: BTreeSet<u64>,
    pub(crate) knows: BTreeSet<u64>,
    /// The links that it was told of.
    pub(crate) links: BTreeSet<u64>,
}

/// A message on its way to the process.
#[derive(Debug)]
pub(crate) struct Mail {
    pub(crate) message: ToProcess,
    pub(crate) descriptor: Option<Arc<Foreign>>,
}

/// What came from a process.
#[derive(Debug)]
pub(crate) enum Received {
    Nothing,
    Message(ToDaemon, Vec<Foreign>),
    /// A command of an operator, and no process, has the port.
    Order(Order),
    /// The process has closed the port, or has broken a rule.
    End,
}

/// How the outbox stands after some of it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outbox {
    Empty,
    /// The rest goes when the socket has room.
    Full,
    /// The rest goes later: the kernel has no memory, or too many descriptors of this user are on their way.
    Stalled,
    /// Nobody will ever read it.
    Lost,
}

impl Port {
    /// True if the process knows itself by another number: it belongs to another namespace of processes.
    pub(crate) fn is_elsewhere(&self) -> bool {
        let identity = self.member.as_ref().map(|member| member.identity.0);
        identity.is_some_and(|own| u32::try_from(self.pid) != Ok(own))
    }

    pub(crate) fn new(uid: u32, pid: i32, socket: Option<Foreign>) -> Self {
        let closer = socket.as_ref().map_or_else(Closer::default, Foreign::closer);
        Self { uid, pid, socket, closer, outbox: VecDeque::new(), member: None }
    }

    /// Receives a message without waiting.
    pub(crate) fn receive(&self) -> Received {
        let Some(socket) = &self.socket else { return Received::Nothing };
        // All that one message can bring: what found no room would be closed by this thread.
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut octets = [0; MESSAGE_LEN + 1];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let len = match recvmsg(socket, &mut [IoSliceMut::new(&mut octets)], &mut control, flags) {
            Ok(received) => received.bytes,
            Err(Errno::AGAIN | Errno::INTR) => return Received::Nothing,
            Err(_) => return Received::End,
        };
        let messages = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        let foreign = |file| Foreign::new(file, self.closer.clone());
        let descriptors: Vec<Foreign> = messages.flatten().map(foreign).collect();
        // A message of no octets is the end of the stream.
        match octets.get(..len).and_then(ToDaemon::decode) {
            Some(message) if message.descriptors() == descriptors.len() => {
                Received::Message(message, descriptors)
            }
            None if descriptors.is_empty() && self.member.is_none() => {
                octets.get(..len).and_then(Order::decode).map_or(Received::End, Received::Order)
            }
            _ => Received::End,
        }
    }

    /// Answers a command without waiting. Returns false if it does not hear that.
    pub(crate) fn answer(&self, answer: Answer, descriptor: Option<BorrowedFd<'_>>) -> bool {
        let Some(socket) = &self.socket else { return false };
        send(socket.as_fd(), &answer.encode(), descriptor).is_ok()
    }

    /// Adds a message to the outbox. Returns false if the process has left too many unread.
    pub(crate) fn push(&mut self, mail: Mail) -> bool {
        if self.socket.is_some() {
            self.outbox.push_back(mail);
        }
        self.outbox.len() <= MOST_MAIL
    }

    /// Sends what the socket takes. Returns how many messages went.
    pub(crate) fn flush(&mut self) -> (u32, Outbox) {
        let mut sent = 0;
        let Some(socket) = &self.socket else { return (0, Outbox::Empty) };
        while let Some(mail) = self.outbox.front() {
            match mail.send(socket.as_fd()) {
                Ok(()) => {
                    self.outbox.pop_front();
                    sent += 1;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return (sent, Outbox::Full),
                Err(Errno::TOOMANYREFS | Errno::NOBUFS | Errno::NOMEM) => return (sent, Outbox::Stalled),
                Err(_) => return (sent, Outbox::Lost),
            }
        }
        (sent, Outbox::Empty)
    }

    /// Forgets the socket and all that was to be sent.
    pub(crate) fn disconnect(&mut self) {
        self.socket = None;
        self.outbox.clear();
    }

    pub(crate) fn has_mail(&self) -> bool {
        !self.outbox.is_empty()
    }

    pub(crate) const fn socket(&self) -> Option<&Foreign> {
        self.socket.as_ref()
    }
}

impl Member {
    /// Wakes the waiter on a line of the status page if it sleeps.
    pub(crate) fn ring(&self, line: u8) {
        let asleep = self.status.as_ref().and_then(|(_, status)| status.page().0.get(usize::from(line)));
        let is_asleep = asleep.is_some_and(|line| line.asleep.load(Ordering::SeqCst) != 0);
        if let Some(bell) = self.bells.get(&line).filter(|_| is_asleep) {
            bell.ring();
        }
    }

    /// Wakes all that sleep.
    pub(crate) fn ring_all(&self) {
        self.bells.keys().for_each(|line| self.ring(*line));
    }
}

impl Mail {
    fn send(&self, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        let descriptor = self.descriptor.as_ref().map(|descriptor| descriptor.as_fd());
        send(socket, &self.message.encode(), descriptor)
    }
}

/// Sends a message without waiting.
fn send(socket: BorrowedFd<'_>, octets: &[u8], descriptor: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = descriptor.map(|descriptor| [descriptor]);
    if let Some(descriptors) = &descriptors {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(socket, &[IoSlice::new(octets)], &mut control, flags).map(drop)
}

/// The kernel's limit for a message, `SCM_MAX_FD`.
const MOST_DESCRIPTORS: usize = 253;
/// A process that leaves more messages unread loses its port.
const MOST_MAIL: usize = 4096;
