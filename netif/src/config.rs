//! The settings of a stack.

use core::net::IpAddr;
use std::sync::OnceLock;

use smoltcp::time::Duration;

use crate::error::ConfigError;
use crate::ethernet::{MAX_MTU, MIN_MTU};
use crate::ip::IpSetting;

/// The settings of a [`Stack`](crate::Stack). A caller starts from [`StackConfig::new`] and changes what differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackConfig {
    /// The own address, its net, gateway and routes.
    pub ip: IpSetting,
    /// The own Ethernet address; neither a group nor zero.
    pub mac: [u8; 6],
    /// The IP MTU, 576 (IPv6: 1280) to 65535. The stack uses the wire's if that is smaller.
    pub mtu: usize,
    /// The seed of initial sequence numbers and ephemeral ports: the same seed gives the same run.
    pub seed: u64,
    /// Octets of each connection's send buffer, and of its receive buffer. A send buffer of four segments or more is
    /// rounded down to whole segments. A receive buffer of more than 64 KiB is rounded up to a power of two, less one
    /// octet.
    pub tcp_buffer: usize,
    /// Whose TCP carries the connections on a wire.
    pub tcp: Tcp,
    /// How many times `tcp_buffer` both buffers of a connection may grow on a path that needs it: a long one, or a fast
    /// one. Only Weft's own TCP grows them, and not on [`pair`](crate::pair).
    pub tcp_growth: usize,
    /// TCP's congestion control.
    pub congestion: Congestion,
    /// The congestion control of the kernel's sockets ([`HostStack`](crate::HostStack)), as tcp(7) names it for
    /// TCP_CONGESTION, such as `cubic` or `bbr`. `None` takes the system's.
    pub kernel_congestion: Option<String>,
    /// How long the peer may leave data or a probe unanswered before the connection is given up.
    pub timeout: Option<Duration>,
    /// The silence after which an idle peer is probed. It is given up if it leaves the first probe unanswered for
    /// `timeout`. Without a timeout it is never given up.
    pub keep_alive: Option<Duration>,
    /// How long an acknowledgement may wait for data or another acknowledgement to go with.
    pub ack_delay: Option<Duration>,
    /// The most connections of one listening port that are half-open or not yet taken. Further SYNs are dropped.
    pub backlog: usize,
    /// How long a half-open connection is kept.
    pub half_open_timeout: Duration,
    /// The most removed connections that are still closing. One more drops the oldest.
    pub lingering: usize,
    /// How long a removed connection may take to close, before it is reset.
    pub linger_timeout: Duration,
    /// Frames taken by one call of [`Stack::ingress`](crate::Stack::ingress).
    pub ingress_burst: usize,
    /// Frames sent for one connection by one call of [`Stack::egress`](crate::Stack::egress) while others wait.
    pub egress_burst: usize,
}

/// Whose TCP carries the connections on a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tcp {
    /// smoltcp's.
    Smoltcp,
    /// Weft's own (`weft-tcp`), with SACK, RACK-TLP and PRR.
    Own,
}

impl Default for Tcp {
    /// Returns smoltcp's, or Weft's own if the environment has `WEFT_TCP=own`. So all tests can be run with either.
    fn default() -> Self {
        static CHOSEN: OnceLock<Tcp> = OnceLock::new();
        *CHOSEN.get_or_init(|| {
            let is_own = std::env::var_os("WEFT_TCP").is_some_and(|name| name == "own");
            if is_own { Self::Own } else { Self::Smoltcp }
        })
    }
}

/// TCP's congestion control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Congestion {
    /// CUBIC (RFC 9438), as on any shared network.
    #[default]
    Cubic,
    /// No congestion control: for a private wire, such as memory, where a lost frame is a fault and no sign of
    /// congestion.
    None,
}

impl StackConfig {
    /// Returns the defaults: MTU 1500, seed 0, buffers of 256 KiB, timeout 30 s, no keep-alive, acknowledgements
    /// delayed by 10 ms, backlog 128, and a locally administered MAC address made from the IP address.
    #[must_use]
    pub fn new(ip: IpSetting) -> Self {
        Self {
            mac: mac_of(ip.address),
            ip,
            mtu: 1500,
            seed: 0,
            tcp_buffer: 256 * 1024,
            tcp: Tcp::default(),
            tcp_growth: 16,
            congestion: Congestion::Cubic,
            kernel_congestion: None,
            timeout: Some(Duration::from_secs(30)),
            keep_alive: None,
            ack_delay: Some(Duration::from_millis(10)),
            backlog: 128,
            half_open_timeout: Duration::from_secs(15),
            lingering: 256,
            linger_timeout: Duration::from_secs(60),
            ingress_burst: 64,
            egress_burst: 16,
        }
    }

