//! The operations on queues and connections, in both worlds.

use std::collections::VecDeque;

use weft_rnic::{CmError, ConnParam, CreateError, QpCapacity, QpInit, QpState};

use super::memory::End;
use super::ops::{Op, QpChoice};
use super::queues::{Completions, Link, Pair};
use super::world::{EndKind, Event, MAX_QPS, World};
use crate::PORT;

impl World {
    /// Does one operation, and compares its outcome.
    pub(super) fn apply(&mut self, op: &Op) {
        match *op {
            Op::Register { .. }
            | Op::Deregister { .. }
            | Op::Invalidate { .. }
            | Op::Touch { .. }
            | Op::AllocMw { .. }
            | Op::DeallocMw { .. }
            | Op::AllocFast { .. } => {
                self.apply_to_memory(op);
            }
            Op::CreateCq { side } => {
                let side = &mut self.sides[usize::from(side)];
                if side.cqs.len() < MAX_CQS {
                    let cq = side.device.create_cq(CQ_ENTRIES, None).expect("a completion queue");
                    side.cqs.push(Completions { cq: Some(cq), lanes: Vec::new() });
                }
            }
            Op::DestroyCq { side, cq } => {
                let cqs = &mut self.sides[usize::from(side)].cqs;
                if let Some(index) = usize::from(cq).checked_rem(cqs.len()) {
                    cqs[index] = Completions { cq: None, lanes: Vec::new() };
                }
            }
            Op::CreateQp { side, ref choice } => self.create_qp(usize::from(side), choice),
            Op::DestroyQp { side, qp } => {
                if let Some(end) = self.end_by(side, qp) {
                    self.destroy(end);
                }
            }
            Op::Connect { side, qp, private_len, wrong_port } => {
                if let Some(end) = self.end_by(side, qp) {
                    self.connect(end, usize::from(private_len) % 600, wrong_port);
                }
            }
            Op::Accept { side, request, qp, private_len } => {
                if let Some(end) = self.end_by(side, qp) {
                    self.accept(end, request, usize::from(private_len) % 600);
                }
            }
            Op::Reject { side, request, private_len } => {
                self.reject(usize::from(side), request, usize::from(private_len) % 600);
            }
            Op::Disconnect { side, qp } => {
                if let Some(end) = self.end_by(side, qp) {
                    self.disconnect(end);
                }
            }
            Op::PostSend { side, qp, ref request, flags } => {
                if let Some(end) = self.end_by(side, qp) {
                    self.post_send(end, request, flags);
                }
            }
            Op::BindMw { side, qp, bind } => {
                if let Some(end) = self.end_by(side, qp) {
                    self.bind_mw(end, bind);
                }
            }
            Op::PostRecv { side, qp, ref sges } => {
                if let Some(end) = self.end_by(side, qp) {
                    self.post_recv(end, sges);
                }
            }
            Op::Poll { side, cq, count } => {
                let side = usize::from(side);
                if let Some(cq) = usize::from(cq).checked_rem(self.sides[side].cqs.len()) {
                    self.poll(side, cq, count.into());
                }
            }
        }
    }

    /// Returns a live queue pair by choice.
    pub(super) fn end_by(&self, side: bool, choice: u8) -> Option<End> {
        let side = usize::from(side);
        Some((side, self.sides[side].pick(choice)?))
    }

    fn create_qp(&mut self, side: usize, choice: &QpChoice) {
        let cqs = self.sides[side].cqs.len();
        let pick = |choice: u8| usize::from(choice).checked_rem(cqs);
        let (Some(send), Some(recv)) = (pick(choice.send_cq), pick(choice.recv_cq)) else { return };
        let this = &self.sides[side];
        let (Some(send_cq), Some(recv_cq)) = (&this.cqs[send].cq, &this.cqs[recv].cq) else { return };
        let capacity = QpCapacity {
            send_wr: u32::from(choice.send_wr) % 9,
            recv_wr: u32::from(choice.recv_wr) % 9,
            send_sge: usize::from(choice.send_sge) % 36,
            recv_sge: usize::from(choice.recv_sge) % 36,
            inline: usize::from(choice.inline) % 1030,
        };
        let pd = usize::from(choice.pd);
        let owner = if choice.foreign { 1 - side } else { side };
        let init = QpInit { capacity, signal_all: choice.signal_all, ..QpInit::new(send_cq, recv_cq) };
        let made = this.device.create_qp(&self.sides[owner].pds[pd], &init);
        let is_full = this.alive() == MAX_QPS;
        let is_large = capacity.send_sge.max(capacity.recv_sge) > 32 || capacity.inline > 1024;
        match made {
            Ok(qp) => {
                assert!(!choice.foreign && !is_full && !is_large);
                let name = (side, self.sides[side].pairs.len());
                self.sides[side].pairs.push(Pair {
                    number: qp.number(),
                    qp: Some(qp),
                    name,
                    pd,
                    cqs: [send, recv],
                    capacity,
                    signal_all: choice.signal_all,
                    state: QpState::Idle,
                    link: Link::None,
                    sends: VecDeque::new(),
                    done: Default::default(),
                    recvs: VecDeque::new(),
                    written: 0,
                });
            }
            Err(error) => {
                let is_right = match error {
                    CreateError::ForeignObject => choice.foreign,
                    CreateError::TooManyQps => is_full,
                    CreateError::TooLarge { wanted, max, .. } => is_large && wanted > max,
                    CreateError::TooManyCqs
                    | CreateError::TooManySrqs
                    | CreateError::WrongPd
                    | CreateError::NoSuchEngine { .. }
                    | CreateError::DifferentEngines
                    | CreateError::ShutDown => false,
                };
                assert!(is_right, "{error}");
                self.note(error);
            }
        }
    }

