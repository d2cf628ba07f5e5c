//! The functions in `struct ibv_qp_ex`, which build requests call by call.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

use rustix::io::Errno;
use weft_rnic::{SendOpcode, Stag};

use super::boundary::{gather, read};
use super::fork::process;
use super::post::sges;
use super::trace::args;
use crate::abi;
use crate::builder::Builder;
use crate::work::{Sges, compare_swap, fetch_add, sge, write_immediate};

/// Returns a queue pair without its own fields.
pub(super) const fn qp_functions() -> abi::QpEx {
    abi::QpEx {
        base: abi::Qp {
            context: core::ptr::null_mut(),
            qp_context: core::ptr::null_mut(),
            pd: core::ptr::null_mut(),
            send_cq: core::ptr::null_mut(),
            recv_cq: core::ptr::null_mut(),
            srq: core::ptr::null_mut(),
            handle: 0,
            qp_num: 0,
            // rdma-core shows this first state, whatever state the kernel reports.
            state: abi::QPS_RESET,
            qp_type: abi::QPT_RC,
            mutex: libc::PTHREAD_MUTEX_INITIALIZER,
            cond: libc::PTHREAD_COND_INITIALIZER,
            events_completed: 0,
        },
        comp_mask: 0,
        wr_id: 0,
        wr_flags: 0,
        wr_atomic_cmp_swp: Some(wr_atomic_cmp_swp),
        wr_atomic_fetch_add: Some(wr_atomic_fetch_add),
        wr_bind_mw: Some(wr_bind_mw),
        wr_local_inv: Some(wr_local_inv),
        wr_rdma_read: Some(wr_rdma_read),
        wr_rdma_write: Some(wr_rdma_write),
        wr_rdma_write_imm: Some(wr_rdma_write_imm),
        wr_send: Some(wr_send),
        wr_send_imm: Some(wr_send_imm),
        wr_send_inv: Some(wr_send_inv),
        unsupported: [None; 3],
        wr_set_inline_data: Some(wr_set_inline_data),
        wr_set_inline_data_list: Some(wr_set_inline_data_list),
        wr_set_sge: Some(wr_set_sge),
        wr_set_sge_list: Some(wr_set_sge_list),
        wr_start: Some(wr_start),
        wr_complete: Some(wr_complete),
        wr_abort: Some(wr_abort),
        wr_atomic_write: None,
    }
}

/// Changes the requests that are being built. Does nothing for an unknown queue pair.
fn build(qp: *mut abi::QpEx, act: impl FnOnce(&mut Builder)) {
    if let Ok(qp) = process().qps.get(qp.addr()) {
        act(&mut qp.builder());
    }
}

fn add(qp: *mut abi::QpEx, opcode: SendOpcode) {
    if let Ok(qp) = process().qps.get(qp.addr()) {
        let (wr_id, flags) = qp.wr_id_and_flags();
        qp.builder().add(wr_id, flags, opcode);
    }
}

unsafe extern "C" fn wr_start(qp: *mut abi::QpEx) {
    args![qp].always((), || {
        build(qp, Builder::start);
    });
}

unsafe extern "C" fn wr_complete(qp: *mut abi::QpEx) -> c_int {
    args![qp].status(|| {
        let qp = process().qps.get(qp.addr())?;
        qp.builder().complete(qp.sender())
    })
}

unsafe extern "C" fn wr_abort(qp: *mut abi::QpEx) {
    args![qp].always((), || {
        build(qp, Builder::start);
    });
}

unsafe extern "C" fn wr_send(qp: *mut abi::QpEx) {
    args![qp].always((), || {
        add(qp, SendOpcode::Send);
    });
}

unsafe extern "C" fn wr_send_inv(qp: *mut abi::QpEx, rkey: u32) {
    args![qp, rkey].always((), || {
        add(qp, SendOpcode::SendInvalidate { stag: Stag(rkey) });
    });
}

