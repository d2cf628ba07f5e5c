//! Connections of clients: commands that are there at the same time, of all clients, are one transaction.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use redis_protocol::resp2::encode::encode;
use redis_protocol::resp2::types::{OwnedFrame, Resp2Frame as _};
use weft_group::Group;

use crate::command::Command;
use crate::input::Input;
use crate::store::{Store, StoreError};

/// A server that listens. It runs on the thread that calls [`Server::run`].
#[derive(Debug)]
pub struct Server {
    poll: Poll,
    listener: TcpListener,
    address: SocketAddr,
    stopper: Stopper,
    clients: BTreeMap<usize, Client>,
    next: usize,
    /// Clients that may have sent something.
    ready: BTreeSet<usize>,
}

/// Stops a server.
#[derive(Clone, Debug)]
pub struct Stopper {
    waker: Arc<Waker>,
    is_stopped: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Client {
    stream: TcpStream,
    input: Input,
    /// Commands that were read and have no answer.
    commands: VecDeque<Command>,
    output: Vec<u8>,
    /// Nothing more is read. The connection ends when the output is sent.
    is_ending: bool,
    /// It has to take answers before it is read again.
    is_paused: bool,
}

impl Server {
    /// Listens at an address.
    ///
    /// # Errors
    /// The system's.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let poll = Poll::new()?;
        let mut listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let waker = Arc::new(Waker::new(poll.registry(), STOP)?);
        let stopper = Stopper { waker, is_stopped: Arc::new(AtomicBool::new(false)) };
        let (clients, ready) = (BTreeMap::new(), BTreeSet::new());
        Ok(Self { poll, listener, address, stopper, clients, next: FIRST, ready })
    }

    /// Returns where the server listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns what stops the server.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Serves clients until the server is stopped.
    ///
    /// # Errors
    /// The store's. All clients that have asked something are told, and all connections end.
    pub fn run<G>(mut self, store: &mut Store<G>) -> Result<(), StoreError>
    where
        G: Group + core::fmt::Debug + Send + 'static,
    {
        let mut events = Events::with_capacity(1024);
        loop {
            let patience = if self.ready.is_empty() { None } else { Some(Duration::ZERO) };
            match self.poll.poll(&mut events, patience) {
                Err(error) if error.kind() != ErrorKind::Interrupted => {
                    return Err(StoreError::Database(Box::new(redb::Error::Io(error))));
                }
                _ => {}
            }
            if self.stopper.is_stopped.load(Ordering::Acquire) {
                return Ok(());
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.take_clients(),
                    STOP => {}
                    Token(number) => drop(self.ready.insert(number)),
                }
            }
            let outcome = self.turn(store);
            for (number, client) in &mut self.clients {
                client.send();
                if client.is_paused && client.output.len() <= MAX_OUTPUT {
                    client.is_paused = false;
                    self.ready.insert(*number);
                }
            }
            self.clients.retain(|_, client| !client.is_over());
            outcome?;
        }
    }

    fn take_clients(&mut self) {
        // Not to be had is a client that has gone, or a lack of descriptors, which ends when another client goes.
        while let Ok((mut stream, _)) = self.listener.accept() {
            let token = Token(self.next);
            let interest = Interest::READABLE | Interest::WRITABLE;
            let is_known = stream.set_nodelay(true).is_ok()
                && self.clients.len() < MAX_CLIENTS
                && self.poll.registry().register(&mut stream, token, interest).is_ok();
            if is_known {
                self.clients.insert(self.next, Client::new(stream));
                self.ready.insert(self.next);
                self.next += 1;
            }
        }
    }

    /// Reads what clients have sent, carries it out and answers.
    fn turn<G>(&mut self, store: &mut Store<G>) -> Result<(), StoreError>
    where
        G: Group + core::fmt::Debug + Send + 'static,
    {
        let (mut owners, mut commands) = (Vec::new(), Vec::new());
        for number in std::mem::take(&mut self.ready) {
            let Some(client) = self.clients.get_mut(&number) else { continue };
            if client.output.len() > MAX_OUTPUT {
                client.is_paused = true;
                continue;
            }
            if client.commands.is_empty() && client.read() {
                self.ready.insert(number);
            }
            commands.extend(client.commands.drain(..));
            owners.resize(commands.len(), number);
            if owners.len() >= MAX_COMMANDS {
                // The others come next.
                self.ready.extend(self.clients.range(number + 1..).map(|(number, _)| *number));
                break;
            }
        }
        let outcome = if commands.is_empty() { Ok(Vec::new()) } else { store.execute(&commands) };
        let answers = match &outcome {
            Ok(answers) => answers.clone(),
            Err(error) => {
                vec![OwnedFrame::Error(format!("ERR {}", plain(&error.to_string()))); commands.len()]
            }
        };
        for (number, answer) in owners.iter().zip(&answers) {
            if let Some(client) = self.clients.get_mut(number) {
                client.answer(answer);
            }
        }
        for (number, command) in owners.iter().zip(commands).skip(answers.len()) {
            if let Some(client) = self.clients.get_mut(number) {
                client.commands.push_back(command);
                self.ready.insert(*number);
            }
        }
        match outcome {
            Ok(_) | Err(StoreError::Full) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Client {
    fn new(stream: TcpStream) -> Self {
        let (input, commands, output) = (Input::default(), VecDeque::new(), Vec::new());
        Self { stream, input, commands, output, is_ending: false, is_paused: false }
    }

    /// Reads commands. Returns whether there may be more.
    fn read(&mut self) -> bool {
        let mut octets = [0; 64 << 10];
        let mut is_more = false;
        while !self.is_ending && !is_more {
            match self.stream.read(&mut octets) {
                Ok(0) => self.is_ending = true,
                Ok(len) => {
                    self.input.extend(&octets[..len]);
                    is_more = true;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.end(),
            }
        }
        loop {
            match self.input.next_command() {
                Ok(Some(words)) => self.commands.push_back(Command::parse(words)),
                Ok(None) => return is_more,
                Err(why) => {
                    let why = format!("ERR Protocol error: {}", plain(&why));
                    self.commands.push_back(Command::Wrong(why));
                    self.is_ending = true;
                    return false;
                }
            }
        }
    }

    fn answer(&mut self, answer: &OwnedFrame) {
        let start = self.output.len();
        self.output.resize(start + answer.encode_len(false), 0);
        match encode(&mut self.output[start..], answer, false) {
            Ok(len) => self.output.truncate(start + len),
            Err(_) => self.end(),
        }
    }

    /// Sends what the connection has room for.
    fn send(&mut self) {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(len) => drop(self.output.drain(..len)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.end(),
            }
        }
    }

    /// The connection is of no use any more.
    fn end(&mut self) {
        self.is_ending = true;
        self.commands.clear();
        self.output.clear();
    }

    fn is_over(&self) -> bool {
        self.is_ending && self.output.is_empty() && self.commands.is_empty()
    }
}

impl Stopper {
    /// Stops the server: [`Server::run`] returns soon.
    ///
    /// # Errors
    /// The system's.
    pub fn stop(&self) -> io::Result<()> {
        self.is_stopped.store(true, Ordering::Release);
        self.waker.wake()
    }
}

/// Returns a text without what ends an error in RESP.
fn plain(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}

const LISTENER: Token = Token(0);
const STOP: Token = Token(1);
const FIRST: usize = 2;
const MAX_CLIENTS: usize = 1000;
/// Commands of a transaction, or a few more.
const MAX_COMMANDS: usize = 4096;
/// Octets of answers that a client has not taken, from where on no command of it is read.
const MAX_OUTPUT: usize = 1 << 20;
