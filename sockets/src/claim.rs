//! What the daemon reads from the socket of a claim.

use core::net::{IpAddr, SocketAddr};

use crate::digest::Digests;

/// A connection as one of its ends has it. The daemon reads it from the kernel's socket, which the claiming process has
/// sent: possession of the descriptor is the proof. Only the digests are the process's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The addresses.
    pub tuple: Tuple,
    /// The factors of the windows of this end and of its peer, as logarithms.
    pub window_scales: (u8, u8),
    /// The options that both ends agreed on, as bits.
    pub options: u8,
    /// Octets that were written to this end, or a few more.
    pub written: u64,
    /// Octets that were taken from this end, or a few less.
    pub consumed: u64,
    /// Digests of the first octets of both directions.
    pub digests: Digests,
    /// The claim is the word of another host's daemon. Nobody knows when the socket was read.
    pub is_far: bool,
}

/// The addresses of a connection in its network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// The cookie of the network namespace.
    pub namespace: u64,
    /// The address of this end.
    pub local: SocketAddr,
    /// The address of the other end.
    pub peer: SocketAddr,
}

impl Tuple {
    /// Returns the tuple with IPv4 addresses for those that IPv6 maps.
    #[must_use]
    pub fn new(namespace: u64, local: SocketAddr, peer: SocketAddr) -> Self {
        Self { namespace, local: plain(local), peer: plain(peer) }
    }

    /// Returns the tuple of the other end.
    #[must_use]
    pub const fn mirrored(self) -> Self {
        Self { namespace: self.namespace, local: self.peer, peer: self.local }
    }
}

impl Claim {
    /// True if `later`, whose socket was read after this one's, can be the other end of the connection.
    ///
    /// Both ends go on while the claims travel, so that only the octets that the earlier one had taken are compared. Of a
    /// claim from another host it is not known which one is the earlier.
    #[must_use]
    pub fn fits(&self, later: &Self) -> bool {
        self.tuple == later.tuple.mirrored()
            && self.window_scales == (later.window_scales.1, later.window_scales.0)
            && self.options == later.options
            && (self.consumed <= later.written
                || (self.is_far || later.is_far) && later.consumed <= self.written)
            && self.digests.agree(&later.digests.mirrored()) != Some(false)
    }
}

fn plain(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(_) => address,
        // Both ends may know the connection by different scopes and flow labels.
        IpAddr::V6(ip) => SocketAddr::new(ip.to_canonical(), address.port()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::digest::Prefixes;

    pub(crate) fn claim(local: &str, peer: &str) -> Claim {
        let (local, peer) = (local.parse().expect("an address"), peer.parse().expect("an address"));
        let tuple = Tuple::new(1, local, peer);
        let digests = Digests::default();
        Claim {
            tuple,
            window_scales: (7, 7),
            options: 7,
            written: 100,
            consumed: 100,
            digests,
            is_far: false,
        }
    }

    #[test]
    fn both_ends_of_a_connection_fit() {
        let first = claim("10.0.0.1:80", "10.0.0.2:5000");
        let later = claim("10.0.0.2:5000", "[::ffff:10.0.0.1]:80");
        assert!(first.fits(&later) && later.fits(&first));
        assert!(!first.fits(&first));
        assert!(!first.fits(&Claim { tuple: Tuple { namespace: 2, ..later.tuple }, ..later }));
    }

    #[test]
    fn claims_of_two_hosts_fit_in_either_order() {
        let first = Claim { written: 300, consumed: 200, ..claim("10.0.0.1:80", "10.0.0.2:5000") };
        let later = Claim { written: 150, consumed: 100, ..claim("10.0.0.2:5000", "10.0.0.1:80") };
        assert!(!first.fits(&later), "it has taken what the other one had not written");
        for (first_far, later_far) in [(false, true), (true, false)] {
            let (first, later) = (Claim { is_far: first_far, ..first }, Claim { is_far: later_far, ..later });
            assert!(first.fits(&later) && later.fits(&first));
            assert!(!first.fits(&Claim { consumed: 301, ..later }), "each has taken what was never written");
        }
    }

    #[test]
    fn what_a_proxy_joins_does_not_fit() {
        let first = Claim { window_scales: (7, 9), ..claim("10.0.0.1:80", "10.0.0.2:5000") };
        let later = Claim { window_scales: (9, 7), ..claim("10.0.0.2:5000", "10.0.0.1:80") };
        assert!(first.fits(&later));
        assert!(!first.fits(&Claim { window_scales: (7, 9), ..later }));
        assert!(!first.fits(&Claim { options: 6, ..later }));
    }

    #[test]
    fn other_octets_are_another_connection() {
        let digests =
            |written, received| Digests { written: Prefixes::of(written), received: Prefixes::of(received) };
        let first = Claim { digests: digests(&[1; 64], &[2; 15]), ..claim("10.0.0.1:80", "10.0.0.2:5000") };
        let later = claim("10.0.0.2:5000", "10.0.0.1:80");
        assert!(first.fits(&later), "a program whose first octets were not seen");
        assert!(first.fits(&Claim { digests: digests(&[2; 300], &[1; 20]), ..later }));
        assert!(!first.fits(&Claim { digests: digests(&[2; 300], &[3; 20]), ..later }));
        assert!(
            first.fits(&Claim { digests: digests(&[3; 300], &[1; 64]), ..later }),
            "too few for a digest"
        );
    }

    #[test]
    fn nothing_was_taken_that_was_not_written() {
        let first = claim("10.0.0.1:80", "10.0.0.2:5000");
        let later = claim("10.0.0.2:5000", "10.0.0.1:80");
        assert!(!first.fits(&Claim { written: 99, ..later }));
        assert!(first.fits(&Claim { consumed: 5000, ..later }), "the first end has written more since");
    }
}
