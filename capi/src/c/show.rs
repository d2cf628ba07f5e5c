//! The text of arguments and outcomes in a trace. The kernel copies memory of the program: a call that failed may have
//! had any address.
#![allow(unsafe_code)]

use core::ffi::{c_char, c_int, c_void};
use core::fmt::Write as _;
use core::mem::MaybeUninit;

use rustix::io::Errno;

use super::boundary::Outcome;
use super::names;
use crate::abi;
use crate::cm::socket_address;

/// The text of a call.
pub(super) struct Line {
    pub(super) text: String,
    name: &'static str,
    /// The answer as a number, if the call did not fail.
    pub(super) count: Option<i64>,
    has_arguments: bool,
}

/// An argument.
pub(super) trait Show: Copy {
    fn show(self, line: &mut Line);
}

/// The answer of a function that did not fail.
pub(super) trait Answer {
    fn show(&self, text: &mut String);

    /// The answer as a number; 0 if it is none.
    fn count(&self) -> i64 {
        0
    }
}

impl Line {
    pub(super) fn new(call: &str, count: Option<i64>) -> Self {
        Self { text: format!("{call}("), name: "", count, has_arguments: false }
    }

    pub(super) fn argument(&mut self, name: &'static str, value: impl Show) {
        let comma = if core::mem::replace(&mut self.has_arguments, true) { ", " } else { "" };
        self.name = name;
        self.write(format_args!("{comma}{}=", name.trim_start_matches('_')));
        value.show(self);
    }

    /// Returns the whole line. `failed` is the answer that goes with the number of an error.
    pub(super) fn finish<T: Answer>(mut self, failed: &str, outcome: &Outcome<T>) -> String {
        self.text.push(')');
        match outcome {
            // A function that answers nothing.
            Ok(_) if failed == VOID && size_of::<T>() == 0 => {}
            Ok(answer) => answer.show(&mut self.text),
            Err(errno) => {
                let number = errno.raw_os_error();
                let message = std::io::Error::from_raw_os_error(number).to_string();
                let message = message.split(" (os error").next().unwrap_or_default();
                self.write(format_args!(" = {failed}{} ({message})", errno_name(*errno)));
            }
        }
        self.text
    }

    pub(super) fn write(&mut self, text: core::fmt::Arguments<'_>) {
        let _infallible = self.text.write_fmt(text);
    }

    pub(super) fn address(&mut self, address: usize) {
        if address == 0 { self.text.push_str("NULL") } else { self.write(format_args!("{address:#x}")) }
    }

    /// Writes a linked list, or null.
    pub(super) fn list<T: Copy>(
        &mut self,
        first: *const T,
        next: impl Fn(&T) -> *const T,
        show: impl Fn(&mut Self, &T),
    ) {
        let mut element = first;
        let Some(mut value) = peek(element) else { return self.address(first.addr()) };
        self.text.push('[');
        for index in 0.. {
            if index == LONGEST_LIST {
                self.text.push_str(", ...");
                break;
            }
            if index > 0 {
                self.text.push_str(", ");
            }
            show(self, &value);
            element = next(&value);
            let Some(following) = peek(element) else { break };
            value = following;
        }
        self.text.push(']');
    }

    pub(super) fn flags(&mut self, value: u32, names: &[(u32, &str)]) {
        let mut rest = value;
        let mut separator = "";
        for (bit, name) in names {
            if rest & bit != 0 {
                rest &= !bit;
                self.write(format_args!("{separator}{name}"));
                separator = "|";
            }
        }
        if rest != 0 || value == 0 {
            self.write(format_args!("{separator}{rest:#x}"));
        }
    }

    pub(super) fn sges(&mut self, list: *const abi::Sge, count: i32) {
        for index in 0..usize::try_from(count).unwrap_or(0).min(LONGEST_LIST) {
            match peek(list.wrapping_add(index)) {
                Some(sge) => self.write(format_args!(" {:#x}+{} lkey={:#x}", sge.addr, sge.length, sge.lkey)),
                None => return self.write(format_args!(" {:#x}", list.addr())),
            }
        }
    }
}

