//! How connections come about: hellos go both ways in the private data of MPA.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weft_exs_core::{Hello, Kind, RejectCode, Role, Terms};
use weft_rnic::{CmError, CmEvent, ConnParam, ConnectRequest, CqId, Listen, Listener};

use super::{Connecting, Opening, Service};
use crate::endpoint::{Endpoint, Handle, Wanted};
use crate::error::Error;
use crate::link::Link;
use crate::listening::Listening;
use crate::objects::Objects;
use crate::options::{Options, Plain};

impl Service {
    /// Listens.
    ///
    /// # Errors
    /// [`Error::Address`].
    pub(crate) fn listen(
        &self,
        kind: Kind,
        at: Listen,
        options: &Options,
    ) -> Result<(Arc<Listening>, Listener), Error> {
        let mut table = self.table();
        let id = table.number();
        let listening = Arc::new(Listening::new(id, kind, *options));
        table.listeners.insert(id, Arc::clone(&listening));
        drop(table);
        // As many may ask at a time as may be there, unless the caller says otherwise.
        let at = Listen { backlog: at.backlog.or(Some(options.backlog)), ..at };
        let listener = match options.plain {
            Plain::Off => self.device.listen_as(id, &self.events, at),
            Plain::Accept | Plain::Always => self.device.listen_streaming_as(id, &self.events, at),
        };
        Ok((listening, listener.inspect_err(|_| self.unlisten(id))?))
    }

    /// Begins to connect a socket that somebody wants, from the own end if it is given.
    ///
    /// # Errors
    /// The connection cannot be begun.
    pub(crate) fn connect(
        &self,
        kind: Kind,
        (local, peer): (Option<SocketAddr>, SocketAddr),
        options: &Options,
        wanted: Box<dyn Wanted>,
    ) -> Result<(), Error> {
        options.check_for(kind)?;
        if options.plain == Plain::Always {
            let mut table = self.table();
            let id = table.number();
            // No event of the connection is looked at before it is in the table.
            let tcp = self.device.open_stream_as(id, &self.events, (local, peer))?;
            table.opening.insert(id, Opening { tcp, options: *options, wanted });
            return Ok(());
        }
        let objects = self.objects(kind, options)?;
        let reads = self.reads(options);
        let hello = objects.hello(reads).encode();
        let mut table = self.table();
        let id = table.number();
        let param = ConnParam { id, local, peer_to_peer: Some(true), ..param(&hello, reads) };
        // No event of the connection is looked at before it is in the table.
        self.device.connect(&self.events, &objects.qp, peer, param)?;
        table.connecting.insert(id, Connecting { objects, wanted });
        Ok(())
    }

    /// Takes an event of the connection or of the listener of this number.
    pub(super) fn handle_event(&self, id: u64, event: CmEvent) {
        match event {
            CmEvent::ConnectRequest(request) => self.handle_request(id, &request),
            CmEvent::Established { private_data, .. } => self.handle_established(id, &private_data),
            CmEvent::Rejected { private_data, .. } => {
                self.handle_failure(id, Error::Refused(RejectCode::parse(&private_data)));
            }
            CmEvent::ConnectError { reason, .. } => self.handle_failure(id, Error::Connect(reason)),
            CmEvent::Disconnected { reason, .. } => {
                if let Some(socket) = self.socket(id) {
                    socket.with(|link, now| link.handle_end(&reason, now));
                }
            }
            CmEvent::StreamRequest(request) => self.handle_stream_request(id, &request),
            CmEvent::StreamReady { .. } => self.handle_stream_ready(id),
            CmEvent::StreamFailed { reason, .. } => self.handle_stream_failure(id, reason),
        }
    }

    fn handle_request(&self, id: u64, request: &ConnectRequest) {
        let mut table = self.table();
        let (asking, listening) = (table.asking.remove(&id), table.listeners.get(&id).map(Arc::clone));
        drop(table);
        let is_admitted = asking.is_some();
        // The connection is the request's from now on.
        let listening = asking.map(|asking| asking.listening).or(listening);
        let outcome = match &listening {
            None => Err(RejectCode::NotListening),
            Some(listening) if !is_admitted && !listening.admit() => Err(RejectCode::Resources),
            Some(listening) => self.accept(listening, request).inspect_err(|_| listening.fail()),
        };
        if let Err(code) = outcome {
            // The peer may have gone.
            let _gone = self.device.reject(request.id, &code.encode());
        }
    }

