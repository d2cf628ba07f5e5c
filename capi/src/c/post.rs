//! Functions in `struct ibv_context` that inline functions call: posting, polling, arming.
#![allow(unsafe_code)]

use core::ffi::c_int;

use rustix::io::Errno;
use weft_rnic::{Completion, Data};
use weft_verbs::MAX_SGE;

use super::boundary::{Outcome, read, write};
use super::fork::process;
use super::trace::args;
use crate::abi;
use crate::cq::wc;
use crate::qp::Qp;
use crate::work::{Inline, Sges, opcode, send_wr, sge};

pub(super) unsafe extern "C" fn post_send(
    qp: *mut abi::Qp,
    wrs: *mut abi::SendWr,
    bad: *mut *mut abi::SendWr,
) -> c_int {
    args![qp, wrs, bad].status(|| {
        let mut next = wrs;
        let outcome = (|| {
            let qp = process().qps.get(qp.addr())?;
            while !next.is_null() {
                // SAFETY: a request of the program's list.
                let wr = unsafe { read(next) }?;
                // SAFETY: the elements of a request are where it says.
                unsafe { post_one(&qp, &wr) }?;
                next = wr.next;
            }
            Ok(())
        })();
        if outcome.is_err() {
            // SAFETY: null, or the program's place for the request that was refused.
            let _not_wanted = unsafe { write(bad, next) };
        }
        outcome
    })
}

/// # Safety
/// The elements of the request are where it says, and so are the octets of inline data.
unsafe fn post_one(qp: &Qp, wr: &abi::SendWr) -> Outcome<()> {
    let opcode = match (wr.opcode, &wr.bind_mw) {
        (abi::WR_BIND_MW, bind) => process().binding(bind.mw.addr(), bind.rkey, &bind.bind_info)?,
        _ => opcode(wr)?,
    };
    let count = usize::try_from(wr.num_sge).map_err(|_| Errno::INVAL)?;
    if wr.send_flags & abi::SEND_INLINE != 0 {
        let mut octets = Inline::new();
        // SAFETY: as the caller says.
        unsafe { inline(wr.sg_list, count, &mut octets) }?;
        return qp.post_send(&send_wr(wr.wr_id, wr.send_flags, opcode, Data::Inline(&octets)));
    }
    let mut elements = Sges::new();
    // SAFETY: as the caller says.
    unsafe { sges(wr.sg_list, count, &mut elements) }?;
    qp.post_send(&send_wr(wr.wr_id, wr.send_flags, opcode, Data::Sges(&elements)))
}

pub(super) unsafe extern "C" fn post_recv(
    qp: *mut abi::Qp,
    wrs: *mut abi::RecvWr,
    bad: *mut *mut abi::RecvWr,
) -> c_int {
    // SAFETY: as `post_recvs` wants it.
    args![qp, wrs, bad].status(|| unsafe {
        post_recvs(wrs, bad, || process().qps.get(qp.addr()), |qp, id, sges| qp.post_recv(id, sges))
    })
}

pub(super) unsafe extern "C" fn post_srq_recv(
    srq: *mut abi::Srq,
    wrs: *mut abi::RecvWr,
    bad: *mut *mut abi::RecvWr,
) -> c_int {
    // SAFETY: as `post_recvs` wants it.
    args![srq, wrs, bad].status(|| unsafe {
        post_recvs(wrs, bad, || process().srqs.get(srq.addr()), |srq, id, sges| srq.post_recv(id, sges))
    })
}

