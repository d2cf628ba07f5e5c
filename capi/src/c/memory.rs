//! Protection domains, memory regions and memory windows.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

use weft_rnic::{Access, Region, guard_memory};

use super::boundary::{Outcome, read};
use super::fork::process;
use super::trace::args;
use crate::abi;
use crate::errno::errno;
use crate::mr::{Change, access};
use crate::mw::Flags;

#[unsafe(no_mangle)]
extern "C" fn ibv_alloc_pd(context: *mut abi::Context) -> *mut abi::Pd {
    args![context].pointer(|| Ok(process().alloc_pd(context.addr())?.handle()))
}

#[unsafe(no_mangle)]
extern "C" fn ibv_dealloc_pd(pd: *mut abi::Pd) -> c_int {
    args![pd].status(|| process().dealloc_pd(pd.addr()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_mr(
    pd: *mut abi::Pd,
    addr: *mut c_void,
    length: usize,
    flags: c_int,
) -> *mut abi::Mr {
    // SAFETY: as `register` wants it.
    args![pd, addr, length, flags]
        .pointer(|| unsafe { register(pd, addr, length, addr.addr() as u64, flags.cast_unsigned()) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_mr_iova(
    pd: *mut abi::Pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    flags: c_int,
) -> *mut abi::Mr {
    // SAFETY: as `register` wants it.
    args![pd, addr, length, iova, flags]
        .pointer(|| unsafe { register(pd, addr, length, iova, flags.cast_unsigned()) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_mr_iova2(
    pd: *mut abi::Pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    flags: u32,
) -> *mut abi::Mr {
    // SAFETY: as `register` wants it.
    args![pd, addr, length, iova, flags].pointer(|| unsafe { register(pd, addr, length, iova, flags) })
}

/// # Safety
/// Memory that is registered stays mapped until it is deregistered, or has no other owner after it has gone.
unsafe fn register(
    pd: *mut abi::Pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    flags: u32,
) -> Outcome<*mut abi::Mr> {
    let process = process();
    let pd = process.pds.get(pd.addr())?;
    let access = access(flags)?;
    // SAFETY: memory that is registered stays mapped until it is deregistered, or has no other owner after it has gone.
    let region = unsafe { probe(addr, length, access) }?;
    Ok(process.register_mr(&pd, region, access, iova)?.handle())
}

/// Returns 0, or the negative number of the step that failed. That is always the first: nothing has changed then.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_rereg_mr(
    mr: *mut abi::Mr,
    what: c_int,
    pd: *mut abi::Pd,
    addr: *mut c_void,
    length: usize,
    flags: c_int,
) -> c_int {
    args![mr, what, pd, addr, length, flags].number(|| {
        let process = process();
        let mr = process.mrs.get(mr.addr())?;
        if what == 0 || what & !(abi::REREG_TRANSLATION | abi::REREG_PD | abi::REREG_ACCESS) != 0 {
            return Err(rustix::io::Errno::INVAL);
        }
        let has = |bit| what & bit != 0;
        let pd = if has(abi::REREG_PD) { Some(process.pds.get(pd.addr())?) } else { None };
        let rights = if has(abi::REREG_ACCESS) { Some(access(flags.cast_unsigned())?) } else { None };
        let region = if has(abi::REREG_TRANSLATION) {
            let rights = rights.map_or_else(|| mr.with(weft_rnic::Mr::access), Ok)?;
            // SAFETY: memory that is registered stays mapped until it is deregistered, or has no other owner after it
            // has gone.
            Some(unsafe { probe(addr, length, rights) }?)
        } else {
            None
        };
        mr.reregister(Change { pd, access: rights, region, addr })?;
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_dereg_mr(mr: *mut abi::Mr) -> c_int {
    args![mr].status(|| process().deregister_mr(mr.addr()))
}

pub(super) unsafe extern "C" fn alloc_mw(pd: *mut abi::Pd, kind: u32) -> *mut abi::Mw {
    args![pd, kind].pointer(|| Ok(process().alloc_mw(pd.addr(), kind)?.handle()))
}

pub(super) unsafe extern "C" fn bind_mw(qp: *mut abi::Qp, mw: *mut abi::Mw, bind: *mut abi::MwBind) -> c_int {
    args![qp, mw, bind].status(|| {
        // SAFETY: null, or the program's struct.
        let abi::MwBind { wr_id, send_flags, bind_info } = unsafe { read(bind) }?;
        process().bind_mw(qp.addr(), mw.addr(), Flags { wr_id, send_flags }, &bind_info)
    })
}

pub(super) unsafe extern "C" fn dealloc_mw(mw: *mut abi::Mw) -> c_int {
    args![mw].status(|| process().dealloc_mw(mw.addr()))
}

/// Returns the memory at `addr`, if it is mapped with these rights.
///
/// # Safety
/// Mapped memory stays mapped until it is deregistered. Or no other owner gets it after it has gone.
pub(super) unsafe fn probe(addr: *mut c_void, length: usize, access: Access) -> Outcome<Region> {
    let writable = access.contains(Access::LOCAL_WRITE);
    // As late as possible, so that the guard finds the handlers which the program installs at its start.
    if process().settings()?.guard {
        guard_memory();
    }
    // SAFETY: as the caller says. Other threads may change registered memory at any moment; `Region` allows for that.
    unsafe { Region::probed(addr.cast(), length, writable) }.map_err(|error| errno(error.errno()))
}
