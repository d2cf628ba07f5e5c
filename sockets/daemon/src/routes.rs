//! The kernel's routes, as far as they tell which hosts are reached without a gateway.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::fs::File;
use std::io::{self, Read};

use crate::network::Network;

/// The routes of a network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Routes(Vec<Route>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Route {
    network: Network,
    metric: u32,
    /// True if the hosts of the network are neighbours.
    is_direct: bool,
}

impl Routes {
    /// Returns the routes in the kernel's two files. `read` returns the text of a file. One that cannot be read has no
    /// routes, as the one of IPv6 if the kernel is without it.
    pub(crate) fn load(read: impl Fn(&str) -> io::Result<String>) -> Self {
        let [v4, v6] = [V4_FILE, V6_FILE].map(|path| read(path).unwrap_or_default());
        Self(v4.lines().filter_map(Route::v4).chain(v6.lines().filter_map(Route::v6)).collect())
    }

    /// True if the route that the kernel takes to this address has no gateway.
    ///
    /// A default route has no neighbours: behind one without a gateway, as tunnels have it, is the whole Internet. An
    /// address of a multicast group is no host, and a link-local one is no host without its interface.
    pub(crate) fn are_on_link(&self, ip: IpAddr) -> bool {
        let has_no_host = match ip {
            IpAddr::V4(ip) => ip.is_multicast() || ip.is_broadcast() || ip.is_loopback(),
            IpAddr::V6(ip) => ip.is_multicast() || ip.is_unicast_link_local() || ip.is_loopback(),
        };
        let fitting = self.0.iter().filter(|route| route.network.contains(ip));
        let best = fitting.min_by_key(|route| (u8::MAX - route.network.prefix(), route.metric));
        !has_no_host && best.is_some_and(|route| route.is_direct)
    }
}

impl Route {
    fn new(network: Network, metric: u32, interface: &str, flags: u32) -> Self {
        let is_direct = flags & INDIRECT == 0 && interface != LOOPBACK && network.prefix() != 0;
        Self { network, metric, is_direct }
    }

    /// Reads a line of `/proc/net/route`. Its first line has names instead of numbers, and is no route.
    fn v4(line: &str) -> Option<Self> {
        let words: Vec<_> = line.split_whitespace().collect();
        let &[interface, destination, _, flags, _, _, metric, mask, ..] = words.as_slice() else {
            return None;
        };
        // The kernel prints the octets of an address as a number of this machine.
        let [destination, mask] = [hexadecimal(destination)?, hexadecimal(mask)?].map(u32::to_ne_bytes);
        let prefix = u32::from_be_bytes(mask).leading_ones();
        let network = Network::new(Ipv4Addr::from(destination).into(), u8::try_from(prefix).ok()?)?;
        Some(Self::new(network, metric.parse().ok()?, interface, hexadecimal(flags)?))
    }

    /// Reads a line of `/proc/net/ipv6_route`.
    fn v6(line: &str) -> Option<Self> {
        let words: Vec<_> = line.split_whitespace().collect();
        let &[destination, prefix, _, _, _, metric, _, _, flags, interface] = words.as_slice() else {
            return None;
        };
        let destination = u128::from_str_radix(destination, 16).ok()?;
        let prefix = u8::from_str_radix(prefix, 16).ok()?;
        let network = Network::new(Ipv6Addr::from(destination).into(), prefix)?;
        Some(Self::new(network, hexadecimal(metric)?, interface, hexadecimal(flags)?))
    }
}

/// Reads a file of routes.
///
/// # Errors
/// If it cannot be read, or is longer than [`LONGEST`]. A table of that length is a router's, and takes too long to
/// read again and again.
pub(crate) fn read(path: &str) -> io::Result<String> {
    let mut text = String::new();
    let len = File::open(path)?.take(LONGEST + 1).read_to_string(&mut text)?;
    match u64::try_from(len) {
        Ok(..=LONGEST) => Ok(text),
        _ => Err(io::Error::from(io::ErrorKind::FileTooLarge)),
    }
}

fn hexadecimal(text: &str) -> Option<u32> {
    u32::from_str_radix(text, 16).ok()
}

