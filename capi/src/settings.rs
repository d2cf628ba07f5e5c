//! The settings of the device, from the environment.
//!
//! | variable | meaning |
//! |---|---|
//! | `WEFT_TRANSPORT` | `host` (default), or a wire as `weft rping --netif` has it |
//! | `WEFT_PERSONALITY` | `iwarp` (default), or `roce`: what the device looks like |
//! | `WEFT_IP` | on a wire the own address, as `10.0.0.1/24`; on `host` the only address to use, else all |
//! | `WEFT_MTU` | on a wire: octets of the largest IP packet, 1500 by default |
//! | `WEFT_TIMEOUT` | seconds until a silent peer is given up, 60 by default; half of that if it owes an answer |
//! | `WEFT_RNR_WAIT` | `1`: a Send without a receive waits for it, as on InfiniBand; else it ends the connection, as on iWARP |
//! | `WEFT_MARKERS` | `1`: asks for Markers |
//! | `WEFT_CRC` | `0`: does not ask for CRCs |
//! | `WEFT_GUARD` | `0`: handles no SIGSEGV and no SIGBUS; memory that goes before it is deregistered ends the process |
//! | `WEFT_SYSFS` | a folder for the files that a kernel's device has below `/sys` ([`crate::sysfs`]) |
//! | `WEFT_STAT` | `1`: `weft stat` shows the process; other values name a folder for its socket |

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use weft_netif::{IpSetting, Spec};
use weft_rnic::Config;

use crate::personality::Personality;
use crate::raw::{Interface, interfaces};

/// The settings. They are read once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) personality: Personality,
    pub(crate) transport: Spec,
    pub(crate) network: Network,
    pub(crate) mtu: usize,
    pub(crate) timeout: Duration,
    pub(crate) rnr_wait: bool,
    pub(crate) markers: bool,
    pub(crate) crc: bool,
    pub(crate) guard: bool,
}

/// The network on which peers find the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// At one address of the host, or at all of them.
    Host(IpAddr),
    /// On a wire.
    Wire(IpSetting),
}

impl Network {
    pub(crate) const fn is_host(&self) -> bool {
        matches!(self, Self::Host(_))
    }

    /// Returns the addresses at which peers find the device.
    pub(crate) fn addresses(&self) -> Vec<Interface> {
        match self {
            Self::Host(address) => {
                let mut all = interfaces();
                all.retain(|it| address.is_unspecified() || it.address == *address);
                all
            }
            Self::Wire(ip) => vec![Interface { address: ip.address, index: 0 }],
        }
    }
}

impl Settings {
    /// Reads the settings; `variable` returns the value of a variable.
    ///
    /// # Errors
    /// One line that names the variable and its fault.
    pub(crate) fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let wrong = |name: &str, why: &dyn core::fmt::Display| format!("{name}: {why}");
        let transport = variable("WEFT_TRANSPORT").unwrap_or_else(|| "host".into());
        let transport: Spec = transport.parse().map_err(|why| wrong("WEFT_TRANSPORT", &why))?;
        let network = match (&transport, variable("WEFT_IP")) {
            (Spec::Host, None) => Network::Host(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
            (Spec::Host, Some(ip)) => Network::Host(ip.parse().map_err(|why| wrong("WEFT_IP", &why))?),
            (_, Some(ip)) => Network::Wire(ip.parse().map_err(|why| wrong("WEFT_IP", &why))?),
            (wire, None) => {
                return Err(format!("{wire} needs an own address, as in WEFT_IP=10.0.0.1/24"));
            }
        };
        let mtu = match variable("WEFT_MTU") {
            Some(mtu) => mtu.parse().map_err(|why| wrong("WEFT_MTU", &why))?,
            None => 1500,
        };
        let timeout = match variable("WEFT_TIMEOUT") {
            Some(seconds) => seconds_of(&seconds).map_err(|why| wrong("WEFT_TIMEOUT", &why))?,
            None => Config::PEER_TIMEOUT,
        };
        let is = |name, value: &str| variable(name).as_deref() == Some(value);
        let personality = Personality::read(variable("WEFT_PERSONALITY").as_deref())?;
        Ok(Self {
            personality,
            transport,
            network,
            mtu,
            timeout,
            // On InfiniBand a Send always waits for its receive.
            rnr_wait: personality == Personality::Roce || is("WEFT_RNR_WAIT", "1"),
            markers: is("WEFT_MARKERS", "1"),
            crc: !is("WEFT_CRC", "0"),
            guard: !is("WEFT_GUARD", "0"),
        })
    }
}

/// A time limit of 2 to 3600 seconds: each half of it is a timer, and the kernel's have at least 1 second.
fn seconds_of(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds @ 2..=3600) => Ok(Duration::from_secs(seconds)),
        _ => Err(format!("{text} is no number of seconds from 2 to 3600")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, String> {
        Settings::read(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into())
        })
    }

    #[test]
    fn without_settings_the_host_is_used_at_all_addresses() {
        let settings = read(&[]).unwrap();
        assert_eq!(settings.transport, Spec::Host);
        assert_eq!(settings.network, Network::Host("::".parse().unwrap()));
        assert_eq!(settings.personality, Personality::Iwarp);
        assert!(settings.crc && settings.guard && !settings.markers && !settings.rnr_wait);
        assert_eq!(settings.timeout, Duration::from_secs(60));
    }

    #[test]
    fn sends_of_the_second_personality_wait_for_receives() {
        let settings = read(&[("WEFT_PERSONALITY", "roce")]).unwrap();
        assert_eq!((settings.personality, settings.rnr_wait), (Personality::Roce, true));
    }

    #[test]
    fn a_wire_needs_an_address() {
        let complaint = read(&[("WEFT_TRANSPORT", "unix:/x")]).unwrap_err();
        assert!(complaint.contains("WEFT_IP=10.0.0.1/24"), "{complaint}");
        let wire = [("WEFT_TRANSPORT", "unix:/x"), ("WEFT_IP", "10.0.0.1/24"), ("WEFT_MTU", "9000")];
        let settings = read(&[&wire[..], &[("WEFT_TIMEOUT", "3")]].concat()).unwrap();
        assert_eq!(settings.timeout, Duration::from_secs(3));
        assert_eq!((settings.mtu, settings.network), (9000, Network::Wire("10.0.0.1/24".parse().unwrap())));
    }

    #[test]
    fn invalid_settings_are_named() {
        for (name, value) in [
            ("WEFT_TRANSPORT", "pigeon"),
            ("WEFT_IP", "x"),
            ("WEFT_MTU", "large"),
            ("WEFT_TIMEOUT", "0"),
            ("WEFT_TIMEOUT", "1"),
            ("WEFT_TIMEOUT", "3601"),
            ("WEFT_TIMEOUT", "soon"),
            ("WEFT_PERSONALITY", "ib"),
        ] {
            let complaint = read(&[(name, value)]).unwrap_err();
            assert!(complaint.starts_with(name), "{complaint}");
        }
    }
}
