//! Tells the state of a device to `weft stat`, over a Unix socket.
//!
//! One line asks, one line of JSON answers, and the connection is closed. A thread of its own sleeps until somebody asks; it
//! takes the engine's lock like any call of the application. No client can hold it up: nothing blocks, requests and
//! clients are bounded, and the oldest client goes when there are too many.

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

use rustix::event::{PollFd, PollFlags};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Uid, geteuid};

use crate::drive::ready::wait_ready;
use crate::events::channel::Wakeup;
use crate::objects::device::Device;

mod answer;
mod folder;

pub use answer::STAT_VERSION;
pub use folder::{stat_folder, stat_folder_from_env};

use folder::Socket;

/// Serves until it is dropped, which removes the socket.
#[derive(Debug)]
pub(crate) struct StatServer {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Stop {
    is_wanted: AtomicBool,
    wakeup: Wakeup,
}

/// A connection of somebody who asks.
#[derive(Debug)]
struct Client {
    stream: UnixStream,
    /// The client is the same user, not only root.
    is_same_user: bool,
    request: Vec<u8>,
    answer: Vec<u8>,
    written: usize,
}

impl StatServer {
    /// Serves the state of `device` by a socket in `folder`.
    pub(crate) fn start(folder: &Path, device: Device) -> io::Result<Self> {
        let stop = Arc::new(Stop { is_wanted: AtomicBool::new(false), wakeup: Wakeup::new()? });
        let (listener, socket) = Socket::bind(folder)?;
        listener.set_nonblocking(true)?;
        let thread = {
            let stop = Arc::clone(&stop);
            // The socket goes with the thread, whichever way that ends.
            thread::Builder::new()
                .name("weft-stat".into())
                .spawn(move || serve(&listener, &socket, &stop, &device))?
        };
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for StatServer {
    fn drop(&mut self) {
        self.stop.is_wanted.store(true, Ordering::Release);
        self.stop.wakeup.wake();
        if let Some(thread) = self.thread.take() {
            // A panic has been printed by the thread itself; there is nobody to hand it to in a destructor.
            let _printed = thread.join();
        }
    }
}

fn serve(listener: &UnixListener, socket: &Socket, stop: &Stop, device: &Device) {
    let mut clients = VecDeque::new();
    // Where the process has no descriptor left, a waiting client would keep this thread awake.
    let mut is_short = false;
    while !stop.is_wanted.load(Ordering::Acquire) {
        wait(listener, stop, &clients, is_short);
        is_short = accept(listener, &mut clients).is_err();
        if is_short {
            clients.pop_front();
        }
        clients
            .retain_mut(|client: &mut Client| client.advance(device, socket.index()).is_ok_and(|done| !done));
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
    wait_ready(&mut fds, is_short.then_some(SHORT_PAUSE));
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
    /// None for somebody who has no business here.
    fn new(stream: UnixStream) -> Option<Self> {
        let uid = socket_peercred(&stream).ok()?.uid;
        let is_same_user = uid == geteuid();
        stream.set_nonblocking(true).ok()?;
        let it = Self { stream, is_same_user, request: Vec::new(), answer: Vec::new(), written: 0 };
        (is_same_user || uid == Uid::ROOT).then_some(it)
    }

    /// Reads and writes what can be now, and says whether all is said.
    fn advance(&mut self, device: &Device, index: u32) -> io::Result<bool> {
        if self.answer.is_empty() && !self.read(device, index)? {
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

    /// Reads the request, and says whether there is an answer to it.
    fn read(&mut self, device: &Device, index: u32) -> io::Result<bool> {
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
                self.answer =
                    answer::answer(line.trim(), device, index, self.is_same_user).to_string().into_bytes();
                self.answer.push(b'\n');
                return Ok(true);
            }
        }
    }
}

/// Octets of the longest request.
const MAX_REQUEST: usize = 64;
/// Clients at a time.
const MAX_CLIENTS: usize = 16;
const SHORT_PAUSE: Duration = Duration::from_millis(100);
