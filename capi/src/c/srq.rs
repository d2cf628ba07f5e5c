//! Shared receive queues.
#![allow(unsafe_code)]

use core::ffi::c_int;

use rustix::io::Errno;

use super::boundary::{Outcome, read, write};
use super::fork::process;
use super::trace::args;
use crate::abi;

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_srq(pd: *mut abi::Pd, attr: *mut abi::SrqInitAttr) -> *mut abi::Srq {
    args![pd, attr].pointer(|| {
        let process = process();
        let pd = process.pds.get(pd.addr())?;
        // SAFETY: the program's arguments.
        let mut wanted = unsafe { read(attr) }?;
        let srq = process.create_srq(&pd, wanted.srq_context.cast(), &wanted.attr)?;
        wanted.attr = srq.attributes();
        // SAFETY: the granted sizes replace the wishes, in the same struct.
        unsafe { write(attr, wanted) }?;
        Ok(srq.handle())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_create_srq(
    id: *mut abi::CmId,
    pd: *mut abi::Pd,
    attr: *mut abi::SrqInitAttr,
) -> c_int {
    // SAFETY: the program's arguments.
    args![id, pd, attr].done(|| unsafe { create_for(id, pd, attr) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_create_srq_ex(id: *mut abi::CmId, attr: *mut abi::SrqInitAttrEx) -> c_int {
    args![id].done(|| {
        // SAFETY: the program's arguments.
        let wanted = unsafe { read(attr) }?;
        if wanted.comp_mask & abi::SRQ_INIT_ATTR_TYPE == 0 {
            return Err(Errno::INVAL);
        }
        let is_basic = wanted.srq_type == abi::SRQT_BASIC
            && wanted.comp_mask & !(abi::SRQ_INIT_ATTR_TYPE | abi::SRQ_INIT_ATTR_PD) == 0;
        if !is_basic {
            return Err(Errno::OPNOTSUPP);
        }
        let has_pd = wanted.comp_mask & abi::SRQ_INIT_ATTR_PD != 0;
        let pd = if has_pd { wanted.pd } else { core::ptr::null_mut() };
        // SAFETY: both structs begin alike.
        unsafe { create_for(id, pd, attr.cast()) }
    })
}

/// # Safety
/// `attr` is null, or points to the struct of the wishes. The granted sizes are stored there.
unsafe fn create_for(id: *mut abi::CmId, pd: *mut abi::Pd, attr: *mut abi::SrqInitAttr) -> Outcome<()> {
    let process = process();
    let id = process.ids.get(id.addr())?;
    let pd = if pd.is_null() { None } else { Some(process.pds.get(pd.addr())?) };
    // SAFETY: as the caller says.
    let mut wanted = unsafe { read(attr) }?;
    wanted.attr = process.create_srq_of(&id, pd, wanted.srq_context.cast(), &wanted.attr)?.attributes();
    // SAFETY: as the caller says.
    unsafe { write(attr, wanted) }
}

#[unsafe(no_mangle)]
extern "C" fn rdma_destroy_srq(id: *mut abi::CmId) {
    args![id].always((), || {
        let process = process();
        // An id without a queue is left alone.
        let _none = process.ids.get(id.addr()).and_then(|id| process.destroy_srq_of(&id));
    });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_modify_srq(srq: *mut abi::Srq, attr: *mut abi::SrqAttr, mask: c_int) -> c_int {
    args![srq, attr, mask].status(|| {
        let srq = process().srqs.get(srq.addr())?;
        // SAFETY: the program's arguments.
        srq.modify(&unsafe { read(attr) }?, mask)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_srq(srq: *mut abi::Srq, attr: *mut abi::SrqAttr) -> c_int {
    args![srq, attr].status(|| {
        let srq = process().srqs.get(srq.addr())?;
        // SAFETY: the program's place for attributes.
        unsafe { write(attr, srq.attributes()) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_destroy_srq(srq: *mut abi::Srq) -> c_int {
    args![srq].status(|| process().destroy_srq(srq.addr()))
}
