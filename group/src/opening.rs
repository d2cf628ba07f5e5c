//! A client opens a session: it asks the control plane, and connects to the head and the tail of each chain.

use core::net::SocketAddr;
use core::ops::Range;
use std::collections::VecDeque;
use std::time::Duration;

use weft_rnic::{Device, Stag};

use crate::contact::{Asking, Contact, Wiring, unexpected};
use crate::control::{Answer, Member, Open, Opened, Request, Status};
use crate::deadline::Deadline;
use crate::durability::Durability;
use crate::greeting::Greeting;
use crate::key::Key;
use crate::link::Link;
use crate::membership::record::Topology;
use crate::op::MAX_REPLICAS;
use crate::random::random;
use crate::session::{Session, SessionError, Terms};

/// What a session is opened with. Start from the default and change what differs.
#[derive(Clone, Debug)]
pub struct Options {
    /// How the replicas hang together.
    pub topology: Topology,
    /// Operations under way at most: a power of two, at most 4096.
    pub window: u32,
    /// The longest write of one slot, in octets. A longer one takes several slots.
    pub piece: u32,
    /// How long a call waits for a replica.
    pub timeout: Duration,
    /// The octets of each replica's memory that the session works on; `None` takes all that the first replica has. It begins
    /// at a multiple of 8.
    pub range: Option<Range<u64>>,
    /// The epoch of the group.
    pub epoch: u64,
    /// What the memory of the replicas survives. The default asks each replica to flush, which is right for all memory;
    /// [`Durability::Volatile`] spares replicas without files the question.
    pub durability: Durability,
    /// The group's key, if it has one.
    pub key: Option<Key>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            topology: Topology::Chain,
            window: 128,
            piece: 65_536,
            timeout: Duration::from_secs(5),
            range: None,
            epoch: 0,
            durability: Durability::File,
            key: None,
        }
    }
}

impl Session {
    /// Opens a session with these replicas, the head first.
    ///
    /// # Errors
    /// [`SessionError::Refused`] names the replica and its reason.
    pub fn open(device: &Device, members: &[Member], options: &Options) -> Result<Self, SessionError> {
        let deadline = Deadline::after(options.timeout);
        let drawn = random().map_err(|error| SessionError::Device(error.to_string()))?;
        let mut opening = Opening::new(device, members, options, u64::from_ne_bytes(drawn))?;
        loop {
            if let Some(outcome) = opening.poll() {
                return outcome;
            }
            opening.wait(deadline.left().ok_or(SessionError::TimedOut)?);
        }
    }
}

/// Asks a replica for its state.
///
/// # Errors
/// [`SessionError`].
pub fn status(device: &Device, address: SocketAddr, options: &Options) -> Result<Status, SessionError> {
    let deadline = Deadline::after(options.timeout);
    let mut asking = Asking::new(device, address, options.key.as_ref(), Request::Status)?;
    loop {
        match asking.poll() {
            Some(Ok(Answer::Status(status))) => return Ok(status),
            Some(answer) => return Err(unexpected(&answer?)),
            None => asking.wait(deadline.left().ok_or(SessionError::TimedOut)?),
        };
    }
}

/// A session while it is being opened. It is a state machine that is polled, and has no clock.
#[derive(Debug)]
pub struct Opening {
    wiring: Wiring,
    options: Options,
    members: Vec<Member>,
    /// The number of the session.
    number: u64,
    range: Option<Range<u64>>,
    /// The head of a chain that is asked for the session.
    contact: Option<Contact>,
    /// What the heads have answered whose chains are not connected yet, the first chain first.
    opened: VecDeque<(Link, Opened)>,
    /// Once all heads have answered.
    session: Option<Session>,
    /// Chains whose connections were begun.
    begun: usize,
    /// Connections that were begun and are not there.
    missing: usize,
}

