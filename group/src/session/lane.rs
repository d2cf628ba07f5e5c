//! A client's connections to one chain: messages go to its head, and acknowledgements come from its tail.

use weft_rnic::{
    Access, CompChannel, Completion, Cq, CqInit, Data, Device, Mr, Pd, PostError, Qp, QpCapacity, QpInit,
    RecvWr, SendOpcode, SendWr, Stag, Status,
};

use crate::control::{Answer, End};
use crate::link::Link;
use crate::message::{MAX_MESSAGE, Name, Originals, decode_acknowledgement, encode, message_len};
use crate::op::Op;
use crate::replica::SetupError;

use super::error::SessionError;
use super::terms::Terms;

/// The connections to one chain.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) terms: Terms,
    /// The range at the head, where written octets go.
    pub(crate) target: Stag,
    /// The range at the tail, from where octets are read.
    pub(crate) source: Stag,
    pub(crate) head: Qp,
    pub(crate) tail: Qp,
    pub(crate) acknowledged: Cq,
    /// Reads, of which one is under way at most.
    pub(crate) reading: Cq,
    messages: Mr,
    answers: Mr,
    /// How many operations the chain has acknowledged.
    pub(crate) taken: u64,
    /// The control plane; `None` if somebody else has set up the chain.
    pub(crate) link: Option<Link>,
    _sent: Cq,
}

impl Lane {
    /// Makes the queue pairs, and posts receives for acknowledgements. Both have to be connected.
    pub(crate) fn new(
        device: &Device,
        pd: &Pd,
        channel: &CompChannel,
        terms: Terms,
    ) -> Result<Self, SetupError> {
        let sent = device.create_cq_with(&CqInit { ignore_overrun: true, ..CqInit::new(terms.window) })?;
        let cq = |entries| device.create_cq_with(&CqInit { channel: Some(channel), ..CqInit::new(entries) });
        let (acknowledged, reading) = (cq(terms.window + 1)?, cq(2)?);
        let create = |send_cq: &Cq, send_wr, recv_wr| {
            let capacity = QpCapacity { send_wr, recv_wr, send_sge: 1, recv_sge: 1, inline: 0 };
            device.create_qp(pd, &QpInit { capacity, ..QpInit::new(send_cq, &acknowledged) })
        };
        // A Write and a Send for each operation.
        let head = create(&sent, 2 * terms.window, 1)?;
        let tail = create(&reading, 2, terms.window)?;
        let slots = terms.window as usize;
        let memory = |len: usize| pd.register(len * slots, Access::LOCAL_WRITE);
        let (messages, answers) =
            (memory(MAX_MESSAGE)?, memory(message_len(terms.replicas, terms.replicas))?);
        acknowledged.request_notification(false);
        let lane = Self {
            terms,
            target: Stag(0),
            source: Stag(0),
            head,
            tail,
            acknowledged,
            reading,
            messages,
            answers,
            taken: 0,
            link: None,
            _sent: sent,
        };
        for slot in 0..u64::from(terms.window) {
            lane.await_acknowledgement(slot)?;
        }
        Ok(lane)
    }

    /// Sends octets to the head, and the message of their operation behind them.
    pub(crate) fn send(&self, op: &Op, staged: (&Mr, usize), number: u64) -> Result<(), SessionError> {
        if let Some(write) = op.write.as_ref().filter(|write| !write.is_empty()) {
            let (staging, at) = staged;
            let sges = [staging.sge(at, u32::try_from(write.end - write.start).unwrap_or(u32::MAX))];
            let opcode = SendOpcode::Write { stag: self.target, to: write.start };
            self.head.post_send(&SendWr { data: Data::Sges(&sges), ..SendWr::new(opcode) })?;
        }
        let mut message = [0; MAX_MESSAGE];
        let lost = SessionError::Lost(None);
        let len = encode(op, &self.name(number), self.terms.replicas, &mut message).ok_or(lost)?;
        let at = self.terms.place(number, MAX_MESSAGE);
        self.messages.write(at, &message[..len]).map_err(|_| SessionError::Lost(None))?;
        let sges = [self.messages.sge(at, u32::try_from(len).unwrap_or(u32::MAX))];
        Ok(self.head.post_send(&SendWr { data: Data::Sges(&sges), ..SendWr::new(SendOpcode::Send) })?)
    }

    /// Reads octets of the tail into registered memory.
    pub(crate) fn read(&self, at: u64, sink: &Mr, len: u32) -> Result<(), PostError> {
        let sges = [sink.sge(0, len)];
        let opcode = SendOpcode::Read { stag: self.source, to: at };
        self.tail.post_send(&SendWr { data: Data::Sges(&sges), signaled: true, ..SendWr::new(opcode) })
    }

    /// Takes the acknowledgement of the oldest operation that the chain has not acknowledged; `None` if it is none.
    pub(crate) fn acknowledge(&mut self, completion: &Completion) -> Option<Originals> {
        let len = message_len(self.terms.replicas, self.terms.replicas);
        if completion.status != Status::Success || completion.byte_len as usize != len {
            return None;
        }
        let mut octets = [0; MAX_MESSAGE];
        let octets = octets.get_mut(..len)?;
        self.answers.read(self.terms.place(completion.wr_id, len), octets).ok()?;
        let (name, originals) = decode_acknowledgement(octets, self.terms.replicas)?;
        self.await_acknowledgement(completion.wr_id).ok()?;
        let is_its = name == self.name(self.taken);
        self.taken += 1;
        is_its.then_some(originals)
    }

    /// Returns what the control plane says of the end of the session; `None` while it says nothing. The head is lost if it
    /// says nothing more.
    pub(crate) fn end(&mut self) -> Option<End> {
        let link = self.link.as_mut()?;
        link.collect();
        match link.receive() {
            Ok(None) => None,
            Ok(Some(octets)) => match Answer::parse(&octets) {
                Ok(Answer::Ended(end)) => Some(end),
                _ => Some(End::Lost(0)),
            },
            Err(_) => Some(End::Lost(0)),
        }
    }

    const fn name(&self, number: u64) -> Name {
        Name { number, epoch: self.terms.epoch, session: self.terms.session }
    }

    fn await_acknowledgement(&self, slot: u64) -> Result<(), PostError> {
        let len = message_len(self.terms.replicas, self.terms.replicas);
        let sges = [self.answers.sge(self.terms.place(slot, len), u32::try_from(len).unwrap_or(u32::MAX))];
        self.tail.post_recv(&RecvWr { wr_id: slot, sges: &sges })
    }
}
