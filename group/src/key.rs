//! The key of a group: who has it may open sessions.
//!
//! It guards against mistakes. It is sent as it is, so that a host on the path can read it; against that RFC 5042 section 2
//! wants IPsec or the like below.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use ctutils::CtEq as _;
use rustix::fs::{Mode, OFlags, open};

use crate::control::KEY_LEN;

/// A key, of which nothing is ever printed.
#[derive(Clone)]
pub struct Key([u8; KEY_LEN]);

impl Key {
    /// Makes a key of these octets.
    pub const fn new(octets: [u8; KEY_LEN]) -> Self {
        Self(octets)
    }

    /// Reads a key from a file of 32 octets. A newline behind them does not count.
    ///
    /// # Errors
    /// A line that says what is wrong: the file cannot be read, is no plain file, may be read or written by its group or by
    /// others, or has another length.
    pub fn read(path: &Path) -> Result<Self, String> {
        // A pipe without a writer would be waited for.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = open(path, flags, Mode::empty());
        let file = File::from(file.map_err(|error| std::io::Error::from(error).to_string())?);
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
        let most = u64::try_from(KEY_LEN + 2).unwrap_or(u64::MAX);
        file.take(most).read_to_end(&mut octets).map_err(|error| error.to_string())?;
        let octets = match octets.as_slice() {
            [key @ .., b'\n'] if key.len() == KEY_LEN => key,
            all => all,
        };
        let has = if octets.len() > KEY_LEN { "more".into() } else { octets.len().to_string() };
        let key =
            octets.try_into().map_err(|_| format!("a key has {KEY_LEN} octets, and this file has {has}"));
        key.map(Self)
    }

    pub(crate) const fn octets(&self) -> [u8; KEY_LEN] {
        self.0
    }

    /// Returns whether these are its octets. Takes the same time for all that are not.
    pub(crate) fn is(&self, octets: &[u8; KEY_LEN]) -> bool {
        self.0.ct_eq(octets).to_bool()
    }
}

impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Key(..)")
    }
}

/// The rights of group and others that a file with a key must not give.
const OTHERS: u32 = 0o066;

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, remove_file, set_permissions, write};

    use super::*;

    fn read(name: &str, octets: &[u8], mode: u32) -> Result<Key, String> {
        let path = std::env::temp_dir().join(format!("weft-group-key-{}-{name}", std::process::id()));
        write(&path, octets).unwrap();
        set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let key = Key::read(&path);
        remove_file(&path).unwrap();
        key
    }

    #[test]
    fn a_key_has_32_octets_in_a_file_of_its_owner() {
        let octets: [u8; 32] = core::array::from_fn(|index| index.to_le_bytes()[0]);
        let key = read("plain", &octets, 0o600).unwrap();
        assert!(key.is(&octets) && key.octets() == octets);
        assert!((0..256).all(|bit| {
            let mut other = octets;
            other[bit / 8] ^= 1 << (bit % 8);
            !key.is(&other)
        }));
        assert!(read("newline", &[&octets[..], b"\n"].concat(), 0o400).unwrap().is(&octets));
        let mut ends = octets;
        ends[31] = b'\n';
        assert!(read("ends", &ends, 0o600).unwrap().is(&ends), "a newline of the key itself");
        for len in [0, 31, 33, 34, 4000] {
            let error = read("len", &vec![b'k'; len], 0o600).unwrap_err();
            assert!(error.contains("a key has 32 octets"), "{len}: {error}");
        }
        for mode in [0o640, 0o604, 0o620, 0o602] {
            let error = read("mode", &octets, mode).unwrap_err();
            assert!(error.contains(&format!("mode {mode:03o}")), "{error}");
        }
        assert_eq!(Key::read(Path::new("/")).unwrap_err(), "a key is in a plain file");
        assert!(Key::read(Path::new("/no/such/file")).unwrap_err().contains("No such file"));
        assert_eq!(format!("{key:?}"), "Key(..)");
    }
}
