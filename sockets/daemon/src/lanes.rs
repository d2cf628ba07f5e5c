//! How a daemon reaches the daemons of other hosts.

use weft_netif::{IpSetting, Spec};

use crate::key::Key;
use crate::networks::Networks;

/// The settings of lanes, the connections between the daemons of two hosts.
#[derive(Clone, Debug)]
pub struct Lanes {
    /// The remote addresses that may have a lane.
    pub networks: Networks,
    /// What both daemons have to prove that they have it. Without a key nothing is proved.
    pub key: Option<Key>,
    /// The port where a daemon waits for others, and looks for them.
    pub port: u16,
    /// The daemon's own wire. Lanes to daemons that have one, too, go there. The others go by the host's TCP.
    pub wire: Option<Wire>,
}

/// A device with a TCP/IP of the daemon's own.
#[derive(Clone, Debug)]
pub struct Wire {
    /// The device.
    pub spec: Spec,
    /// The address of the daemon on it, which no other station there has.
    pub ip: IpSetting,
    /// Octets of the largest IP packet.
    pub mtu: usize,
}

impl Lanes {
    /// The port unless another one is set.
    pub const PORT: u16 = 7176;
}

impl Default for Lanes {
    fn default() -> Self {
        Self { networks: Networks::default(), key: None, port: Self::PORT, wire: None }
    }
}
