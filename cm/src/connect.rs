//! Listening, connecting, answering, disconnecting.

use std::net::SocketAddr;
use std::sync::Arc;

use rustix::io::Errno;
use weft_rnic::{CmError, Listen, QpState};

use crate::channel::EventChannel;
use crate::core::{Attempt, Core, Id, Shared};
use crate::error::Error;
use crate::kind::EventKind;
use crate::manager::NUMBER_BITS;
use crate::param::ConnParam;
use crate::state::{Op, State};

impl Id {
    /// Takes connect requests from now on; they come as [`EventKind::ConnectRequest`], at most `backlog` at a time
    /// without an answer (0: as many as the device allows). An id that is not bound listens on all addresses, on a free
    /// port.
    ///
    /// # Errors
    /// [`Error::State`], [`Error::AddrInUse`].
    pub fn listen(&self, backlog: usize) -> Result<(), Error> {
        let mut core = self.shared.lock();
        let next = core.after(Op::Listen)?;
        if core.ends.is_empty() {
            // As Linux does: IPv4, if any device has an IPv4 address.
            core.bind(self, ANY_V4).or_else(|_none| core.bind(self, ANY))?;
        }
        let queue = core.channel.queue.clone();
        let backlog = (backlog > 0).then_some(backlog);
        let outcome = core.ends.iter_mut().zip(0_u64..).try_for_each(|(end, place)| {
            end.cookie = self.number() | place << NUMBER_BITS;
            let listen = Listen { backlog, ..Listen::from(end.port.local_addr()) };
            end.listener = Some(end.device.listen_as(end.cookie, &end.device.events_on(&queue), listen)?);
            Ok(())
        });
        if let Err(error) = outcome {
            core.ends.iter_mut().for_each(|end| end.listener = None);
            return Err(error);
        }
        core.state = next;
        Ok(())
    }

    /// Waits for the next connect request of a synchronous listener, and returns its id, which is synchronous, too.
    /// [`Id::take_event`] of the new id gives out the request.
    ///
    /// # Errors
    /// [`Error::WrongMode`] for an id with a channel, [`Error::State`] for one that does not listen,
    /// [`Error::DeviceRemoved`].
    pub fn get_request(&self) -> Result<Self, Error> {
        let channel = {
            let core = self.shared.lock();
            if !core.is_synchronous {
                return Err(Error::WrongMode);
            }
            core.after(Op::GetRequest)?;
            EventChannel { inner: Arc::clone(&core.channel) }
        };
        loop {
            let Some(mut event) = channel.wait(None) else { return Err(Error::DeviceRemoved) };
            event.acknowledge();
            if event.kind() == EventKind::DeviceRemoval {
                return Err(Error::DeviceRemoved);
            }
            if let Some(id) = event.take_id() {
                id.migrate(None)?;
                id.shared.lock().last = Some(event);
                return Ok(id);
            }
        }
    }

    /// Connects the queue pair to the peer. One of [`EventKind::Established`], [`EventKind::Rejected`],
    /// [`EventKind::Unreachable`] and [`EventKind::ConnectError`] follows, within the time that the device's settings
    /// give.
    ///
    /// # Errors
    /// [`Error::State`], [`Error::NoQp`], [`Error::DeviceRemoved`], and [`Error::Refused`] when the queue pair is not
    /// idle, the private data is too long, or a depth is larger than the device's.
    pub fn connect(&self, param: &ConnParam<'_>) -> Result<(), Error> {
        let mut core = self.shared.lock();
        let next = core.after(Op::Connect)?;
        let local = core.local;
        core.begin(self.number(), local, param)?;
        let repeats = self.shared.manager.repeats().0;
        core.attempt = (repeats > 0).then(|| Attempt::new(param, local, repeats));
        core.state = next;
        drop(core);
        self.complete(EventKind::Established)
    }

    /// Accepts the connect request that the id was made for; [`EventKind::Established`] follows.
    ///
    /// # Errors
    /// As [`Id::connect`], and [`Error::Refused`] with `ECONNRESET` when the peer has gone meanwhile; the id is over
    /// then.
    pub fn accept(&self, param: &ConnParam<'_>) -> Result<(), Error> {
        let mut core = self.shared.lock();
        let next = core.after(Op::Accept)?;
        let device = core.device()?;
        let qp = core.qp.clone().ok_or(Error::NoQp)?;
        let request = core.request.ok_or_else(|| core.refuse(Op::Accept))?;
        let events = device.events_on(&core.channel.queue);
        let wanted = weft_rnic::ConnParam { events: Some(&events), ..lower(param, self.number()) };
        let outcome = device.accept(request, &qp, wanted);
        core.note_answer(outcome, next)?;
        drop(core);
        self.complete(EventKind::Established)
    }

