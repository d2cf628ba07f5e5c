//! The settings of connections.

use crate::{Micros, ReceiveConfig, SendConfig};

/// The settings that connections of a stack have in common. A caller starts from [`Config::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The most octets of a segment's options and payload, by the MTU: SendMSS (RFC 9293 section 3.7.1) and what the
    /// option MSS tells the peer (RFC 6691).
    pub mss: u16,
    /// The MSS of a peer that sends no such option: 536 (IPv6: 1220, MUST-15).
    pub default_mss: u16,
    /// Whether timestamps are asked for and granted (RFC 7323).
    pub timestamps: bool,
    /// Whether windows of more than 64 KiB are asked for and granted (RFC 7323).
    pub window_scaling: bool,
    /// Whether SACK is asked for and granted (RFC 2018).
    pub sack: bool,
    /// Whether ECN is asked for. It is granted in any case (RFC 3168).
    pub ecn: bool,
    /// How long the peer may leave a SYN, data or a probe unanswered before the connection is given up: R2 and the user
    /// timeout (RFC 9293 section 3.8.3). 30 s.
    pub timeout: Option<Micros>,
    /// The silence after which an idle peer is probed (RFC 9293 section 3.8.4). It is given up if it leaves probes
    /// unanswered for `timeout`.
    pub keep_alive: Option<Micros>,
    /// Settings of the receiver.
    pub receive: ReceiveConfig,
    /// Settings of the sender.
    pub send: SendConfig,
}

impl Config {
    /// Returns the settings for a path with this IP MTU, with everything that is optional but ECN.
    pub fn new(mtu: u16, is_v6: bool) -> Self {
        let (headers, default_mss) = if is_v6 { (60, 1220) } else { (40, 536) };
        Self {
            mss: mtu.saturating_sub(headers).max(Self::MIN_MSS),
            default_mss,
            timestamps: true,
            window_scaling: true,
            sack: true,
            ecn: false,
            timeout: Some(Micros::from_secs(30)),
            keep_alive: None,
            receive: ReceiveConfig::default(),
            send: SendConfig::default(),
        }
    }

    /// The lowest MSS that is believed. With less, options would leave no room for data.
    pub const MIN_MSS: u16 = 48;
}