    fn destroy(&mut self, end: End) {
        // Of every other queue pair the program polls first what there is.
        if end.1.is_multiple_of(2) {
            self.pair(end).cqs.into_iter().for_each(|cq| self.poll(end.0, cq, usize::MAX));
        }
        self.pair_mut(end).qp = None;
        self.sides[end.0].memories.unbind(|bound| bound.only == Some(end));
        match core::mem::replace(&mut self.pair_mut(end).link, Link::None) {
            Link::Up(peer) => self.end(peer, EndKind::Lost),
            Link::Asking => self.withdraw(end),
            Link::None => {}
        }
        // Requests that are still posted get no completion any more, and completions that were not polled disappear.
        let pair = self.pair_mut(end);
        pair.sends.clear();
        pair.recvs.clear();
        for cq in &mut self.sides[end.0].cqs {
            cq.lanes.retain(|((of, _), _)| *of != end);
        }
    }

    /// Removes the request of a queue pair that is gone: it cannot be answered.
    fn withdraw(&mut self, end: End) {
        for request in &mut self.sides[1 - end.0].requests {
            request.is_open &= request.from != end;
        }
    }

    fn connect(&mut self, end: End, len: usize, wrong_port: bool) {
        let remote = self.sides[1 - end.0].device.address(if wrong_port { PORT + 1 } else { PORT });
        let (side, pair) = (&self.sides[end.0], self.pair(end));
        let octets = name(end, len);
        let param = ConnParam { private_data: &octets, ..ConnParam::default() };
        let qp = pair.qp.as_ref().expect("a live queue pair");
        let outcome = side.device.connect(&side.events, qp, remote, param);
        let is_busy = !pair.is_free();
        let is_taken = self.check_cm(outcome, is_busy, false, octets.len());
        if !is_taken {
            return;
        }
        if wrong_port {
            let number = self.pair(end).number;
            self.sides[end.0].expected.push(Event::ConnectError(number));
        } else {
            self.pair_mut(end).link = Link::Asking;
            self.sides[1 - end.0].expected.push(Event::Request(end, octets.len()));
        }
    }

    fn accept(&mut self, end: End, choice: u8, len: usize) {
        let (side, pair) = (&self.sides[end.0], self.pair(end));
        let Some(index) = usize::from(choice).checked_rem(side.requests.len()) else { return };
        let (id, from, is_open) = {
            let request = &side.requests[index];
            (request.id, request.from, request.is_open)
        };
        let octets = vec![7; len];
        let param = ConnParam { private_data: &octets, ..ConnParam::default() };
        let outcome = side.device.accept(id, pair.qp.as_ref().expect("a live queue pair"), param);
        let is_busy = !pair.is_free();
        if !self.check_cm(outcome, is_busy, !is_open, len) {
            return;
        }
        self.sides[end.0].requests[index].is_open = false;
        for (end, peer) in [(end, from), (from, end)] {
            let pair = self.pair_mut(end);
            pair.link = Link::Up(peer);
            pair.state = QpState::Rts;
            let number = pair.number;
            self.sides[end.0].expected.push(Event::Established(number));
        }
    }

    fn reject(&mut self, side: usize, choice: u8, len: usize) {
        let this = &self.sides[side];
        let Some(index) = usize::from(choice).checked_rem(this.requests.len()) else { return };
        let (id, from, is_open) = {
            let request = &this.requests[index];
            (request.id, request.from, request.is_open)
        };
        let outcome = this.device.reject(id, &vec![9; len]);
        if !self.check_cm(outcome, false, !is_open, len) {
            return;
        }
        self.sides[side].requests[index].is_open = false;
        let pair = self.pair_mut(from);
        pair.link = Link::None;
        let number = pair.number;
        self.sides[from.0].expected.push(Event::Rejected(number, len));
    }

    fn disconnect(&mut self, end: End) {
        let outcome = self.pair(end).qp.as_ref().expect("a live queue pair").disconnect();
        match self.pair(end).link {
            Link::None => assert_eq!(outcome, Err(CmError::NotConnected)),
            Link::Asking => {
                assert_eq!(outcome, Ok(()));
                self.pair_mut(end).link = Link::None;
                self.withdraw(end);
            }
            Link::Up(peer) => {
                assert_eq!(outcome, Ok(()));
                self.end(end, EndKind::Local);
                self.end(peer, EndKind::Peer);
            }
        }
    }

    /// Returns true if a call of connection management succeeded. Checks the outcome against the model.
    fn check_cm(&mut self, outcome: Result<(), CmError>, is_busy: bool, is_gone: bool, len: usize) -> bool {
        let is_long = len > MAX_PRIVATE;
        let Err(error) = outcome else {
            assert!(!is_busy && !is_gone && !is_long);
            return true;
        };
        let is_right = match error {
            CmError::QpBusy => is_busy,
            CmError::RequestGone => is_gone,
            CmError::PrivateDataTooLong { len: found, max } => is_long && (found, max) == (len, MAX_PRIVATE),
            _ => false,
        };
        assert!(is_right, "{error}");
        self.note(error);
        false
    }
}

/// Returns private data of at least `len` octets that names a queue pair.
fn name((side, index): End, len: usize) -> Vec<u8> {
    let octet = |number: usize| number.to_le_bytes()[0];
    let mut octets = vec![octet(side), octet(index)];
    octets.resize(len.max(2), 0x5C);
    octets
}

const MAX_CQS: usize = 4;
const CQ_ENTRIES: u32 = 2048;
/// The four octets of RFC 6581 come before them.
const MAX_PRIVATE: usize = 508;
