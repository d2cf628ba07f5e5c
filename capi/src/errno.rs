//! The errors of the layers below as numbers of C's `errno`.

use rustix::io::Errno;
use weft_rnic::PostError;

/// Returns the number of an error of the engine.
pub(crate) const fn errno(errno: weft_rnic::Errno) -> Errno {
    Errno::from_raw_os_error(errno.code())
}

/// Returns the number of an error of connection management.
pub(crate) fn cm_errno(error: weft_cm::Error) -> Errno {
    error.errno()
}

/// Returns the number of the reason why a queue refused a request.
pub(crate) const fn refused(error: PostError) -> Errno {
    errno(error.errno())
}
