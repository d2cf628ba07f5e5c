//! The IP address of a stack, its net and its routes.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use smoltcp::wire::{IpAddress, IpCidr};

/// The own IP address of a stack, the prefix length of its net, and the routes out of that net.
///
/// ```
/// use weft_netif::IpSetting;
/// let ip: IpSetting = "10.0.0.1/24,gw 10.0.0.254,route 192.168.0.0/16 via 10.0.0.9".parse()?;
/// assert_eq!((ip.prefix, ip.gateways.len(), ip.routes.len()), (24, 1, 1));
/// # Ok::<(), weft_netif::IpSettingError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpSetting {
    /// The own address; neither a group nor a special address.
    pub address: IpAddr,
    /// Bits of the own net, 1 to 32 or 128.
    pub prefix: u8,
    /// The default gateway; at most one.
    pub gateways: Vec<IpAddr>,
    /// Further routes, at most 7; the longest prefix wins.
    pub routes: Vec<Route>,
}

/// A net behind a router in the own net.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// First address of the net, its host bits zero.
    pub net: IpAddr,
    /// Bits of the net, 0 to 32 or 128.
    pub prefix: u8,
    /// The router.
    pub via: IpAddr,
}

/// An address setting that is wrong: which part of it, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpSettingError {
    part: String,
    reason: &'static str,
}

impl IpSetting {
    /// Returns an address with the prefix of its net, without gateway and routes.
    ///
    /// # Errors
    /// As [`IpSetting::validate`].
    pub fn new(address: IpAddr, prefix: u8) -> Result<Self, IpSettingError> {
        let setting = Self { address, prefix, gateways: Vec::new(), routes: Vec::new() };
        setting.validate().map(|()| setting)
    }

    /// Checks every field against the others, as parsing does. A caller that fills the fields by hand calls this.
    ///
    /// # Errors
    /// The first part that is wrong.
    pub fn validate(&self) -> Result<(), IpSettingError> {
        let width = if self.address.is_ipv4() { 32 } else { 128 };
        refuse_if(
            self.prefix == 0 || self.prefix > width,
            self,
            "the prefix is outside 1 to 32 (IPv6: 128)",
        )?;
        station(self.address)?;
        // With the two longest prefixes no address is that of the net itself (RFC 3021, RFC 6164).
        if width - self.prefix > 1 {
            let bits = host_bits(self.address, self.prefix);
            refuse_if(bits == 0, self, "that is the address of the net, not of a host in it")?;
            let all_ones = (1_u128 << (width - self.prefix)) - 1;
            refuse_if(
                self.address.is_ipv4() && bits == all_ones,
                self,
                "that is the broadcast address of the net",
            )?;
        }
        refuse_if(self.gateways.len() > 1, self, "there can be only one gateway")?;
        refuse_if(self.routes.len() > MAX_ROUTES, self, "there can be only 7 routes")?;
        for gateway in &self.gateways {
            self.validate_router(*gateway)?;
        }
        for route in &self.routes {
            let same_family = route.net.is_ipv4() == self.address.is_ipv4();
            refuse_if(!same_family, route, "the route is of another IP version than the address")?;
            refuse_if(route.prefix > width, route, "the prefix is outside 0 to 32 (IPv6: 128)")?;
            let bits = host_bits(route.net, route.prefix);
            refuse_if(bits != 0, route, "the net of a route must not have host bits")?;
            self.validate_router(route.via)?;
        }
        Ok(())
    }

    /// Returns true if `remote` is in the own net, or a route or gateway leads there.
    #[must_use]
    pub fn reaches(&self, remote: IpAddr) -> bool {
        self.route_to(remote).is_some()
    }

    /// Returns the length of the longest prefix that leads to `remote`: of the own net or of a route, 0 for a gateway.
    /// `None` if none does.
    #[must_use]
    pub fn route_to(&self, remote: IpAddr) -> Option<u8> {
        if remote.is_ipv4() != self.address.is_ipv4() {
            return None;
        }
        let routes = self.routes.iter().map(|route| (route.net, route.prefix));
        let nets = routes.chain([(self.address, self.prefix)]);
        let found =
            nets.filter(|&(net, prefix)| contains(net, prefix, remote)).map(|(_, prefix)| prefix).max();
        found.or_else(|| self.gateways.first().map(|_| 0))
    }

    /// Returns true if `remote` is in the own net.
    #[must_use]
    pub fn is_on_link(&self, remote: IpAddr) -> bool {
        remote.is_ipv4() == self.address.is_ipv4() && contains(self.address, self.prefix, remote)
    }

    /// Returns the station in the own net that gets a packet to `remote`: `remote` itself, or a router. `None` when no
    /// route leads there.
    #[must_use]
    pub fn next_hop(&self, remote: IpAddr) -> Option<IpAddr> {
        if self.is_on_link(remote) {
            return Some(remote);
        }
        let on_the_way = self.routes.iter().filter(|route| contains(route.net, route.prefix, remote));
        let route = on_the_way.max_by_key(|route| route.prefix).map(|route| route.via);
        route.or_else(|| self.gateways.first().copied())
    }

