//! Why a call fails: a number for `errno`, and a line for `weft_group_strerror`.

use core::ffi::c_char;
use core::fmt::Display;
use std::cell::RefCell;
use std::ffi::CString;

use nix::errno::Errno;
use weft_group::{ChangeError, MembershipError, OpError, RepairError, SessionError};

/// The outcome of a function behind C's.
pub(crate) type Outcome<T> = Result<T, Failure>;

/// Why a call fails.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    errno: Errno,
    line: String,
}

impl Failure {
    pub(crate) fn new(errno: Errno, line: impl Display) -> Self {
        Self { errno, line: line.to_string() }
    }

    pub(crate) fn invalid(line: impl Display) -> Self {
        Self::new(Errno::EINVAL, line)
    }

    /// A pointer of the program is null.
    pub(crate) fn null(what: &str) -> Self {
        Self::new(Errno::EFAULT, format_args!("{what} is NULL"))
    }

    /// The name is that of no open group.
    pub(crate) fn closed() -> Self {
        Self::new(Errno::EBADF, "this is no open group")
    }

    /// A panic has ended a call on the group, now or before.
    pub(crate) fn broken() -> Self {
        Self::new(Errno::EIO, "the library has failed: standard error has the reason")
    }

    /// Sets `errno` of this thread, and the line that [`last`] returns.
    pub(crate) fn tell(self) {
        // A reason may be that of another host.
        let line: String =
            self.line.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        let line = CString::new(line).unwrap_or_default();
        // A thread that ends has lost its line.
        let _ended = LAST.try_with(|last| last.replace(Some(line)));
        self.errno.set();
    }
}

impl From<OpError> for Failure {
    fn from(error: OpError) -> Self {
        let errno = match error {
            OpError::Full => Errno::EAGAIN,
            OpError::Conflict => Errno::EBUSY,
            OpError::Overlap | OpError::Unaligned => Errno::EINVAL,
            OpError::Bounds => Errno::ERANGE,
            OpError::TooLong => Errno::EMSGSIZE,
            OpError::Unknown => Errno::ENOENT,
        };
        Self::new(errno, error)
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        let errno = match &error {
            SessionError::Op(error) => return (*error).into(),
            SessionError::Lost(_) => Errno::ECONNRESET,
            SessionError::Sealed { .. } => Errno::ESTALE,
            SessionError::TimedOut => Errno::ETIMEDOUT,
            SessionError::Refused(_) => Errno::ECONNREFUSED,
            SessionError::Device(_) => Errno::ENOMEM,
        };
        Self::new(errno, error)
    }
}

impl From<MembershipError> for Failure {
    fn from(error: MembershipError) -> Self {
        Self::new(Errno::ECONNREFUSED, error)
    }
}

impl From<RepairError> for Failure {
    fn from(error: RepairError) -> Self {
        let errno = match &error {
            RepairError::Membership(_) => Errno::ECONNREFUSED,
            RepairError::Change(ChangeError::Overtaken | ChangeError::SourceLost) => Errno::ESTALE,
            RepairError::Change(ChangeError::NoSource { .. }) => Errno::ENODATA,
            RepairError::Change(ChangeError::Confused) => Errno::EIO,
        };
        Self::new(errno, error)
    }
}

/// Returns the line of the last failure of this thread. It is valid until the next one.
pub(crate) fn last() -> *const c_char {
    let line = LAST.try_with(|last| last.borrow().as_ref().map(|line| line.as_ptr()));
    line.ok().flatten().unwrap_or(c"no error".as_ptr())
}

thread_local! {
    static LAST: RefCell<Option<CString>> = const { RefCell::new(None) };
}

#[cfg(test)]
mod tests {
    use core::ffi::CStr;

    use super::*;

    #[test]
    fn each_error_has_its_number() {
        let numbers = [
            (OpError::Full.into(), Errno::EAGAIN),
            (OpError::Conflict.into(), Errno::EBUSY),
            (OpError::Overlap.into(), Errno::EINVAL),
            (OpError::Unaligned.into(), Errno::EINVAL),
            (OpError::Bounds.into(), Errno::ERANGE),
            (OpError::TooLong.into(), Errno::EMSGSIZE),
            (OpError::Unknown.into(), Errno::ENOENT),
            (SessionError::Lost(Some(1)), Errno::ECONNRESET),
            (SessionError::Sealed { epoch: 3 }, Errno::ESTALE),
            (SessionError::TimedOut, Errno::ETIMEDOUT),
            (SessionError::Refused("no".into()), Errno::ECONNREFUSED),
            (SessionError::Device("no".into()), Errno::ENOMEM),
        ];
        for (error, errno) in numbers {
            assert_eq!(Failure::from(error.clone()), Failure::new(errno, error));
        }
    }

    #[test]
    fn a_line_is_one_whatever_a_peer_has_said() {
        Failure::from(SessionError::Refused("a\nb\0c".into())).tell();
        assert_eq!(Errno::last(), Errno::ECONNREFUSED);
        LAST.with(|last| assert_eq!(last.borrow().as_deref(), Some(c"a b c")));
        let other = std::thread::spawn(|| LAST.with(|last| last.borrow().as_deref().map(CStr::to_owned)));
        assert_eq!(other.join().unwrap(), None, "each thread has its own");
    }
}
