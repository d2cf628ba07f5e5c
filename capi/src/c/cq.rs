//! Completion channels and completion queues.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

use rustix::io::Errno;

use super::boundary::{Outcome, read, write};
use super::fork::process;
use super::trace::args;
use crate::abi;
use crate::channel::CompChannel;
use crate::cq::{Request, immediate, opcode};

/// Returns a queue without its own fields.
pub(super) const fn cq_functions() -> abi::CqEx {
    abi::CqEx {
        base: abi::Cq {
            context: core::ptr::null_mut(),
            channel: core::ptr::null_mut(),
            cq_context: core::ptr::null_mut(),
            handle: 0,
            cqe: 0,
            mutex: libc::PTHREAD_MUTEX_INITIALIZER,
            cond: libc::PTHREAD_COND_INITIALIZER,
            comp_events_completed: 0,
            async_events_completed: 0,
        },
        comp_mask: 0,
        status: 0,
        wr_id: 0,
        start_poll: Some(start_poll),
        next_poll: Some(next_poll),
        end_poll: Some(end_poll),
        read_opcode: Some(read_opcode),
        read_vendor_err: Some(read_vendor_err),
        read_byte_len: Some(read_byte_len),
        read_imm_data: Some(read_imm_data),
        read_qp_num: Some(read_qp_num),
        read_src_qp: Some(read_nothing),
        read_wc_flags: Some(read_wc_flags),
        read_slid: Some(read_nothing),
        read_sl: Some(read_no_octet),
        read_dlid_path_bits: Some(read_no_octet),
        read_completion_ts: Some(read_completion_ts),
        unsupported: [None; 4],
    }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_create_comp_channel(context: *mut abi::Context) -> *mut abi::CompChannel {
    args![context].pointer(|| {
        let process = process();
        let context = process.contexts.get(context.addr())?;
        Ok(process.create_comp_channel(&context)?.handle())
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_destroy_comp_channel(channel: *mut abi::CompChannel) -> c_int {
    args![channel].status(|| process().destroy_comp_channel(channel.addr()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_cq_event(
    channel: *mut abi::CompChannel,
    cq_out: *mut *mut abi::Cq,
    context_out: *mut *mut c_void,
) -> c_int {
    args![channel, cq_out, context_out].done(|| {
        if cq_out.is_null() || context_out.is_null() {
            return Err(Errno::INVAL);
        }
        let cq = process().next_cq_event(channel.addr())?;
        // SAFETY: the program's places for both.
        unsafe {
            write(cq_out, cq.handle())?;
            write(context_out, cq.cq_context())
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_ack_cq_events(cq: *mut abi::Cq, events: u32) {
    args![cq, events].always((), || {
        if let Ok(cq) = process().cqs.get(cq.addr()) {
            cq.completions.acknowledge(events.into());
        }
    });
}

#[unsafe(no_mangle)]
extern "C" fn ibv_create_cq(
    context: *mut abi::Context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut abi::CompChannel,
    comp_vector: c_int,
) -> *mut abi::Cq {
    args![context, cqe, cq_context, channel, comp_vector].pointer(|| {
        let request = Request {
            entries: u32::try_from(cqe).map_err(|_| Errno::INVAL)?,
            cq_context,
            channel: channel_of(channel)?,
            comp_vector: usize::try_from(comp_vector).map_err(|_| Errno::INVAL)?,
            ignore_overrun: false,
        };
        create(context, request)
    })
}

pub(super) unsafe extern "C" fn create_cq_ex(
    context: *mut abi::Context,
    attr: *mut abi::CqInitAttrEx,
) -> *mut abi::CqEx {
    let cq = args![context, attr].pointer(|| {
        // SAFETY: the program's arguments.
        let attr = unsafe { read(attr) }?;
        let flags = if attr.comp_mask & abi::CQ_INIT_ATTR_FLAGS == 0 { 0 } else { attr.flags };
        let known_flags = abi::CQ_ATTR_SINGLE_THREADED | abi::CQ_ATTR_IGNORE_OVERRUN;
        if attr.comp_mask & !abi::CQ_INIT_ATTR_FLAGS != 0
            || flags & !known_flags != 0
            || attr.wc_flags & !abi::WC_EX_KNOWN != 0
        {
            return Err(Errno::OPNOTSUPP);
        }
        let request = Request {
            entries: attr.cqe,
            cq_context: attr.cq_context.cast(),
            channel: channel_of(attr.channel)?,
            comp_vector: attr.comp_vector as usize,
            ignore_overrun: flags & abi::CQ_ATTR_IGNORE_OVERRUN != 0,
        };
        create(context, request)
    });
    cq.cast()
}

#[unsafe(no_mangle)]
extern "C" fn ibv_resize_cq(cq: *mut abi::Cq, cqe: c_int) -> c_int {
    args![cq, cqe].status(|| {
        let entries = u32::try_from(cqe).map_err(|_| Errno::INVAL)?;
        process().cqs.get(cq.addr())?.resize(entries)
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_destroy_cq(cq: *mut abi::Cq) -> c_int {
    args![cq].status(|| process().destroy_cq(cq.addr()))
}

pub(super) unsafe extern "C" fn modify_cq(cq: *mut abi::Cq, attr: *mut abi::ModifyCqAttr) -> c_int {
    args![cq, attr].status(|| {
        let cq = process().cqs.get(cq.addr())?;
        // SAFETY: the program's arguments.
        let attr = unsafe { read(attr) }?;
        if attr.attr_mask & !abi::CQ_ATTR_MODERATE != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        if attr.attr_mask != 0 {
            cq.moderate(attr.cq_count, attr.cq_period);
        }
        Ok(())
    })
}

fn channel_of(channel: *mut abi::CompChannel) -> Outcome<Option<std::sync::Arc<CompChannel>>> {
    if channel.is_null() { Ok(None) } else { process().channels.get(channel.addr()).map(Some) }
}

fn create(context: *mut abi::Context, request: Request) -> Outcome<*mut abi::Cq> {
    let process = process();
    let context = process.contexts.get(context.addr())?;
    Ok(process.create_cq(&context, request)?.handle())
}

/// The attributes are for later versions. Today they are only a mask, which has to be 0.
unsafe extern "C" fn start_poll(cq: *mut abi::CqEx, attr: *mut u32) -> c_int {
    args![cq, attr].status(|| {
        // SAFETY: null, or attributes, which begin with the mask.
        if unsafe { super::boundary::read_optional(attr) }.is_some_and(|mask| mask != 0) {
            return Err(Errno::INVAL);
        }
        process().cqs.get(cq.addr())?.start()
    })
}

unsafe extern "C" fn next_poll(cq: *mut abi::CqEx) -> c_int {
    args![cq].status(|| process().cqs.get(cq.addr())?.start())
}

/// `start_poll` and `next_poll` take a completion at once. Nothing is left to do.
unsafe extern "C" fn end_poll(cq: *mut abi::CqEx) {
    args![cq].always((), || ());
}

/// Returns a field of the current completion.
fn current<T>(cq: *mut abi::CqEx, instead: T, field: impl FnOnce(&weft_rnic::Completion) -> T) -> T {
    process().cqs.get(cq.addr()).map_or(instead, |cq| field(&cq.current()))
}

unsafe extern "C" fn read_opcode(cq: *mut abi::CqEx) -> u32 {
    args![cq].always(0, || current(cq, 0, opcode))
}

unsafe extern "C" fn read_vendor_err(cq: *mut abi::CqEx) -> u32 {
    args![cq].always(0, || current(cq, 0, |completion| completion.vendor_err))
}

unsafe extern "C" fn read_byte_len(cq: *mut abi::CqEx) -> u32 {
    args![cq].always(0, || current(cq, 0, |completion| completion.byte_len))
}

unsafe extern "C" fn read_imm_data(cq: *mut abi::CqEx) -> u32 {
    args![cq].always(0, || current(cq, 0, |completion| immediate(completion).0))
}

unsafe extern "C" fn read_qp_num(cq: *mut abi::CqEx) -> u32 {
    args![cq].always(0, || current(cq, 0, |completion| completion.qp_num))
}

unsafe extern "C" fn read_wc_flags(cq: *mut abi::CqEx) -> u32 {
    args![cq].always(0, || current(cq, 0, |completion| immediate(completion).1))
}

unsafe extern "C" fn read_completion_ts(cq: *mut abi::CqEx) -> u64 {
    args![cq].always(0, || current(cq, 0, |completion| completion.timestamp))
}

/// Fields that iWARP lacks: the peer's queue pair, LIDs and service levels.
unsafe extern "C" fn read_nothing(cq: *mut abi::CqEx) -> u32 {
    args![cq].always(0, || 0)
}

unsafe extern "C" fn read_no_octet(cq: *mut abi::CqEx) -> u8 {
    args![cq].always(0, || 0)
}