/// # Safety
/// `wrs` is a list of the program's, and `bad` null or its place for the request that was refused.
unsafe fn post_recvs<Q>(
    wrs: *mut abi::RecvWr,
    bad: *mut *mut abi::RecvWr,
    find: impl FnOnce() -> Outcome<Q>,
    post: impl Fn(&Q, u64, &Sges) -> Outcome<()>,
) -> Outcome<()> {
    let mut next = wrs;
    let outcome = (|| {
        let queue = find()?;
        while !next.is_null() {
            // SAFETY: a request of the program's list.
            let wr = unsafe { read(next) }?;
            let count = usize::try_from(wr.num_sge).map_err(|_| Errno::INVAL)?;
            let mut elements = Sges::new();
            // SAFETY: the elements of a request are where it says.
            unsafe { sges(wr.sg_list, count, &mut elements) }?;
            post(&queue, wr.wr_id, &elements)?;
            next = wr.next;
        }
        Ok(())
    })();
    if outcome.is_err() {
        // SAFETY: as the caller says.
        let _not_wanted = unsafe { write(bad, next) };
    }
    outcome
}

/// Appends to `sges` instead of returning it: it is half a KiB.
///
/// # Safety
/// `list` points to `count` elements.
pub(super) unsafe fn sges(list: *const abi::Sge, count: usize, sges: &mut Sges) -> Outcome<()> {
    if count > MAX_SGE {
        return Err(Errno::INVAL);
    }
    for index in 0..count {
        // SAFETY: as the caller says.
        let element = unsafe { read(list.wrapping_add(index)) }?;
        sges.push(sge(&element)).map_err(|_| Errno::INVAL)?;
    }
    Ok(())
}

/// # Safety
/// `list` points to `count` elements, and they to octets that may be read.
unsafe fn inline(list: *const abi::Sge, count: usize, octets: &mut Inline) -> Outcome<()> {
    for index in 0..count {
        // SAFETY: as the caller says.
        let element = unsafe { read(list.wrapping_add(index)) }?;
        let from = usize::try_from(element.addr).map_err(|_| Errno::FAULT)?;
        let len = element.length as usize;
        if octets.len() + len > octets.capacity() {
            return Err(Errno::INVAL);
        }
        // SAFETY: as the caller says.
        unsafe { append(octets, core::ptr::with_exposed_provenance(from), len) }?;
    }
    Ok(())
}

/// # Safety
/// `from` points to `len` octets that may be read, unless that is 0.
unsafe fn append(octets: &mut Inline, from: *const u8, len: usize) -> Outcome<()> {
    if len == 0 {
        return Ok(());
    }
    let end = octets.len();
    if from.is_null() || end + len > octets.capacity() {
        return Err(Errno::INVAL);
    }
    // SAFETY: as the caller says; there is room for `len` more octets, which are initialized then.
    unsafe {
        from.copy_to_nonoverlapping(octets.as_mut_ptr().add(end), len);
        octets.set_len(end + len);
    }
    Ok(())
}

pub(super) unsafe extern "C" fn poll_cq(cq: *mut abi::Cq, count: c_int, out: *mut abi::Wc) -> c_int {
    args![cq, count, out].number(|| {
        let cq = process().cqs.get(cq.addr())?;
        let mut wanted = usize::try_from(count).map_err(|_| Errno::INVAL)?;
        if out.is_null() && wanted > 0 {
            return Err(Errno::INVAL);
        }
        let mut batch = [Completion::EMPTY; BATCH];
        let mut taken = 0;
        while wanted > 0 {
            let room = wanted.min(BATCH);
            let found = cq.poll(&mut batch[..room]);
            for completion in &batch[..found] {
                // SAFETY: the program has room for as many as it has asked for.
                unsafe { write(out.wrapping_add(taken), wc(completion)) }?;
                taken += 1;
            }
            wanted -= found;
            if found < room {
                break;
            }
        }
        // It is at most `count`.
        c_int::try_from(taken).map_err(|_| Errno::INVAL)
    })
}

pub(super) unsafe extern "C" fn req_notify_cq(cq: *mut abi::Cq, solicited_only: c_int) -> c_int {
    args![cq, solicited_only].status(|| {
        process().cqs.get(cq.addr())?.cq.request_notification(solicited_only != 0);
        Ok(())
    })
}

/// The number of completions that are taken at a time.
const BATCH: usize = 8;
