//! The networks to whose hosts a daemon may have lanes.

use core::net::IpAddr;
use core::time::Duration;
use std::io;

use crate::network::Network;
use crate::routes::Routes;

/// The remote addresses that may have a lane.
///
/// ```
/// use weft_daemon::Networks;
/// assert!("10.0.0.0/8,fd00::/8".parse::<Networks>().is_ok() && "none".parse::<Networks>().is_ok());
/// assert!("10.0.0.0/33".parse::<Networks>().is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Networks {
    /// Those that the kernel reaches without a gateway.
    #[default]
    OnLink,
    /// Those of these networks. Without a network there are no lanes.
    Listed(Vec<Network>),
}

impl core::str::FromStr for Networks {
    type Err = String;

    /// Reads `on-link`, `none`, or networks with commas between them.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "on-link" => return Ok(Self::OnLink),
            "none" => return Ok(Self::Listed(Vec::new())),
            _ => {}
        }
        let networks: Result<_, String> = text.split(',').map(str::parse).collect();
        networks.map(Self::Listed).map_err(|error| format!("{error}, or `on-link` or `none` alone"))
    }
}

impl core::fmt::Display for Networks {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::OnLink => f.write_str("on-link"),
            Self::Listed(networks) if networks.is_empty() => f.write_str("none"),
            Self::Listed(networks) => {
                let texts: Vec<String> = networks.iter().map(ToString::to_string).collect();
                f.write_str(&texts.join(","))
            }
        }
    }
}

impl Networks {
    /// True if there are no lanes.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        matches!(self, Self::Listed(networks) if networks.is_empty())
    }
}

/// Answers which remote addresses may have a lane, now. Time is an argument.
#[derive(Debug)]
pub(crate) struct Neighbours {
    networks: Networks,
    routes: Routes,
    /// When the routes were read.
    read: Option<Duration>,
}

impl Neighbours {
    /// Returns the hosts of these networks. Reads nothing yet.
    pub(crate) fn new(networks: Networks) -> Self {
        Self { networks, routes: Routes::default(), read: None }
    }

    /// True if the address may have a lane. Reads the kernel's routes if they are needed and older than
    /// [`ROUTES_LIFE`]. `read` reads a file, as [`routes::read`](crate::routes::read) does.
    pub(crate) fn have(
        &mut self,
        ip: IpAddr,
        now: Duration,
        read: impl Fn(&str) -> io::Result<String>,
    ) -> bool {
        let ip = ip.to_canonical();
        if let Networks::Listed(networks) = &self.networks {
            return networks.iter().any(|network| network.contains(ip));
        }
        if self.read.is_none_or(|read| now >= read + ROUTES_LIFE) {
            self.routes = Routes::load(read);
            self.read = Some(now);
        }
        self.routes.are_on_link(ip)
    }
}

/// How long routes are believed that were read.
const ROUTES_LIFE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;

    fn neighbours(networks: &str) -> Neighbours {
        Neighbours::new(networks.parse().expect("networks"))
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn listed_networks_need_no_routes() {
        let never = |path: &str| panic!("{path} was read");
        let mut neighbours = neighbours("10.0.0.0/8,192.168.1.7,fd00::/8");
        for (address, is_there) in [
            ("10.255.0.1", true),
            ("::ffff:10.0.0.1", true),
            ("192.168.1.7", true),
            ("fdff::1", true),
            ("11.0.0.1", false),
            ("192.168.1.8", false),
            ("fe80::1", false),
        ] {
            assert_eq!(neighbours.have(ip(address), Duration::ZERO, never), is_there, "{address}");
        }
    }

    #[test]
    fn networks_are_read_back() {
        for text in ["on-link", "none", "10.0.0.0/8", "10.0.0.0/8,fd00::/8,192.168.1.7/32"] {
            let networks: Networks = text.parse().expect("networks");
            assert_eq!((networks.to_string().as_str(), networks.is_none()), (text, text == "none"));
        }
        assert_eq!("on-link".parse(), Ok(Networks::default()));
    }

    #[test]
    fn none_switches_lanes_off() {
        let mut nobody = neighbours("none");
        assert!(!nobody.have(ip("10.0.0.1"), Duration::ZERO, |_| Ok(ROUTE.into())));
    }

    #[test]
    fn wrong_networks_are_told_in_a_line() {
        for text in [
            "",
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0.0/8,",
            "none,10.0.0.0/8",
            "on-link,::/0",
            "eth0",
        ] {
            let error = text.parse::<Networks>().expect_err(text);
            assert!(error.contains("10.0.0.0/8") && error.contains("`none`"), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn routes_are_read_again_after_ten_seconds() {
        let reads = Cell::new(0);
        let text = Cell::new(ROUTE);
        let read = |path: &str| {
            reads.set(reads.get() + 1);
            Ok(if path.ends_with("/route") { text.get().to_owned() } else { String::new() })
        };
        let mut neighbours = Neighbours::new(Networks::default());
        assert_eq!(reads.get(), 0, "nothing is read before the first question");
        assert!(neighbours.have(ip("10.0.0.1"), Duration::from_secs(3), read));
        text.set("");
        assert!(neighbours.have(ip("::ffff:10.0.0.1"), Duration::from_millis(12_999), read));
        assert_eq!(reads.get(), 2, "each of the two files once");
        assert!(!neighbours.have(ip("10.0.0.1"), Duration::from_secs(13), read));
        text.set(ROUTE);
        assert!(!neighbours.have(ip("10.0.0.1"), Duration::from_secs(22), read));
        assert!(neighbours.have(ip("10.0.0.1"), Duration::from_secs(23), read));
        assert_eq!(reads.get(), 6);
    }

    const ROUTE: &str = "eth0\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n";
}
