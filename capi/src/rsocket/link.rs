//! A connection: its queue pair, its memory, and the octets that go over it.

use std::sync::Arc;

use rustix::io::Errno;
use weft_rnic::{
    Access, CompChannel, Completion, Cq, Device, Mr, Pd, Qp, QpCapacity, QpInit, RecvWr, Status,
};

use super::done::{Done, RECEIVE};
use super::hello::Hello;
use super::inbound::Inbound;
use super::message::Message;
use super::options::Sizes;
use super::outbound::Outbound;
use super::place::{Mapping, RemotePlace};
use crate::errno::errno;

/// The course of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// Both ends are there.
    Open,
    /// One end has disconnected.
    Disconnected,
    /// The connection broke.
    Failed,
}

/// The resources of a connection, and its course.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) qp: Arc<Qp>,
    pub(crate) pd: Pd,
    cq: Cq,
    pub(super) sizes: Sizes,
    /// Memory that the peer writes: data, messages, and its buffers and mappings.
    pub(super) data: Mr,
    messages: Mr,
    table: Mr,
    /// Memory that is sent.
    pub(super) ring: Mr,
    pub(super) inbound: Inbound,
    pub(super) peer: Option<Peer>,
    /// Requests kept for messages without credit.
    pub(super) spare_requests: u32,
    pub(crate) course: Course,
    /// The reason why it broke, until a call has returned it.
    pub(crate) failure: Option<Errno>,
    pub(crate) can_read: bool,
    pub(crate) can_write: bool,
    is_armed: bool,
}

/// The state of the other end.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) outbound: Outbound,
    /// The table in which the peer finds buffers, and the next entry.
    pub(super) table: RemotePlace,
    pub(super) entry: u32,
    mappings: u16,
    /// The entry of the own table that the peer fills next.
    next_target: usize,
    /// Set by a message behind which the table may have changed. Before that message a Write may still be under way.
    has_news: bool,
}

impl Link {
    /// # Errors
    /// `ENOMEM` if memory or queue pairs are used up.
    pub(crate) fn create(device: &Device, channel: &CompChannel, sizes: Sizes) -> Result<Self, Errno> {
        let refused = |error: weft_rnic::CreateError| errno(error.errno());
        let requests = u32::from(sizes.send_requests) + SPARE_REQUESTS;
        let receives = u32::from(sizes.receives);
        let cq = device.create_cq(requests + receives, Some(channel)).map_err(refused)?;
        let pd = device.alloc_pd();
        let capacity = QpCapacity {
            send_wr: requests,
            recv_wr: receives,
            send_sge: 2,
            recv_sge: 1,
            inline: (sizes.inline as usize).max(Mapping::LEN),
        };
        // InfiniBand's hardware waits for a receive. rsocket's credits rely on that for all messages that are no data.
        let init = QpInit { capacity, rnr_wait: true, ..QpInit::new(&cq, &cq) };
        let qp = Arc::new(device.create_qp(&pd, &init).map_err(refused)?);
        let register = |len: usize, access| pd.register(len, access).map_err(|error| errno(error.errno()));
        let written = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let link = Self {
            data: register(sizes.recv_buffer as usize, written)?,
            messages: register(Message::LEN * usize::from(sizes.receives), Access::LOCAL_WRITE)?,
            table: register(
                TARGETS * RemotePlace::LEN + usize::from(sizes.mappings) * Mapping::LEN,
                written,
            )?,
            ring: register(sizes.send_buffer as usize, Access::LOCAL_READ)?,
            inbound: Inbound::new(sizes.recv_buffer / 2, sizes.receives),
            qp,
            pd,
            cq,
            sizes,
            peer: None,
            spare_requests: SPARE_REQUESTS,
            course: Course::Open,
            failure: None,
            can_read: true,
            can_write: true,
            is_armed: false,
        };
        (0..u64::from(sizes.receives)).try_for_each(|slot| link.post_recv(slot))?;
        Ok(link)
    }

