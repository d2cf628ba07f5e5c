//! The server: a socket in a folder, and a thread that answers.
//!
//! A client sends one line, the server answers by one line of JSON and closes the connection. The thread sleeps until
//! a client asks. It takes an engine's lock like any call of the application. No client can hold it up: no call
//! blocks, requests and clients are bounded, and the oldest client is dropped if there are too many.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, write};
use rustix::process::{Uid, geteuid};
use weft_netif::Held;

use crate::folder::Socket;
use crate::section::{Asker, Section, answer};

/// A running server. Its drop ends it and removes the socket.
#[derive(Debug)]
pub struct Server {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Stop {
    is_wanted: AtomicBool,
    /// An eventfd that wakes the thread.
    wakeup: Held,
}

/// A connection of a process that asks.
#[derive(Debug)]
struct Client {
    stream: UnixStream,
    asker: Asker,
    request: Vec<u8>,
    answer: Vec<u8>,
    written: usize,
}

impl Server {
    /// Starts a server for `sections` with a socket in `folder`, which is made if it is missing.
    ///
    /// # Errors
    /// If the folder does not belong to this user with mode 0700, or the system has no file descriptor or thread
    /// left.
    pub fn start(folder: &Path, sections: Vec<Section>) -> io::Result<Self> {
        let stop = Arc::new(Stop {
            is_wanted: AtomicBool::new(false),
            wakeup: Held::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?),
        });
        let (listener, socket) = Socket::bind(folder)?;
        listener.set_nonblocking(true)?;
        let thread = {
            let stop = Arc::clone(&stop);
            // The thread owns the socket, which is removed however the thread ends.
            thread::Builder::new()
                .name("weft-stat".into())
                .spawn(move || serve(&listener, &socket, &stop, &sections))?
        };
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.is_wanted.store(true, Ordering::Release);
        while write(&self.stop.wakeup, &1_u64.to_ne_bytes()) == Err(Errno::INTR) {}
        if let Some(thread) = self.thread.take() {
            // The thread itself has printed a panic. A destructor has no caller to return it to.
            let _printed = thread.join();
        }
    }
}

fn serve(listener: &UnixListener, socket: &Socket, stop: &Stop, sections: &[Section]) {
    let mut clients = VecDeque::new();
    // If the process has no descriptor left, a waiting client would keep this thread awake.
    let mut is_short = false;
    while !stop.is_wanted.load(Ordering::Acquire) {
        wait(listener, stop, &clients, is_short);
        is_short = accept(listener, &mut clients).is_err();
        if is_short {
            clients.pop_front();
        }
        clients.retain_mut(|client: &mut Client| {
            client.advance(sections, socket.index()).is_ok_and(|done| !done)
        });
    }
}

fn wait(listener: &UnixListener, stop: &Stop, clients: &VecDeque<Client>, is_short: bool) {
    let mut fds = vec![PollFd::new(&stop.wakeup, PollFlags::IN)];
    if !is_short {
        fds.push(PollFd::new(listener, PollFlags::IN));
    }
    fds.extend(clients.iter().map(|client| {
        let flags = if client.answer.is_empty() { PollFlags::IN } else { PollFlags::OUT };
        PollFd::from_borrowed_fd(client.stream.as_fd(), flags)
    }));
    let timeout = is_short.then(|| Timespec::try_from(SHORT_PAUSE).ok()).flatten();
    // After an interruption the thread checks all descriptors, as after any other wake-up.
    let _woken = poll(&mut fds, timeout.as_ref());
}

/// Takes all clients that wait.
fn accept(listener: &UnixListener, clients: &mut VecDeque<Client>) -> io::Result<()> {
    loop {
        match listener.accept() {
            Ok((stream, _)) => clients.extend(Client::new(stream)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
            Err(error) => return Err(error),
        }
        if clients.len() > MAX_CLIENTS {
            clients.pop_front();
        }
    }
}

impl Client {
    /// Returns `None` unless the process belongs to the same user or to root.
    fn new(stream: UnixStream) -> Option<Self> {
        // rustix has no place for the id of a process in another namespace, which is 0.
        let uid = Uid::from_raw(getsockopt(&stream, PeerCredentials).ok()?.uid());
        let asker = Asker { is_same_user: uid == geteuid() };
        stream.set_nonblocking(true).ok()?;
        let it = Self { stream, asker, request: Vec::new(), answer: Vec::new(), written: 0 };
        (asker.is_same_user || uid == Uid::ROOT).then_some(it)
    }

    /// Reads and writes as much as possible now. Returns true when the whole answer is written.
    fn advance(&mut self, sections: &[Section], index: u32) -> io::Result<bool> {
        if self.answer.is_empty() && !self.read(sections, index)? {
            return Ok(false);
        }
        while self.written < self.answer.len() {
            match self.stream.write(&self.answer[self.written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => self.written += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Reads the request. Returns true when there is an answer.
    fn read(&mut self, sections: &[Section], index: u32) -> io::Result<bool> {
        let mut octets = [0; MAX_REQUEST];
        loop {
            match self.stream.read(&mut octets) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => self.request.extend_from_slice(&octets[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            let end = self.request.iter().position(|&octet| octet == b'\n');
            if end.is_some() || self.request.len() > MAX_REQUEST {
                let line = String::from_utf8_lossy(&self.request[..end.unwrap_or(MAX_REQUEST)]);
                let answer = answer(sections, line.trim(), index, self.asker);
                self.answer = answer.to_string().into_bytes();
                self.answer.push(b'\n');
                return Ok(true);
            }
        }
    }
}

/// The octets of the longest request.
const MAX_REQUEST: usize = 64;
/// The most clients at a time.
const MAX_CLIENTS: usize = 16;
const SHORT_PAUSE: Duration = Duration::from_millis(100);
