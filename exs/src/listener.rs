//! Listeners.

use core::fmt;
use core::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::Arc;

use weft_rnic::Listen;

use crate::context::Context;
use crate::error::Error;
use crate::kind::Kind;
use crate::listening::Listening;
use crate::op::Op;
use crate::options::Options;
use crate::pending::Pending;
use crate::service::Service;
use crate::socket::{Awaited, Socket};

/// An address on which sockets for [`Messages`](crate::Messages) or a [`Stream`](crate::Stream) are accepted. Dropping
/// it closes those that nobody has accepted, and cancels the calls that wait for one.
pub struct Listener<K> {
    listening: Arc<Listening>,
    service: Arc<Service>,
    device: weft_rnic::Listener,
    kind: PhantomData<fn() -> K>,
}

impl Context {
    /// Listens on an address, on a port of all addresses, or as [`Listen`] says, for sockets for
    /// [`Messages`](crate::Messages) or a [`Stream`](crate::Stream). Of a text the type has to be said, for it may be
    /// any of these: `"127.0.0.1:7475".parse::<SocketAddr>()`.
    ///
    /// # Errors
    /// [`Error::InvalidOption`], [`Error::Address`].
    pub fn listen<K: Kind>(&self, at: impl Into<Listen>, options: &Options) -> Result<Listener<K>, Error> {
        options.check::<K>()?;
        let service = Arc::clone(self.service());
        let (listening, device) = service.listen(K::CARRIED, at.into(), options)?;
        Ok(Listener { listening, service, device, kind: PhantomData })
    }
}

impl<K: Kind> Listener<K> {
    /// Accepts the next connection. Calls take their turn in the order of their starts.
    pub fn accept(&self) -> Op<Result<Socket<K>, Error>> {
        let service = Arc::clone(&self.service);
        let pending = Pending::new();
        match self.listening.take(|| Box::new(Awaited::new(&pending, &service))) {
            Some(handle) => Op::ended(Arc::clone(&service), Ok(Socket::new(handle, service))),
            None => Op::new(service, pending),
        }
    }

    /// Returns the address, with the port that was chosen if 0 was asked for.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.device.local_addr()
    }
}

impl<K> Drop for Listener<K> {
    fn drop(&mut self) {
        self.service.unlisten(self.listening.id);
        self.listening.close();
    }
}

impl<K> fmt::Debug for Listener<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("local_addr", &self.device.local_addr()).finish_non_exhaustive()
    }
}
