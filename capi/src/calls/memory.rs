//! The calls on protection domains, memory regions and memory windows.

use std::sync::Arc;

use rustix::io::Errno;
use weft_rnic::{Access, Region, SendOpcode};

use crate::abi;
use crate::errno::errno;
use crate::mr::Mr;
use crate::mw::{Flags, Mw};
use crate::pd::Pd;
use crate::process::Process;

impl Process {
    /// # Errors
    /// `EINVAL` for an unknown context.
    pub(crate) fn alloc_pd(&self, context: usize) -> Result<Arc<Pd>, Errno> {
        let pd = Pd::new(&self.contexts.get(context)?);
        self.pds.insert(pd.handle().addr(), &pd);
        Ok(pd)
    }

    /// # Errors
    /// `EINVAL` for an unknown domain, `EBUSY` while an object of it lives.
    pub(crate) fn dealloc_pd(&self, handle: usize) -> Result<(), Errno> {
        let pd = self.pds.get(handle)?;
        pd.pd.clone().dealloc().map_err(|(_, error)| errno(error.errno()))?;
        self.pds.remove(handle).map(drop).ok_or(Errno::INVAL)
    }

    /// # Errors
    /// Those of [`Mr::register`].
    pub(crate) fn register_mr(
        &self,
        pd: &Arc<Pd>,
        region: Region,
        access: Access,
        iova: u64,
    ) -> Result<Arc<Mr>, Errno> {
        let mr = Mr::register(pd, region, access, iova)?;
        self.mrs.insert(mr.handle().addr(), &mr);
        Ok(mr)
    }

    /// # Errors
    /// `EINVAL` for an unknown region, `EBUSY` while memory windows are bound to it.
    pub(crate) fn deregister_mr(&self, handle: usize) -> Result<(), Errno> {
        self.mrs.get(handle)?.deregister()?;
        self.mrs.remove(handle).map(drop).ok_or(Errno::INVAL)
    }

    /// # Errors
    /// `EINVAL` for an unknown domain; those of [`Mw::alloc`].
    pub(crate) fn alloc_mw(&self, pd: usize, kind: u32) -> Result<Arc<Mw>, Errno> {
        let mw = Mw::alloc(&self.pds.get(pd)?, kind)?;
        self.mws.insert(mw.handle().addr(), &mw);
        Ok(mw)
    }

    /// # Errors
    /// `EINVAL` for an unknown window.
    pub(crate) fn dealloc_mw(&self, handle: usize) -> Result<(), Errno> {
        self.mws.remove(handle).ok_or(Errno::INVAL)?.dealloc();
        Ok(())
    }

    /// Posts the binding of a window of type 1. Null and no octets unbind it.
    ///
    /// # Errors
    /// `EINVAL` for unknown objects; those of [`Mw::bind`].
    pub(crate) fn bind_mw(
        &self,
        qp: usize,
        mw: usize,
        flags: Flags,
        info: &abi::MwBindInfo,
    ) -> Result<(), Errno> {
        let (qp, mw) = (self.qps.get(qp)?, self.mws.get(mw)?);
        let is_unbound = info.mr.is_null() && info.length == 0;
        let region = if is_unbound { None } else { Some(self.mrs.get(info.mr.addr())?) };
        mw.bind(&qp, flags, info, region.as_deref())
    }

    /// Returns the request that binds a window of type 2.
    ///
    /// # Errors
    /// `EINVAL` for unknown objects; those of [`Mw::binding`].
    pub(crate) fn binding(&self, mw: usize, rkey: u32, info: &abi::MwBindInfo) -> Result<SendOpcode, Errno> {
        self.mws.get(mw)?.binding(rkey, info, &*self.mrs.get(info.mr.addr())?)
    }
}