    /// Returns the private data for the peer.
    pub(crate) fn hello(&self) -> Hello {
        let place = |mr: &Mr, len| RemotePlace { addr: mr.addr(), key: mr.rkey(), len };
        Hello {
            credits: self.sizes.receives,
            table: place(&self.table, TARGET_COUNT),
            mappings: self.sizes.mappings,
            buffer: place(&self.data, self.sizes.recv_buffer / 2),
        }
    }

    /// Takes the peer's private data.
    pub(crate) fn establish(&mut self, hello: &Hello) {
        let &Hello { credits, table, mappings, buffer } = hello;
        let requests = u32::from(self.sizes.send_requests);
        let outbound = Outbound::new(self.sizes.send_buffer, requests, credits, buffer);
        // The first buffer counts as that of the first entry.
        self.peer =
            Some(Peer { outbound, table, entry: 1 % table.len, mappings, next_target: 1, has_news: false });
    }

    /// Takes completions, and sends the peer due grants.
    pub(crate) fn poll(&mut self) {
        self.take_completions();
        self.grant();
    }

    /// Makes the channel report the next completion.
    pub(crate) fn arm(&mut self) {
        self.cq.request_notification(false);
        self.is_armed = true;
    }

    pub(crate) const fn is_armed(&self) -> bool {
        self.is_armed
    }

    pub(crate) const fn disarm(&mut self) {
        self.is_armed = false;
    }

    /// Returns how many octets a message can hold now.
    pub(crate) fn room(&mut self) -> u32 {
        self.take_target();
        self.peer.as_ref().map_or(0, |peer| peer.outbound.room())
    }

    /// Returns how many octets can be written directly now.
    pub(crate) fn direct_room(&self) -> u32 {
        self.peer.as_ref().map_or(0, |peer| peer.outbound.direct_room())
    }

    /// Returns true if a mapping can be reported to the peer now.
    pub(crate) fn can_tell(&self) -> bool {
        self.peer.as_ref().is_some_and(|peer| peer.outbound.can_tell())
    }

    pub(crate) const fn is_readable(&self) -> bool {
        self.inbound.is_readable()
    }

    /// Copies unread octets behind the first `skip`, and returns how many.
    pub(crate) fn copy_unread(&self, skip: usize, to: &mut [u8]) -> usize {
        let mut copied = 0;
        while let Some((at, len)) = self.inbound.unread(skip + copied)
            && copied < to.len()
        {
            let part = len.min(to.len() - copied);
            if self.data.read(at, &mut to[copied..copied + part]).is_err() {
                break;
            }
            copied += part;
        }
        copied
    }

    /// Gives back octets that were read.
    pub(crate) fn consume(&mut self, len: usize) {
        self.inbound.consume(len);
        self.grant();
    }

    /// Returns how many mappings the peer can hold.
    pub(crate) fn peer_mappings(&self) -> u16 {
        self.peer.as_ref().map_or(0, |peer| peer.mappings)
    }

    /// Returns the place of the peer's for an offset, if one is mapped there.
    pub(crate) fn mapped(&self, offset: u64) -> Option<RemotePlace> {
        (0..usize::from(self.sizes.mappings)).find_map(|index| {
            let mut octets = [0; Mapping::LEN];
            let at = TARGETS * RemotePlace::LEN + index * Mapping::LEN;
            self.table.read(at, &mut octets).ok()?;
            Mapping::read(octets).at(offset)
        })
    }

    /// Returns true if a message without credit can go now.
    pub(crate) const fn can_control(&self) -> bool {
        self.spare_requests > 0
    }

    /// Returns true if all posted requests have gone out.
    pub(crate) fn is_sent(&self) -> bool {
        let requests = u32::from(self.sizes.send_requests);
        self.spare_requests == SPARE_REQUESTS
            && self.peer.as_ref().is_none_or(|peer| peer.outbound.is_done(requests))
    }

    /// Notes that one end has disconnected.
    pub(crate) fn disconnect(&mut self) {
        if self.course == Course::Open {
            self.course = Course::Disconnected;
        }
        (self.can_read, self.can_write) = (false, false);
    }

