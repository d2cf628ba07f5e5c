//! Event channels, ids and their addresses.
#![allow(unsafe_code)]

use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;
use std::sync::Arc;

use rustix::io::Errno;

use super::addrinfo::address;
use super::boundary::{Outcome, always, read, write};
use super::connect::template;
use super::context::FUNCTIONS;
use super::fork::process;
use super::trace::args;
use crate::abi;
use crate::cm::EventChannel;

#[unsafe(no_mangle)]
extern "C" fn rdma_create_event_channel() -> *mut abi::EventChannel {
    args![].pointer(|| Ok(process().create_event_channel()?.handle()))
}

#[unsafe(no_mangle)]
extern "C" fn rdma_destroy_event_channel(channel: *mut abi::EventChannel) {
    args![channel].always((), || drop(process().event_channels.remove(channel.addr())));
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_get_cm_event(
    channel: *mut abi::EventChannel,
    out: *mut *mut abi::CmEvent,
) -> c_int {
    args![channel, out].done(|| {
        if out.is_null() {
            return Err(Errno::INVAL);
        }
        let event = process().next_cm_event(channel.addr())?;
        // SAFETY: the program's place for an event.
        unsafe { write(out, event.handle()) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_ack_cm_event(event: *mut abi::CmEvent) -> c_int {
    args![event].done(|| process().cm_events.remove(event.addr()).map(drop).ok_or(Errno::INVAL))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_create_id(
    channel: *mut abi::EventChannel,
    out: *mut *mut abi::CmId,
    context: *mut c_void,
    ps: u32,
) -> c_int {
    args![channel, out, context, ps].done(|| {
        if out.is_null() {
            return Err(Errno::INVAL);
        }
        let process = process();
        // iWARP has no datagrams. InfiniBand's port space leaves the kind of service open; here it is RC.
        if ps != abi::PS_TCP && ps != abi::PS_IB {
            return Err(Errno::OPNOTSUPP);
        }
        let channel = channel_of(channel)?;
        let id = process.create_id(&FUNCTIONS, channel.as_ref(), context, ps)?;
        // SAFETY: the program's place for an id.
        unsafe { write(out, id.handle()) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_destroy_id(id: *mut abi::CmId) -> c_int {
    args![id].done(|| process().destroy_id(id.addr()))
}

#[unsafe(no_mangle)]
extern "C" fn rdma_migrate_id(id: *mut abi::CmId, channel: *mut abi::EventChannel) -> c_int {
    args![id, channel].done(|| {
        let channel = channel_of(channel)?;
        process().ids.get(id.addr())?.migrate(channel.as_ref())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_bind_addr(id: *mut abi::CmId, local: *mut libc::sockaddr) -> c_int {
    args![id, local].done(|| {
        let id = process().ids.get(id.addr())?;
        // SAFETY: an address of the program's.
        process().bind(&id, unsafe { address(local) }?)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_resolve_addr(
    id: *mut abi::CmId,
    source: *mut libc::sockaddr,
    peer: *mut libc::sockaddr,
    _timeout_ms: c_int,
) -> c_int {
    args![id, source, peer, _timeout_ms].done(|| {
        let id = process().ids.get(id.addr())?;
        // SAFETY: addresses of the program's.
        unsafe {
            let source = if source.is_null() { None } else { Some(address(source)?) };
            process().resolve_addr(&id, source, address(peer)?)
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_resolve_route(id: *mut abi::CmId, _timeout_ms: c_int) -> c_int {
    args![id, _timeout_ms].done(|| process().resolve_route(&*process().ids.get(id.addr())?))
}

/// Makes an id without a channel. It is bound, or its address and route are resolved. With settings it gets a queue
/// pair.
#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_create_ep(
    out: *mut *mut abi::CmId,
    info: *mut abi::AddrInfo,
    pd: *mut abi::Pd,
    attr: *mut abi::QpInitAttr,
) -> c_int {
    args![out, info, pd, attr].done(|| {
        let process = process();
        if out.is_null() {
            return Err(Errno::INVAL);
        }
        // SAFETY: the list of `rdma_getaddrinfo`, or the program's own.
        let info = unsafe { read(info) }?;
        let id = process.create_id(&FUNCTIONS, None, null_mut(), abi::PS_TCP)?;
        let prepared = (|| {
            // SAFETY: null, or the settings of a queue pair.
            let mut wanted = unsafe { super::boundary::read_optional(attr) };
            if let Some(wanted) = &mut wanted {
                wanted.qp_type = abi::QPT_RC;
            }
            let wanted = wanted.map(|wanted| template(pd, &wanted)).transpose()?;
            if info.ai_flags & abi::RAI_PASSIVE != 0 {
                // SAFETY: an address of the program's.
                process.bind(&id, unsafe { address(info.ai_src_addr) }?)?;
                if let Some(wanted) = wanted {
                    id.set_template(wanted);
                }
                return Ok(());
            }
            // SAFETY: addresses of the program's.
            unsafe {
                let source = if info.ai_src_len == 0 { None } else { Some(address(info.ai_src_addr)?) };
                process.resolve_addr(&id, source, address(info.ai_dst_addr)?)?;
            }
            process.resolve_route(&id)?;
            let Some(wanted) = wanted else { return Ok(()) };
            let qp = process.create_qp_of(&id, wanted)?;
            // SAFETY: the granted sizes replace the wishes, in the same struct.
            unsafe { super::connect::grant(attr, &qp) }
        })();
        if let Err(errno) = prepared {
            process.destroy_id(id.handle().addr())?;
            return Err(errno);
        }
        // SAFETY: the program's place for an id.
        unsafe { write(out, id.handle()) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_destroy_ep(id: *mut abi::CmId) {
    args![id].always((), || {
        let process = process();
        if let Ok(endpoint) = process.ids.get(id.addr()) {
            // An endpoint may lack either.
            let _none = process.destroy_qp_of(&endpoint);
            let _none = process.destroy_srq_of(&endpoint);
            drop(endpoint);
            let _gone = process.destroy_id(id.addr());
        }
    });
}

/// The device itself sets SO_REUSEADDR. Other options of TCP's sockets are not offered.
#[unsafe(no_mangle)]
extern "C" fn rdma_set_option(
    id: *mut abi::CmId,
    level: c_int,
    name: c_int,
    _value: *mut c_void,
    _len: usize,
) -> c_int {
    args![id, level, name, _value, _len].done(|| {
        process().ids.get(id.addr())?;
        match (level, name) {
            (abi::OPTION_ID, abi::OPTION_ID_REUSEADDR) => Ok(()),
            _ => Err(Errno::OPNOTSUPP),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_get_src_port(id: *mut abi::CmId) -> u16 {
    args![id].always(0, || port(id, 0))
}

#[unsafe(no_mangle)]
extern "C" fn rdma_get_dst_port(id: *mut abi::CmId) -> u16 {
    args![id].always(0, || port(id, 1))
}

/// Returns a port in network order, 0 for none.
fn port(id: *mut abi::CmId, which: usize) -> u16 {
    always(0, || {
        let address = process().ids.get(id.addr()).ok().and_then(|id| id.addresses()[which]);
        address.map_or(0, |address| address.port().to_be())
    })
}

/// Connection management knows one device, with one context.
#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_get_devices(count: *mut c_int) -> *mut *mut abi::Context {
    args![count].pointer(|| {
        let process = process();
        let list = process.context_lists.add([process.cm_context(&FUNCTIONS)?.0.handle(), null_mut()]);
        // SAFETY: null, or the program's place for a number.
        let _not_wanted = unsafe { write(count, 1) };
        Ok(list.cast())
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_free_devices(list: *mut *mut abi::Context) {
    args![list].always((), || process().context_lists.free(list.addr()));
}

#[unsafe(no_mangle)]
extern "C" fn rdma_event_str(event: u32) -> *const c_char {
    super::names::cm_event(event).as_ptr()
}

fn channel_of(channel: *mut abi::EventChannel) -> Outcome<Option<Arc<EventChannel>>> {
    if channel.is_null() { Ok(None) } else { process().event_channels.get(channel.addr()).map(Some) }
}
