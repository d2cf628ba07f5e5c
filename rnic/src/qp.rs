//! Queue pairs.

use std::sync::Arc;

use weft_verbs::{PostError, QpCapacity, QpQueues, QpState, RecvWr, SendWr};

use crate::cq::Cq;
use crate::device::Device;

/// A queue pair; dropping it destroys it, and resets its connection if it has one.
#[derive(Debug)]
pub struct Qp {
    pub(crate) queues: Arc<QpQueues>,
    pub(crate) slot: usize,
    pub(crate) device: Device,
}

/// What a queue pair is created with.
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
}

impl Qp {
    /// Posts a request to the send queue and rings the doorbell.
    ///
    /// # Errors
    /// [`PostError`]; nothing was queued then.
    pub fn post_send(&self, wr: &SendWr<'_>) -> Result<(), PostError> {
        self.queues.post_send(wr)?;
        self.device.ring(self.slot);
        Ok(())
    }

    /// Posts several requests with one doorbell. On an error those before the refused one are queued; `Err` holds their
    /// number with the reason.
    ///
    /// # Errors
    /// The number of requests that were queued, and why the next one was not.
    pub fn post_sends(&self, wrs: &[SendWr<'_>]) -> Result<(), (usize, PostError)> {
        let mut posted = Ok(());
        for (index, wr) in wrs.iter().enumerate() {
            if let Err(error) = self.queues.post_send(wr) {
                posted = Err((index, error));
                break;
            }
        }
        self.device.ring(self.slot);
        posted
    }

    /// Posts a request to the receive queue.
    ///
    /// # Errors
    /// [`PostError`]; nothing was queued then.
    pub fn post_recv(&self, wr: &RecvWr<'_>) -> Result<(), PostError> {
        self.queues.post_recv(wr)?;
        // The engine looks at the receive queue when a message comes; only what is to be flushed needs it now.
        if self.queues.state().flushes() {
            self.device.ring(self.slot);
        }
        Ok(())
    }

    /// The state.
    pub fn state(&self) -> QpState {
        self.queues.state()
    }

    /// The number.
    pub fn number(&self) -> u32 {
        self.queues.number
    }

    /// Ends the connection gracefully; what is still posted is flushed. [`crate::CmEvent::Disconnected`] follows.
    ///
    /// # Errors
    /// [`crate::CmError::NotConnected`] when there is no connection.
    pub fn disconnect(&self) -> Result<(), crate::CmError> {
        self.device.disconnect(self)
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        self.device.destroy_qp(self.slot);
    }
}