/// Returns the value at an address. The kernel copies it, so that any address is allowed; None if there is no memory.
///
/// Every pattern of bits has to be a value of `T`, as for the structs of C that are shown here.
pub(super) fn peek<T: Copy>(from: *const T) -> Option<T> {
    let mut value = MaybeUninit::<T>::uninit();
    let to = libc::iovec { iov_base: value.as_mut_ptr().cast(), iov_len: size_of::<T>() };
    let from = libc::iovec { iov_base: from.cast_mut().cast(), iov_len: size_of::<T>() };
    // SAFETY: the call writes to this function's own memory, at most its size. It fails for memory that it cannot read.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &raw const to, 1, &raw const from, 1, 0) };
    // SAFETY: all of it was written, and any bits are a value, as above.
    (usize::try_from(copied) == Ok(size_of::<T>())).then(|| unsafe { value.assume_init() })
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl Show for $number {
            fn show(self, line: &mut Line) {
                match line.name {
                    "flags" if line.text.starts_with("ibv_re") => line.flags(u32::try_from(self).unwrap_or(u32::MAX), &ACCESS),
                    "iova" | "to" | "addr" | "rkey" | "lkey" | "mask" | "what" => line.write(format_args!("{self:#x}")),
                    _ => line.write(format_args!("{self}")),
                }
            }
        }

        impl Answer for $number {
            fn show(&self, text: &mut String) {
                let _infallible = write!(text, " = {self}");
            }

            fn count(&self) -> i64 {
                i64::try_from(*self).unwrap_or(i64::MAX)
            }
        })*
    };
}

numbers! { u8, u16, u32, u64, i64, usize, isize, c_int }

impl Answer for () {
    fn show(&self, text: &mut String) {
        text.push_str(" = 0");
    }
}

impl<T> Answer for *mut T {
    fn show(&self, text: &mut String) {
        let _infallible = write!(text, " = {:#x}", self.addr());
    }
}

/// Shows an address only: a handle, or memory without a known struct.
macro_rules! addresses {
    ($($type:ty),* $(,)?) => {
        $(impl Show for *mut $type {
            fn show(self, line: &mut Line) {
                line.address(self.addr());
            }
        }

        impl Show for *const $type {
            fn show(self, line: &mut Line) {
                line.address(self.addr());
            }
        })*
    };
}

addresses! {
    c_void, u16, u32,
    abi::Device, abi::Context, abi::Pd, abi::Mr, abi::Mw, abi::CompChannel, abi::Cq, abi::CqEx, abi::Srq, abi::Qp, abi::QpEx,
    abi::EventChannel, abi::CmId, abi::CmEvent, abi::AddrInfo,
    abi::DeviceAttr, abi::DeviceAttrEx, abi::PortAttr, abi::GidEntry, abi::Gid, abi::ModifyCqAttr, abi::MwBind, abi::MwBindInfo,
    abi::Sge, abi::DataBuf,
}

/// Shows a place for an answer, with the answer unless the call failed.
macro_rules! places {
    ($($type:ty),*) => {
        $(impl Show for *mut *mut $type {
            fn show(self, line: &mut Line) {
                match peek(self).filter(|_| line.count.is_some()) {
                    Some(place) => {
                        line.text.push('[');
                        line.address(place.addr());
                        line.text.push(']');
                    }
                    None => line.address(self.addr()),
                }
            }
        })*
    };
}

places! { abi::CmId, abi::Cq, c_void, abi::AddrInfo }

/// Places for lists that the program gives back, and for refused requests.
macro_rules! lists {
    ($($type:ty),*) => {
        $(impl Show for *mut *mut $type {
            fn show(self, line: &mut Line) {
                match peek(self).filter(|_| line.count.is_none() && line.name == "bad") {
                    Some(place) => line.write(format_args!("[{:#x}]", place.addr())),
                    None => line.address(self.addr()),
                }
            }
        })*
    };
}

lists! { abi::Device, abi::Context, abi::SendWr, abi::RecvWr }

impl Show for *mut c_int {
    fn show(self, line: &mut Line) {
        match peek(self).filter(|_| line.count.is_some()) {
            Some(number) => line.write(format_args!("[{number}]")),
            None => line.address(self.addr()),
        }
    }
}

impl Show for *mut *mut abi::CmEvent {
    fn show(self, line: &mut Line) {
        let event = peek(self).filter(|_| line.count.is_some()).and_then(|event| Some((event, peek(event)?)));
        let Some((address, event)) = event else { return line.address(self.addr()) };
        let name = names::cm_event(event.event).to_string_lossy();
        let name = name.trim_start_matches("RDMA_CM_EVENT_");
        line.write(format_args!(
            "[{:#x} {name} id={:#x} status={}]",
            address.addr(),
            event.id.addr(),
            event.status
        ));
    }
}

impl Show for *mut abi::AsyncEvent {
    fn show(self, line: &mut Line) {
        match peek(self).filter(|_| line.count.is_some()) {
            Some(event) => {
                line.write(format_args!("{{type={}, element={:#x}}}", event.event_type, event.element.addr()))
            }
            None => line.address(self.addr()),
        }
    }
}

impl Show for *const c_char {
    fn show(self, line: &mut Line) {
        if peek(self).is_none() {
            return line.address(self.addr());
        }
        let octets = (0..LONGEST_STRING)
            .map_while(|index| peek(self.wrapping_add(index).cast::<u8>()).filter(|&octet| octet != 0));
        let text = octets.collect::<Vec<u8>>();
        line.write(format_args!("{:?}", String::from_utf8_lossy(&text)));
    }
}

