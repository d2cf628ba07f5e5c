//! How connections of plain TCP come about: a listener finds out what a peer speaks, by its first octets.

use std::sync::Arc;
use std::time::Duration;

use weft_rnic::{ConnectFailure, StreamError, StreamRequest, StreamingConnection};

use super::connecting::tell;
use super::{Asking, Opening, Service};
use crate::endpoint::{Endpoint, Handle};
use crate::error::Error;
use crate::link::Link;
use crate::listening::Listening;
use crate::options::{Options, Plain};

/// What a peer speaks.
enum Found {
    /// MPA.
    Mpa,
    /// Something else.
    Plain,
    /// It has gone.
    Nobody,
}

impl Service {
    /// Takes a connection that has come to the listener of this number.
    pub(super) fn handle_stream_request(&self, listener: u64, request: &StreamRequest) {
        let mut table = self.table();
        let listening = table.listeners.get(&listener).map(Arc::clone);
        let id = table.number();
        drop(table);
        // It may have gone.
        let Ok(tcp) = self.device.accept_stream_as(id, request.id) else { return };
        let Some(listening) = listening.filter(|listening| listening.admit()) else {
            return tcp.abort();
        };
        if listening.options.plain == Plain::Always {
            self.establish_plain(id, tcp, &listening);
        } else {
            self.table().asking.insert(id, Asking { tcp, listening, is_started: false });
            self.agenda.schedule(id, Some(self.agenda.now().saturating_add(SILENCE)));
            self.look(id, false);
        }
    }

    /// Takes that a connection may have what was waited for: it is open, or has more octets, room, or an end.
    pub(super) fn handle_stream_ready(&self, id: u64) {
        let opening = self.table().opening.remove(&id);
        if let Some(Opening { tcp, options, wanted }) = opening {
            let endpoint = self.add_plain(id, tcp, &options);
            tell(&*wanted, Ok(Arc::new(Handle(endpoint))));
        } else if let Some(socket) = self.socket(id) {
            socket.with(|link, now| link.collect(now));
        } else {
            self.look(id, false);
        }
    }

    /// Takes that a connection was not opened, or has ended without a good Request.
    pub(super) fn handle_stream_failure(&self, id: u64, reason: ConnectFailure) {
        let mut table = self.table();
        let (opening, asking) = (table.opening.remove(&id), table.asking.remove(&id));
        drop(table);
        if let Some(Opening { wanted, .. }) = opening {
            tell(&*wanted, Err(Error::Connect(reason)));
        } else if let Some(Asking { listening, .. }) = asking {
            listening.fail();
        }
    }

    /// Looks at the first octets of a connection, if it is not known what its peer speaks. If its time `is_over`, that
    /// is known by now.
    pub(super) fn look(&self, id: u64, is_over: bool) {
        let mut table = self.table();
        let Some(asking) = table.asking.get_mut(&id).filter(|asking| !asking.is_started) else { return };
        let found = match asking.find() {
            None if is_over => Found::Plain,
            None => return,
            Some(Found::Mpa) if asking.tcp.start_responder(&[]).is_err() => Found::Nobody,
            Some(found) => found,
        };
        self.agenda.schedule(id, None);
        if let Found::Mpa = found {
            // It keeps its place until its Request has come.
            asking.is_started = true;
            return;
        }
        let asking = table.asking.remove(&id);
        drop(table);
        if let Some(Asking { tcp, listening, .. }) = asking {
            match found {
                Found::Plain => self.establish_plain(id, tcp, &listening),
                Found::Nobody | Found::Mpa => listening.fail(),
            }
        }
    }

    /// Hands a plain peer out to those who accept.
    fn establish_plain(&self, id: u64, tcp: StreamingConnection, listening: &Listening) {
        let endpoint = self.add_plain(id, tcp, &listening.options);
        if let Some(waker) = listening.establish(Arc::new(Handle(endpoint))) {
            waker.wake();
        }
    }

    fn add_plain(&self, id: u64, tcp: StreamingConnection, options: &Options) -> Arc<Endpoint> {
        let endpoint = Endpoint::new(id, &self.agenda, Link::plain(tcp, options));
        self.table().sockets.insert(id, Arc::clone(&endpoint));
        // It asks TCP for what is there, and so for an event when more comes.
        endpoint.with(|_, _| ());
        endpoint
    }
}

impl Asking {
    /// Finds out what the peer speaks, if that can be said already.
    fn find(&self) -> Option<Found> {
        let mut octets = [0; KEY.len()];
        match self.tcp.peek(&mut octets) {
            Ok(there) => match octets.get(..there) {
                Some(octets) if octets == KEY => Some(Found::Mpa),
                Some(octets) if KEY.starts_with(octets) => None,
                _ => Some(Found::Plain),
            },
            // It says nothing, and waits for what this side says.
            Err(StreamError::Finished) => Some(Found::Plain),
            Err(_) => Some(Found::Nobody),
        }
    }
}

/// The first octets of a Request (RFC 5044 section 7.1.1).
const KEY: &[u8; 16] = b"MPA ID Req Frame";
/// A peer that has said nothing for so long waits for this side, and is over plain TCP.
const SILENCE: Duration = Duration::from_millis(200);