/// iWARP has no Send with immediate data.
unsafe extern "C" fn wr_send_imm(qp: *mut abi::QpEx, _imm_data: u32) {
    args![qp, _imm_data].always((), || {
        build(qp, |builder| builder.refuse(Errno::OPNOTSUPP));
    });
}

unsafe extern "C" fn wr_bind_mw(
    qp: *mut abi::QpEx,
    mw: *mut abi::Mw,
    rkey: u32,
    info: *const abi::MwBindInfo,
) {
    args![qp, mw, rkey, info].always((), || {
        // SAFETY: null, or the program's struct.
        let info = unsafe { read(info) };
        match info.and_then(|info| process().binding(mw.addr(), rkey, &info)) {
            Ok(opcode) => add(qp, opcode),
            Err(errno) => build(qp, |builder| builder.refuse(errno)),
        }
    });
}

unsafe extern "C" fn wr_rdma_write(qp: *mut abi::QpEx, rkey: u32, to: u64) {
    args![qp, rkey, to].always((), || {
        add(qp, SendOpcode::Write { stag: Stag(rkey), to });
    });
}

unsafe extern "C" fn wr_rdma_write_imm(qp: *mut abi::QpEx, rkey: u32, to: u64, imm_data: u32) {
    args![qp, rkey, to, imm_data].always((), || {
        add(qp, write_immediate(Stag(rkey), to, imm_data));
    });
}

unsafe extern "C" fn wr_rdma_read(qp: *mut abi::QpEx, rkey: u32, to: u64) {
    args![qp, rkey, to].always((), || {
        add(qp, SendOpcode::Read { stag: Stag(rkey), to });
    });
}

unsafe extern "C" fn wr_atomic_cmp_swp(qp: *mut abi::QpEx, rkey: u32, to: u64, compare: u64, swap: u64) {
    args![qp, rkey, to, compare, swap].always((), || {
        add(qp, compare_swap(Stag(rkey), to, compare, swap));
    });
}

unsafe extern "C" fn wr_atomic_fetch_add(qp: *mut abi::QpEx, rkey: u32, to: u64, summand: u64) {
    args![qp, rkey, to, summand].always((), || {
        add(qp, fetch_add(Stag(rkey), to, summand));
    });
}

unsafe extern "C" fn wr_local_inv(qp: *mut abi::QpEx, rkey: u32) {
    args![qp, rkey].always((), || {
        add(qp, SendOpcode::LocalInvalidate { stag: Stag(rkey) });
    });
}

unsafe extern "C" fn wr_set_sge(qp: *mut abi::QpEx, lkey: u32, addr: u64, length: u32) {
    args![qp, lkey, addr, length].always((), || {
        build(qp, |builder| builder.set_sges([sge(&abi::Sge { addr, length, lkey })]));
    });
}

unsafe extern "C" fn wr_set_sge_list(qp: *mut abi::QpEx, count: usize, list: *const abi::Sge) {
    args![qp, count, list].always((), || {
        let mut elements = Sges::new();
        // SAFETY: the program's elements.
        let read = unsafe { sges(list, count, &mut elements) };
        build(qp, |builder| match read {
            Ok(()) => builder.set_sges(elements),
            Err(errno) => builder.refuse(errno),
        });
    });
}

unsafe extern "C" fn wr_set_inline_data(qp: *mut abi::QpEx, addr: *mut c_void, length: usize) {
    args![qp, addr, length].always((), || {
        // SAFETY: the program's octets.
        build(qp, |builder| builder.set_inline(|to| unsafe { gather(to, addr.cast(), length) }));
    });
}

unsafe extern "C" fn wr_set_inline_data_list(qp: *mut abi::QpEx, count: usize, list: *const abi::DataBuf) {
    args![qp, count, list].always((), || {
        build(qp, |builder| {
            builder.set_inline(|to| {
                (0..count).try_for_each(|index| {
                    // SAFETY: the program's buffers, and the octets in them.
                    unsafe {
                        let buffer = read(list.wrapping_add(index))?;
                        gather(to, buffer.addr, buffer.length)
                    }
                })
            });
        });
    });
}
