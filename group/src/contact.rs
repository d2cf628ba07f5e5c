//! The client's side of the control plane: a connection to a host, and what is asked on it.
//!
//! [`Asking`] is a state machine that is polled. It has no clock: the caller decides how long it waits, and may be a
//! simulation on virtual time.

use core::net::SocketAddr;
use std::time::Duration;

use weft_rnic::{CmEvent, CompChannel, ConnParam, Device, EventQueue, News, Notice, Pd, Qp, Until};

use crate::control::{Answer, Hello, Request, VERSION, Welcome};
use crate::greeting::Greeting;
use crate::key::Key;
use crate::link::{Gone, Link};
use crate::session::SessionError;

/// A request to a host, from the connection to the answer.
#[derive(Debug)]
pub struct Asking {
    wiring: Wiring,
    contact: Contact,
    request: Request,
}

impl Asking {
    /// Begins to connect to a host, which is asked for `request`.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn new(
        device: &Device,
        address: SocketAddr,
        key: Option<&Key>,
        request: Request,
    ) -> Result<Self, SessionError> {
        let wiring = Wiring::new(device)?;
        let contact = Contact::new(&wiring, address, key)?;
        Ok(Self { wiring, contact, request })
    }

    /// Returns the answer once it is there. It is not to be called again after that.
    ///
    /// # Errors
    /// [`SessionError`]; a refusal is one too.
    pub fn poll(&mut self) -> Option<Result<Answer, SessionError>> {
        self.contact.poll(&mut self.wiring, |_| self.request.clone())
    }

    /// Asks how far the host is with a request that takes long, unless an answer to that is missing.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn look(&mut self) -> Result<(), SessionError> {
        self.contact.look()
    }

    /// Returns how much is done, in parts of how much, if the host has told it.
    pub const fn progress(&self) -> Option<[u64; 2]> {
        self.contact.progress
    }

    /// Sleeps until there may be something to poll for. Returns false if there was nothing for so long.
    pub(crate) fn wait(&mut self, left: Duration) -> bool {
        self.wiring.wait(self.contact.is_connecting(), left)
    }
}

/// What the connections of a client need while they come up.
#[derive(Debug)]
pub(crate) struct Wiring {
    device: Device,
    pd: Pd,
    channel: CompChannel,
    queue: EventQueue,
    /// One that [`Self::wait`] has taken.
    notice: Option<Notice>,
}

impl Wiring {
    pub(crate) fn new(device: &Device) -> Result<Self, SessionError> {
        let failed = |error: std::io::Error| SessionError::Device(error.to_string());
        Ok(Self {
            device: device.clone(),
            pd: device.alloc_pd(),
            channel: device.create_comp_channel().map_err(failed)?,
            queue: EventQueue::new().map_err(failed)?,
            notice: None,
        })
    }

    pub(crate) const fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn connect(
        &self,
        qp: &Qp,
        address: SocketAddr,
        greeting: Greeting,
    ) -> Result<(), SessionError> {
        let events = self.device.events_on(&self.queue);
        let private_data = greeting.encode();
        let param = ConnParam { private_data: &private_data, peer_to_peer: Some(true), ..ConnParam::NONE };
        let connected = self.device.connect(&events, qp, address, param);
        connected.map_err(|error| SessionError::Refused(format!("cannot connect to {address}: {error}")))
    }

    /// Returns whether a connection has come up, as soon as that is known of one.
    pub(crate) fn connected(&mut self) -> Option<Result<(), SessionError>> {
        let notice = self.notice.take().or_else(|| self.queue.pop())?;
        Some(match notice.news {
            News::Event(CmEvent::Established { .. }) => Ok(()),
            News::Event(CmEvent::ConnectError { reason, .. }) => {
                Err(SessionError::Refused(reason.to_string()))
            }
            News::Event(CmEvent::Rejected { .. }) => {
                Err(SessionError::Refused("it does not take the connection".into()))
            }
            _ => Err(SessionError::Lost(None)),
        })
    }

