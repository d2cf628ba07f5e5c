//! Connections of a replica: who may connect to what, and what follows when one comes up or ends.

use std::net::SocketAddr;

use weft_rnic::{CmError, CmEvent, ConnParam, ConnectRequest, RequestId};

use crate::control::{Hello, Request, VERSION};
use crate::greeting::{Greeting, Token};
use crate::link::Link;

use super::hosted::{Hosted, Next};
use super::peer::Peer;
use super::{Role, Server};

impl Server {
    pub(super) fn handle_event(&mut self, number: u64, event: CmEvent) {
        let role = self.roles.get(&number).copied();
        match (event, role) {
            (CmEvent::ConnectRequest(request), _) => self.handle_request(&request),
            (CmEvent::Established { .. }, Some(Role::Outward(peer))) => self.begin(peer),
            (CmEvent::Established { .. }, Some(Role::Next(peer))) => self.greet_next(peer),
            (CmEvent::Established { .. }, Some(Role::Source(peer))) => self.greet_source(peer),
            (CmEvent::ConnectError { reason, .. }, Some(Role::Source(peer))) => {
                self.lose_source(peer, &reason.to_string());
            }
            (CmEvent::Rejected { .. } | CmEvent::Disconnected { .. }, Some(Role::Source(peer))) => {
                // What it has said before may be still there.
                self.read_source(peer);
                self.lose_source(peer, "it has gone");
            }
            (CmEvent::Rejected { .. }, Some(Role::Next(peer) | Role::Outward(peer))) => {
                self.lose_next(peer, "it does not take the connection");
            }
            (CmEvent::ConnectError { reason, .. }, Some(Role::Next(peer) | Role::Outward(peer))) => {
                self.lose_next(peer, &reason.to_string());
            }
            (CmEvent::Disconnected { .. } | CmEvent::ConnectError { .. }, Some(Role::Peer)) => {
                self.drop_peer(number);
            }
            (CmEvent::Disconnected { .. } | CmEvent::ConnectError { .. }, Some(Role::Inward(peer))) => {
                self.end_here(peer);
            }
            (CmEvent::Disconnected { .. }, Some(Role::Next(peer))) => self.handle_loss(peer),
            (CmEvent::Disconnected { .. }, Some(Role::Outward(peer))) => self.lose_outward(peer),
            // IN is never the side that connects, a control connection that comes up has nothing to say yet, and all
            // others are of sessions that have ended.
            _ => {}
        }
    }

    /// The control connection to the next replica has ended. What that has said before may be still there.
    fn handle_loss(&mut self, peer: u64) {
        self.read_answers(peer);
        self.lose_next(peer, "it has gone");
    }

    fn handle_request(&mut self, request: &ConnectRequest) {
        let is_taken = match Greeting::parse(&request.private_data) {
            Some(Greeting::Control) => self.take_peer(request),
            Some(Greeting::Inward(token)) => self.take_inward(request.id, token),
            Some(Greeting::Outward(token)) => self.take_outward(request.id, token),
            None => None,
        };
        if is_taken.is_none() {
            self.refuse(request.id);
        }
    }

    pub(super) fn refuse(&self, request: RequestId) {
        // It may have gone meanwhile.
        let _gone = self.device.reject(request, &[]);
    }

    /// Takes a control connection. If there are too many, the oldest one that has not said Hello makes room.
    fn take_peer(&mut self, request: &ConnectRequest) -> Option<()> {
        if self.peers.len() >= 2 * self.limits.sessions + OTHERS {
            let silent = self.peers.iter().find(|(_, peer)| !peer.is_greeted).map(|(number, _)| *number)?;
            self.drop_peer(silent);
        }
        let pd = self.device.alloc_pd();
        let link = Link::new(&self.device, &pd, &self.completions).ok()?;
        let number = self.number();
        self.device.accept(request.id, link.qp(), ConnParam { id: number, ..ConnParam::NONE }).ok()?;
        self.announced.insert(link.announced_as(), number);
        self.roles.insert(number, Role::Peer);
        self.peers.insert(number, Peer::new((link, pd), request.peer));
        Some(())
    }

    /// Takes a connection to IN, at once or when the program is posted.
    fn take_inward(&mut self, request: RequestId, token: Token) -> Option<()> {
        let session = self.find(|session| session.inward == token)?;
        if session.is_entered || session.waiting.is_some() {
            return None;
        }
        if !session.is_begun {
            session.waiting = Some(request);
            return Some(());
        }
        self.enter(token, request)
    }

