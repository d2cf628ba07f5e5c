//! A client opens a session: it asks the control plane, and connects to the head and the tail of each chain.

use core::net::SocketAddr;
use core::ops::Range;
use std::time::Duration;

use weft_rnic::{CmEvent, CompChannel, ConnParam, Device, EventQueue, News, Pd, Qp, Stag, Until};

use crate::control::{Answer, Hello, Member, Open, Opened, Request, Status, VERSION, Welcome};
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
        if members.is_empty() || members.len() > MAX_REPLICAS {
            return Err(SessionError::Refused(format!("a group has 1 to {MAX_REPLICAS} replicas")));
        }
        let chains: Vec<&[Member]> = match options.topology {
            Topology::Chain => vec![members],
            Topology::Fan => members.chunks(1).collect(),
        };
        let mut opening = Opening::new(device, options)?;
        let mut opened = Vec::new();
        for (index, chain) in chains.iter().enumerate() {
            let one = opening.open(chain).map_err(|error| match error {
                SessionError::Refused(reason) if !reason.starts_with("replica ") => {
                    SessionError::Refused(format!("replica {index} at {}: {reason}", chain[0].address))
                }
                error => error,
            });
            opened.push(one?);
        }
        let range = opening.range.clone().unwrap_or_default();
        let terms = Terms {
            replicas: chains[0].len(),
            window: options.window,
            len: range.end - range.start,
            piece: options.piece,
            epoch: options.epoch,
            session: opening.session,
            durability: options.durability,
        };
        let mut session = Self::with(device, terms, (chains.len(), options.timeout))?;
        for ((lane, chain), (link, opened)) in session.lanes().iter_mut().zip(chains).zip(opened) {
            (lane.target, lane.source) = (Stag(opened.data_in), Stag(opened.data_out));
            lane.link = Some(link);
            opening.connect(&lane.tail, chain[chain.len() - 1].address, Greeting::Outward(opened.outward))?;
            opening.connect(&lane.head, chain[0].address, Greeting::Inward(opened.inward))?;
            opening.await_connections(2)?;
        }
        Ok(session)
    }
}

/// Asks a replica for its state.
///
/// # Errors
/// [`SessionError`].
pub fn status(device: &Device, address: SocketAddr, options: &Options) -> Result<Status, SessionError> {
    let opening = Opening::new(device, options)?;
    let (mut link, _) = opening.reach(address)?;
    match opening.ask(&mut link, &Request::Status)? {
        Answer::Status(status) => Ok(status),
        answer => Err(unexpected(&answer)),
    }
}

/// A session while it is being opened.
pub(crate) struct Opening<'a> {
    device: &'a Device,
    options: &'a Options,
    pd: Pd,
    channel: CompChannel,
    queue: EventQueue,
    deadline: Deadline,
    session: u64,
    range: Option<Range<u64>>,
}

impl<'a> Opening<'a> {
    pub(crate) fn new(device: &'a Device, options: &'a Options) -> Result<Self, SessionError> {
        let failed = |error: std::io::Error| SessionError::Device(error.to_string());
        Ok(Self {
            device,
            options,
            pd: device.alloc_pd(),
            channel: device.create_comp_channel().map_err(failed)?,
            queue: EventQueue::new().map_err(failed)?,
            deadline: Deadline::after(options.timeout),
            session: u64::from_ne_bytes(random().map_err(failed)?),
            range: options.range.clone(),
        })
    }

    /// Asks the head of a chain for the session.
    fn open(&mut self, chain: &[Member]) -> Result<(Link, Opened), SessionError> {
        let (mut link, welcome) = self.reach(chain[0].address)?;
        let open = Open {
            epoch: self.options.epoch,
            session: self.session,
            members: chain.to_vec(),
            index: 0,
            range: self.range.get_or_insert(0..welcome.size).clone(),
            window: self.options.window,
        };
        match self.ask(&mut link, &Request::Open(open))? {
            Answer::Opened(opened) => Ok((link, opened)),
            answer => Err(unexpected(&answer)),
        }
    }

