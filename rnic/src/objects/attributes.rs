//! What a queue pair is like at the moment, and what can be changed of it: `ibv_query_qp` and `ibv_modify_qp`.

use crate::engine::queue_pairs::{QpAttributes, QpModify};
use crate::error::ModifyError;
use crate::objects::qp::Qp;

impl Qp {
    /// What the queue pair is like at the moment.
    pub fn query(&self) -> Option<QpAttributes> {
        self.device.engines.at(self.engine).query_qp(self.slot)
    }

    /// Changes the queue pair.
    ///
    /// # Errors
    /// [`ModifyError::InvalidState`] where the state does not allow it, and [`ModifyError::TooLarge`] for more Reads
    /// than the device's `max_reads`. Nothing has changed then.
    pub fn modify(&self, modify: &QpModify) -> Result<(), ModifyError> {
        let engines = &self.device.engines;
        engines.at(self.engine).modify_qp(self.slot, modify, engines.now())?;
        // A parked message may go on now.
        engines.ring(self.engine, self.slot);
        Ok(())
    }

    /// Gives up a silent peer: the oldest request that is not done ends as [`crate::Status::RetryExceeded`], and the queue
    /// pair goes to [`crate::QpState::Error`], where all others are flushed.
    pub fn give_up(&self) {
        let engines = &self.device.engines;
        engines.at(self.engine).give_up_qp(self.slot, engines.now());
        engines.kick();
    }
}