impl Opening {
    /// Begins to open a session with these replicas, the head first. The caller has drawn `number`: no other session of the
    /// epoch has it.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub fn new(
        device: &Device,
        members: &[Member],
        options: &Options,
        number: u64,
    ) -> Result<Self, SessionError> {
        if members.is_empty() || members.len() > MAX_REPLICAS {
            return Err(SessionError::Refused(format!("a group has 1 to {MAX_REPLICAS} replicas")));
        }
        let mut opening = Self {
            wiring: Wiring::new(device)?,
            options: options.clone(),
            members: members.to_vec(),
            number,
            range: options.range.clone(),
            contact: None,
            opened: VecDeque::new(),
            session: None,
            begun: 0,
            missing: 0,
        };
        opening.ask_head().map_err(|error| opening.named(error))?;
        Ok(opening)
    }

    /// Returns the session once it is open, or why it is not. It is not to be called again after that.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub fn poll(&mut self) -> Option<Result<Session, SessionError>> {
        let outcome = self.advance()?;
        Some(outcome.and_then(|()| self.session.take().ok_or(SessionError::Lost(None))))
    }

    /// Sleeps until there may be something to poll for, at most for so long.
    fn wait(&mut self, left: Duration) {
        let is_connecting = self.contact.as_ref().is_none_or(Contact::is_connecting);
        self.wiring.wait(is_connecting, left);
    }

    /// Goes on until something has to be awaited.
    fn advance(&mut self) -> Option<Result<(), SessionError>> {
        while let Some(mut contact) = self.contact.take() {
            let Some(answer) = self.poll_head(&mut contact) else {
                self.contact = Some(contact);
                return None;
            };
            if let Err(error) = self.take_opened(contact, answer) {
                return Some(Err(self.named(error)));
            }
        }
        loop {
            while self.missing > 0 {
                if let Err(error) = self.wiring.connected()? {
                    return Some(Err(error));
                }
                self.missing -= 1;
            }
            match self.connect_chain() {
                Ok(true) => {}
                Ok(false) => return Some(Ok(())),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Begins to ask the head of the next chain. Returns false if there is none.
    fn ask_head(&mut self) -> Result<bool, SessionError> {
        let Some(chain) = self.chain(self.opened.len()) else { return Ok(false) };
        let address = chain[0].address;
        self.contact = Some(Contact::new(&self.wiring, address, self.options.key.as_ref())?);
        Ok(true)
    }

    fn poll_head(&mut self, contact: &mut Contact) -> Option<Result<Answer, SessionError>> {
        let members = self.chain(self.opened.len()).unwrap_or_default().to_vec();
        let Self { wiring, range, options, .. } = self;
        contact.poll(wiring, |welcome| {
            Request::Open(Open {
                epoch: options.epoch,
                session: self.number,
                members,
                index: 0,
                range: range.get_or_insert(0..welcome.size).clone(),
                window: options.window,
            })
        })
    }

    /// Takes the answer of a head. Goes on with the next one, or makes the session.
    fn take_opened(
        &mut self,
        contact: Contact,
        answer: Result<Answer, SessionError>,
    ) -> Result<(), SessionError> {
        let opened = match answer? {
            Answer::Opened(opened) => opened,
            answer => return Err(unexpected(&answer)),
        };
        self.opened.push_back((contact.into_link(), opened));
        if !self.ask_head()? {
            self.session = Some(self.make()?);
        }
        Ok(())
    }

    fn make(&self) -> Result<Session, SessionError> {
        let range = self.range.clone().unwrap_or_default();
        let terms = Terms {
            replicas: self.chain_len(),
            window: self.options.window,
            len: range.end - range.start,
            piece: self.options.piece,
            epoch: self.options.epoch,
            session: self.number,
            durability: self.options.durability,
        };
        let chains = self.members.len() / self.chain_len();
        Ok(Session::with(self.wiring.device(), terms, (chains, self.options.timeout))?)
    }

    /// Begins the connections of the next chain. Returns false if there is none.
    fn connect_chain(&mut self) -> Result<bool, SessionError> {
        let Some((link, opened)) = self.opened.pop_front() else { return Ok(false) };
        let ends =
            self.chain(self.begun).and_then(|chain| Some([chain.first()?.address, chain.last()?.address]));
        let lane = self.session.as_mut().and_then(|session| session.lanes().get_mut(self.begun));
        let (Some([head, tail]), Some(lane)) = (ends, lane) else { return Ok(false) };
        (lane.target, lane.source) = (Stag(opened.data_in), Stag(opened.data_out));
        lane.link = Some(link);
        self.wiring.connect(&lane.tail, tail, Greeting::Outward(opened.outward))?;
        self.wiring.connect(&lane.head, head, Greeting::Inward(opened.inward))?;
        (self.begun, self.missing) = (self.begun + 1, 2);
        Ok(true)
    }

    /// Returns the replicas of a chain.
    fn chain(&self, index: usize) -> Option<&[Member]> {
        self.members.chunks(self.chain_len()).nth(index)
    }

    const fn chain_len(&self) -> usize {
        match self.options.topology {
            Topology::Chain => self.members.len(),
            Topology::Fan => 1,
        }
    }

    /// Has a refusal name the replica from which it comes.
    fn named(&self, error: SessionError) -> SessionError {
        let index = self.opened.len();
        match (error, self.chain(index)) {
            (SessionError::Refused(reason), Some(chain)) if !reason.starts_with("replica ") => {
                SessionError::Refused(format!("replica {index} at {}: {reason}", chain[0].address))
            }
            (error, _) => error,
        }
    }
}
