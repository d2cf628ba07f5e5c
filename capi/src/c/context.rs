//! Devices and contexts, and queries of them.
#![allow(unsafe_code)]

use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;
use std::sync::OnceLock;

use rustix::io::Errno;

use super::boundary::{Outcome, write, write_prefix};
use super::fork::process;
use super::trace::args;
use super::{cq, memory, post, qp, qp_ex};
use crate::abi;
use crate::calls::Delivered;
use crate::context::Functions;
use crate::device::{self, NAME, check_port, text};
use crate::gid::Entry;
use crate::personality::Personality;
use crate::raw::Visible;
use crate::sysfs;

/// Returns the struct of the one device. A fork does not change it.
pub(super) fn the_device() -> *mut abi::Device {
    static DEVICE: OnceLock<Visible<Provided>> = OnceLock::new();
    let device = DEVICE.get_or_init(|| {
        let (node_type, transport_type) = match Personality::of_process() {
            Personality::Iwarp => (abi::NODE_RNIC, abi::TRANSPORT_IWARP),
            Personality::Roce => (abi::NODE_CA, abi::TRANSPORT_IB),
        };
        let device = abi::Device {
            ops: [None; 2],
            node_type,
            transport_type,
            name: text(NAME),
            dev_name: text(NAME),
            dev_path: text(&sysfs::verbs_device().to_string_lossy()),
            ibdev_path: text(&sysfs::device().to_string_lossy()),
        };
        Visible::new(Provided { device, ops: null_mut() })
    });
    device.as_ptr().cast()
}

/// The beginning of rdma-core's `struct verbs_device`. Libraries such as libmlx5 recognize their devices by the pointer
/// behind it.
#[derive(Clone, Copy)]
#[repr(C)]
struct Provided {
    device: abi::Device,
    ops: *mut c_void,
}

/// The functions that C's inline functions call.
pub(super) static FUNCTIONS: Functions =
    Functions { context: context_functions, cq: cq::cq_functions, qp: qp_ex::qp_functions };

