//! The requests of a connection: Writes, and the messages behind them.

use rustix::io::Errno;
use weft_rnic::{Data, SendOpcode, SendWr, Sge};
use weft_verbs::MAX_INLINE;

use super::done::{Done, tell};
use super::link::{Course, Link};
use super::message::Message;
use super::place::{Mapping, RemotePlace};

impl Link {
    /// Sends `len` octets, at most [`Self::room`]. `copy` hands them over.
    pub(crate) fn send(&mut self, len: u32, copy: impl FnOnce(&mut dyn FnMut(&[u8]))) {
        let Some(peer) = &mut self.peer else { return };
        let target = peer.outbound.fill(len);
        self.write(RemotePlace { len, ..target }, Some(Message::Data(len)), copy);
    }

    /// Fills `target`, at most [`Self::direct_room`] octets.
    pub(crate) fn write_direct(&mut self, target: RemotePlace, copy: impl FnOnce(&mut dyn FnMut(&[u8]))) {
        let Some(peer) = &mut self.peer else { return };
        peer.outbound.write_alone();
        self.write(target, None, copy);
    }

    /// Writes a mapping into entry `index` of the peer's table, and reports it.
    pub(crate) fn tell_mapping(&mut self, index: u16, mapping: &Mapping) {
        let Some(peer) = &mut self.peer else { return };
        peer.outbound.tell();
        let table = u64::from(peer.table.len).wrapping_mul(RemotePlace::LEN as u64);
        let entry = u64::from(index).wrapping_mul(Mapping::LEN as u64);
        let to = peer.table.addr.wrapping_add(table).wrapping_add(entry);
        let opcode = SendOpcode::Write { stag: peer.table.key, to };
        let octets = mapping.octets();
        let write = SendWr { data: Data::Inline(&octets), ..SendWr::new(opcode) };
        let message = Message::Mapping(index.into()).octets();
        self.post(&[write, tell(&message, Done { requests: 2, octets: 0, is_spare: false })]);
    }

    /// Sends a message without credit.
    pub(crate) fn control(&mut self, message: Message) {
        self.spare_requests -= 1;
        self.post(&[tell(&message.octets(), Done { requests: 1, octets: 0, is_spare: true })]);
    }

    /// Sends the peer due grants, if requests are left for them.
    pub(super) fn grant(&mut self) {
        let Some(peer) = &mut self.peer else { return };
        if self.course != Course::Open || self.spare_requests < 2 {
            return;
        }
        let Some(grant) = self.inbound.grant() else { return };
        let message = Message::Credits(grant.credits).octets();
        let Some(half) = grant.half else {
            self.spare_requests -= 1;
            return self.post(&[tell(&message, Done { requests: 1, octets: 0, is_spare: true })]);
        };
        self.spare_requests -= 2;
        let addr = self.data.addr().wrapping_add(half.into());
        let place = RemotePlace { addr, key: self.data.rkey(), len: self.sizes.recv_buffer / 2 };
        let to = peer.table.addr.wrapping_add(u64::from(peer.entry) * RemotePlace::LEN as u64);
        let opcode = SendOpcode::Write { stag: peer.table.key, to };
        peer.entry = (peer.entry + 1) % peer.table.len;
        let octets = place.octets();
        let write = SendWr { data: Data::Inline(&octets), ..SendWr::new(opcode) };
        self.post(&[write, tell(&message, Done { requests: 2, octets: 0, is_spare: true })]);
    }

    /// Posts a Write that fills `target`, and the message behind it, if there is one.
    fn write(
        &mut self,
        target: RemotePlace,
        message: Option<Message>,
        copy: impl FnOnce(&mut dyn FnMut(&[u8])),
    ) {
        let Some(peer) = &mut self.peer else { return };
        let len = target.len;
        let is_short = len <= self.sizes.inline;
        let opcode = SendOpcode::Write { stag: target.key, to: target.addr };
        let mut inline = heapless::Vec::<u8, MAX_INLINE>::new();
        let mut sges = heapless::Vec::<Sge, 2>::new();
        if is_short {
            // The sizes see to it that they fit.
            copy(&mut |octets| {
                let _fits = inline.extend_from_slice(octets);
            });
        } else {
            let [(first, to_end), (_, around)] = peer.outbound.take(len);
            let (mut at, size) = (first as usize, self.ring.len());
            copy(&mut |octets| {
                let (head, tail) = octets.split_at(octets.len().min(size - at));
                // Both parts lie within the ring.
                let _inside = (self.ring.write(at, head), self.ring.write(0, tail));
                at = (at + octets.len()) % size;
            });
            for (at, len) in [(first, to_end), (0, around)] {
                if len > 0 {
                    // There are two parts at most.
                    let _fits = sges.push(self.ring.sge(at as usize, len));
                }
            }
        }
        let octets = if is_short { 0 } else { len };
        let data = if is_short { Data::Inline(&inline) } else { Data::Sges(&sges) };
        let requests = if message.is_some() { 2 } else { 1 };
        let done = Done { requests, octets, is_spare: false };
        let write = SendWr { data, ..SendWr::new(opcode) };
        match message {
            Some(message) => self.post(&[write, tell(&message.octets(), done)]),
            None => self.post(&[SendWr { wr_id: done.wr_id(), signaled: true, ..write }]),
        }
    }

    /// Posts requests that there is room for. A queue pair that refuses them has ended.
    fn post(&mut self, requests: &[SendWr<'_>]) {
        if self.qp.post_sends(requests).is_err() {
            self.break_off(Errno::CONNRESET);
        }
    }
}
