//! Queue pairs of ids, and their connections.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

use rustix::io::Errno;

use super::boundary::{Outcome, octets, read, read_optional, write};
use super::fork::process;
use super::trace::args;
use crate::abi;
use crate::cm::{Id, Template, connect_param};
use crate::qp::Qp;

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_create_qp(
    id: *mut abi::CmId,
    pd: *mut abi::Pd,
    attr: *mut abi::QpInitAttr,
) -> c_int {
    args![id, pd, attr].done(|| {
        let process = process();
        let id = process.ids.get(id.addr())?;
        // SAFETY: the program's arguments.
        let wanted = template(pd, &unsafe { read(attr) }?)?;
        let qp = process.create_qp_of(&id, wanted)?;
        // SAFETY: the granted sizes replace the wishes, in the same struct.
        unsafe { grant(attr, &qp) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_create_qp_ex(id: *mut abi::CmId, attr: *mut abi::QpInitAttrEx) -> c_int {
    args![id, attr].done(|| {
        let process = process();
        let id = process.ids.get(id.addr())?;
        // SAFETY: the program's arguments.
        let wanted = unsafe { read(attr) }?;
        super::qp::check_extended(&wanted)?;
        let pd = if wanted.comp_mask & abi::QP_INIT_ATTR_PD == 0 { core::ptr::null_mut() } else { wanted.pd };
        let qp = process.create_qp_of(&id, template(pd, &wanted.base())?)?;
        // SAFETY: both structs begin alike. The granted sizes replace the wishes.
        unsafe { grant(attr.cast(), &qp) }
    })
}

/// Returns the arguments for the queue pair of an id. The id makes objects that are null here.
///
/// # Errors
/// `EINVAL` for unknown handles, `EOPNOTSUPP` for a type other than RC.
pub(super) fn template(pd: *mut abi::Pd, wanted: &abi::QpInitAttr) -> Outcome<Template> {
    let process = process();
    if wanted.qp_type != abi::QPT_RC {
        return Err(Errno::OPNOTSUPP);
    }
    let cq = |cq: *mut abi::Cq| if cq.is_null() { Ok(None) } else { process.cqs.get(cq.addr()).map(Some) };
    Ok(Template {
        pd: if pd.is_null() { None } else { Some(process.pds.get(pd.addr())?) },
        qp_context: wanted.qp_context.addr(),
        cqs: [cq(wanted.send_cq)?, cq(wanted.recv_cq)?],
        srq: if wanted.srq.is_null() { None } else { Some(process.srqs.get(wanted.srq.addr())?) },
        cap: wanted.cap,
        signal_all: wanted.sq_sig_all != 0,
    })
}

/// Stores the granted sizes and the completion queues in the program's struct.
///
/// # Safety
/// `attr` is null, or points to the struct of the wishes.
pub(super) unsafe fn grant(attr: *mut abi::QpInitAttr, qp: &Qp) -> Outcome<()> {
    // SAFETY: as the caller says.
    let mut wanted = unsafe { read(attr) }?;
    let made = qp.init_attributes();
    (wanted.cap, wanted.send_cq, wanted.recv_cq) = (made.cap, made.send_cq, made.recv_cq);
    // SAFETY: as the caller says.
    unsafe { write(attr, wanted) }
}

#[unsafe(no_mangle)]
extern "C" fn rdma_destroy_qp(id: *mut abi::CmId) {
    args![id].always((), || {
        if let Ok(id) = process().ids.get(id.addr()) {
            // An id without a queue pair is left alone.
            let _none = process().destroy_qp_of(&id);
        }
    });
}

#[unsafe(no_mangle)]
extern "C" fn rdma_listen(id: *mut abi::CmId, backlog: c_int) -> c_int {
    args![id, backlog]
        .done(|| process().listen(&*process().ids.get(id.addr())?, usize::try_from(backlog).unwrap_or(0)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_get_request(listen: *mut abi::CmId, out: *mut *mut abi::CmId) -> c_int {
    args![listen, out].done(|| {
        if out.is_null() {
            return Err(Errno::INVAL);
        }
        let id = process().get_request(&*process().ids.get(listen.addr())?)?;
        // SAFETY: the program's place for an id.
        unsafe { write(out, id.handle()) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_connect(id: *mut abi::CmId, param: *mut abi::ConnParam) -> c_int {
    // SAFETY: as `with_param` wants it.
    args![id, param].done(|| unsafe { with_param(id, param, |id, param| process().connect(id, param)) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_accept(id: *mut abi::CmId, param: *mut abi::ConnParam) -> c_int {
    // SAFETY: as `with_param` wants it.
    args![id, param].done(|| unsafe { with_param(id, param, |id, param| process().accept(id, param)) })
}

/// # Safety
/// `param` is null, or points to a struct whose private data is where it says.
unsafe fn with_param(
    id: *mut abi::CmId,
    param: *const abi::ConnParam,
    act: impl FnOnce(&Id, &weft_cm::ConnParam<'_>) -> Outcome<()>,
) -> Outcome<()> {
    let id = process().ids.get(id.addr())?;
    // SAFETY: as the caller says.
    let (param, data) = unsafe {
        let param = read_optional(param);
        let data = match &param {
            Some(param) => octets(param.private_data.cast(), param.private_data_len.into())?,
            None => Vec::new(),
        };
        (param, data)
    };
    act(&id, &connect_param(param.as_ref(), &data))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_reject(id: *mut abi::CmId, data: *const c_void, len: u8) -> c_int {
    args![id, data, len].done(|| {
        let id = process().ids.get(id.addr())?;
        // SAFETY: private data of the program's.
        process().reject(&id, &unsafe { octets(data.cast(), len.into()) }?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_establish(id: *mut abi::CmId) -> c_int {
    args![id].done(|| process().establish(&*process().ids.get(id.addr())?))
}

#[unsafe(no_mangle)]
extern "C" fn rdma_disconnect(id: *mut abi::CmId) -> c_int {
    args![id].done(|| process().disconnect(&*process().ids.get(id.addr())?))
}

/// On iWARP the device itself notices the first message of a connection.
#[unsafe(no_mangle)]
extern "C" fn rdma_notify(id: *mut abi::CmId, _event: u32) -> c_int {
    args![id, _event].done(|| process().ids.get(id.addr()).map(drop))
}

/// Returns the attributes for a program that moves its queue pair by hand. On iWARP it only sets INIT: connecting does
/// the rest.
#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_init_qp_attr(
    id: *mut abi::CmId,
    attr: *mut abi::QpAttr,
    mask: *mut c_int,
) -> c_int {
    args![id, attr, mask].done(|| {
        process().ids.get(id.addr())?;
        // SAFETY: the program's arguments.
        let mut wanted = unsafe { read(attr) }?;
        let set = match wanted.qp_state {
            abi::QPS_INIT => abi::QP_STATE | abi::QP_ACCESS_FLAGS,
            abi::QPS_RTR | abi::QPS_RTS => 0,
            _ => return Err(Errno::INVAL),
        };
        wanted.qp_access_flags = LOCAL_AND_REMOTE;
        // SAFETY: the program's places for both.
        unsafe {
            write(attr, wanted)?;
            write(mask, set.cast_signed())
        }
    })
}

/// Local write, remote write, remote read.
const LOCAL_AND_REMOTE: u32 = 0x7;