/// Returns a context without its own fields.
fn context_functions() -> abi::VerbsContext {
    abi::VerbsContext {
        query_port: Some(query_port),
        unsupported_a: [None; 16],
        modify_cq: Some(cq::modify_cq),
        unsupported_b: [None; 7],
        create_cq_ex: Some(cq::create_cq_ex),
        priv_: null_mut(),
        query_device_ex: Some(query_device_ex),
        unsupported_c: [None; 5],
        create_qp_ex: Some(qp::create_qp_ex),
        unsupported_d: [None; 4],
        placeholder: 0,
        sz: size_of::<abi::VerbsContext>(),
        context: abi::Context {
            device: the_device(),
            ops: abi::ContextOps {
                compat_a: [None; 7],
                alloc_mw: Some(memory::alloc_mw),
                bind_mw: Some(memory::bind_mw),
                dealloc_mw: Some(memory::dealloc_mw),
                compat_create_cq: None,
                poll_cq: Some(post::poll_cq),
                req_notify_cq: Some(post::req_notify_cq),
                compat_b: [None; 7],
                post_srq_recv: Some(post::post_srq_recv),
                compat_c: [None; 4],
                post_send: Some(post::post_send),
                post_recv: Some(post::post_recv),
                compat_d: [None; 5],
            },
            cmd_fd: -1,
            async_fd: -1,
            num_comp_vectors: 1,
            mutex: libc::PTHREAD_MUTEX_INITIALIZER,
            // Tells inline functions that a `struct verbs_context` lies around this one.
            abi_compat: usize::MAX,
        },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_device_list(num_devices: *mut c_int) -> *mut *mut abi::Device {
    args![num_devices].pointer(|| {
        let list = process().device_lists.add([the_device(), null_mut()]);
        // SAFETY: null, or the program's place for a number.
        let _not_wanted = unsafe { write(num_devices, 1) };
        Ok(list.cast())
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_free_device_list(list: *mut *mut abi::Device) {
    args![list].always((), || process().device_lists.free(list.addr()));
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_device_name(device: *mut abi::Device) -> *const c_char {
    if device == the_device() { NAME_OF_DEVICE.as_ptr() } else { core::ptr::null() }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_device_guid(device: *mut abi::Device) -> u64 {
    args![device].always(0, || if device == the_device() { device::guid().to_be() } else { 0 })
}

/// The kernel knows no number of the device.
#[unsafe(no_mangle)]
extern "C" fn ibv_get_device_index(_device: *mut abi::Device) -> c_int {
    -1
}

#[unsafe(no_mangle)]
extern "C" fn ibv_open_device(device: *mut abi::Device) -> *mut abi::Context {
    args![device].pointer(|| {
        if device != the_device() {
            return Err(Errno::NODEV);
        }
        Ok(process().open_context(&FUNCTIONS)?.handle())
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_close_device(context: *mut abi::Context) -> c_int {
    args![context].status(|| process().close_context(context.addr()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_async_event(context: *mut abi::Context, event: *mut abi::AsyncEvent) -> c_int {
    args![context, event].done(|| {
        if event.is_null() {
            return Err(Errno::INVAL);
        }
        let Delivered { element, kind } = process().next_async_event(context.addr())?;
        let element = core::ptr::without_provenance_mut(element);
        // SAFETY: the program's place for an event.
        unsafe { write(event, abi::AsyncEvent { element, event_type: kind }) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_ack_async_event(event: *mut abi::AsyncEvent) {
    args![event].always((), || {
        // SAFETY: an event that the program has got.
        if let Ok(event) = unsafe { super::boundary::read(event) } {
            let delivered = Delivered { element: event.element.addr(), kind: event.event_type };
            delivered.acknowledge(process());
        }
    });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_device(context: *mut abi::Context, attr: *mut abi::DeviceAttr) -> c_int {
    args![context, attr].status(|| {
        process().contexts.get(context.addr())?;
        // SAFETY: the program's place for attributes.
        unsafe { write(attr, process().limits()?.attributes()) }
    })
}

unsafe extern "C" fn query_device_ex(
    context: *mut abi::Context,
    _input: *const c_void,
    attr: *mut abi::DeviceAttrEx,
    len: usize,
) -> c_int {
    args![context, _input, attr, len].status(|| {
        process().contexts.get(context.addr())?;
        if len < size_of::<abi::DeviceAttr>() {
            return Err(Errno::INVAL);
        }
        // SAFETY: the program's place for attributes, of which it says how long it is. The padding of the value is
        // zeroed.
        unsafe { write_prefix(attr, len, &process().limits()?.extended_attributes()) }
    })
}

/// In the program's struct `port_cap_flags2` is missing.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_port(context: *mut abi::Context, port: u8, attr: *mut abi::PortAttr) -> c_int {
    let len = core::mem::offset_of!(abi::PortAttr, port_cap_flags2);
    // SAFETY: as `show_port` wants it.
    args![context, port, attr].status(|| unsafe { show_port(context, port, attr, len) })
}

unsafe extern "C" fn query_port(
    context: *mut abi::Context,
    port: u8,
    attr: *mut abi::PortAttr,
    len: usize,
) -> c_int {
    // SAFETY: as `show_port` wants it.
    args![context, port, attr, len].status(|| unsafe { show_port(context, port, attr, len) })
}

/// # Safety
/// `attr` is null, or points to `len` octets that may be written.
unsafe fn show_port(
    context: *mut abi::Context,
    port: u8,
    attr: *mut abi::PortAttr,
    len: usize,
) -> Outcome<()> {
    process().contexts.get(context.addr())?;
    let known = process().limits()?.port(port.into(), process().gids()?.len())?;
    // SAFETY: the program's place for attributes, of which it says how long it is.
    unsafe { write_prefix(attr, len, &known) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_gid(
    context: *mut abi::Context,
    port: u8,
    index: c_int,
    gid_out: *mut abi::Gid,
) -> c_int {
    args![context, port, index, gid_out].done(|| {
        process().contexts.get(context.addr())?;
        let index = u32::try_from(index).map_err(|_| Errno::INVAL)?;
        // SAFETY: the program's place for a GID.
        unsafe { write(gid_out, process().gids()?.get(port.into(), index)?.gid) }
    })
}

/// A private function that `ibv_devinfo` calls. It knows two types: RoCE v2, and all others.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_gid_type(
    context: *mut abi::Context,
    port: u8,
    index: u32,
    kind: *mut u32,
) -> c_int {
    args![context, port, index, kind].done(|| {
        process().contexts.get(context.addr())?;
        let is_roce = process().gids()?.get(port.into(), index)?.kind == abi::GID_TYPE_ROCE_V2;
        // SAFETY: the program's place for a number.
        unsafe { write(kind, is_roce.into()) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn _ibv_query_gid_ex(
    context: *mut abi::Context,
    port: u32,
    index: u32,
    entry: *mut abi::GidEntry,
    flags: u32,
    len: usize,
) -> c_int {
    args![context, port, index, entry, flags, len].status(|| {
        process().contexts.get(context.addr())?;
        if flags != 0 || len < size_of::<abi::GidEntry>() {
            return Err(Errno::INVAL);
        }
        let known = gid_entry(port, index).map_err(|_| Errno::NODATA)?;
        // SAFETY: the program's place for an entry, of which it says how long it is.
        unsafe { write_prefix(entry, len, &known) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn _ibv_query_gid_table(
    context: *mut abi::Context,
    entries: *mut abi::GidEntry,
    max_entries: usize,
    flags: u32,
    len: usize,
) -> isize {
    // The number is small.
    let answer = args![context, entries, max_entries, flags, len].number(|| {
        process().contexts.get(context.addr())?;
        if flags != 0 || len < size_of::<abi::GidEntry>() {
            return Err(Errno::INVAL);
        }
        // Room for only some of the entries is an error.
        let count = process().gids()?.len();
        if max_entries < count {
            return Err(Errno::INVAL);
        }
        for index in 0..count {
            let place = entries.wrapping_byte_add(index * len);
            let entry = gid_entry(1, u32::try_from(index).map_err(|_| Errno::INVAL)?)?;
            // SAFETY: the program's place for entries, of which it says how many and how long they are.
            unsafe { write_prefix(place, len, &entry) }?;
        }
        c_int::try_from(count).map_err(|_| Errno::INVAL)
    });
    // Unlike its sisters this function answers the negative number of an error.
    if answer < 0 { -(Errno::INVAL.raw_os_error() as isize) } else { answer as isize }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_pkey(
    context: *mut abi::Context,
    port: u8,
    index: c_int,
    pkey: *mut u16,
) -> c_int {
    args![context, port, index, pkey].done(|| {
        process().contexts.get(context.addr())?;
        check_port(port.into())?;
        if index != 0 {
            return Err(Errno::INVAL);
        }
        // SAFETY: the program's place for a number.
        unsafe { write(pkey, DEFAULT_PKEY) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_pkey_index(context: *mut abi::Context, port: u8, pkey: u16) -> c_int {
    args![context, port, pkey].number(|| {
        process().contexts.get(context.addr())?;
        check_port(port.into())?;
        if pkey == DEFAULT_PKEY { Ok(0) } else { Err(Errno::INVAL) }
    })
}

/// No memory is pinned, so that a fork separates none from the device.
#[unsafe(no_mangle)]
extern "C" fn ibv_fork_init() -> c_int {
    0
}

#[unsafe(no_mangle)]
extern "C" fn ibv_is_fork_initialized() -> u32 {
    abi::FORK_UNNEEDED
}

fn gid_entry(port: u32, index: u32) -> Result<abi::GidEntry, Errno> {
    let &Entry { gid: octets, kind, interface } = process().gids()?.get(port, index)?;
    let mut gid = [0; 2];
    for (word, octets) in gid.iter_mut().zip(octets.as_chunks::<8>().0) {
        *word = u64::from_ne_bytes(*octets);
    }
    Ok(abi::GidEntry { gid, gid_index: index, port_num: port, gid_type: kind, ndev_ifindex: interface })
}

const NAME_OF_DEVICE: &core::ffi::CStr = c"weft0";
const DEFAULT_PKEY: u16 = 0xFFFF;
