//! A network: an address and a prefix.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    ip: IpAddr,
    prefix: u8,
}

impl Network {
    /// Returns the network of this address and prefix, or `None` if the address is shorter than the prefix.
    pub(crate) const fn new(ip: IpAddr, prefix: u8) -> Option<Self> {
        let longest = if ip.is_ipv4() { 32 } else { 128 };
        if prefix <= longest { Some(Self { ip, prefix }) } else { None }
    }

    /// Returns the number of bits with which all of its addresses begin.
    pub(crate) const fn prefix(self) -> u8 {
        self.prefix
    }

    /// Returns the first of its addresses.
    fn begin(self) -> IpAddr {
        match self.ip {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
                Ipv4Addr::from_bits(ip.to_bits() & mask).into()
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
                Ipv6Addr::from_bits(ip.to_bits() & mask).into()
            }
        }
    }

    /// True if the address is of this network.
    pub(crate) fn contains(self, ip: IpAddr) -> bool {
        let (own, other, len) = match (self.ip, ip) {
            (IpAddr::V4(own), IpAddr::V4(other)) => (own.to_bits().into(), other.to_bits().into(), 32),
            (IpAddr::V6(own), IpAddr::V6(other)) => (own.to_bits(), other.to_bits(), 128),
            _ => return false,
        };
        let rest = len - u32::from(self.prefix);
        let cut = |bits: u128| bits.checked_shr(rest).unwrap_or(0);
        cut(own) == cut(other)
    }
}

impl core::fmt::Display for Network {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}/{}", self.ip, self.prefix)
    }
}

impl core::str::FromStr for Network {
    type Err = String;

    /// Reads `ADDRESS/PREFIX`, or an address alone, which is a network of its own. The address is the network's first: of
    /// one in its middle it is not clear whether the host or the network was meant.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}`: a network is an address and a prefix, as in 10.0.0.0/8");
        let (ip, prefix) = text.split_once('/').map_or((text, None), |(ip, prefix)| (ip, Some(prefix)));
        let ip: IpAddr = ip.parse().map_err(|_| wrong())?;
        let longest = if ip.is_ipv4() { 32 } else { 128 };
        let is_number = |prefix: &&str| prefix.bytes().all(|octet| octet.is_ascii_digit());
        let parse = |prefix: &str| Some(prefix).filter(is_number)?.parse().ok();
        let prefix = prefix.map_or(Some(longest), parse).ok_or_else(wrong)?;
        let network = Self::new(ip, prefix).ok_or_else(wrong)?;
        let begin = network.begin();
        if begin != ip {
            return Err(format!(
                "`{text}`: the address has bits behind the prefix: {begin}/{prefix} is the network"
            ));
        }
        Ok(network)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_bits_behind_the_prefix_is_no_network() {
        for (text, network) in [
            ("10.0.0.1/8", "10.0.0.0/8"),
            ("192.168.1.129/25", "192.168.1.128/25"),
            ("1.2.3.4/0", "0.0.0.0/0"),
            ("fd00::1/8", "fd00::/8"),
            ("::1/0", "::/0"),
        ] {
            let error = text.parse::<Network>().expect_err(text);
            assert!(
                error.contains(&format!("`{text}`")) && error.ends_with(&format!("{network} is the network"))
            );
            network.parse::<Network>().expect("a network");
        }
        for text in ["10.0.0.1", "10.0.0.1/32", "0.0.0.0/0", "::/0", "fd00::1/128", "fd00::1"] {
            text.parse::<Network>().expect(text);
        }
    }
}
