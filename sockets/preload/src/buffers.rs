//! The buffers of a program's call.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_long};

use libc::{iovec, msghdr};

use crate::real::{self, kernel, words};

/// The pieces of memory that a call names. The program guarantees that they can be used during the call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffers<'a>(&'a [iovec]);

/// Some of a call's pieces, for a call of the kernel's.
#[derive(Debug)]
pub(crate) struct Window {
    pieces: [iovec; PIECES],
    count: usize,
}

impl<'a> Buffers<'a> {
    /// Names the pieces of a call.
    ///
    /// # Safety
    /// Each piece can be read, or written if the call receives, as long as these buffers are used.
    pub(crate) const unsafe fn new(pieces: &'a [iovec]) -> Self {
        Self(pieces)
    }

    /// How many octets the pieces have.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.iter().fold(0, |sum, piece| sum.saturating_add(piece.iov_len))
    }

    /// The only piece, if there is only one.
    #[inline]
    pub(crate) fn single(&self) -> Option<&'a [u8]> {
        match self.0 {
            // SAFETY: as the maker of the buffers promises.
            [piece] => Some(unsafe { octets(piece.iov_base.cast(), piece.iov_len) }),
            _ => None,
        }
    }

    /// The rest of the only piece from place `skip` on, to be filled, if there is only one and `skip` lies in it.
    #[inline]
    pub(crate) fn single_place(self, skip: usize) -> Option<&'a mut [u8]> {
        match self.0 {
            [piece] if skip < piece.iov_len => {
                let start = piece.iov_base.cast::<u8>().wrapping_add(skip);
                // SAFETY: as the maker of the buffers promises.
                Some(unsafe { core::slice::from_raw_parts_mut(start, piece.iov_len - skip) })
            }
            _ => None,
        }
    }

    /// The octets from place `skip` on, to be sent.
    pub(crate) fn slices(self, skip: usize) -> impl Iterator<Item = &'a [u8]> {
        // SAFETY: as the maker of the buffers promises.
        self.rest(skip).map(|piece| unsafe { octets(piece.iov_base.cast(), piece.iov_len) })
    }

    /// The octets from place `skip` on, to be filled one after the other.
    pub(crate) fn places(self, skip: usize) -> impl Iterator<Item = &'a mut [u8]> {
        self.rest(skip).filter(|piece| piece.iov_len > 0).map(|piece| {
            // SAFETY: as the maker of the buffers promises.
            unsafe { core::slice::from_raw_parts_mut(piece.iov_base.cast(), piece.iov_len) }
        })
    }

    /// Up to `most` octets from place `skip` on, for the kernel. It may be fewer, but not 0 if there are some.
    pub(crate) fn window(self, skip: usize, most: u64) -> Window {
        let mut window =
            Window { pieces: [iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; PIECES], count: 0 };
        let mut left = usize::try_from(most).unwrap_or(usize::MAX);
        for (place, piece) in window.pieces.iter_mut().zip(self.rest(skip)) {
            *place = iovec { iov_base: piece.iov_base, iov_len: piece.iov_len.min(left) };
            left -= place.iov_len;
            window.count += 1;
        }
        window
    }

    fn rest(self, mut skip: usize) -> impl Iterator<Item = iovec> {
        self.0.iter().filter_map(move |piece| {
            let skipped = skip.min(piece.iov_len);
            skip -= skipped;
            let iov_base = piece.iov_base.cast::<u8>().wrapping_add(skipped).cast();
            (skipped < piece.iov_len).then_some(iovec { iov_base, iov_len: piece.iov_len - skipped })
        })
    }
}

impl Window {
    /// Receives from a socket. Returns the kernel's answer.
    pub(crate) fn receive(&mut self, descriptor: c_int, flags: c_int) -> isize {
        let mut message = self.message();
        // SAFETY: the pieces are the program's, and the kernel checks them.
        unsafe { kernel!(SYS_recvmsg, descriptor, &raw mut message, flags) }
    }

