//! Changes the state of a queue pair of the second personality.

use std::sync::Arc;

use rustix::io::Errno;
use weft_rnic::{QpModify, QpState};

use crate::abi;
use crate::errno::errno;
use crate::process::Process;
use crate::qp::Qp;
use crate::roce::{End, Manner, Step};

impl Process {
    /// # Errors
    /// Those of [`Manner::step`], and those of making the queue pair again.
    pub(super) fn modify_as_roce(
        &self,
        qp: &Arc<Qp>,
        manner: &Arc<Manner>,
        attr: &abi::QpAttr,
        mask: u32,
    ) -> Result<(), Errno> {
        let Some(roce) = self.roce()? else { return Err(Errno::INVAL) };
        let _one_at_a_time = manner.change();
        let actual = qp.state();
        if mask & abi::QP_CUR_STATE != 0 && attr.cur_qp_state != actual {
            return Err(Errno::INVAL);
        }
        match manner.step(actual, attr, mask)? {
            Step::None => manner.note(attr, mask),
            Step::Meet(address) => {
                let gid = self.gids()?.get(1, address.own_gid)?.gid;
                let ends = [End { number: manner.number, gid }, address.peer];
                roce.meet(ends, address.to, &qp.qp, || self.make_twin(qp))?;
                manner.note(attr, mask);
            }
            Step::End => {
                roce.forget(manner);
                manner.note(attr, mask);
                qp.all_below().try_for_each(|below| end(below))?;
            }
            Step::Renew => {
                roce.forget(manner);
                manner.reset();
                self.renew_qp(qp)?.show_state();
                return Ok(());
            }
        }
        if mask & (abi::QP_TIMEOUT | abi::QP_RETRY_CNT) != 0 {
            roce.set_patience(manner);
        }
        qp.note_access(attr, mask);
        qp.show_state();
        Ok(())
    }
}

/// Flushes posted requests. Octets that were sent still arrive, as on InfiniBand, which would have acknowledged them.
fn end(qp: &weft_rnic::Qp) -> Result<(), Errno> {
    // A queue pair without a connection flushes already.
    if qp.state() == QpState::Rts && qp.disconnect().is_ok() {
        return Ok(());
    }
    let modify = QpModify { state: Some(QpState::Error), ..QpModify::default() };
    qp.modify(&modify).map_err(|error| errno(error.errno()))
}
