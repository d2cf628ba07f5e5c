//! The address at which a daemon listens.

use rustix::io::Errno;
use rustix::net::SocketAddrUnix;

/// The address of a daemon: an abstract name, which belongs to the network namespace, or the path of a socket.
///
/// ```
/// use weft_daemon::Address;
/// assert!("@mine".parse::<Address>().is_ok() && "/run/weft".parse::<Address>().is_ok());
/// assert!("mine".parse::<Address>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub(crate) socket: SocketAddrUnix,
    text: String,
}

impl Address {
    /// The address at which programs look for the daemon of a user.
    ///
    /// # Panics
    /// Never: the name is short.
    #[must_use]
    pub fn of_user(uid: u32) -> Self {
        let text = format!("@weft/1/{uid}");
        text.parse().unwrap_or_else(|_| unreachable!("the name is short"))
    }

    /// Returns the address as the kernel takes it.
    #[must_use]
    pub const fn socket(&self) -> &SocketAddrUnix {
        &self.socket
    }
}

impl core::str::FromStr for Address {
    type Err = String;

    /// Reads `@NAME` or a path with a slash.
    fn from_str(text: &str) -> Result<Self, String> {
        let socket = match text.strip_prefix('@') {
            Some("") => Err(Errno::INVAL),
            Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes()),
            None if text.contains('/') => SocketAddrUnix::new(text),
            None => Err(Errno::INVAL),
        };
        let wrong = |error| match error {
            Errno::NAMETOOLONG => {
                format!("`{text}`: a daemon's address has at most {LONGEST} octets")
            }
            _ => format!(
                "`{text}`: a daemon's address is @NAME or the path of a socket, as in @mine or /run/weft.socket"
            ),
        };
        socket.map(|socket| Self { socket, text: text.to_owned() }).map_err(wrong)
    }
}

impl core::fmt::Display for Address {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.text)
    }
}

/// The size of `sun_path`, in which an octet stands for the `@`.
const LONGEST: usize = 108;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_name_or_a_path_of_108_octets_at_most() {
        let words = |text: &str| text.parse::<Address>().map(|address| address.to_string());
        for text in ["@x", "@weft/1/0", "/run/weft", "./x"] {
            assert_eq!(words(text), Ok(text.to_owned()));
        }
        for text in ["", "@", "x", "weft"] {
            assert!(words(text).is_err_and(|line| line.contains("is @NAME or the path")), "{text}");
        }
        for begin in ["@", "/"] {
            let text = |len| format!("{begin:x<len$}");
            assert!(words(&text(LONGEST)).is_ok());
            assert!(words(&text(LONGEST + 1)).is_err_and(|line| line.ends_with("at most 108 octets")));
        }
    }
}
