//! One queue of an interface by AF_XDP: four rings, and memory for frames that the kernel shares. `unsafe` maps that
//! memory and copies from and to it, since the kernel may write there at any moment.
#![allow(unsafe_code)]

use core::num::NonZeroU32;
use core::ptr::{self, NonNull};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::net::SendFlags;
use xdpilone::xdp::XdpDesc;
use xdpilone::{DeviceQueue, IfInfo, RingRx, RingTx, Socket, SocketConfig, Umem, UmemConfig};

use crate::ethernet::ETHERNET_HEADER;
use crate::frame::Frame;

/// A bound socket.
///
/// Every place of the memory is in one of the rings, in `free`, or under way. Received and sent frames have places of
/// their own, so that neither direction can take the other's.
pub(super) struct Queue {
    received: RingRx,
    sending: RingTx,
    /// The ring of places for frames that will come, and the ring of places whose frames were sent.
    places: DeviceQueue,
    free: Vec<u64>,
    /// The kernel has left frames to be sent in the ring, because it has no buffer or the interface is down.
    is_stuck: bool,
    memory: Memory,
}

/// The memory that the kernel calls UMEM, in places of the same size.
struct Memory {
    base: NonNull<u8>,
    len: usize,
    place_len: usize,
}

// SAFETY: the mapping belongs to this object alone, and is reached through `&mut Queue` only.
unsafe impl Send for Memory {}

impl Queue {
    /// Opens a socket on queue `index` of an interface for IP packets of `mtu` octets. With `copies` the hardware does
    /// not use the memory.
    pub(super) fn bind(interface: i32, index: u32, mtu: usize, copies: bool) -> io::Result<Self> {
        let memory = Memory::map(mtu)?;
        let config = UmemConfig {
            fill_size: RECEIVING,
            complete_size: SENDING,
            frame_size: u32::try_from(memory.place_len).unwrap_or(u32::MAX),
            headroom: 0,
            flags: 0,
        };
        let area = NonNull::slice_from_raw_parts(memory.base, memory.len);
        // SAFETY: the area is a mapping of this length that begins at a page. It lives longer than the sockets, which
        // end with the rings beside it.
        let umem = unsafe { Umem::new(config, area) }.map_err(system)?;
        let mut info = IfInfo::invalid();
        info.from_ifindex(interface.unsigned_abs()).map_err(system)?;
        info.set_queue(index);
        let socket = Socket::with_shared(&info, &umem).map_err(system)?;
        let mut places = umem.fq_cq(&socket).map_err(system)?;
        let forced = if copies { SocketConfig::XDP_BIND_COPY } else { 0 };
        let config = SocketConfig {
            rx_size: NonZeroU32::new(RECEIVING),
            tx_size: NonZeroU32::new(SENDING),
            bind_flags: SocketConfig::XDP_BIND_NEED_WAKEUP | forced,
        };
        let user = umem.rx_tx(&socket, &config).map_err(system)?;
        let (received, sending) = (user.map_rx().map_err(system)?, user.map_tx().map_err(system)?);
        let place_len = memory.place_len as u64;
        let mut all = (0..).step_by(memory.place_len).take(memory.len / memory.place_len);
        let mut filling = places.fill(RECEIVING);
        filling.insert(all.by_ref().take(RECEIVING as usize));
        filling.commit();
        drop(filling);
        let queue = Self { received, sending, places, free: all.collect(), is_stuck: false, memory };
        debug_assert!(queue.free.iter().all(|place| place % place_len == 0));
        fcntl_setfd(queue.fd(), FdFlags::CLOEXEC)?;
        // The caller's program is the only one at the interface. So another process has closed any socket that is
        // still bound, and the kernel is about to release it.
        let mut patience = BIND_TRIES;
        loop {
            match umem.bind(&user).map_err(system) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) && patience > 0 => {
                    patience -= 1;
                    std::thread::sleep(BIND_PAUSE);
                }
                done => return done.map(|()| queue),
            }
        }
    }

    /// Sends a frame. Returns false if it is lost, because no place is free or the interface is down.
    pub(super) fn send(&mut self, frame: &[u8]) -> bool {
        if self.is_stuck && !self.kick() {
            return false;
        }
        let mut gone = self.places.complete(SENDING);
        self.free.extend(&mut gone);
        gone.release();
        drop(gone);
        let Some(place) = self.free.pop() else { return false };
        if !self.memory.put(place, frame) {
            self.free.push(place);
            return false;
        }
        let len = u32::try_from(frame.len()).unwrap_or(0);
        let mut sending = self.sending.transmit(1);
        if !sending.insert_once(XdpDesc { addr: place, len, options: 0 }) {
            drop(sending);
            self.free.push(place);
            return false;
        }
        sending.commit();
        drop(sending);
        !self.sending.needs_wakeup() || self.kick()
    }

    /// Copies the next frame into `frame`. Returns false if there is none.
    pub(super) fn receive(&mut self, frame: &mut Frame) -> bool {
        let mut arrived = self.received.receive(1);
        let Some(XdpDesc { addr, len, .. }) = arrived.read() else {
            drop(arrived);
            if self.is_stuck {
                self.kick();
            }
            if self.places.needs_wakeup() {
                self.places.wake();
            }
            return false;
        };
        arrived.release();
        drop(arrived);
        let is_whole = self.memory.take(addr, len as usize, frame);
        let mut filling = self.places.fill(1);
        // The ring has room for all places of received frames.
        filling.insert_once(addr - addr % self.memory.place_len as u64);
        filling.commit();
        is_whole
    }

    pub(super) fn is_readable(&self) -> bool {
        self.received.available() > 0
    }

    /// Returns how many frames for this socket found no room.
    pub(super) fn lost(&self) -> u64 {
        // An error means that no frame was counted.
        self.places.statistics_v2().map_or(0, |counted| counted.rx_dropped + counted.rx_ring_full)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the rings hold the socket, and are borrowed as long as the answer is.
        unsafe { BorrowedFd::borrow_raw(self.raw_fd()) }
    }

    pub(super) fn raw_fd(&self) -> RawFd {
        self.sending.as_raw_fd()
    }

    /// Has the kernel send the frames of the ring, a batch at a time. Returns false if it loses a frame or takes
    /// none.
    fn kick(&mut self) -> bool {
        for _ in 0..SENDING {
            let sent = rustix::net::send(self.fd(), &[], SendFlags::DONTWAIT);
            self.is_stuck = self.sending.pending() > 0;
            match sent {
                Err(Errno::AGAIN) if self.is_stuck => {}
                // The kernel lacks memory at present. The next call comes soon.
                Ok(_) | Err(Errno::AGAIN | Errno::NOBUFS) => return true,
                // The frame was dropped, or the interface is down.
                Err(_) => return false,
            }
        }
        true
    }
}