    /// Sends to a socket. Returns the kernel's answer.
    pub(crate) fn send(&mut self, descriptor: c_int, flags: c_int) -> isize {
        let message = self.message();
        // SAFETY: as above.
        unsafe { kernel!(SYS_sendmsg, descriptor, &raw const message, flags) }
    }

    /// How many octets the pieces have.
    pub(crate) fn len(&self) -> usize {
        self.pieces.iter().map(|piece| piece.iov_len).sum()
    }

    /// Has the kernel copy octets of a ring here. Returns how many, or `None` for a bad address.
    pub(crate) fn fill(&self, from: [(*mut u8, usize); 2]) -> Option<usize> {
        self.copy(libc::SYS_process_vm_writev, from)
    }

    /// Has the kernel copy octets from here to a ring. Returns how many, or `None` for a bad address.
    pub(crate) fn drain(&self, to: [(*mut u8, usize); 2]) -> Option<usize> {
        self.copy(libc::SYS_process_vm_readv, to)
    }

    /// Copies as many octets as both sides have, by a call that checks the addresses of these pieces.
    fn copy(&self, number: c_long, ring: [(*mut u8, usize); 2]) -> Option<usize> {
        let wanted = self.len().min(ring[0].1 + ring[1].1);
        let ring = ring.map(|(start, len)| iovec { iov_base: start.cast(), iov_len: len });
        let process = rustix::process::getpid().as_raw_pid();
        let arguments = words!(process, ring.as_ptr(), ring.len(), self.pieces.as_ptr(), self.count, 0);
        // SAFETY: the ring's memory is the caller's to read or write. The kernel checks the pieces.
        let copied = unsafe { real::call(number, arguments) };
        // Like the kernel's own sockets it moves nothing if a part of the memory is bad.
        usize::try_from(copied).ok().filter(|copied| *copied == wanted)
    }

    fn message(&mut self) -> msghdr {
        // SAFETY: all-zero octets are a message without anything.
        let mut message: msghdr = unsafe { core::mem::zeroed() };
        message.msg_iov = self.pieces.as_mut_ptr();
        message.msg_iovlen = self.count;
        message
    }
}

/// Runs a call with memory of this library's own.
pub(crate) fn with_own<R>(memory: &mut [u8], run: impl FnOnce(Buffers<'_>) -> R) -> R {
    run(Buffers(&[iovec { iov_base: memory.as_mut_ptr().cast(), iov_len: memory.len() }]))
}

/// The octets at an address. Without length the address may be anything.
///
/// # Safety
/// So many octets can be read there.
unsafe fn octets<'a>(start: *const u8, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { core::slice::from_raw_parts(start, len) }
}

/// Pieces of a call of the kernel's.
const PIECES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_cut_at_any_place() {
        let mut memory = *b"abcdefghij";
        let mut piece = |at: usize, len| iovec { iov_base: memory[at..].as_mut_ptr().cast(), iov_len: len };
        let pieces =
            [piece(0, 3), iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }, piece(3, 2), piece(5, 4)];
        // SAFETY: the memory outlives the buffers.
        let buffers = unsafe { Buffers::new(&pieces) };
        assert_eq!((buffers.len(), buffers.single()), (9, None));
        for skip in 0..10 {
            assert_eq!(buffers.slices(skip).collect::<Vec<_>>().concat(), b"abcdefghi"[skip..]);
            for most in 0..10 {
                let window = buffers.window(skip, most);
                let len: usize = window.pieces[..window.count].iter().map(|piece| piece.iov_len).sum();
                assert_eq!(len as u64, most.min(9 - skip as u64));
            }
        }
        assert!(buffers.single_place(0).is_none());
        for place in buffers.places(4) {
            place.fill(b'x');
        }
        assert_eq!(&memory, b"abcdxxxxxj");
        with_own(&mut memory, |buffers| {
            buffers.single_place(8).expect("the last two").fill(b'y');
            assert!(buffers.single_place(10).is_none());
        });
        assert_eq!(&memory, b"abcdxxxxyy");
    }
}