    /// Sleeps until something comes: of connections, or messages. Returns false if nothing came for so long.
    pub(crate) fn wait(&mut self, is_connecting: bool, left: Duration) -> bool {
        if !is_connecting {
            return self.channel.wait(Some(left)).is_some();
        }
        let devices = core::slice::from_ref(&self.device);
        self.notice = self.queue.wait_for(devices, Until::Time(left), || self.queue.pop());
        self.notice.is_some()
    }
}

/// A connection of the control plane, with one request behind Hello.
#[derive(Debug)]
pub(crate) struct Contact {
    link: Link,
    hello: Request,
    phase: Phase,
    /// It was asked how far it is, and has not answered that.
    is_looking: bool,
    progress: Option<[u64; 2]>,
}

/// What is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Connection,
    Welcome,
    Answer,
}

impl Contact {
    /// Begins to connect.
    pub(crate) fn new(wiring: &Wiring, address: SocketAddr, key: Option<&Key>) -> Result<Self, SessionError> {
        let link = Link::new(&wiring.device, &wiring.pd, &wiring.channel)?;
        wiring.connect(link.qp(), address, Greeting::Control)?;
        let hello = Request::Hello(Hello { version: VERSION, key: key.map(Key::octets) });
        Ok(Self { link, hello, phase: Phase::Connection, is_looking: false, progress: None })
    }

    /// Returns the answer once it is there. `request` says what is asked, when the host has answered Hello.
    pub(crate) fn poll(
        &mut self,
        wiring: &mut Wiring,
        request: impl FnOnce(Welcome) -> Request,
    ) -> Option<Result<Answer, SessionError>> {
        if self.phase == Phase::Connection {
            let hello = self.hello.encode();
            if let Err(error) = wiring.connected()?.and_then(|()| self.send(&hello)) {
                return Some(Err(error));
            }
            self.phase = Phase::Welcome;
        }
        if self.phase == Phase::Welcome {
            let sent = match self.receive()? {
                Ok(Answer::Welcome(welcome)) => self.send(&request(welcome).encode()),
                Ok(answer) => Err(unexpected(&answer)),
                Err(error) => Err(error),
            };
            if let Err(error) = sent {
                return Some(Err(error));
            }
            self.phase = Phase::Answer;
        }
        loop {
            match self.receive()? {
                Ok(Answer::Status(status)) if self.is_looking => {
                    self.is_looking = false;
                    self.progress = status.progress.or(self.progress);
                }
                answer => return Some(answer),
            }
        }
    }

    fn look(&mut self) -> Result<(), SessionError> {
        if self.phase != Phase::Answer || self.is_looking {
            return Ok(());
        }
        self.is_looking = true;
        self.send(&Request::Status.encode())
    }

    pub(crate) fn is_connecting(&self) -> bool {
        self.phase == Phase::Connection
    }

    pub(crate) fn into_link(self) -> Link {
        self.link
    }

    fn send(&mut self, octets: &[u8]) -> Result<(), SessionError> {
        self.link.send(octets).map_err(gone)
    }

    fn receive(&mut self) -> Option<Result<Answer, SessionError>> {
        self.link.collect();
        let octets = match self.link.receive() {
            Ok(octets) => octets?,
            Err(error) => return Some(Err(gone(error))),
        };
        Some(match Answer::parse(&octets) {
            Ok(Answer::Refused(reason)) => Err(SessionError::Refused(reason)),
            Ok(answer) => Ok(answer),
            Err(error) => Err(SessionError::Refused(error.to_string())),
        })
    }
}

pub(crate) fn unexpected(answer: &Answer) -> SessionError {
    SessionError::Refused(match answer {
        Answer::Ended(_) => "it has ended the session at once".into(),
        _ => "it has answered something else than was asked".into(),
    })
}

fn gone(_: Gone) -> SessionError {
    SessionError::Refused("it has gone".into())
}