    /// Returns the defaults for the sockets of the kernel ([`HostStack`](crate::HostStack)): as [`StackConfig::new`],
    /// and probes after 30 s of silence. An unspecified `address` means all of the host's.
    #[must_use]
    pub fn host(address: IpAddr) -> Self {
        let prefix = if address.is_ipv4() { 32 } else { 128 };
        let ip = IpSetting { address, prefix, gateways: Vec::new(), routes: Vec::new() };
        Self { keep_alive: Some(Duration::from_secs(30)), ..Self::new(ip) }
    }

    /// Returns how many frames one call of [`Stack::egress`](crate::Stack::egress) may send while only one connection
    /// has something to send. A peer with the same settings takes as many by one call, and fewer calls cost less.
    #[must_use]
    pub const fn lone_burst(&self) -> usize {
        if self.egress_burst > self.ingress_burst { self.egress_burst } else { self.ingress_burst }
    }

    /// Checks the fields that [`HostStack`](crate::HostStack) uses.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn validate_host(&self) -> Result<(), ConfigError> {
        if !(1 << 10..=1 << 30).contains(&self.tcp_buffer) {
            return Err(ConfigError::TcpBuffer(self.tcp_buffer));
        }
        if self.backlog == 0 { Err(ConfigError::ZeroLimit) } else { Ok(()) }
    }

    /// Checks all fields. [`Stack::new`](crate::Stack::new) panics on a setting that this refuses.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.ip.validate().map_err(ConfigError::Ip)?;
        if !(min_mtu(self.ip.address)..=MAX_MTU).contains(&self.mtu) {
            return Err(ConfigError::Mtu(self.mtu));
        }
        if self.mac[0] & 1 != 0 || self.mac == [0; 6] {
            return Err(ConfigError::Mac(self.mac));
        }
        if !(1 << 10..=1 << 30).contains(&self.tcp_buffer) {
            return Err(ConfigError::TcpBuffer(self.tcp_buffer));
        }
        if [self.backlog, self.ingress_burst, self.egress_burst].contains(&0) {
            return Err(ConfigError::ZeroLimit);
        }
        Ok(())
    }
}

/// Returns the smallest MTU of IP (RFC 791, RFC 8200 section 5).
pub(crate) const fn min_mtu(address: IpAddr) -> usize {
    if address.is_ipv4() { MIN_MTU } else { 1280 }
}

fn mac_of(address: IpAddr) -> [u8; 6] {
    // The bit of 0x02 marks an address that no registry has given out.
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            [0x02, 0x57, a, b, c, d]
        }
        IpAddr::V6(v6) => {
            let [.., a, b, c, d] = v6.octets();
            [0x02, 0x58, a, b, c, d]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid_and_each_bad_field_is_named() {
        let good = StackConfig::new("10.0.0.1/24".parse().unwrap());
        assert_eq!(good.validate(), Ok(()));
        let cases = [
            (StackConfig { mtu: 575, ..good.clone() }, ConfigError::Mtu(575)),
            (StackConfig { mtu: 65_536, ..good.clone() }, ConfigError::Mtu(65_536)),
            (StackConfig { mac: [1, 0, 0, 0, 0, 0], ..good.clone() }, ConfigError::Mac([1, 0, 0, 0, 0, 0])),
            (StackConfig { mac: [0; 6], ..good.clone() }, ConfigError::Mac([0; 6])),
            (StackConfig { tcp_buffer: 1, ..good.clone() }, ConfigError::TcpBuffer(1)),
            (StackConfig { backlog: 0, ..good.clone() }, ConfigError::ZeroLimit),
        ];
        for (config, error) in cases {
            assert_eq!(config.validate(), Err(error));
        }
        let ip = IpSetting { prefix: 77, ..good.ip };
        assert!(matches!(StackConfig::new(ip).validate(), Err(ConfigError::Ip(_))));
        let v6 = StackConfig { mtu: 1279, ..StackConfig::new("fd00::1/64".parse().unwrap()) };
        assert_eq!(v6.validate(), Err(ConfigError::Mtu(1279)));
    }
}
