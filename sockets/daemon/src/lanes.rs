//! How a daemon reaches the daemons of other hosts.

use weft_netif::Spec;

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
    /// The device of the RNIC.
    pub netif: Spec,
}

impl Lanes {
    /// The port unless another one is set.
    pub const PORT: u16 = 7176;
}

impl Default for Lanes {
    fn default() -> Self {
        Self { networks: Networks::default(), key: None, port: Self::PORT, netif: Spec::Host }
    }
}