impl Memory {
    fn map(mtu: usize) -> io::Result<Self> {
        let place_len = if mtu <= SMALL_PLACE - OVERHEAD { SMALL_PLACE } else { LARGE_PLACE };
        let len = (RECEIVING + SENDING) as usize * place_len;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that exists.
        let base =
            unsafe { mmap_anonymous(ptr::null_mut(), len, access, MapFlags::PRIVATE | MapFlags::POPULATE) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, len, place_len })
    }

    /// Returns the address of `len` octets from `place` on, or `None` if they reach out of the memory.
    fn octets(&self, place: u64, len: usize) -> Option<*mut u8> {
        let place = usize::try_from(place).ok()?;
        if place > self.len || len > self.len - place {
            return None;
        }
        // SAFETY: the offset is within the mapping, by the check above.
        Some(unsafe { self.base.as_ptr().add(place) })
    }

    /// Copies a frame into a place.
    fn put(&self, place: u64, frame: &[u8]) -> bool {
        let Some(octets) = self.octets(place, frame.len()).filter(|_| frame.len() <= self.place_len) else {
            return false;
        };
        // SAFETY: so many octets lie in the mapping, of which the frame is no part. The kernel does not read a place
        // before its descriptor is in the ring.
        unsafe { ptr::copy_nonoverlapping(frame.as_ptr(), octets, frame.len()) };
        true
    }

    /// Copies `len` octets from `place` on into `frame`. Returns false if they reach out of the memory.
    fn take(&self, place: u64, len: usize, frame: &mut Frame) -> bool {
        let Some(octets) = self.octets(place, len) else { return false };
        frame.reset(len);
        // SAFETY: so many octets lie in the mapping, and in the frame, which is no part of it. The kernel does not
        // write to a place that it has given away, and all octets of the mapping are initialized.
        unsafe { ptr::copy_nonoverlapping(octets, frame.as_mut_ptr(), len) };
        true
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this address and length, and nothing that was borrowed from it is left. The
        // kernel keeps the pages themselves as long as it needs them.
        let _done = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

fn system(error: xdpilone::Errno) -> io::Error {
    io::Error::from_raw_os_error(error.get_raw())
}

/// The largest MTU. A place is at most a page, and has room for programs before the frame.
pub(super) const MAX_MTU: usize = LARGE_PLACE - OVERHEAD;
/// XDP_PACKET_HEADROOM, the Ethernet header and two VLAN tags.
const OVERHEAD: usize = 256 + ETHERNET_HEADER + 8;
const BIND_TRIES: u32 = 200;
const BIND_PAUSE: Duration = Duration::from_millis(10);
const SMALL_PLACE: usize = 2048;
const LARGE_PLACE: usize = 4096;
/// Places for received frames, all of which fit in the ring, and for sent ones. At the largest MTU they have three
/// MiB together, which a cache holds.
const RECEIVING: u32 = 1024;
const SENDING: u32 = 512;
