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
        let wrong = |_| format!("`{text}`: a daemon's address is @NAME or the path of a socket, as in @mine");
        socket.map(|socket| Self { socket, text: text.to_owned() }).map_err(wrong)
    }
}

impl core::fmt::Display for Address {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.text)
    }
}
