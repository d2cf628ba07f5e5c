//! The key that daemons of several hosts have in common, and how each proves to the other that it has it.
//!
//! A proof is HMAC-SHA256 (RFC 2104) over what one lane has alone: the kind of the lane, a nonce of each daemon, and
//! the addresses of its TCP connection. It also covers the role, so that no daemon can send the other's proof back.
//!
//! The addresses keep a third host out. Without them that host could pass each nonce on to a daemon that has the key,
//! and pass its proof back. NAT changes addresses, so that no proof holds across it. Nothing is lost by that: daemons
//! that know the hosts by different addresses have no lane, with a key or without one.
//!
//! A proof says that the other daemon had the key when the lane was opened. It protects nothing that follows. A host
//! that can change the packets of the lane can change its octets as well, as with TCP.

use core::net::IpAddr;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use hmac::{Hmac, KeyInit, Mac};
use rustix::fs::{Mode, OFlags, open};
use sha2::Sha256;
use weft_sockets::{LaneKind, NONCE_LEN, PROOF_LEN};

/// A key, of which nothing is ever printed.
#[derive(Clone)]
pub struct Key(Hmac<Sha256>);

/// What both daemons know of a lane when they prove their keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    /// What the lane is for.
    pub(crate) kind: LaneKind,
    /// The daemon that connected.
    pub(crate) initiator: Party,
    /// The daemon that answered.
    pub(crate) responder: Party,
}

/// One of the two daemons of a lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Party {
    /// The nonce of its hello.
    pub(crate) nonce: [u8; NONCE_LEN],
    /// Its address in the TCP connection of the lane.
    pub(crate) address: IpAddr,
}

/// The daemon that a proof comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The daemon that connected.
    Initiator,
    /// The daemon that answered.
    Responder,
}

impl Key {
    /// Reads a key from a file. A newline at the end of the file does not count.
    ///
    /// # Errors
    /// A line that says what is wrong: the file cannot be read, is no plain file, may be read or written by its group
    /// or by others, or has less than 16 octets or more than 4096.
    pub fn read(path: &Path) -> Result<Self, String> {
        // A pipe without a writer would be waited for.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file =
            open(path, flags, Mode::empty()).map_err(|error| std::io::Error::from(error).to_string())?;
        let file = File::from(file);
        let metadata = file.metadata().map_err(|error| error.to_string())?;
        if !metadata.is_file() {
            return Err("a key is in a plain file".into());
        }
        let mode = metadata.permissions().mode() & 0o777;
        if mode & OTHERS != 0 {
            return Err(format!(
                "group or others may read or write it (mode {mode:03o}): `chmod 600` ends that"
            ));
        }
        let mut octets = Vec::new();
        let most = u64::try_from(MAX_LEN + 2).unwrap_or(u64::MAX);
        file.take(most).read_to_end(&mut octets).map_err(|error| error.to_string())?;
        Self::new(octets.strip_suffix(b"\n").unwrap_or(&octets))
    }

    pub(crate) fn new(octets: &[u8]) -> Result<Self, String> {
        if !(MIN_LEN..=MAX_LEN).contains(&octets.len()) {
            let has = if octets.len() > MAX_LEN { "more".into() } else { octets.len().to_string() };
            return Err(format!("a key has {MIN_LEN} to {MAX_LEN} octets, and this file has {has}"));
        }
        Hmac::new_from_slice(octets).map(Self).map_err(|error| error.to_string())
    }

    /// Returns the proof of the daemon in this role.
    pub(crate) fn prove(&self, role: Role, opening: &Opening) -> [u8; PROOF_LEN] {
        self.covering(role, opening).finalize().into_bytes().into()
    }

    /// True if this is the proof of the daemon in this role. Takes the same time for all wrong proofs.
    pub(crate) fn accepts(&self, proof: &[u8; PROOF_LEN], role: Role, opening: &Opening) -> bool {
        self.covering(role, opening).verify_slice(proof).is_ok()
    }

    /// Every part has a length of its own, so that no two openings have the same octets.
    fn covering(&self, role: Role, opening: &Opening) -> Hmac<Sha256> {
        let Opening { kind, initiator, responder } = opening;
        let mut hmac = self.0.clone();
        hmac.update(match role {
            Role::Initiator => b"weft-soc initiator",
            Role::Responder => b"weft-soc responder",
        });
        hmac.update(&[*kind as u8]);
        for party in [initiator, responder] {
            hmac.update(&party.nonce);
            hmac.update(&octets_of(party.address));
        }
        hmac
    }
}

impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Returns an address in the form of IPv6. One daemon may know as an IPv6 address what the other one knows as IPv4.
const fn octets_of(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

const MIN_LEN: usize = 16;
const MAX_LEN: usize = 4096;
/// The rights of group and others that a file with a key must not give.
const OTHERS: u32 = 0o066;

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::path::PathBuf;

    use proptest::prelude::*;

    use super::*;

    /// A file that is removed at the end.
    struct Temporary(PathBuf);

    impl Temporary {
        fn new(name: &str, octets: &[u8], mode: u32) -> Self {
            let path = std::env::temp_dir().join(format!("weft-key-{}-{name}", std::process::id()));
            write(&path, octets).expect("a file");
            set_permissions(&path, Permissions::from_mode(mode)).expect("rights");
            Self(path)
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _gone = std::fs::remove_file(&self.0);
        }
    }

    fn opening() -> Opening {
        let party = |nonce, address: &str| Party { nonce, address: address.parse().expect("an address") };
        Opening {
            kind: LaneKind::Bulk,
            initiator: party([0x11; NONCE_LEN], "10.0.0.1"),
            responder: party([0x22; NONCE_LEN], "10.0.0.2"),
        }
    }

    fn key() -> Key {
        Key::new(b"0123456789abcdef").expect("a key")
    }

    fn hexadecimal(octets: &[u8]) -> String {
        octets.iter().map(|octet| format!("{octet:02x}")).collect()
    }

    /// RFC 4231, test cases 1 and 6.
    #[test]
    fn the_code_is_that_of_the_rfc() {
        let code = |key: &[u8], data: &[u8]| {
            let Key(mut hmac) = Key::new(key).expect("a key");
            hmac.update(data);
            hexadecimal(&hmac.finalize().into_bytes())
        };
        assert_eq!(
            code(&[0x0b; 20], b"Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        );
        assert_eq!(
            code(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    /// The values come from Python's `hmac`, over the octets that `covering` describes.
    #[test]
    fn proofs_are_those_of_other_daemons() {
        let (initiator, responder) =
            (key().prove(Role::Initiator, &opening()), key().prove(Role::Responder, &opening()));
        assert_eq!(
            hexadecimal(&initiator),
            "1cbef9ce792e60c44823148c6d319bab456d36f2232fc54daab76309f3965008"
        );
        assert_eq!(
            hexadecimal(&responder),
            "d458216964dd7cc16a713e3f6a88951864e055d48fc019cacb0615a3d26262cf"
        );
    }

    #[test]
    fn a_proof_holds_for_its_own_lane_alone() {
        let opening = opening();
        let proof = key().prove(Role::Initiator, &opening);
        assert!(key().accepts(&proof, Role::Initiator, &opening));
        assert!(!key().accepts(&proof, Role::Responder, &opening), "it cannot be sent back");
        let other = Key::new(b"0123456789abcdeg").expect("a key");
        assert!(!other.accepts(&proof, Role::Initiator, &opening));
        let Opening { initiator, responder, .. } = opening;
        let address = |text: &str| text.parse().expect("an address");
        for changed in [
            Opening { kind: LaneKind::Interactive, ..opening },
            Opening { initiator: Party { nonce: [0x12; NONCE_LEN], ..initiator }, ..opening },
            Opening { responder: Party { nonce: [0x23; NONCE_LEN], ..responder }, ..opening },
            Opening { initiator: Party { address: address("10.0.0.3"), ..initiator }, ..opening },
            Opening { responder: Party { address: address("10.0.0.3"), ..responder }, ..opening },
            Opening { initiator: responder, responder: initiator, ..opening },
        ] {
            assert!(!key().accepts(&proof, Role::Initiator, &changed), "{changed:?}");
        }
        let mapped = Party { address: address("::ffff:10.0.0.1"), ..initiator };
        assert!(key().accepts(&proof, Role::Initiator, &Opening { initiator: mapped, ..opening }));
    }

    proptest! {
        #[test]
        fn a_changed_proof_is_refused(place in 0..PROOF_LEN, bits in 1..=u8::MAX) {
            let mut proof = key().prove(Role::Responder, &opening());
            proof[place] ^= bits;
            prop_assert!(!key().accepts(&proof, Role::Responder, &opening()));
        }
    }

    #[test]
    fn a_key_is_read_without_its_newline() {
        let proof = key().prove(Role::Initiator, &opening());
        for (octets, is_same) in [
            (&b"0123456789abcdef"[..], true),
            (b"0123456789abcdef\n", true),
            (b"0123456789abcdef\n\n", false),
            (b"0123456789abcdef ", false),
        ] {
            let file = Temporary::new("newline", octets, 0o600);
            let read = Key::read(&file.0).expect("a key");
            assert_eq!(read.accepts(&proof, Role::Initiator, &opening()), is_same, "{octets:?}");
        }
    }

    #[test]
    fn keys_have_16_to_4096_octets() {
        for (len, is_key) in [(0, false), (15, false), (16, true), (4096, true), (4097, false), (9000, false)]
        {
            for newline in [&b""[..], b"\n"] {
                let file = Temporary::new("len", &[&vec![b'k'; len], newline].concat(), 0o400);
                let read = Key::read(&file.0).map(|_| ());
                assert_eq!(read.is_ok(), is_key, "{len} octets: {read:?}");
                assert!(read.is_ok() || read.is_err_and(|line| line.contains("16 to 4096 octets")));
            }
        }
    }

    #[test]
    fn a_file_that_others_may_read_or_write_is_refused() {
        for mode in [0o640, 0o604, 0o620, 0o602, 0o644, 0o666] {
            let file = Temporary::new("mode", b"0123456789abcdef", mode);
            let error = Key::read(&file.0).expect_err("others have rights");
            assert!(error.contains(&format!("mode {mode:03o}")) && error.contains("chmod 600"), "{error}");
        }
        let file = Temporary::new("mode", b"0123456789abcdef", 0o700);
        assert!(Key::read(&file.0).is_ok());
    }

    #[test]
    fn what_is_no_file_is_refused_in_a_line() {
        let missing = Key::read(Path::new("/no/such/file")).expect_err("missing");
        assert!(missing.contains("No such file") && !missing.contains('\n'), "{missing}");
        for path in ["/", "/dev/null"] {
            assert_eq!(Key::read(Path::new(path)).expect_err(path), "a key is in a plain file");
        }
    }

    #[test]
    fn a_key_is_not_printed() {
        assert_eq!(format!("{:?}", key()), "Key(..)");
    }
}
