//! What a link tells of itself.

use std::net::SocketAddr;
use std::sync::Arc;

use weft_exs_core::{Kind, Op, Stats, Terms};

use super::{Ended, Link};
use crate::options::Options;
use crate::pending::Pending;
use crate::ready::Ready;

impl Link {
    /// Has a wait end when the connection is ready for something of what is wanted. Returns its name.
    pub(crate) fn await_ready(&mut self, wanted: Ready, pending: Arc<Pending<Ready>>) -> Op {
        self.last_op += 1;
        let op = Op(self.last_op);
        self.waiting.push((op, wanted, pending));
        op
    }

    pub(crate) fn ready(&self) -> Ready {
        let session = &self.session;
        let (readable, writable) = (session.is_readable(), session.is_writable());
        Ready { readable, writable, ended: session.ended().is_some() }
    }

    /// Ends the waits for which there is something.
    pub(crate) fn tell_ready(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let ready = self.ready();
        for (.., wanted, pending) in self.waiting.extract_if(.., |(_, wanted, _)| ready.of(*wanted).is_some())
        {
            let waker = ready.of(wanted).and_then(|met| pending.settle(met));
            self.ended.push(Ended { waker, _outcome: None });
        }
    }

    pub(crate) const fn stats(&self) -> Stats {
        self.session.stats()
    }

    pub(crate) const fn addresses(&self) -> Option<[SocketAddr; 2]> {
        self.addresses
    }

    /// Returns the options as they hold with the peer.
    pub(crate) fn options(&self) -> Options {
        let Terms { kind, immediate: small_packet_max, send_credits: granted, .. } = self.terms;
        let options = Options { small_packet_max, ..self.objects.options };
        match kind {
            Kind::Message => Options { send_credits: granted, ..options },
            Kind::Stream => Options { adverts: granted, ..options },
        }
    }

    /// Changes options of later calls.
    pub(crate) fn set(&mut self, change: impl FnOnce(&mut Options)) {
        change(&mut self.objects.options);
    }
}