    /// Breaks the connection, unless it is over already.
    pub(super) fn break_off(&mut self, why: Errno) {
        if self.course == Course::Open {
            (self.course, self.failure) = (Course::Failed, Some(why));
        }
        (self.can_read, self.can_write) = (false, false);
    }

    fn take_completions(&mut self) {
        let mut found = [Completion::EMPTY; 16];
        loop {
            let count = self.cq.poll(&mut found);
            if count == 0 {
                return;
            }
            found[..count].iter().for_each(|completion| self.handle(completion));
        }
    }

    fn handle(&mut self, completion: &Completion) {
        let is_done = completion.status == Status::Success;
        match (Done::read(completion.wr_id), is_done) {
            (None, true) => self.handle_message(completion.wr_id & !RECEIVE, completion.byte_len),
            (Some(done), _) if done.is_spare => self.spare_requests += done.requests,
            (Some(done), _) => {
                if let Some(peer) = &mut self.peer {
                    peer.outbound.complete(done.requests, done.octets);
                }
            }
            (None, false) => {}
        }
        if !is_done {
            self.break_off(Errno::CONNRESET);
        }
    }

    fn handle_message(&mut self, slot: u64, len: u32) {
        let mut octets = [0; Message::LEN];
        let at = usize::try_from(slot).unwrap_or(usize::MAX).saturating_mul(Message::LEN);
        let is_whole = len as usize == Message::LEN && self.messages.read(at, &mut octets).is_ok();
        let message = if is_whole { Message::read(octets) } else { Message::Unknown };
        // A queue pair in error takes the receive as well, and flushes it.
        if self.post_recv(slot).is_err() {
            self.break_off(Errno::CONNRESET);
        }
        match message {
            Message::Data(len) if self.inbound.arrive(len).is_ok() => {}
            Message::Credits(limit) => {
                if let Some(peer) = &mut self.peer {
                    peer.outbound.allow(limit);
                    peer.has_news = true;
                }
            }
            Message::Mapping(_) => self.inbound.read_one(),
            Message::KeepAlive => {}
            Message::Disconnect => self.disconnect(),
            Message::Shutdown if self.can_write => self.can_read = false,
            Message::Shutdown => self.disconnect(),
            // An unknown message, or one that reports more than possible: the peer cannot be trusted any more.
            Message::Data(_) | Message::Unknown => self.fail(Errno::PROTO),
        }
    }

    /// Ends the connection over a broken rule.
    fn fail(&mut self, why: Errno) {
        self.break_off(why);
        // The connection may have ended before.
        let _may_have_ended = self.qp.disconnect();
    }

    /// Looks for the peer's next buffer, if it is needed.
    fn take_target(&mut self) {
        let Some(peer) = &mut self.peer else { return };
        if !peer.has_news || !peer.outbound.wants_target() {
            return;
        }
        let mut octets = [0; RemotePlace::LEN];
        let at = peer.next_target * RemotePlace::LEN;
        if self.table.read(at, &mut octets).is_err() {
            return;
        }
        let target = RemotePlace::read(octets);
        if target.len > 0 && self.table.write(at, &[0; RemotePlace::LEN]).is_ok() {
            peer.outbound.set_target(target);
            peer.next_target = (peer.next_target + 1) % TARGETS;
        } else {
            peer.has_news = false;
        }
    }

    fn post_recv(&self, slot: u64) -> Result<(), Errno> {
        let at = usize::try_from(slot).unwrap_or(usize::MAX).saturating_mul(Message::LEN);
        let sges = [self.messages.sge(at, MESSAGE)];
        let wr = RecvWr { wr_id: RECEIVE | slot, sges: &sges };
        self.qp.post_recv(&wr).map_err(crate::errno::refused)
    }
}

/// Entries of the table of buffers, one for each half of the peer's buffer.
const TARGETS: usize = TARGET_COUNT as usize;
const TARGET_COUNT: u32 = 2;
const MESSAGE: u32 = 4;
const _: () = assert!(MESSAGE as usize == Message::LEN);
/// Requests for grants and control messages.
const SPARE_REQUESTS: u32 = 8;