    /// Accepts a connection. Nothing is allocated before the hello of the peer has been checked.
    fn accept(&self, listening: &Arc<Listening>, request: &ConnectRequest) -> Result<(), RejectCode> {
        let Listening { kind, options, .. } = &**listening;
        let peer = Hello::parse(&request.private_data)?;
        if peer.kind != *kind {
            return Err(RejectCode::Kind);
        }
        let objects = self.objects(*kind, options).map_err(|_| RejectCode::Resources)?;
        let reads = self.reads(options);
        let hello = objects.hello(reads);
        let terms = Terms::new(&hello, &options.wishes(*kind, reads), &peer)?;
        let cq = objects.cq.id();
        let (id, socket) = self.add(cq, Link::new(Role::Responder, objects, &terms));
        self.table().accepting.insert(id, Arc::clone(listening));
        let hello = hello.encode();
        let param = ConnParam { id, ..param(&hello, reads) };
        // The receives are there before the peer's first message.
        let accepted = socket.with(|link, now| {
            link.collect(now);
            link.perform(now);
            let qp = link.qp().ok_or(CmError::NotConnected)?;
            self.device.accept(request.id, qp, param)
        });
        accepted.map_err(|_| {
            self.table().accepting.remove(&id);
            self.forget(id);
            RejectCode::Resources
        })
    }

    fn handle_established(&self, id: u64, private_data: &[u8]) {
        let mut table = self.table();
        let (connecting, listening) = (table.connecting.remove(&id), table.accepting.remove(&id));
        drop(table);
        if let Some(Connecting { objects, wanted }) = connecting {
            tell(&*wanted, self.start(id, objects, private_data));
        } else if let (Some(listening), Some(endpoint)) = (listening, self.socket(id)) {
            endpoint.with(|link, now| {
                link.open();
                link.collect(now);
            });
            if let Some(waker) = listening.establish(Arc::new(Handle(endpoint))) {
                waker.wake();
            }
        }
    }

    /// Starts the session of an initiator, if the hello of the peer is right.
    fn start(&self, id: u64, objects: Objects, private_data: &[u8]) -> Result<Arc<Handle>, Error> {
        let (kind, reads) = (objects.kind, self.reads(&objects.options));
        let (hello, wishes) = (objects.hello(reads), objects.options.wishes(kind, reads));
        let peer = Hello::parse(private_data).map_err(|code| Error::Refused(Some(code)))?;
        let terms = Terms::new(&hello, &wishes, &peer).map_err(|code| Error::Refused(Some(code)))?;
        let cq = objects.cq.id();
        let endpoint = Endpoint::new(id, &self.agenda, Link::new(Role::Initiator, objects, &terms));
        self.insert(id, cq, &endpoint);
        endpoint.with(|link, now| {
            link.perform(now);
            link.collect(now);
        });
        Ok(Arc::new(Handle(endpoint)))
    }

    /// Takes the failure of a connection that was to come about.
    fn handle_failure(&self, id: u64, error: Error) {
        let mut table = self.table();
        let (connecting, listening) = (table.connecting.remove(&id), table.accepting.remove(&id));
        drop(table);
        if let Some(Connecting { wanted, .. }) = connecting {
            tell(&*wanted, Err(error));
        } else if let Some(listening) = listening {
            listening.fail();
            self.forget(id);
        }
    }

    fn add(&self, cq: CqId, link: Link) -> (u64, Arc<Endpoint>) {
        let id = self.table().number();
        let endpoint = Endpoint::new(id, &self.agenda, link);
        self.insert(id, cq, &endpoint);
        (id, endpoint)
    }

    fn insert(&self, id: u64, cq: CqId, endpoint: &Arc<Endpoint>) {
        let mut table = self.table();
        table.sockets.insert(id, Arc::clone(endpoint));
        table.announced.insert(cq, id);
    }

    fn objects(&self, kind: Kind, options: &Options) -> Result<Objects, Error> {
        // The sockets are shared out among the engines.
        let engine = self.made.fetch_add(1, Ordering::Relaxed) % self.device.num_comp_vectors();
        Objects::new((&self.device, &self.domain.pd, engine), &self.completions, kind, options)
    }

    /// Returns the Reads that a socket with these options answers at a time, and has under way.
    fn reads(&self, options: &Options) -> u16 {
        options.recv_credits.min(self.device.max_reads()).max(1)
    }
}

fn param(hello: &[u8], reads: u16) -> ConnParam<'_> {
    ConnParam { private_data: hello, ird: Some(reads), ord: Some(reads), ..ConnParam::NONE }
}

/// Tells how a call ends that waits for a socket. A socket that nobody waits for is closed.
pub(super) fn tell(wanted: &dyn Wanted, outcome: Result<Arc<Handle>, Error>) {
    if let Ok(Some(waker)) = wanted.deliver(outcome) {
        waker.wake();
    }
}