    fn validate_router(&self, router: IpAddr) -> Result<(), IpSettingError> {
        station(router)?;
        let same_family = router.is_ipv4() == self.address.is_ipv4();
        refuse_if(!same_family, &router, "the router is of another IP version than the address")?;
        refuse_if(router == self.address, &router, "the router is the own address")?;
        // A link-local address is on the link, whatever the prefix says.
        let link_local = matches!(router, IpAddr::V6(v6) if v6.is_unicast_link_local());
        refuse_if(!self.is_on_link(router) && !link_local, &router, "the router is outside the own net")
    }
}

impl FromStr for IpSetting {
    type Err = IpSettingError;

    fn from_str(text: &str) -> Result<Self, IpSettingError> {
        let mut parts = text.split(',').map(str::trim);
        let first = parts.next().unwrap_or_default();
        let (address, prefix) = parse_cidr(first)?;
        let mut setting = Self { address, prefix, gateways: Vec::new(), routes: Vec::new() };
        for part in parts {
            let words: Vec<&str> = part.split_whitespace().collect();
            match words[..] {
                ["gw", gateway] => setting.gateways.push(parse_address(gateway)?),
                ["route", net, "via", via] => {
                    let (net, prefix) = parse_cidr(net)?;
                    setting.routes.push(Route { net, prefix, via: parse_address(via)? });
                }
                _ => return refuse(&part, "expected `gw ADDR` or `route NET/PREFIX via ADDR` after a comma"),
            }
        }
        setting.validate().map(|()| setting)
    }
}

impl fmt::Display for IpSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)?;
        self.gateways.iter().try_for_each(|gateway| write!(f, ",gw {gateway}"))?;
        self.routes.iter().try_for_each(|route| write!(f, ",{route}"))
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "route {}/{} via {}", self.net, self.prefix, self.via)
    }
}

impl fmt::Display for IpSettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { part, reason } = self;
        write!(f, "address `{part}`: {reason} (as in 10.0.0.1/24,gw 10.0.0.254)")
    }
}

impl core::error::Error for IpSettingError {}

/// Returns an address and its net in smoltcp's type.
pub(crate) fn to_cidr(address: IpAddr, prefix: u8) -> IpCidr {
    IpCidr::new(IpAddress::from(address), prefix)
}

/// Returns true if `address` can be that of one other station on a wire.
pub(crate) fn is_station(address: IpAddr) -> bool {
    station(address).is_ok()
}

fn station(address: IpAddr) -> Result<(), IpSettingError> {
    let mapped = matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
    refuse_if(address.is_unspecified(), &address, "the unspecified address belongs to no host")?;
    refuse_if(address.is_multicast(), &address, "that is a multicast address")?;
    refuse_if(address == IpAddr::V4(Ipv4Addr::BROADCAST), &address, "that is the broadcast address")?;
    refuse_if(address.is_loopback(), &address, "a loopback address never goes over a wire")?;
    refuse_if(mapped, &address, "that is an IPv4 address written as IPv6")
}

fn parse_address(text: &str) -> Result<IpAddr, IpSettingError> {
    text.parse().or_else(|_| refuse(&text, "that is no IP address"))
}

fn parse_cidr(text: &str) -> Result<(IpAddr, u8), IpSettingError> {
    let Some((address, prefix)) = text.split_once('/') else {
        return refuse(&text, "the prefix length is missing");
    };
    let Ok(prefix) = prefix.parse() else {
        return refuse(&text, "the prefix length is no number of bits");
    };
    Ok((parse_address(address)?, prefix))
}

fn refuse<T>(part: &dyn fmt::Display, reason: &'static str) -> Result<T, IpSettingError> {
    Err(IpSettingError { part: part.to_string(), reason })
}

fn refuse_if(bad: bool, part: &dyn fmt::Display, reason: &'static str) -> Result<(), IpSettingError> {
    if bad { refuse(part, reason) } else { Ok(()) }
}

fn to_bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(v4) => (u128::from(Ipv4Addr::to_bits(v4)), 32),
        IpAddr::V6(v6) => (Ipv6Addr::to_bits(v6), 128),
    }
}

fn host_bits(address: IpAddr, prefix: u8) -> u128 {
    let (bits, width) = to_bits(address);
    let mask = 1_u128.checked_shl(width.saturating_sub(u32::from(prefix))).map_or(u128::MAX, |bit| bit - 1);
    bits & mask
}

fn contains(net: IpAddr, prefix: u8, address: IpAddr) -> bool {
    let (left, right) = (to_bits(net).0, to_bits(address).0);
    left - host_bits(net, prefix) == right - host_bits(address, prefix)
}

