//! The GIDs of the port, by which peers find it. In the second personality each GID is an IP address.

use std::net::{IpAddr, Ipv6Addr};

use rustix::io::Errno;

use crate::abi;
use crate::device::{check_port, guid};
use crate::raw::Interface;

/// The table. It does not change after the device was opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gids(Vec<Entry>);

/// An entry of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) gid: abi::Gid,
    /// `enum ibv_gid_type`.
    pub(crate) kind: u32,
    /// The number of the network interface, 0 for none.
    pub(crate) interface: u32,
}

impl Gids {
    /// Returns the table of an iWARP device: a hardware address, here a local one, and zeros.
    pub(crate) fn iwarp() -> Self {
        let [a, b, c, _, _, d, e, f] = guid().to_be_bytes();
        let mut gid = [0; 16];
        gid[..6].copy_from_slice(&[a, b, c, d, e, f]);
        Self(vec![Entry { gid, kind: abi::GID_TYPE_IB, interface: 0 }])
    }

    /// Returns the table of a RoCE v2 device: an entry for each address. Programs that choose by themselves mostly take
    /// the first entry. So IPv4 comes before IPv6, and 127.0.0.1 behind the addresses that other hosts reach.
    pub(crate) fn roce(mut addresses: Vec<Interface>) -> Self {
        addresses.retain(|it| address_of(of_address(it.address)).is_some());
        addresses.sort_by_key(|it| (it.address.is_ipv6(), it.address.is_loopback()));
        let entry = |it: Interface| Entry {
            gid: of_address(it.address),
            kind: abi::GID_TYPE_ROCE_V2,
            interface: it.index,
        };
        Self(addresses.into_iter().map(entry).collect())
    }

    /// # Errors
    /// `EINVAL` for a port other than 1, and for an index behind the last entry.
    pub(crate) fn get(&self, port: u32, index: u32) -> Result<&Entry, Errno> {
        check_port(port)?;
        usize::try_from(index).ok().and_then(|index| self.0.get(index)).ok_or(Errno::INVAL)
    }

    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }
}

/// Returns the address in a GID of RoCE v2. Returns `None` unless a host can have the address and it needs no
/// interface's name.
pub(crate) fn address_of(gid: abi::Gid) -> Option<IpAddr> {
    let address = Ipv6Addr::from(gid).to_canonical();
    let is_host = match address {
        IpAddr::V4(address) => {
            !address.is_unspecified() && !address.is_multicast() && !address.is_broadcast()
        }
        IpAddr::V6(address) => {
            !address.is_unspecified() && !address.is_multicast() && !address.is_unicast_link_local()
        }
    };
    is_host.then_some(address)
}

const fn of_address(address: IpAddr) -> abi::Gid {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gid_of_iwarp_is_that_of_a_local_hardware_address() {
        let gids = Gids::iwarp();
        let gid = gids.get(1, 0).unwrap().gid;
        assert_eq!((gid[0], &gid[6..]), (0x02, &[0; 10][..]));
        assert_eq!(gids.get(1, 1), Err(Errno::INVAL));
        assert_eq!(gids.get(2, 0), Err(Errno::INVAL));
    }

    #[test]
    fn gids_of_roce_are_addresses_those_that_others_reach_first() {
        let addresses = ["::1", "127.0.0.1", "fe80::1", "2001:db8::1", "10.0.0.1"];
        let interface = |address: &str| Interface { address: address.parse().unwrap(), index: 3 };
        let gids = Gids::roce(addresses.map(interface).into());
        let found: Vec<_> =
            (0..4).map(|index| address_of(gids.get(1, index).unwrap().gid).unwrap().to_string()).collect();
        assert_eq!(found, ["10.0.0.1", "127.0.0.1", "2001:db8::1", "::1"]);
        assert_eq!((gids.len(), gids.get(1, 4)), (4, Err(Errno::INVAL)));
        assert_eq!(&gids.get(1, 0).unwrap().gid[8..], &[0, 0, 0xFF, 0xFF, 10, 0, 0, 1]);
    }

    #[test]
    fn gids_that_no_host_has_are_no_address() {
        for nobody in
            ["::", "ff02::1", "fe80::1", "::ffff:0.0.0.0", "::ffff:224.0.0.1", "::ffff:255.255.255.255"]
        {
            assert_eq!(address_of(nobody.parse::<Ipv6Addr>().unwrap().octets()), None, "{nobody}");
        }
    }
}
