//! Other programs in an agent's place or beside it, and descriptors that go to another agent.

#![allow(unsafe_code, reason = "the calls of C programs, which a preloaded library takes")]

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::calls::{Returned, returned};

/// Starts an agent by posix_spawn.
pub(crate) fn spawn(folder: &Path, channel: &str) -> Returned {
    failed(command(folder, channel).spawn().map(drop)).map_or(Ok(0), Err)
}

/// Becomes another agent.
pub(crate) fn exec(folder: &Path, channel: &str) -> Returned {
    failed(Err(command(folder, channel).arg("--executed").exec())).map_or(Ok(0), Err)
}

/// Starts an agent by vfork and execv.
pub(crate) fn vfork(folder: &Path, channel: &str) -> Returned {
    let words =
        [program().into_os_string(), "--agent".into(), folder.into(), "--channel".into(), channel.into()];
    let words = words.map(|word| CString::new(word.as_bytes()).unwrap_or_default());
    let mut list: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
    list.push(core::ptr::null());
    unsafe extern "C" {
        #[link_name = "vfork"]
        fn libc_vfork() -> libc::pid_t;
    }
    // SAFETY: the child only executes the program, whose name and list end with 0.
    unsafe {
        let process = libc_vfork();
        if process == 0 {
            libc::execv(list[0], list.as_ptr());
            libc::_exit(127);
        }
        returned(i64::from(process)).map(|_| 0)
    }
}

/// Opens a socket for a descriptor of another agent.
pub(crate) fn bind(folder: &Path) -> Returned {
    let (address, len) = address(folder);
    // SAFETY: the address has the length.
    unsafe {
        let socket = returned(libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0).into())?;
        let _old = std::fs::remove_file(folder.join(NAME));
        returned(libc::bind(socket as i32, (&raw const address).cast(), len).into())?;
        Ok(socket)
    }
}

/// Gives a descriptor to the agent that waits for one.
pub(crate) fn give(folder: &Path, fd: i32) -> Returned {
    let (mut address, len) = address(folder);
    let mut octet = 1_u8;
    let mut piece = libc::iovec { iov_base: (&raw mut octet).cast(), iov_len: 1 };
    let mut room = [0_u64; 8];
    // SAFETY: all pointers are to local variables, and the control data have room for a descriptor.
    unsafe {
        let mut message: libc::msghdr = core::mem::zeroed();
        (message.msg_name, message.msg_namelen) = ((&raw mut address).cast(), len);
        (message.msg_iov, message.msg_iovlen) = (&raw mut piece, 1);
        (message.msg_control, message.msg_controllen) = (room.as_mut_ptr().cast(), libc::CMSG_SPACE(4) as _);
        let part = libc::CMSG_FIRSTHDR(&raw const message);
        ((*part).cmsg_level, (*part).cmsg_type) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
        (*part).cmsg_len = libc::CMSG_LEN(4) as _;
        libc::CMSG_DATA(part).cast::<i32>().write_unaligned(fd);
        let socket = returned(libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0).into())?;
        let sent = returned(libc::sendmsg(socket as i32, &raw const message, 0) as i64);
        libc::close(socket as i32);
        sent
    }
}

/// Takes the descriptor that another agent gives, and closes the socket.
pub(crate) fn take(socket: i32) -> Returned {
    let mut octet = 0_u8;
    let mut piece = libc::iovec { iov_base: (&raw mut octet).cast(), iov_len: 1 };
    let mut room = [0_u64; 8];
    // SAFETY: as above.
    unsafe {
        let mut message: libc::msghdr = core::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut piece, 1);
        (message.msg_control, message.msg_controllen) = (room.as_mut_ptr().cast(), size_of_val(&room) as _);
        let received = returned(libc::recvmsg(socket, &raw mut message, 0) as i64);
        libc::close(socket);
        received?;
        let part = libc::CMSG_FIRSTHDR(&raw const message);
        if part.is_null() {
            Err(libc::ENOMSG)
        } else {
            Ok(libc::CMSG_DATA(part).cast::<i32>().read_unaligned().into())
        }
    }
}

fn command(folder: &Path, channel: &str) -> Command {
    let mut command = Command::new(program());
    command.arg("--agent").arg(folder).arg("--channel").arg(channel);
    command
}

fn program() -> std::path::PathBuf {
    std::env::current_exe().unwrap_or_default()
}

fn failed(result: std::io::Result<()>) -> Option<i32> {
    result.err().map(|error| error.raw_os_error().unwrap_or(libc::EIO))
}

fn address(folder: &Path) -> (libc::sockaddr_un, u32) {
    // SAFETY: all zero is an address without a name.
    let mut address: libc::sockaddr_un = unsafe { core::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as _;
    let path = folder.join(NAME);
    for (to, from) in address.sun_path.iter_mut().zip(path.as_os_str().as_bytes()) {
        *to = *from as _;
    }
    (address, size_of::<libc::sockaddr_un>() as u32)
}

const NAME: &str = "rights";
