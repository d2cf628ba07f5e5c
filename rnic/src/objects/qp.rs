//! Queue pairs.

use std::net::SocketAddr;
use std::sync::Arc;

use weft_verbs::{
    CycleError, MAX_INLINE, MAX_SGE, PostError, QpCapacity, QpQueues, QpState, RecvWr, SendQueueLayout,
    SendWr,
};

use crate::engine::queue_pairs::QpParts;
use crate::error::{CmError, CreateError, MAX_WR, check_size};
use crate::objects::cq::Cq;
use crate::objects::device::Device;
use crate::objects::pd::Pd;
use crate::objects::srq::Srq;

/// A queue pair; dropping it destroys it, and resets its connection if it has one, or closes it
/// ([`QpInit::as_infiniband`]). Nobody gets its completions any more that were not polled before.
#[derive(Debug)]
pub struct Qp {
    pub(crate) queues: Arc<QpQueues>,
    /// The engine that it belongs to, and its place there.
    pub(crate) engine: usize,
    pub(crate) slot: usize,
    pub(crate) device: Device,
}

/// What a queue pair is created with. Start from [`QpInit::new`] and change what differs.
#[derive(Clone, Debug)]
pub struct QpInit<'a> {
    /// Completions of the send queue.
    pub send_cq: &'a Cq,
    /// Completions of the receive queue; may be the same.
    pub recv_cq: &'a Cq,
    /// Sizes of the queues and their requests.
    pub capacity: QpCapacity,
    /// Every request makes a completion, asked for or not.
    pub signal_all: bool,
    /// Receives come from this shared receive queue. `capacity` does not count for the receive queue then.
    pub srq: Option<&'a Srq>,
    /// A Send or Immediate Data that finds no receive request waits for one, and with it everything behind it, until
    /// one is posted. The stream's octets stay in TCP meanwhile, so that the peer's window closes. Without, the
    /// stream ends with a Terminate, as RFC 5041 section 7.1 wants it.
    ///
    /// The octets behind the message may be those that the application waits for: a Read Response, the peer's FIN or
    /// Terminate.
    pub rnr_wait: bool,
    /// The queue pair behaves as one of InfiniBand, which knows no connections. The send queue takes requests before
    /// there is a stream, and they wait for it. A completion of a Write says that the peer has it. When the queue
    /// pair is destroyed, the connection is closed and not reset, so that messages on their way still arrive. When
    /// the peer closes the connection and owes no answer, the queue pair is Idle again.
    pub as_infiniband: bool,
}

impl Device {
    /// Makes a queue pair in `pd`, in the state Idle.
    ///
    /// # Errors
    /// [`CreateError`] when the device holds as many queue pairs as its settings allow, a queue or request is too
    /// large, or an object is another device's or domain's.
    pub fn create_qp(&self, pd: &Pd, init: &QpInit<'_>) -> Result<Qp, CreateError> {
        self.engines.check_open()?;
        let devices = [&pd.device, &init.send_cq.device, &init.recv_cq.device];
        let devices = devices.into_iter().chain(init.srq.map(|srq| &srq.device));
        if !devices.into_iter().all(|device| self.is_same(device)) {
            return Err(CreateError::ForeignObject);
        }
        if init.srq.is_some_and(|srq| srq.shared.pd != pd.id) {
            return Err(CreateError::WrongPd);
        }
        let mut capacity = init.capacity;
        if init.srq.is_some() {
            (capacity.recv_wr, capacity.recv_sge) = (0, 0);
        }
        check_size("send requests", capacity.send_wr as usize, MAX_WR)?;
        check_size("receive requests", capacity.recv_wr as usize, MAX_WR)?;
        check_size("scatter-gather elements", capacity.send_sge.max(capacity.recv_sge), MAX_SGE)?;
        check_size("inline octets", capacity.inline, MAX_INLINE)?;
        let index = init.send_cq.shared.engine;
        let others = [Some(init.recv_cq.shared.engine), init.srq.map(|srq| srq.shared.engine)];
        if others.into_iter().flatten().any(|other| other != index) {
            return Err(CreateError::DifferentEngines);
        }
        let (slot, queues) = self.engines.at(index).create_qp(&QpParts {
            pd: pd.id,
            cqs: [&init.send_cq.shared, &init.recv_cq.shared],
            srq: init.srq.map(|srq| &srq.shared),
            capacity,
            signal_all: init.signal_all,
            rnr_wait: init.rnr_wait,
            as_infiniband: init.as_infiniband,
        })?;
        Ok(Qp { queues, engine: index, slot, device: self.clone() })
    }
}

impl<'a> QpInit<'a> {
    /// The defaults for these completion queues: small queues, completions for requests that ask for them.
    pub fn new(send_cq: &'a Cq, recv_cq: &'a Cq) -> Self {
        Self {
            send_cq,
            recv_cq,
            capacity: QpCapacity::default(),
            signal_all: false,
            srq: None,
            rnr_wait: false,
            as_infiniband: false,
        }
    }
}