    /// Rejects the connect request that the id was made for, with private data for the peer.
    ///
    /// # Errors
    /// [`Error::State`], [`Error::DeviceRemoved`], and [`Error::Refused`] when the private data is too long or, with
    /// `ECONNRESET`, when the peer has gone meanwhile; the id is over then.
    pub fn reject(&self, private_data: &[u8]) -> Result<(), Error> {
        let mut core = self.shared.lock();
        let next = core.after(Op::Reject)?;
        let device = core.device()?;
        let request = core.request.ok_or_else(|| core.refuse(Op::Reject))?;
        let outcome = device.reject(request, private_data);
        core.note_answer(outcome, next)
    }

    /// Confirms a connection. In librdmacm this is the third step of a handshake that is made by hand, without a queue
    /// pair in the id. On iWARP there is no third step: the queue pair must be there before, and the device ends the
    /// handshake, so that the call does nothing for an established connection.
    ///
    /// # Errors
    /// [`Error::State`] for an id that is not connected.
    pub fn establish(&self) -> Result<(), Error> {
        let core = self.shared.lock();
        core.after(Op::Establish).map(|_| ())
    }

    /// Ends the connection, or gives up the attempt; [`EventKind::Disconnected`] follows, once, on both sides of a
    /// connection. Requests that are still posted are flushed. For an id that is over already nothing happens, and no
    /// event comes.
    ///
    /// # Errors
    /// [`Error::State`] for an id that has not been connected.
    pub fn disconnect(&self) -> Result<(), Error> {
        let mut core = self.shared.lock();
        let next = core.after(Op::Disconnect)?;
        if next == core.state {
            return Ok(());
        }
        if let Some(qp) = core.qp.clone() {
            match qp.disconnect() {
                // An attempt that is given up leaves an idle queue pair behind, and the device reports no event for it.
                Ok(()) if qp.state() == QpState::Idle => {
                    core.post(self, EventKind::Disconnected, Some(Errno::CONNABORTED));
                }
                // The event of an earlier end is on its way.
                Ok(()) | Err(CmError::NotConnected) => {}
                Err(error) => return Err(error.into()),
            }
        } else {
            // The connection has gone with its queue pair.
            core.post(self, EventKind::Disconnected, None);
        }
        core.state = next;
        drop(core);
        match self.complete(EventKind::Disconnected) {
            // A failure that was on its way is an end as well. A connection that came about just before ends now.
            Err(Error::Ended { kind: EventKind::Established, .. }) => self.complete(EventKind::Disconnected),
            Err(Error::Ended { .. }) => Ok(()),
            outcome => outcome,
        }
    }
}

impl Shared {
    /// Connects again after a refusal, if repeats are left. Returns true if an attempt is under way.
    pub(crate) fn begin_again(&self) -> bool {
        if self.lock().attempt.is_none() {
            return false;
        }
        std::thread::sleep(self.manager.repeats().1);
        let mut core = self.lock();
        let Some(mut attempt) = core.attempt.take().filter(|_| core.state == State::Connecting) else {
            return false;
        };
        if core.begin(self.number, attempt.local, &attempt.param()).is_err() {
            return false;
        }
        attempt.repeats -= 1;
        core.attempt = (attempt.repeats > 0).then_some(attempt);
        true
    }
}

impl Core {
    fn begin(&mut self, number: u64, local: Option<SocketAddr>, param: &ConnParam<'_>) -> Result<(), Error> {
        let device = self.device()?;
        let qp = self.qp.clone().ok_or(Error::NoQp)?;
        let peer = self.peer.ok_or_else(|| self.refuse(Op::Connect))?;
        let wanted = weft_rnic::ConnParam { local, ..lower(param, number) };
        self.local = Some(device.connect_from(&device.events_on(&self.channel.queue), &qp, peer, wanted)?);
        Ok(())
    }

    fn note_answer(&mut self, outcome: Result<(), CmError>, next: State) -> Result<(), Error> {
        match outcome {
            Ok(()) => self.state = next,
            Err(CmError::RequestGone) => self.state = State::Over,
            Err(error) => return Err(error.into()),
        }
        self.request = None;
        outcome.map_err(Error::from)
    }
}

const fn lower<'a>(param: &ConnParam<'a>, number: u64) -> weft_rnic::ConnParam<'a> {
    weft_rnic::ConnParam {
        private_data: param.private_data,
        ird: param.responder_resources,
        ord: param.initiator_depth,
        peer_to_peer: param.peer_to_peer,
        local: None,
        id: number,
        events: None,
    }
}

const ANY_V4: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);
const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED), 0);