impl Show for *mut c_char {
    fn show(self, line: &mut Line) {
        line.address(self.addr());
    }
}

impl Answer for *const c_char {
    fn show(&self, text: &mut String) {
        let mut line = Line::new("", None);
        Show::show(*self, &mut line);
        let _infallible = write!(text, " = {}", &line.text[1..]);
    }
}

impl Show for *mut libc::sockaddr {
    fn show(self, line: &mut Line) {
        // Its family says how long it is. No more of it may be mapped.
        let address = peek(self.cast::<[u8; 28]>())
            .map(Vec::from)
            .or_else(|| peek(self.cast::<[u8; 16]>()).map(Vec::from));
        match address.and_then(|octets| socket_address(&octets).ok()) {
            Some(address) => line.write(format_args!("{address}")),
            None => line.address(self.addr()),
        }
    }
}

fn errno_name(errno: Errno) -> String {
    let known = ERRNOS.iter().find(|(known, _)| *known == errno);
    known.map_or_else(|| format!("errno {}", errno.raw_os_error()), |(_, name)| (*name).to_owned())
}

/// Stands for the answer to a failure in functions that have none.
pub(super) const VOID: &str = "void";
/// The most elements of a list that are shown.
pub(super) const LONGEST_LIST: usize = 8;
const LONGEST_STRING: usize = 80;
const ACCESS: [(u32, &str); 8] = [
    (1, "LOCAL_WRITE"),
    (1 << 1, "REMOTE_WRITE"),
    (1 << 2, "REMOTE_READ"),
    (1 << 3, "REMOTE_ATOMIC"),
    (1 << 4, "MW_BIND"),
    (1 << 5, "ZERO_BASED"),
    (1 << 6, "ON_DEMAND"),
    (1 << 20, "RELAXED_ORDERING"),
];
const ERRNOS: [(Errno, &str); 26] = [
    (Errno::INVAL, "EINVAL"),
    (Errno::NOMEM, "ENOMEM"),
    (Errno::AGAIN, "EAGAIN"),
    (Errno::INTR, "EINTR"),
    (Errno::BADF, "EBADF"),
    (Errno::BUSY, "EBUSY"),
    (Errno::OPNOTSUPP, "EOPNOTSUPP"),
    (Errno::FAULT, "EFAULT"),
    (Errno::NODEV, "ENODEV"),
    (Errno::NOENT, "ENOENT"),
    (Errno::IO, "EIO"),
    (Errno::NODATA, "ENODATA"),
    (Errno::MFILE, "EMFILE"),
    (Errno::ACCESS, "EACCES"),
    (Errno::PERM, "EPERM"),
    (Errno::OVERFLOW, "EOVERFLOW"),
    (Errno::ADDRINUSE, "EADDRINUSE"),
    (Errno::ADDRNOTAVAIL, "EADDRNOTAVAIL"),
    (Errno::AFNOSUPPORT, "EAFNOSUPPORT"),
    (Errno::CONNREFUSED, "ECONNREFUSED"),
    (Errno::CONNRESET, "ECONNRESET"),
    (Errno::NETUNREACH, "ENETUNREACH"),
    (Errno::HOSTUNREACH, "EHOSTUNREACH"),
    (Errno::ISCONN, "EISCONN"),
    (Errno::NOTCONN, "ENOTCONN"),
    (Errno::TIMEDOUT, "ETIMEDOUT"),
];

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::c) fn shown(name: &'static str, count: Option<i64>, value: impl Show) -> String {
        let mut line = Line::new("f", count);
        line.argument(name, value);
        line.finish("-1 ", &count.ok_or(Errno::INVAL))
    }

    #[test]
    fn unmapped_addresses_are_not_read() {
        let nowhere = core::ptr::without_provenance_mut::<abi::SendWr>(0x10);
        assert_eq!(shown("wrs", None, nowhere), "f(wrs=0x10) = -1 EINVAL (Invalid argument)");
        assert_eq!(
            shown("local", None, core::ptr::null_mut::<libc::sockaddr>()),
            "f(local=NULL) = -1 EINVAL (Invalid argument)"
        );
        assert_eq!(shown("node", Some(3), c"localhost".as_ptr()), "f(node=\"localhost\") = 3");
        let mut line = Line::new("ibv_reg_mr", Some(0));
        line.argument("flags", 0x8003_u32);
        assert_eq!(line.finish(VOID, &Ok(())), "ibv_reg_mr(flags=LOCAL_WRITE|REMOTE_WRITE|0x8000)");
    }
}
