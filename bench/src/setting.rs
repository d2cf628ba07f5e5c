//! The settings that both sides of a comparison share.

use core::net::{IpAddr, Ipv4Addr};

use weft_netif::{Congestion, Duration, Impairment, ImpairmentConfig, IpSetting, StackConfig, Wire, pair};
use weft_rnic::{CLOCK_SCALE, Clock, Config, Progress};

/// The wire, its TCP, and the layers on it.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// Octets of the largest IP packet.
    pub(crate) mtu: usize,
    /// Octets of each TCP buffer.
    pub(crate) tcp_buffer: usize,
    /// TCP's congestion control.
    pub(crate) congestion: Congestion,
    /// How much faster than real time TCP's clock runs.
    pub(crate) clock_scale: u32,
    /// The part of all frames that is lost in each direction.
    pub(crate) loss: f64,
    /// Ours: CRC32c in each FPDU.
    pub(crate) crc: bool,
    /// Ours: Markers in both directions.
    pub(crate) markers: bool,
    /// The thread that drives our engines.
    pub(crate) progress: Progress,
}

impl Setting {
    /// Returns the defaults with this MTU.
    pub(crate) fn new(mtu: usize) -> Self {
        let stack = plain(0).stack;
        Self {
            mtu,
            tcp_buffer: stack.tcp_buffer,
            congestion: stack.congestion,
            clock_scale: CLOCK_SCALE,
            loss: 0.0,
            crc: true,
            markers: false,
            progress: Progress::Manual,
        }
    }

    /// Returns both ends of a wire in memory, which loses frames if the setting says so.
    pub(crate) fn wires(&self) -> [Wire; 2] {
        let (left, right) = pair(self.mtu);
        if self.loss == 0.0 {
            return [left, right];
        }
        let lossy = |wire: Wire, seed| {
            let config = ImpairmentConfig { seed, loss: self.loss, ..ImpairmentConfig::default() };
            wire.with_impairment(Impairment::new(config))
        };
        [lossy(left, 1), lossy(right, 2)]
    }

    /// Returns the clock of a TCP.
    pub(crate) fn clock(&self) -> Clock {
        Clock::real_time(self.clock_scale)
    }

    /// Returns the TCP/IP settings of the end number `side`, for ours and for smoltcp alone.
    pub(crate) fn stack(&self, side: usize) -> StackConfig {
        let plain = plain(side).stack;
        StackConfig {
            mtu: self.mtu,
            tcp_buffer: self.tcp_buffer,
            congestion: self.congestion,
            timeout: plain.timeout.map(|span| self.scaled(span)),
            // The shortest retransmission timeout shrinks as the factor grows, and this delay has to stay below it.
            ack_delay: plain.ack_delay,
            half_open_timeout: self.scaled(plain.half_open_timeout),
            linger_timeout: self.scaled(plain.linger_timeout),
            ..plain
        }
    }

    /// Returns the device settings of the end number `side` on such a wire.
    pub(crate) fn device(&self, side: usize) -> Config {
        let mut config = plain(side);
        config.startup_timeout = self.scaled(config.startup_timeout);
        config.answer_timeout = self.scaled(config.answer_timeout);
        config.close_timeout = self.scaled(config.close_timeout);
        config.stack = self.stack(side);
        config.clock = self.clock();
        config.progress = self.progress;
        config.mpa.crc = self.crc;
        config.mpa.markers = self.markers;
        config
    }

    /// Returns the same real time as at the default factor.
    fn scaled(&self, span: Duration) -> Duration {
        Duration::from_micros(span.total_micros() * u64::from(self.clock_scale) / u64::from(CLOCK_SCALE))
    }
}

/// Returns the default settings of a device.
fn plain(side: usize) -> Config {
    let address = IpAddr::V4(Ipv4Addr::new(10, 0, 0, if side == 0 { 1 } else { 2 }));
    let ip = IpSetting { address, prefix: 24, gateways: Vec::new(), routes: Vec::new() };
    Config::new(ip, side as u64 + 1)
}
