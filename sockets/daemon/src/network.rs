//! A network: an address and a prefix.

use core::net::IpAddr;

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

impl core::str::FromStr for Network {
    type Err = String;

    /// Reads `ADDRESS/PREFIX`, or an address alone, which is a network of its own.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}`: a network is an address and a prefix, as in 10.0.0.0/8");
        let (ip, prefix) = text.split_once('/').map_or((text, None), |(ip, prefix)| (ip, Some(prefix)));
        let ip: IpAddr = ip.parse().map_err(|_| wrong())?;
        let longest = if ip.is_ipv4() { 32 } else { 128 };
        let is_number = |prefix: &&str| prefix.bytes().all(|octet| octet.is_ascii_digit());
        let parse = |prefix: &str| Some(prefix).filter(is_number)?.parse().ok();
        let prefix = prefix.map_or(Some(longest), parse).ok_or_else(wrong)?;
        Self::new(ip, prefix).ok_or_else(wrong)
    }
}