/// smoltcp's routing table holds one more, which the gateway takes.
const MAX_ROUTES: usize = 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_route_leads_to_the_next_hop() {
        let text =
            "10.0.0.1/24,gw 10.0.0.254,route 192.168.0.0/16 via 10.0.0.9,route 192.168.7.0/24 via 10.0.0.8";
        let ip: IpSetting = text.parse().unwrap();
        let hop = |remote: &str| ip.next_hop(remote.parse().unwrap()).map(|hop| hop.to_string());
        for (remote, expected) in [
            ("10.0.0.77", "10.0.0.77"),
            ("192.168.1.1", "10.0.0.9"),
            ("192.168.7.1", "10.0.0.8"),
            ("8.8.8.8", "10.0.0.254"),
        ] {
            assert_eq!(hop(remote).as_deref(), Some(expected));
        }
        let alone: IpSetting = "10.0.0.1/24".parse().unwrap();
        assert_eq!(alone.next_hop("8.8.8.8".parse().unwrap()), None);
    }

    #[test]
    fn good_settings_are_read_and_written_back() {
        let table = [
            "10.0.0.1/24",
            "10.0.0.0/31",
            "10.0.0.7/32",
            "10.0.0.1/24,gw 10.0.0.254",
            "10.0.0.1/24,gw 10.0.0.254,route 192.168.0.0/16 via 10.0.0.9",
            "10.0.0.1/24,route 0.0.0.0/0 via 10.0.0.9",
            "fd00::1/64",
            "fd00::1/64,gw fd00::fe",
            "fd00::1/64,gw fe80::1",
            "fd00::1/64,route fd01::/32 via fd00::9",
            "fe80::5/10",
            "fd00::/127",
        ];
        for text in table {
            let setting: IpSetting = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(setting.to_string(), text);
        }
        let spaced: IpSetting = " 10.0.0.1/24 , gw   10.0.0.254".parse().unwrap();
        assert_eq!(spaced.to_string(), "10.0.0.1/24,gw 10.0.0.254");
    }

    #[test]
    fn bad_settings_get_one_line_with_the_reason() {
        let many = format!("10.0.0.1/24{}", ",route 1.0.0.0/8 via 10.0.0.9".repeat(8));
        let table = [
            ("", "prefix length is missing"),
            ("10.0.0.1", "prefix length is missing"),
            ("10.0.0.1/", "no number"),
            ("10.0.0.1/x", "no number"),
            ("10.0.0.1/0", "outside 1 to 32"),
            ("10.0.0.1/33", "outside 1 to 32"),
            ("fd00::1/129", "outside 1 to 32"),
            ("10.0.0/24", "no IP address"),
            ("host/24", "no IP address"),
            ("10.0.0.0/24", "address of the net"),
            ("fd00::/64", "address of the net"),
            ("10.0.0.255/24", "broadcast"),
            ("255.255.255.255/32", "broadcast"),
            ("0.0.0.0/24", "unspecified"),
            ("::/64", "unspecified"),
            ("224.0.0.1/24", "multicast"),
            ("ff02::1/64", "multicast"),
            ("127.0.0.1/8", "loopback"),
            ("::1/128", "loopback"),
            ("::ffff:10.0.0.1/120", "IPv4 address written"),
            ("10.0.0.1/24,", "expected"),
            ("10.0.0.1/24,gw", "expected"),
            ("10.0.0.1/24,via 10.0.0.2", "expected"),
            ("10.0.0.1/24,gw x", "no IP address"),
            ("10.0.0.1/24,gw 10.0.1.1", "outside the own net"),
            ("10.0.0.1/24,gw 10.0.0.1", "own address"),
            ("10.0.0.1/24,gw fd00::1", "another IP version"),
            ("10.0.0.1/32,gw 10.0.0.2", "outside the own net"),
            ("10.0.0.1/24,gw 10.0.0.2,gw 10.0.0.3", "only one gateway"),
            ("10.0.0.1/24,route 192.168.0.1/16 via 10.0.0.2", "host bits"),
            ("10.0.0.1/24,route 192.168.0.0/16 via 10.9.0.2", "outside the own net"),
            ("10.0.0.1/24,route 192.168.0.0/40 via 10.0.0.2", "outside 0 to 32"),
            ("10.0.0.1/24,route fd00::/8 via 10.0.0.2", "another IP version"),
            ("10.0.0.1/24,route 192.168.0.0/16 10.0.0.2", "expected"),
            (many.as_str(), "only 7 routes"),
        ];
        for (text, reason) in table {
            let error = text.parse::<IpSetting>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text:?}: {error}");
            assert!(!error.contains('\n'));
        }
    }

    #[test]
    fn net_routes_and_gateway_decide_which_addresses_are_reached() {
        let lone: IpSetting = "10.0.0.1/24".parse().unwrap();
        let routed: IpSetting = "10.0.0.1/24,route 192.168.0.0/16 via 10.0.0.9".parse().unwrap();
        let open: IpSetting = "10.0.0.1/24,gw 10.0.0.9".parse().unwrap();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(lone.reaches(address("10.0.0.77")) && !lone.reaches(address("10.0.1.77")));
        assert!(routed.reaches(address("192.168.3.4")) && !routed.reaches(address("192.169.3.4")));
        assert!(open.reaches(address("8.8.8.8")) && !open.reaches(address("fd00::1")));
    }
}
