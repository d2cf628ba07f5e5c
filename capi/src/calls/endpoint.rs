//! The calls on the queues of ids.

use core::ffi::c_void;
use core::mem::offset_of;
use core::ptr::null_mut;
use std::sync::Arc;

use rustix::io::Errno;

use crate::abi;
use crate::channel::CompChannel;
use crate::cm::{Id, Template};
use crate::cq::{Cq, Request as CqRequest};
use crate::errno::cm_errno;
use crate::pd::Pd;
use crate::process::Process;
use crate::qp::{Parts, Qp, Request};
use crate::srq::Srq;

impl Process {
    /// Makes the queue pair of an id. If the program gives none, it also makes completion queues and channels. Their
    /// context is the id: the inline functions of `rdma_verbs.h` check that.
    ///
    /// # Errors
    /// `EINVAL` for an id that has a queue pair or has no device yet; those of [`Self::create_qp`].
    pub(crate) fn create_qp_of(&self, id: &Id, template: Template) -> Result<Arc<Qp>, Errno> {
        let Template { pd, qp_context, cqs: [send_cq, recv_cq], srq, cap, signal_all } = template;
        if id.objects().qp.is_some() || id.id.device().is_none() {
            return Err(Errno::INVAL);
        }
        let (_, default_pd) = self.cm_context(id.functions)?;
        let pd = pd.unwrap_or_else(|| Arc::clone(default_pd));
        let srq = srq.or_else(|| self.srq_of(id));
        let mut made = Vec::new();
        let mut make = |given: Option<Arc<Cq>>, entries: u32, fields: [usize; 2]| match given {
            Some(cq) => Ok(cq),
            None => {
                let (channel, cq) = self.create_cq_of(id, entries)?;
                id.visible.set(fields[0], channel.handle());
                id.visible.set(fields[1], cq.handle());
                made.push((Arc::clone(&cq), channel));
                Ok(cq)
            }
        };
        let fields = [offset_of!(abi::CmId, recv_cq_channel), offset_of!(abi::CmId, recv_cq)];
        let recv_cq = make(recv_cq, cap.max_recv_wr, fields);
        let fields = [offset_of!(abi::CmId, send_cq_channel), offset_of!(abi::CmId, send_cq)];
        let send_cq = make(send_cq, cap.max_send_wr, fields);
        id.objects().made = made;
        let created = recv_cq.and_then(|recv_cq| {
            let parts = Parts { pd: Arc::clone(&pd), send_cq: send_cq?, recv_cq, srq };
            let qp_context = core::ptr::without_provenance_mut(qp_context);
            let qp = self.create_qp(parts, &Request { qp_context, cap, signal_all })?;
            id.id.attach_qp(Arc::clone(&qp.qp)).map_err(cm_errno)?;
            Ok(qp)
        });
        let qp = created.inspect_err(|_: &Errno| self.destroy_cqs_of(id))?;
        qp.set_owner(id.id.number());
        qp.show_state();
        id.take_qp(&qp, &pd);
        Ok(qp)
    }

    /// Destroys the queue pair, and the completion queues that were made with it.
    ///
    /// # Errors
    /// `EINVAL` for an id without a queue pair.
    pub(crate) fn destroy_qp_of(&self, id: &Id) -> Result<(), Errno> {
        let qp = id.objects().qp.clone().ok_or(Errno::INVAL)?;
        self.destroy_qp(qp.handle().addr())?;
        drop(qp);
        self.destroy_cqs_of(id);
        Ok(())
    }

    /// Makes the shared receive queue of an id. The id's queue pair takes its receives from it, unless the program
    /// gives another one.
    ///
    /// # Errors
    /// `EINVAL` for an id that has one or has no device yet; those of [`Srq::new`].
    pub(crate) fn create_srq_of(
        &self,
        id: &Id,
        pd: Option<Arc<Pd>>,
        srq_context: *mut c_void,
        attr: &abi::SrqAttr,
    ) -> Result<Arc<Srq>, Errno> {
        if self.srq_of(id).is_some() || id.id.device().is_none() {
            return Err(Errno::INVAL);
        }
        let pd = match pd {
            Some(pd) => pd,
            None => Arc::clone(&self.cm_context(id.functions)?.1),
        };
        let srq = self.create_srq(&pd, srq_context, attr)?;
        id.objects().srq = srq.handle().addr();
        id.visible.set(offset_of!(abi::CmId, srq), srq.handle());
        id.visible.set(offset_of!(abi::CmId, pd), pd.handle());
        Ok(srq)
    }

    /// Destroys the shared receive queue of an id.
    ///
    /// # Errors
    /// `EINVAL` for an id without one, `EBUSY` while a queue pair uses it.
    pub(crate) fn destroy_srq_of(&self, id: &Id) -> Result<(), Errno> {
        let handle = self.srq_of(id).ok_or(Errno::INVAL)?.handle().addr();
        self.destroy_srq(handle)?;
        id.objects().srq = 0;
        id.visible.set(offset_of!(abi::CmId, srq), null_mut::<abi::Srq>());
        Ok(())
    }

    /// Returns the shared receive queue of an id, unless the program has destroyed it directly.
    fn srq_of(&self, id: &Id) -> Option<Arc<Srq>> {
        let handle = id.objects().srq;
        self.srqs.get(handle).ok()
    }

    fn create_cq_of(&self, id: &Id, entries: u32) -> Result<(Arc<CompChannel>, Arc<Cq>), Errno> {
        let (context, _) = self.cm_context(id.functions)?;
        let channel = self.create_comp_channel(context)?;
        let request = CqRequest {
            entries: entries.max(1),
            cq_context: id.handle().cast(),
            channel: Some(Arc::clone(&channel)),
            comp_vector: 0,
            ignore_overrun: false,
        };
        let cq = self.create_cq(context, request)?;
        Ok((channel, cq))
    }

    fn destroy_cqs_of(&self, id: &Id) {
        let made = core::mem::take(&mut id.objects().made);
        for (cq, channel) in made {
            // This fails if the program has destroyed them directly.
            let destroyed = self.destroy_cq(cq.handle().addr());
            // The queue is the last user of its channel.
            drop(cq);
            let _gone = destroyed.and_then(|()| self.destroy_comp_channel(channel.handle().addr()));
        }
        for offset in [offset_of!(abi::CmId, send_cq), offset_of!(abi::CmId, recv_cq)] {
            id.visible.set(offset, null_mut::<abi::Cq>());
        }
        for offset in [offset_of!(abi::CmId, send_cq_channel), offset_of!(abi::CmId, recv_cq_channel)] {
            id.visible.set(offset, null_mut::<abi::CompChannel>());
        }
    }
}
