//! The ring of received frames, which the kernel fills and this side empties. `unsafe` maps the ring and reads frames
//! in it.
#![allow(unsafe_code)]

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU32, Ordering};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::ethernet::{ETHERNET_HEADER, VNET_HEADER};
use crate::frame::Frame;
use crate::packet::socket::set_option;

/// A ring of version 2, with one place of the same size for each frame. Version 3 packs frames better, but hands them
/// over in blocks, a millisecond or more after they came.
pub(super) struct Ring {
    base: NonNull<u8>,
    places: usize,
    place_len: usize,
    next: usize,
}

/// The kernel's facts about a frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    /// The octets of the whole frame.
    pub(super) len: usize,
    /// The whole frame is in the socket's queue only.
    pub(super) is_queued: bool,
    /// Frames before it were lost because the ring was full.
    pub(super) is_losing: bool,
    /// TPID and TCI of a VLAN tag that the kernel took out.
    pub(super) tag: Option<[u16; 2]>,
    pub(super) header: [u8; VNET_HEADER],
}

// SAFETY: the mapping belongs to this object alone, and is reached through `&mut self`, or by an atomic load.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps a ring for IP packets of `mtu` octets on a socket that is not bound yet.
    pub(super) fn map(socket: &OwnedFd, mtu: usize) -> io::Result<Self> {
        let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
        set_option(socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        let place_len = (HEADROOM + ETHERNET_HEADER + mtu).next_power_of_two().max(MIN_PLACE);
        let block_len = place_len.max(MIN_BLOCK);
        let blocks = (RING_LEN / block_len).max(MIN_BLOCKS);
        let places = blocks * (block_len / place_len);
        let number = |value: usize| libc::c_uint::try_from(value).unwrap_or(libc::c_uint::MAX);
        let request = libc::tpacket_req {
            tp_block_size: number(block_len),
            tp_block_nr: number(blocks),
            tp_frame_size: number(place_len),
            tp_frame_nr: number(places),
        };
        set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let (len, access) = (places * place_len, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that exists.
        let base =
            unsafe { libc::mmap(ptr::null_mut(), len, access, libc::MAP_SHARED, socket.as_raw_fd(), 0) };
        match NonNull::new(base.cast::<u8>()) {
            Some(place) if base != libc::MAP_FAILED => Ok(Self { base: place, places, place_len, next: 0 }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Returns true if a frame is there.
    pub(super) fn is_readable(&self) -> bool {
        self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Copies the next frame, as far as its place holds it, into `frame`.
    pub(super) fn take(&mut self, frame: &mut Frame) -> Option<Arrival> {
        let status = self.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        let place = self.place();
        // SAFETY: the header lies at the beginning of the place, which is aligned for it and in the mapping; since the
        // kernel gave the place away, it does not write there before the status is stored below.
        let head = unsafe { place.cast::<libc::tpacket2_hdr>().read() };
        let (mac, snap) = (usize::from(head.tp_mac), head.tp_snaplen as usize);
        let mut header = [0; VNET_HEADER];
        frame.reset(0);
        if (VNET_HEADER..=self.place_len).contains(&mac) && snap <= self.place_len - mac {
            frame.reset(snap);
            // SAFETY: the virtio header and the frame behind it lie in the place, by the check above, and neither the
            // array nor the frame, which holds `snap` octets, is part of the mapping.
            unsafe {
                let octets = place.add(mac);
                ptr::copy_nonoverlapping(octets.sub(VNET_HEADER), header.as_mut_ptr(), VNET_HEADER);
                ptr::copy_nonoverlapping(octets, frame.as_mut_ptr(), snap);
            }
        }
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.places;
        let tpid = if status & libc::TP_STATUS_VLAN_TPID_VALID == 0 { VLAN } else { head.tp_vlan_tpid };
        Some(Arrival {
            len: head.tp_len as usize,
            is_queued: status & libc::TP_STATUS_COPY != 0,
            is_losing: status & libc::TP_STATUS_LOSING != 0,
            tag: (status & libc::TP_STATUS_VLAN_VALID != 0).then_some([tpid, head.tp_vlan_tci]),
            header,
        })
    }

    fn place(&self) -> *mut u8 {
        // SAFETY: `next` is below the number of places, all of which are in the mapping.
        unsafe { self.base.as_ptr().add(self.next * self.place_len) }
    }

    /// Returns the status of the next place.
    fn status(&self) -> &AtomicU32 {
        // SAFETY: the status is the first field of the header, aligned like its place; both sides access it atomically.
        unsafe { AtomicU32::from_ptr(self.place().cast()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this address and length, and nothing that was borrowed from it is left.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.places * self.place_len) };
    }
}

/// The octets before the frame in its place: `tpacket2_hdr` and `sockaddr_ll`, room for the link-layer header, the
/// virtio header.
const HEADROOM: usize = 96;
const MIN_PLACE: usize = 2048;
/// The kernel wants each block in one piece, and always finds small ones.
const MIN_BLOCK: usize = 32 * 1024;
const MIN_BLOCKS: usize = 32;
/// The octets of the ring, unless the places are very large.
const RING_LEN: usize = 4 << 20;
const VLAN: u16 = 0x8100;