    /// Connects the control plane to a replica, and says Hello.
    pub(crate) fn reach(&self, address: SocketAddr) -> Result<(Link, Welcome), SessionError> {
        let mut link = Link::new(self.device, &self.pd, &self.channel)?;
        self.connect(link.qp(), address, Greeting::Control)?;
        self.await_connections(1)?;
        let key = self.options.key.as_ref().map(Key::octets);
        match self.ask(&mut link, &Request::Hello(Hello { version: VERSION, key }))? {
            Answer::Welcome(welcome) => Ok((link, welcome)),
            answer => Err(unexpected(&answer)),
        }
    }

    fn connect(&self, qp: &Qp, address: SocketAddr, greeting: Greeting) -> Result<(), SessionError> {
        let events = self.device.events_on(&self.queue);
        let private_data = greeting.encode();
        let param = ConnParam { private_data: &private_data, peer_to_peer: Some(true), ..ConnParam::NONE };
        let connected = self.device.connect(&events, qp, address, param);
        connected.map_err(|error| SessionError::Refused(format!("cannot connect to {address}: {error}")))
    }

    fn await_connections(&self, count: usize) -> Result<(), SessionError> {
        for _ in 0..count {
            let left = self.deadline.left().ok_or(SessionError::TimedOut)?;
            let devices = core::slice::from_ref(self.device);
            let notice = self.queue.wait_for(devices, Until::Time(left), || self.queue.pop());
            match notice.map(|notice| notice.news) {
                Some(News::Event(CmEvent::Established { .. })) => {}
                Some(News::Event(CmEvent::ConnectError { reason, .. })) => {
                    return Err(SessionError::Refused(reason.to_string()));
                }
                Some(News::Event(CmEvent::Rejected { .. })) => {
                    return Err(SessionError::Refused("it does not take the connection".into()));
                }
                Some(_) => return Err(SessionError::Lost(None)),
                None => return Err(SessionError::TimedOut),
            }
        }
        Ok(())
    }

    pub(crate) fn ask(&self, link: &mut Link, request: &Request) -> Result<Answer, SessionError> {
        let gone = |_| SessionError::Refused("it has gone".into());
        link.send(&request.encode()).map_err(gone)?;
        match self.receive(link, self.deadline)? {
            Some(Answer::Refused(reason)) => Err(SessionError::Refused(reason)),
            Some(answer) => Ok(answer),
            None => Err(SessionError::TimedOut),
        }
    }

    /// Asks for something that takes long. Meanwhile it asks again and again how far it is, and hands that to `progress`. It
    /// waits for as long as there is progress.
    pub(crate) fn ask_long(
        &mut self,
        link: &mut Link,
        request: &Request,
        mut progress: impl FnMut([u64; 2]),
    ) -> Result<Answer, SessionError> {
        let gone = |_| SessionError::Refused("it has gone".into());
        link.send(&request.encode()).map_err(gone)?;
        let (mut last, mut is_asked) = (None, false);
        while self.deadline.left().is_some() {
            match self.receive(link, Deadline::after(LOOK))? {
                Some(Answer::Status(status)) => {
                    is_asked = false;
                    if let Some(done) = status.progress.filter(|done| Some(*done) != last) {
                        last = Some(done);
                        self.deadline = Deadline::after(self.options.timeout);
                        progress(done);
                    }
                }
                Some(Answer::Refused(reason)) => return Err(SessionError::Refused(reason)),
                Some(answer) => return Ok(answer),
                None if is_asked => {}
                None => {
                    link.send(&Request::Status.encode()).map_err(gone)?;
                    is_asked = true;
                }
            }
        }
        Err(SessionError::TimedOut)
    }

    /// Waits for an answer; `None` when the deadline has passed.
    fn receive(&self, link: &mut Link, deadline: Deadline) -> Result<Option<Answer>, SessionError> {
        loop {
            link.collect();
            if let Some(octets) = link.receive().map_err(|_| SessionError::Refused("it has gone".into()))? {
                let answer = Answer::parse(&octets);
                return answer.map(Some).map_err(|error| SessionError::Refused(error.to_string()));
            }
            let Some(left) = deadline.left() else { return Ok(None) };
            self.channel.wait(Some(left));
        }
    }
}

/// How long nothing may come before it is asked how far something is.
const LOOK: Duration = Duration::from_millis(200);

fn unexpected(answer: &Answer) -> SessionError {
    SessionError::Refused(match answer {
        Answer::Ended(_) => "it has ended the session at once".into(),
        _ => "it has answered something else than was asked".into(),
    })
}