const V4_FILE: &str = "/proc/net/route";
const V6_FILE: &str = "/proc/net/ipv6_route";
const LOOPBACK: &str = "lo";
/// Octets of the longest file that is read: about 8,000 routes.
const LONGEST: u64 = 1 << 20;
/// The flags of routes that lead to a gateway, are refused, or lead to this host itself (linux/route.h,
/// linux/ipv6_route.h).
const INDIRECT: u32 = RTF_GATEWAY | RTF_REJECT | RTF_ANYCAST | RTF_LOCAL;
const RTF_GATEWAY: u32 = 0x2;
const RTF_REJECT: u32 = 0x200;
const RTF_ANYCAST: u32 = 0x0010_0000;
const RTF_LOCAL: u32 = 0x8000_0000;

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(v4: &'static str, v6: &'static str) -> Routes {
        Routes::load(|path| match path {
            V4_FILE => Ok(v4.to_owned()),
            V6_FILE => Ok(v6.to_owned()),
            _ => Err(io::ErrorKind::NotFound.into()),
        })
    }

    fn assert_on_link(routes: &Routes, cases: &[(&str, bool)]) {
        for &(address, is_on_link) in cases {
            let ip = address.parse().expect("an address");
            assert_eq!(routes.are_on_link(ip), is_on_link, "{address}");
        }
    }

    #[test]
    fn networks_without_a_gateway_are_on_link() {
        assert_on_link(
            &routes(V4, ""),
            &[
                ("192.0.2.1", true),
                ("192.0.2.254", true),
                ("192.0.3.1", false),
                ("8.8.8.8", false),
                ("10.1.2.3", true),
                ("10.9.0.1", false),
                ("10.9.9.9", true),
                ("10.9.8.1", false),
                ("172.16.0.9", true),
                ("172.16.0.8", false),
                ("127.0.0.1", false),
                ("10.7.0.1", false),
                ("224.0.0.1", false),
            ],
        );
    }

    #[test]
    fn networks_of_ipv6_are_on_link() {
        assert_on_link(
            &routes("", V6),
            &[
                ("fd00::1", true),
                ("fd00::ffff:0:0:0", true),
                ("fd00::2", false),
                ("fd00:0:0:1::1", false),
                ("2001:db8::1", false),
                ("::1", false),
                ("fe80::1", false),
                ("ff02::1", false),
            ],
        );
    }

    #[test]
    fn a_default_route_without_a_gateway_has_no_neighbours() {
        let v4 = "tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000000\t0\t0\t0";
        let v6 = "00000000000000000000000000000000 00 00000000000000000000000000000000 00 \
                  00000000000000000000000000000000 00000400 00000001 00000000 00000001     tun0";
        assert_on_link(&routes(v4, v6), &[("8.8.8.8", false), ("2001:db8::1", false)]);
    }

    #[test]
    fn of_equal_routes_the_lower_metric_counts() {
        let v4 = "eth0\t0000000A\t010200C0\t0003\t0\t0\t100\t000000FF\t0\t0\t0\n\
                  eth1\t0000000A\t00000000\t0001\t0\t0\t99\t000000FF\t0\t0\t0\n\
                  eth0\t0000000B\t010200C0\t0003\t0\t0\t100\t000000FF\t0\t0\t0\n\
                  eth1\t0000000B\t00000000\t0001\t0\t0\t101\t000000FF\t0\t0\t0\n";
        assert_on_link(&routes(v4, ""), &[("10.0.0.1", true), ("11.0.0.1", false)]);
    }

    #[test]
    fn lines_that_are_no_routes_are_left_out() {
        let v4 = "\n\u{fffd}\neth0\neth0\tx\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n\
                  eth0\t0000000A\t00000000\t0001\t0\t0\t-1\t000000FF\t0\t0\t0\n";
        let v6 =
            "fd 40\nfd000000000000000000000000000000 81 0 00 0 00000100 00000001 00000000 00000001 eth0\n";
        assert_eq!(routes(v4, v6), Routes::default());
        let absent = Routes::load(|_| Err(io::ErrorKind::NotFound.into()));
        assert_eq!(absent, Routes::default());
        assert_on_link(&absent, &[("10.0.0.1", false), ("fd00::1", false)]);
    }

    #[test]
    fn files_are_read_up_to_a_length() {
        let file = std::env::temp_dir().join(format!("weft-routes-{}", std::process::id()));
        let path = file.to_str().expect("a path");
        let most = usize::try_from(LONGEST).expect("a length");
        let lens = [0, most, most + 1].map(|len| {
            std::fs::write(&file, vec![b'\n'; len]).expect("a file");
            read(path).ok().map(|text| text.len())
        });
        std::fs::remove_file(&file).expect("the file");
        assert_eq!(lens, [Some(0), Some(most), None]);
    }

    #[test]
    fn the_kernels_own_files_are_understood() {
        let Ok(text) = read(V4_FILE) else { return };
        let lines = text.lines().skip(1).filter(|line| !line.trim().is_empty());
        assert!(lines.clone().all(|line| Route::v4(line).is_some()), "{text}");
        let text = read(V6_FILE).unwrap_or_default();
        assert!(text.lines().all(|line| Route::v6(line).is_some()), "{text}");
    }

    const V4: &str = "\
Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	010200C0	0003	0	0	0	00000000	0	0	0
eth0	000200C0	00000000	0001	0	0	0	00FFFFFF	0	0	0
eth1	0000000A	00000000	0001	0	0	100	000000FF	0	0	0
eth1	0000090A	0101010A	0003	0	0	100	0000FFFF	0	0	0
eth2	0009090A	00000000	0001	0	0	100	00FFFFFF	0	0	0
ppp0	090010AC	00000000	0005	0	0	0	FFFFFFFF	0	0	0
lo	0000007F	00000000	0001	0	0	0	000000FF	0	0	0
*	0000070A	00000000	0201	0	0	0	0000FFFF	0	0	0
";
    const V6: &str = "\
fd000000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0
fe800000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000002 00000000 00000001     eth0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 fd000000000000000000000000000001 00000400 00000002 00000000 00000003     eth0
00000000000000000000000000000001 80 00000000000000000000000000000000 00 00000000000000000000000000000000 00000000 00000002 00000000 80200001       lo
fd000000000000000000000000000002 80 00000000000000000000000000000000 00 00000000000000000000000000000000 00000000 00000003 00000000 80200001     eth0
ff000000000000000000000000000000 08 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000003 00000000 00000001     eth0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo
";
}
