//! Two contexts in one process, and octets that tell where they belong.

use std::net::SocketAddr;
use std::time::Duration;

use weft_exs::{Context, Kind, Options, Socket};
use weft_rnic::{Config, Ground};

pub(crate) const LOCAL: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// Two contexts, each on a device of its own.
pub(crate) struct World {
    pub(crate) client: Context,
    pub(crate) server: Context,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { client: context(1), server: context(2) }
    }

    /// Connects a pair of sockets, the client's first.
    pub(crate) fn connect<K: Kind>(&self, ours: &Options, theirs: &Options) -> (Socket<K>, Socket<K>) {
        let listener = self.server.listen::<K>(SocketAddr::new(LOCAL, 0), theirs).unwrap();
        let accepting = listener.accept();
        let connecting = self.client.connect::<K>(listener.local_addr(), ours);
        let client = connecting.wait_timeout(PATIENCE).unwrap().unwrap();
        (client, accepting.wait_timeout(PATIENCE).unwrap().unwrap())
    }
}

pub(crate) fn context(seed: u64) -> Context {
    Context::open(Ground::Host, Config::host(LOCAL, seed)).unwrap()
}

/// Returns the octets of a message: no two of the same length in different messages are alike.
pub(crate) fn octets(number: usize, len: usize) -> Vec<u8> {
    let mut state = (number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    (0..len).map(next).collect()
}

/// Longer than anything takes here, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
