//! Queue pairs.
#![allow(unsafe_code)]

use core::ffi::c_int;
use std::sync::Arc;

use rustix::io::Errno;

use super::boundary::{Outcome, read, write};
use super::fork::process;
use super::trace::args;
use crate::abi;
use crate::qp::{Parts, Qp, Request};

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_qp(pd: *mut abi::Pd, attr: *mut abi::QpInitAttr) -> *mut abi::Qp {
    args![pd, attr].pointer(|| {
        // SAFETY: the program's arguments.
        let mut wanted = unsafe { read(attr) }?;
        let qp = create(pd, &wanted)?;
        wanted.cap = qp.cap();
        // SAFETY: the granted sizes replace the wishes, in the same struct.
        unsafe { write(attr, wanted) }?;
        Ok(qp.handle())
    })
}

pub(super) unsafe extern "C" fn create_qp_ex(
    context: *mut abi::Context,
    attr: *mut abi::QpInitAttrEx,
) -> *mut abi::Qp {
    args![context, attr].pointer(|| {
        process().contexts.get(context.addr())?;
        // SAFETY: the program's arguments.
        let mut wanted = unsafe { read(attr) }?;
        check_extended(&wanted)?;
        let qp = create(wanted.pd, &wanted.base())?;
        wanted.cap = qp.cap();
        // SAFETY: the granted sizes replace the wishes, in the same struct.
        unsafe { write(attr, wanted) }?;
        Ok(qp.handle())
    })
}

/// Makes a queue pair from C's arguments.
///
/// # Errors
/// `EINVAL` for unknown handles, `EOPNOTSUPP` for a type other than RC; those of [`Qp::new`].
fn create(pd: *mut abi::Pd, wanted: &abi::QpInitAttr) -> Outcome<Arc<Qp>> {
    let process = process();
    let pd = process.pds.get(pd.addr())?;
    if wanted.qp_type != abi::QPT_RC {
        return Err(Errno::OPNOTSUPP);
    }
    let srq = if wanted.srq.is_null() { None } else { Some(process.srqs.get(wanted.srq.addr())?) };
    let parts = Parts {
        pd,
        send_cq: process.cqs.get(wanted.send_cq.addr())?,
        recv_cq: process.cqs.get(wanted.recv_cq.addr())?,
        srq,
    };
    let request =
        Request { qp_context: wanted.qp_context.cast(), cap: wanted.cap, signal_all: wanted.sq_sig_all != 0 };
    process.create_qp(parts, &request)
}

/// Checks the arguments of `ibv_create_qp_ex`.
///
/// # Errors
/// `EOPNOTSUPP` for flags and operations that iWARP lacks.
pub(super) const fn check_extended(wanted: &abi::QpInitAttrEx) -> Outcome<()> {
    let mask = wanted.comp_mask;
    let known = abi::QP_INIT_ATTR_PD | abi::QP_INIT_ATTR_CREATE_FLAGS | abi::QP_INIT_ATTR_SEND_OPS_FLAGS;
    let has_flags = mask & abi::QP_INIT_ATTR_CREATE_FLAGS != 0 && wanted.create_flags != 0;
    let has_operations =
        mask & abi::QP_INIT_ATTR_SEND_OPS_FLAGS != 0 && wanted.send_ops_flags & !abi::WITH_KNOWN != 0;
    if mask & !known != 0 || has_flags || has_operations {
        return Err(Errno::OPNOTSUPP);
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_modify_qp(qp: *mut abi::Qp, attr: *mut abi::QpAttr, mask: c_int) -> c_int {
    args![qp, attr, mask].status(|| {
        let qp = process().qps.get(qp.addr())?;
        // SAFETY: the program's arguments.
        process().modify_qp(&qp, &unsafe { read(attr) }?, mask.cast_unsigned())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_qp(
    qp: *mut abi::Qp,
    attr: *mut abi::QpAttr,
    _mask: c_int,
    init_attr: *mut abi::QpInitAttr,
) -> c_int {
    args![qp, attr, _mask, init_attr].status(|| {
        let qp = process().qps.get(qp.addr())?;
        qp.show_state();
        // SAFETY: the program's places for attributes.
        unsafe {
            write(attr, qp.attributes())?;
            write(init_attr, qp.init_attributes())
        }
    })
}

/// DDP places octets in order. But a thread may see parts of a copy in another order.
#[unsafe(no_mangle)]
extern "C" fn ibv_query_qp_data_in_order(_qp: *mut abi::Qp, _opcode: u32, _flags: u32) -> c_int {
    0
}

#[unsafe(no_mangle)]
extern "C" fn ibv_destroy_qp(qp: *mut abi::Qp) -> c_int {
    args![qp].status(|| process().destroy_qp(qp.addr()))
}

/// Every queue pair has the functions of the extended interface.
#[unsafe(no_mangle)]
extern "C" fn ibv_qp_to_qp_ex(qp: *mut abi::Qp) -> *mut abi::QpEx {
    args![qp].pointer(|| Ok(process().qps.get(qp.addr())?.handle().cast()))
}
