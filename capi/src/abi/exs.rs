//! The structs of `exs.h`. A program of the tests compares the offset of every field with the header.

use core::ffi::{c_int, c_short, c_void};

use super::Storage;

/// `exs_evt_xfer_t`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ExsTransfer {
    pub(crate) buf: *mut c_void,
    pub(crate) len: usize,
    pub(crate) message_len: usize,
    pub(crate) is_end: c_int,
}

/// `exs_evt_accept_t`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ExsAccepted {
    pub(crate) fd: c_int,
    pub(crate) peer: Storage,
}

/// `exs_evt_poll_t`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ExsPolled {
    pub(crate) revents: c_short,
}

/// What an event has beside its head.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) union ExsDetail {
    pub(crate) xfer: ExsTransfer,
    pub(crate) accept: ExsAccepted,
    pub(crate) poll: ExsPolled,
}

/// `exs_event_t`
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct ExsEvent {
    pub(crate) kind: c_int,
    pub(crate) fd: c_int,
    pub(crate) ahandle: isize,
    pub(crate) error: c_int,
    pub(crate) flags: c_int,
    pub(crate) u: ExsDetail,
}

/// `exs_acceptaddr_t`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ExsAcceptAddr {
    pub(crate) addr: *mut libc::sockaddr,
    pub(crate) len: u32,
}

/// `exs_iovec_t`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ExsIovec {
    pub(crate) base: *mut c_void,
    pub(crate) len: usize,
    pub(crate) mhandle: i32,
}

/// `exs_msghdr_t`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ExsMessage {
    pub(crate) name: *mut c_void,
    pub(crate) namelen: u32,
    pub(crate) iov: *mut ExsIovec,
    pub(crate) iovlen: c_int,
    pub(crate) control: *mut c_void,
    pub(crate) controllen: usize,
    pub(crate) flags: c_int,
}

/// `exs_fdvec_t`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ExsFile {
    pub(crate) fd: c_int,
    pub(crate) offset: i64,
    pub(crate) len: usize,
}

/// What a part of `exs_sendfile` is.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) union ExsFileSource {
    pub(crate) memory: ExsIovec,
    pub(crate) file: ExsFile,
}

/// `exs_xferfile_t`
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct ExsFilePart {
    pub(crate) kind: c_int,
    pub(crate) u: ExsFileSource,
}

/// `EXS_MHANDLE_UNREGISTERED`
pub(crate) const EXS_UNREGISTERED: i32 = -2;
/// `EXS_QHANDLE_INVALID`
pub(crate) const EXS_NO_QUEUE: i32 = -1;
/// `EXS_MSG_INPLACE`
pub(crate) const EXS_IN_PLACE: c_int = 0x0100_0000;
/// `EXS_MSG_DIRECT`
pub(crate) const EXS_DIRECT: c_int = 0x0200_0000;

#[cfg(test)]
mod tests {
    use core::mem::offset_of;

    use super::*;

    /// The same numbers are in `capi/exs/tests/programs/layout.c`, which compares them with the header.
    #[test]
    fn structs_are_laid_out_as_in_the_header() {
        let event = [
            offset_of!(ExsEvent, kind),
            offset_of!(ExsEvent, fd),
            offset_of!(ExsEvent, ahandle),
            offset_of!(ExsEvent, error),
            offset_of!(ExsEvent, flags),
            offset_of!(ExsEvent, u),
            size_of::<ExsEvent>(),
        ];
        assert_eq!(event, [0, 4, 8, 16, 20, 24, 160]);
        let transfer = [
            offset_of!(ExsTransfer, buf),
            offset_of!(ExsTransfer, len),
            offset_of!(ExsTransfer, message_len),
            offset_of!(ExsTransfer, is_end),
        ];
        assert_eq!(transfer, [0, 8, 16, 24]);
        assert_eq!([offset_of!(ExsAccepted, fd), offset_of!(ExsAccepted, peer)], [0, 8]);
        let room =
            [offset_of!(ExsAcceptAddr, addr), offset_of!(ExsAcceptAddr, len), size_of::<ExsAcceptAddr>()];
        assert_eq!(room, [0, 8, 16]);
        let part = [offset_of!(ExsIovec, base), offset_of!(ExsIovec, len), offset_of!(ExsIovec, mhandle)];
        assert_eq!((part, size_of::<ExsIovec>()), ([0, 8, 16], 24));
        let file = [offset_of!(ExsFile, fd), offset_of!(ExsFile, offset), offset_of!(ExsFile, len)];
        assert_eq!((file, size_of::<ExsFile>()), ([0, 8, 16], 24));
        assert_eq!((offset_of!(ExsFilePart, u), size_of::<ExsFilePart>()), (8, 32));
        let message = [
            offset_of!(ExsMessage, name),
            offset_of!(ExsMessage, namelen),
            offset_of!(ExsMessage, iov),
            offset_of!(ExsMessage, iovlen),
            offset_of!(ExsMessage, control),
            offset_of!(ExsMessage, controllen),
            offset_of!(ExsMessage, flags),
        ];
        assert_eq!(message, [0, 8, 16, 24, 32, 40, 48]);
    }
}
