//! What a link tells of itself.

use std::net::SocketAddr;
use std::sync::Arc;

use weft_exs_core::{Credits, Kind, Op, Stats, Terms};

use super::{Carrier, Link, each};
use crate::options::{Options, Plain};
use crate::pending::Pending;
use crate::ready::Ready;

/// What `weft stat` shows of a socket.
#[derive(Debug)]
pub(crate) struct Status {
    pub(crate) kind: Kind,
    /// Not over plain TCP.
    pub(crate) qp_num: Option<u32>,
    /// The own end and the peer's.
    pub(crate) addresses: Option<[SocketAddr; 2]>,
    pub(crate) ready: Ready,
    /// Operations under way.
    pub(crate) sends: usize,
    pub(crate) receives: usize,
    /// Not over plain TCP.
    pub(crate) credits: Option<Credits>,
    pub(crate) stats: Stats,
}

impl Link {
    /// Has a wait end when the connection is ready for something of what is wanted. Returns its name.
    pub(crate) fn await_ready(&mut self, wanted: Ready, pending: Arc<Pending<Ready>>) -> Op {
        self.calls.await_ready(wanted, pending)
    }

    pub(crate) fn ready(&self) -> Ready {
        each!(&self.carrier, carrier => {
            let session = &carrier.session;
            let (readable, writable) = (session.is_readable(), session.is_writable());
            Ready { readable, writable, ended: session.ended().is_some() }
        })
    }

    /// Ends the waits for which there is something.
    pub(crate) fn tell_ready(&mut self) {
        if self.calls.is_ready_awaited() {
            let ready = self.ready();
            self.calls.end_waits(ready, None);
        }
    }

    pub(crate) const fn stats(&self) -> Stats {
        each!(&self.carrier, carrier => carrier.session.stats())
    }

    /// Returns what `weft stat` shows of the socket.
    pub(crate) fn status(&self) -> Status {
        let (kind, qp_num, credits) = match &self.carrier {
            Carrier::Rdma(rdma) => {
                (rdma.terms.kind, Some(rdma.objects.qp.number()), Some(rdma.session.credits()))
            }
            Carrier::Plain(_) => (Kind::Stream, None, None),
        };
        let [sends, receives] = self.calls.under_way();
        let (addresses, ready) = (self.calls.addresses, self.ready());
        Status { kind, qp_num, addresses, ready, sends, receives, credits, stats: self.stats() }
    }

    pub(crate) const fn addresses(&self) -> Option<[SocketAddr; 2]> {
        self.calls.addresses
    }

    /// Returns the options as they hold with the peer.
    pub(crate) const fn options(&self) -> Options {
        let Carrier::Rdma(rdma) = &self.carrier else {
            return Options { plain: Plain::Always, ..self.calls.options };
        };
        let Terms { kind, immediate: small_packet_max, send_credits: granted, .. } = rdma.terms;
        let options = Options { small_packet_max, plain: Plain::Off, ..self.calls.options };
        match kind {
            Kind::Message => Options { send_credits: granted, ..options },
            Kind::Stream => Options { adverts: granted, ..options },
        }
    }

    /// Changes options of later calls.
    pub(crate) fn set(&mut self, change: impl FnOnce(&mut Options)) {
        change(&mut self.calls.options);
    }
}
