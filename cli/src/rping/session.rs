//! One queue pair with its buffers, and the messages of an rping. Nothing here waits.

use weft_rnic::{
    Access, Completion, CompletionOpcode, Cq, Data, Mr, Pd, Qp, QpCapacity, QpInit, RecvWr, SendOpcode,
    SendWr, Status,
};

use super::endpoint::Endpoint;
use super::payload::{ADVERTISEMENT_LEN, Advertisement};
use crate::failure::Failure;

/// A queue pair that always has a receive posted for the peer's next message.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) qp: Qp,
    pub(crate) cq: Cq,
    /// Advertisements of the peer come here.
    inbox: Mr,
    pd: Pd,
}

/// The outcome that a completion reports.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Completed {
    /// A request of this kind is done.
    Done(CompletionOpcode),
    /// The connection has ended, and its event says how.
    Flushed,
}

impl Session {
    /// Makes the queue pair on the endpoint's device.
    pub(crate) fn new(endpoint: &Endpoint) -> Result<Self, Failure> {
        let device = &endpoint.device;
        let cq = device
            .create_cq_on(endpoint.next_engine(), CQ_LEN, Some(&endpoint.completions))
            .map_err(Failure::work)?;
        let capacity = QpCapacity { send_wr: 8, recv_wr: 8, send_sge: 1, recv_sge: 1, inline: 64 };
        let init = QpInit { capacity, signal_all: true, ..QpInit::new(&cq, &cq) };
        let session = Self {
            qp: device.create_qp(&endpoint.pd, &init).map_err(Failure::work)?,
            cq,
            inbox: endpoint.pd.register(ADVERTISEMENT_LEN, Access::LOCAL_WRITE).map_err(Failure::work)?,
            pd: endpoint.pd.clone(),
        };
        session.post_recv()?;
        Ok(session)
    }

    /// Registers a buffer for pings.
    pub(crate) fn buffer(&self, size: u32) -> Result<Mr, Failure> {
        self.pd.register(size as usize, Access::ALL).map_err(Failure::work)
    }

    /// Sends 16 octets: the advertisement of a buffer. A go-ahead is an advertisement, too; its content is not read.
    pub(crate) fn advertise(&self, buffer: &Mr, size: u32) -> Result<(), Failure> {
        let octets = Advertisement { address: buffer.addr(), rkey: buffer.rkey(), size }.emit();
        self.post(SendOpcode::Send, Data::Inline(&octets))
    }

    /// Posts a Read into the buffer, or a Write out of it.
    pub(crate) fn transfer(&self, opcode: SendOpcode, buffer: &Mr, size: u32) -> Result<(), Failure> {
        self.post(opcode, Data::Sges(&[buffer.sge(0, size)]))
    }

    /// Takes the next completion, if there is one.
    pub(crate) fn poll(&self) -> Result<Option<Completed>, Failure> {
        self.cq.poll_one().as_ref().map(Completed::of).transpose()
    }

    /// Reads the message whose receive has completed. Posts the receive for the next message before any answer is sent.
    pub(crate) fn take_message(&self) -> Result<Advertisement, Failure> {
        let mut octets = [0; ADVERTISEMENT_LEN];
        self.inbox.read(0, &mut octets).map_err(Failure::work)?;
        self.post_recv()?;
        Ok(Advertisement::parse(&octets))
    }

    fn post(&self, opcode: SendOpcode, data: Data<'_>) -> Result<(), Failure> {
        let wr = SendWr { wr_id: 0, opcode, data, signaled: true, fence: false, solicited: false };
        self.qp.post_send(&wr).map_err(Failure::work)
    }

    fn post_recv(&self) -> Result<(), Failure> {
        let sge = self.inbox.sge(0, INBOX_LEN);
        self.qp.post_recv(&RecvWr { wr_id: 0, sges: &[sge] }).map_err(Failure::work)
    }
}

impl Completed {
    /// Returns the outcome of a completion, or the failure that it reports.
    pub(crate) fn of(completion: &Completion) -> Result<Self, Failure> {
        match completion.status {
            Status::Success => check(completion).map(Self::Done),
            Status::WorkRequestFlushed | Status::RetryExceeded => Ok(Self::Flushed),
            status => Err(Failure::work(format!("a request failed: {status}"))),
        }
    }
}

/// Returns the kind of a completion, or the fault of its message.
fn check(completion: &Completion) -> Result<CompletionOpcode, Failure> {
    match completion.opcode {
        CompletionOpcode::RecvWithImmediate => {
            Err(Failure::work("the peer sent Immediate Data where an advertisement was due"))
        }
        CompletionOpcode::Recv if completion.byte_len != INBOX_LEN => Err(Failure::work(format!(
            "the peer sent {} octets where an advertisement of {INBOX_LEN} was due",
            completion.byte_len
        ))),
        opcode => Ok(opcode),
    }
}

/// Completions that a session's queue holds. A session never has so many requests.
pub(crate) const CQ_LEN: u32 = 64;
const INBOX_LEN: u32 = 16;