    fn enter(&mut self, token: Token, request: RequestId) -> Option<()> {
        let device = self.device.clone();
        let session = self.find(|session| session.inward == token)?;
        let (qp, id) = session.inward();
        device.accept(request, qp, ConnParam { id, ..ConnParam::NONE }).ok()?;
        session.is_entered = true;
        Some(())
    }

    /// Takes the client's connection to OUT, at the tail.
    fn take_outward(&mut self, request: RequestId, token: Token) -> Option<()> {
        let device = self.device.clone();
        let session = self.find(|session| session.outward == token && session.successor().is_none())?;
        // A second connection finds the queue pair in use.
        let (qp, id) = session.outward();
        device.accept(request, qp, ConnParam { id, ..ConnParam::NONE }).ok()
    }

    fn find(&mut self, matches: impl Fn(&Hosted) -> bool) -> Option<&mut Hosted> {
        self.peers.values_mut().filter_map(|peer| peer.session.as_mut()).find(|session| matches(session))
    }

    /// Posts the program of a session: OUT is connected. A connection to IN that came before is taken now.
    fn begin(&mut self, peer: u64) {
        let Some(session) = self.session(peer) else { return };
        let next = session.next.as_ref().and_then(|next| next.opened.as_ref());
        let target = next.map(|opened| weft_rnic::Stag(opened.data_in));
        if session.replica.begin(target).is_err() {
            return self.end_here(peer);
        }
        session.is_begun = true;
        let token = session.inward;
        if let Some(request) = session.waiting.take()
            && self.enter(token, request).is_none()
        {
            self.refuse(request);
            self.end_here(peer);
        }
    }

    /// Connects the control plane to the next replica.
    pub(super) fn connect_next(&mut self, peer: u64) -> Result<(), String> {
        let link = Link::new(&self.device, &self.pd, &self.completions).map_err(|error| error.to_string())?;
        let Some(session) = self.session(peer) else { return Ok(()) };
        let (Some(member), index) = (session.successor(), session.open.index + 1) else { return Ok(()) };
        let number = self.dial(&link, member.address, Role::Next(peer));
        let number = number.map_err(|error| format!("replica {index} at {}: {error}", member.address))?;
        if let Some(session) = self.session(peer) {
            session.next = Some(Next { number, link, opened: None });
        }
        Ok(())
    }

    /// Begins a control connection to another replica, and returns its number.
    pub(super) fn dial(&mut self, link: &Link, address: SocketAddr, role: Role) -> Result<u64, CmError> {
        let number = self.number();
        let greeting = Greeting::Control.encode();
        let param = ConnParam { id: number, private_data: &greeting, ..ConnParam::NONE };
        self.device.connect(&self.events, link.qp(), address, param)?;
        self.announced.insert(link.announced_as(), number);
        self.roles.insert(number, role);
        Ok(number)
    }

    fn greet_next(&mut self, peer: u64) {
        let hello = self.own_hello();
        let Some(next) = self.session(peer).and_then(|session| session.next.as_mut()) else { return };
        if next.link.send(&hello.encode()).is_err() {
            self.lose_next(peer, "it has gone");
        }
    }

    /// Returns what this side says first to another replica.
    pub(super) fn own_hello(&self) -> Request {
        let key = self.limits.key.as_ref().map(crate::key::Key::octets);
        Request::Hello(Hello { version: VERSION, key })
    }

    /// Connects OUT to IN of the next replica.
    pub(super) fn connect_outward(&mut self, peer: u64) -> Result<(), CmError> {
        let (device, events) = (self.device.clone(), self.events.clone());
        let Some(session) = self.session(peer) else { return Ok(()) };
        let opened = session.next.as_ref().and_then(|next| next.opened);
        let (Some(opened), Some(member)) = (opened, session.successor()) else { return Ok(()) };
        let greeting = Greeting::Inward(opened.inward).encode();
        let (qp, id) = session.outward();
        let param = ConnParam { id, private_data: &greeting, peer_to_peer: Some(true), ..ConnParam::NONE };
        device.connect(&events, qp, member.address, param)
    }
}

/// Control connections that are allowed besides those of sessions and those that wait for one.
const OTHERS: usize = 16;
