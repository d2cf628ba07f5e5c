//! The calls on queue pairs.

use std::sync::Arc;

use rustix::io::Errno;

use crate::abi;
use crate::process::Process;
use crate::qp::{Parts, Qp, Request};
use crate::roce::Manner;

impl Process {
    /// # Errors
    /// `ENOMEM` if there is no number left; those of [`Qp::new`].
    pub(crate) fn create_qp(&self, parts: Parts, request: &Request) -> Result<Arc<Qp>, Errno> {
        let manner = self.roce()?.map(|roce| Manner::new(&roce.numbers)).transpose()?.map(Arc::new);
        let qp = Qp::new(parts, request, manner, self.settings()?.rnr_wait)?;
        self.enter_qp(&qp);
        Ok(qp)
    }

    /// Closes the connection, if there is one, and blocks until all events are acknowledged.
    ///
    /// # Errors
    /// `EINVAL` for an unknown queue pair.
    pub(crate) fn destroy_qp(&self, handle: usize) -> Result<(), Errno> {
        let qp = self.qps.get(handle)?;
        // From now on events of the queue pair are dropped, and no second call gets here.
        self.forget_numbers(&qp)?;
        if let (Some(roce), Some(manner)) = (self.roce()?, &qp.manner) {
            roce.forget(manner);
        }
        if let Ok(owner) = self.id_numbers.get(qp.owner()) {
            owner.lose_qp(&qp);
        }
        qp.events.wait();
        // A program takes a completed Send for one that the peer has, as on InfiniBand, and destroys the queue pair at
        // once. A reset could overtake that Send. Without a connection there is nothing to end. A queue pair that
        // behaves as InfiniBand's closes by itself.
        if qp.manner.is_none() {
            let _not_connected = qp.qp.disconnect();
        }
        self.qps.remove(handle).map(drop).ok_or(Errno::INVAL)
    }

    /// Changes attributes and the state.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for a change of sizes, `EINVAL` for unknown bits of the mask; those of [`Qp::modify`] or of the
    /// second personality.
    pub(crate) fn modify_qp(&self, qp: &Arc<Qp>, attr: &abi::QpAttr, mask: u32) -> Result<(), Errno> {
        if mask & abi::QP_RATE_LIMIT != 0 || mask & abi::QP_CAP != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        if mask & !abi::QP_KNOWN != 0 {
            return Err(Errno::INVAL);
        }
        // Connections that are managed follow the rules of iWARP in both personalities.
        match qp.manner.as_ref().filter(|_| self.id_numbers.get(qp.owner()).is_err()) {
            Some(manner) => self.modify_as_roce(qp, manner, attr, mask),
            None => qp.modify(attr, mask),
        }
    }

    /// Makes a second queue pair below, which sends the messages that the first one receives.
    ///
    /// # Errors
    /// Those of [`Qp::new`].
    pub(super) fn make_twin(&self, qp: &Arc<Qp>) -> Result<Arc<weft_rnic::Qp>, Errno> {
        let twin = qp.make_twin()?;
        self.qp_numbers.insert(twin.number(), qp);
        Ok(twin)
    }

    /// Resets a queue pair: it begins again under its handle and number.
    ///
    /// # Errors
    /// Those of [`Qp::new`]; `EINVAL` for a queue pair that is being destroyed.
    pub(super) fn renew_qp(&self, qp: &Qp) -> Result<Arc<Qp>, Errno> {
        let new = qp.renewed()?;
        self.forget_numbers(qp)?;
        self.enter_qp(&new);
        Ok(new)
    }

    fn enter_qp(&self, qp: &Arc<Qp>) {
        self.qps.insert(qp.handle().addr(), qp);
        for number in qp.names() {
            self.qp_numbers.insert(number, qp);
        }
    }

    /// Removes the numbers of a queue pair: events of it are dropped from now on.
    ///
    /// # Errors
    /// `EINVAL` if they were removed before.
    fn forget_numbers(&self, qp: &Qp) -> Result<(), Errno> {
        self.qp_numbers.remove(qp.qp.number()).ok_or(Errno::INVAL)?;
        for number in qp.names() {
            self.qp_numbers.remove(number);
        }
        Ok(())
    }
}
