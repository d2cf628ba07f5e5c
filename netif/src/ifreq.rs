//! The kernel's structure for questions about a network interface (netdevice(7)).

use std::io;

use rustix::io::Errno;

/// Returns a request about the interface `name`; its other fields are zero.
///
/// # Errors
/// `ENODEV` if the name is longer than that of any interface.
pub(crate) fn request_for(name: &str) -> io::Result<libc::ifreq> {
    let mut ifr_name = [0; libc::IFNAMSIZ];
    // The last octet stays zero.
    if name.len() >= ifr_name.len() {
        return Err(Errno::NODEV.into());
    }
    for (place, octet) in ifr_name.iter_mut().zip(name.bytes()) {
        *place = libc::c_char::from_ne_bytes([octet]);
    }
    let ifru_map =
        libc::__c_anonymous_ifru_map { mem_start: 0, mem_end: 0, base_addr: 0, irq: 0, dma: 0, port: 0 };
    Ok(libc::ifreq { ifr_name, ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_map } })
}
