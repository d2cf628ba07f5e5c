//! The process gives up rights, or goes to another part of the system: what it shares with others ends before.

use core::ffi::c_int;

use rustix::process::getuid;
use weft_sockets::Reason;

use crate::{ends, family, lower, port, sleep, table};

/// The program is about to install a filter of system calls, or to move octets by calls that no hook sees. From now on
/// the library makes no call of its own in this process and its children.
pub(crate) fn retire(reason: Reason) {
    if table::is_open() {
        lower::lower_all(reason);
        table::retire();
        port::leave();
    }
}

/// The program has changed its user for good: what it shares with relatives of its former user is theirs. Returns
/// `result`, which is an error if nothing has changed.
pub(crate) fn changed_user(result: c_int) -> c_int {
    if result == 0
        && table::is_open()
        && let Some(family) = family::family()
        && !family.is_of(getuid())
    {
        lower::lower_all(Reason::Exec);
        ends::leave_all();
        if family.found_another() {
            leave_port();
        } else {
            table::retire();
            port::leave();
        }
    }
    result
}

/// The program has gone to another network, which has another daemon.
pub(crate) fn changed_network() {
    if table::is_open() && family::family().is_some() {
        lower::lower_all(Reason::Exec);
        leave_port();
    }
}

fn leave_port() {
    sleep::leave_to_parent();
    port::leave_to_parent();
}