impl Qp {
    /// Posts a request to the send queue and rings the doorbell.
    ///
    /// # Errors
    /// [`PostError`]; nothing was queued then.
    pub fn post_send(&self, wr: &SendWr<'_>) -> Result<(), PostError> {
        self.queues.post_send(wr)?;
        self.device.engines.ring(self.engine, self.slot);
        Ok(())
    }

    /// Posts several requests with one doorbell. On an error those before the refused one are queued; `Err` holds their
    /// number with the reason.
    ///
    /// # Errors
    /// The number of requests that were queued, and why the next one was not.
    pub fn post_sends(&self, wrs: &[SendWr<'_>]) -> Result<(), (usize, PostError)> {
        let posted = self.queues.post_sends(wrs);
        self.device.engines.ring(self.engine, self.slot);
        posted
    }

    /// Posts a request to the receive queue.
    ///
    /// # Errors
    /// [`PostError`]; nothing was queued then.
    pub fn post_recv(&self, wr: &RecvWr<'_>) -> Result<(), PostError> {
        if self.queues.post_recv(wr)? {
            self.device.engines.ring(self.engine, self.slot);
        }
        Ok(())
    }

    /// Posts several requests to the receive queue, which costs less than one call for each. On an error those before
    /// the refused one are queued; `Err` holds their number with the reason.
    ///
    /// # Errors
    /// The number of requests that were queued, and why the next one was not.
    pub fn post_recvs(&self, wrs: &[RecvWr<'_>]) -> Result<(), (usize, PostError)> {
        let (rings, posted) = self.queues.post_recvs(wrs);
        if rings {
            self.device.engines.ring(self.engine, self.slot);
        }
        posted
    }

    /// Makes the send queue cyclic: from now on each request is posted again the moment it is done, with what stands in
    /// its entry then. So the queue runs for ever, and nobody posts to it. A WAIT must be among the requests, since
    /// nothing else would hold it back. A peer, or a receive of another queue pair, may rewrite the other entries
    /// ([`crate::Pd::register_send_queue`]).
    ///
    /// When the connection ends each entry is flushed once.
    ///
    /// # Errors
    /// [`CycleError`] when the queue is not full, has no WAIT, or completes to a queue that has to be polled
    /// ([`crate::CqInit::ignore_overrun`]).
    pub fn cycle_sends(&self) -> Result<(), CycleError> {
        self.device.engines.at(self.engine).cycle(self.slot, true)
    }

    /// Makes the receive queue cyclic: from now on each receive is posted again the moment it is done. The peer has to
    /// know by other means when a receive may be used again.
    ///
    /// # Errors
    /// [`CycleError`] when the queue is not full or shared, or completes to a queue that has to be polled.
    pub fn cycle_recvs(&self) -> Result<(), CycleError> {
        self.device.engines.at(self.engine).cycle(self.slot, false)
    }

    /// Connects the queue pair to itself. It carries out Writes, Reads, Atomics and what needs no message on the memory
    /// of this device: one request after the other, the next one when it is done, without TCP. Both sides of a request
    /// are checked as between two hosts. What takes a receive fails. [`Self::disconnect`] ends it.
    ///
    /// # Errors
    /// [`CmError::QpBusy`] when it is not Idle, or behaves as InfiniBand's; [`CmError::CompletionQueueOverrun`].
    pub fn connect_self(&self) -> Result<(), CmError> {
        let engines = &self.device.engines;
        engines.at(self.engine).connect_self(self.slot, engines.now())
    }

    /// What a peer needs to write into the send queue after it was registered ([`crate::Pd::register_send_queue`]).
    pub fn send_queue_layout(&self) -> SendQueueLayout {
        self.queues.send.layout()
    }

    /// The state.
    pub fn state(&self) -> QpState {
        self.queues.state()
    }

    /// The number.
    pub fn number(&self) -> u32 {
        self.queues.number
    }

    /// Whether the send queue has a request that is not done.
    pub fn has_sends(&self) -> bool {
        self.device.engines.at(self.engine).has_sends(self.slot)
    }

    /// Makes it behave as InfiniBand's from now on ([`QpInit::as_infiniband`]), or no longer. It must have no
    /// connection.
    pub fn set_as_infiniband(&self, is: bool) {
        self.queues.set_as_infiniband(is);
    }

    /// Whether it is of this domain.
    pub(crate) fn is_of(&self, pd: &Pd) -> bool {
        self.device.is_same(&pd.device) && self.device.engines.at(self.engine).pd_of(self.slot) == Some(pd.id)
    }

    /// The own end and the peer's end of the connection; none without one.
    pub fn addresses(&self) -> Option<[SocketAddr; 2]> {
        self.device.engines.at(self.engine).addresses(self.slot)
    }

    /// Ends the connection gracefully; what is still posted is flushed. [`crate::CmEvent::Disconnected`] follows.
    ///
    /// # Errors
    /// [`crate::CmError::NotConnected`] when there is no connection.
    pub fn disconnect(&self) -> Result<(), CmError> {
        let engines = &self.device.engines;
        let ended = engines.at(self.engine).disconnect(self.slot, engines.now());
        if ended.is_ok() {
            engines.kick();
        }
        ended
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        let engines = &self.device.engines;
        engines.at(self.engine).destroy_qp(self.slot, engines.now());
        engines.motors()[self.engine].kick();
    }
}
